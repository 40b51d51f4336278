// aclrtMalloc and friends: device memory.
#include "device.h"
#include "memory.h"
#include "options.h"

namespace emu {
namespace {

Status allocate(void** address, size_t bytes) {
  if (address == nullptr) return null_argument("devPtr");
  if (bytes == 0) return error(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
  int device = 0;
  Status status = require_device(device);
  if (!status.ok()) return status;
  status = allocate_device_memory(device, bytes, address);
  if (status.ok()) trace("  %zu bytes on npu:%d at %p", bytes, device, *address);
  return status;
}

bool is_hbm(aclrtMemAttr attribute) {
  switch (attribute) {
    case ACL_DDR_MEM:
    case ACL_DDR_MEM_HUGE:
    case ACL_DDR_MEM_NORMAL:
    case ACL_DDR_MEM_P2P_HUGE:
    case ACL_DDR_MEM_P2P_NORMAL:
      return false;
    default:
      return true;
  }
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return api(__func__, [&] { return allocate(devPtr, size); });
}

CANN_API aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return api(__func__, [&] { return allocate(devPtr, size); });
}

CANN_API aclError aclrtFree(void* devPtr) {
  return release_api(__func__, [&]() -> Status {
    return devPtr == nullptr ? null_argument("devPtr") : free_device_memory(devPtr);
  });
}

CANN_API aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return api(__func__, [&]() -> Status {
    if (free == nullptr) return null_argument("free");
    if (total == nullptr) return null_argument("total");
    int device = 0;
    Status status = require_device(device);
    if (!status.ok()) return status;
    *total = is_hbm(attr) ? chip().hbm_bytes : 0;  // these chips have no other memory
    *free = is_hbm(attr) ? chip().hbm_bytes - used_device_bytes(device) : 0;
    return {};
  });
}
