#include "host_memory.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <unistd.h>

#include "device.h"
#include "memory.h"

namespace emu {
namespace {

struct Range {
  uint64_t bytes;
  bool owned;  // by aclrtMallocHost; else registered
};

struct HostMemory {
  std::mutex mutex;
  std::map<uintptr_t, Range> ranges;
};

HostMemory& host() {
  static auto& host = *new HostMemory;
  return host;
}

Status allocate(void** address, uint64_t bytes) {
  if (address == nullptr) return null_argument("hostPtr");
  if (bytes == 0) return error(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  int device = 0;
  Status status = require_device(device);
  if (!status.ok()) return status;
  if (posix_memalign(address, static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes) != 0) {
    return error(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host has no %llu bytes",
                 static_cast<unsigned long long>(bytes));
  }
  std::lock_guard lock(host().mutex);
  host().ranges[reinterpret_cast<uintptr_t>(*address)] = {bytes, true};
  return {};
}

Status add_registered(void* pointer, uint64_t bytes) {
  if (pointer == nullptr) return null_argument("ptr");
  if (bytes == 0) return error(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  if (is_pinned(pointer, 1)) {
    return error(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%p is registered already", pointer);
  }
  std::lock_guard lock(host().mutex);
  host().ranges[reinterpret_cast<uintptr_t>(pointer)] = {bytes, false};
  return {};
}

// Removes the range that starts at pointer, if it is of that kind.
bool remove(void* pointer, bool owned) {
  std::lock_guard lock(host().mutex);
  const auto found = host().ranges.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == host().ranges.end() || found->second.owned != owned) return false;
  host().ranges.erase(found);
  return true;
}

}  // namespace

bool is_pinned(const void* pointer, uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard lock(host().mutex);
  auto next = host().ranges.upper_bound(address);
  if (next == host().ranges.begin()) return false;
  --next;
  const uint64_t offset = address - next->first;
  return offset < next->second.bytes && bytes <= next->second.bytes - offset;
}

}  // namespace emu

using namespace emu;

CANN_API aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return api(__func__, [&] { return allocate(hostPtr, size); });
}

CANN_API aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig*) {
  return api(__func__, [&] { return allocate(ptr, size); });
}

CANN_API aclError aclrtFreeHost(void* hostPtr) {
  return release_api(__func__, [&]() -> Status {
    if (!remove(hostPtr, true)) {
      return error(ACL_ERROR_RT_PARAM_INVALID, "%p was not allocated by aclrtMallocHost", hostPtr);
    }
    std::free(hostPtr);
    return {};
  });
}

CANN_API aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType,
                                    void** devPtr) {
  return api(__func__, [&]() -> Status {
    if (devPtr == nullptr) return null_argument("devPtr");
    Status status = add_registered(ptr, size);
    if (status.ok()) *devPtr = ptr;  // the emulated device shares the host's addresses
    return status;
  });
}

CANN_API aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t) {
  return api(__func__, [&] { return add_registered(ptr, size); });
}

CANN_API aclError aclrtHostUnregister(void* ptr) {
  return release_api(__func__, [&]() -> Status {
    if (remove(ptr, false)) return {};
    return error(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", ptr);
  });
}

CANN_API aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  return api(__func__, [&]() -> Status {
    if (attributes == nullptr) return null_argument("attributes");
    *attributes = {};
    const int device = device_of(ptr, 1);
    attributes->pageSize = static_cast<uint32_t>(sysconf(_SC_PAGESIZE));
    if (device >= 0) {
      attributes->location = {static_cast<uint32_t>(device), ACL_MEM_LOCATION_TYPE_DEVICE};
    } else if (is_pinned(ptr, 1)) {
      attributes->location = {0, ACL_MEM_LOCATION_TYPE_HOST};
    } else {
      attributes->location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    }
    return {};
  });
}
