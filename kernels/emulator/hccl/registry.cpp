// The live communicators of this process.
#include "communicator.h"

#include <pthread.h>

#include <map>

namespace emu::hccl {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<HcclComm, std::shared_ptr<Communicator>> live;
};

Registry& registry() {
  static Registry* const instance = new Registry;  // never deleted: streams may outlive statics
  return *instance;
}

void before_fork() { registry().mutex.lock(); }
void after_fork_parent() { registry().mutex.unlock(); }
void after_fork_child() {
  for (auto& [handle, communicator] : registry().live) communicator->abandon();
  // Kept for ever: a thread that the child does not have may have held their locks.
  new std::map(std::move(registry().live));
  registry().live.clear();
  registry().mutex.unlock();
}

}  // namespace

HcclComm enroll(std::shared_ptr<Communicator> communicator) {
  static const int registered =
      pthread_atfork(before_fork, after_fork_parent, after_fork_child);
  (void)registered;
  HcclComm handle = communicator.get();
  std::lock_guard lock(registry().mutex);
  registry().live.emplace(handle, std::move(communicator));
  return handle;
}

std::shared_ptr<Communicator> find(HcclComm handle) {
  if (handle == nullptr) throw Error(HCCL_E_PTR, "comm is null");
  std::lock_guard lock(registry().mutex);
  const auto found = registry().live.find(handle);
  if (found == registry().live.end()) {
    throw Error(HCCL_E_PARA, "comm is no communicator, or a destroyed one");
  }
  return found->second;
}

std::shared_ptr<Communicator> withdraw(HcclComm handle) {
  std::shared_ptr<Communicator> communicator = find(handle);
  std::lock_guard lock(registry().mutex);
  registry().live.erase(handle);
  return communicator;
}

}  // namespace emu::hccl
