#include "split_cache.h"

#include <ATen/ops/empty.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace torchrec_ascend::npu {
namespace {

// A plan has a handful of splits. Batch-dependent ones would fill a cache without end.
constexpr size_t kMostEntries = 256;

// With the stream in the key, what a stream reads it has itself copied: no event is needed, and
// memory that is dropped is handed out again in that stream's order.
using Key = std::tuple<c10::DeviceIndex, c10::StreamId, std::vector<int64_t>>;

struct Entry {
  at::Tensor host;    // pinned; lives while the copy may read it
  at::Tensor device;  // int64 [2, ranks]: dims, offsets
};

at::Tensor pinned_splits(at::IntArrayRef dims) {
  const auto ranks = static_cast<int64_t>(dims.size());
  at::Tensor host = at::empty({2, ranks}, at::TensorOptions(at::kLong)).pin_memory();
  int64_t* values = host.mutable_data_ptr<int64_t>();
  int64_t offset = 0;
  for (int64_t t = 0; t < ranks; ++t) {
    values[t] = dims[t];
    values[ranks + t] = offset;
    offset += dims[t];
  }
  return host;
}

} // namespace

Splits device_splits(at::IntArrayRef dims, at::Device device) {
  // Never destroyed: at exit the device may be gone before a static is.
  static auto& entries = *new std::map<Key, Entry>;
  static std::mutex mutex;
  const Key key{
      device.index(), c10_npu::getCurrentNPUStream(device.index()).id(), dims.vec()};
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = entries.find(key);
  if (found == entries.end()) {
    if (entries.size() >= kMostEntries) {
      entries.clear();
    }
    Entry entry;
    entry.host = pinned_splits(dims);
    entry.device = entry.host.to(device, /*non_blocking=*/true);
    found = entries.emplace(key, std::move(entry)).first;
  }
  const at::Tensor& both = found->second.device;
  return {both.select(0, 0), both.select(0, 1)};
}

} // namespace torchrec_ascend::npu
