// The live objects behind opaque handles: an unknown or destroyed handle is an error and no crash.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace emu {

template <typename Object>
class Registry {
 public:
  Object* add(std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    Object* handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  // Null if there is none.
  std::shared_ptr<Object> find(const void* handle) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(const void* handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<Object>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Object>> result;
    for (const auto& entry : objects_) result.push_back(entry.second);
    return result;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace emu
