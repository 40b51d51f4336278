// aclrtMemcpy and aclrtMemset, checked: a copy that would leave its allocation is an error.
#include <cstring>

#include "device.h"
#include "host_memory.h"
#include "memory.h"
#include "stream.h"

namespace emu {
namespace {

struct Copy {
  void* to;
  uint64_t room;
  const void* from;
  uint64_t bytes;
  aclrtMemcpyKind kind;
};

struct Fill {
  void* to;
  uint64_t room;
  int32_t value;
  uint64_t bytes;
};

const char* name_of(aclrtMemcpyKind kind) {
  static const char* const names[] = {"host to host",     "host to device", "device to host",
                                      "device to device", "default",        "host to device",
                                      "device to device", "device to device"};
  return kind >= 0 && kind < static_cast<int>(std::size(names)) ? names[kind] : "unknown kind";
}

bool from_device(aclrtMemcpyKind kind) {
  return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
         kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE || kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE;
}

bool to_device(aclrtMemcpyKind kind) {
  return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ||
         (from_device(kind) && kind != ACL_MEMCPY_DEVICE_TO_HOST);
}

Status check_side(const char* argument, const void* pointer, uint64_t bytes, bool device,
                  aclrtMemcpyKind kind) {
  if (pointer == nullptr) return null_argument(argument);
  if (kind == ACL_MEMCPY_DEFAULT) device = is_device_memory(pointer, 1);
  const bool inside = is_device_memory(pointer, bytes);
  if (device == inside && (device || !is_device_memory(pointer, 1))) return {};
  return error(ACL_ERROR_RT_PARAM_INVALID, "%llu bytes, %s: %s %p is %s",
               static_cast<unsigned long long>(bytes), name_of(kind), argument, pointer,
               describe_device_memory(pointer).c_str());
}

Status check(const Copy& copy) {
  if (name_of(copy.kind) == std::string("unknown kind")) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "kind %d is unknown", copy.kind);
  }
  if (copy.bytes > copy.room) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "count %llu is larger than destMax %llu",
                 static_cast<unsigned long long>(copy.bytes),
                 static_cast<unsigned long long>(copy.room));
  }
  Status status = check_side("dst", copy.to, copy.bytes, to_device(copy.kind), copy.kind);
  if (!status.ok()) return status;
  return check_side("src", copy.from, copy.bytes, from_device(copy.kind), copy.kind);
}

void run(const Copy& copy) { std::memmove(copy.to, copy.from, copy.bytes); }

Status copy_now(const Copy& copy) {
  int device = 0;
  Status status = require_device(device);
  if (!status.ok() || copy.bytes == 0) return status;
  status = check(copy);
  if (status.ok()) run(copy);
  return status;
}

// A task's work: the memory that was there at the launch may have gone since.
template <typename Work>
Status run_late(const Work& work) {
  Status status = check(work);
  if (!status.ok()) return {ACL_ERROR_RT_SYS_DMA, status.message};
  run(work);
  return {};
}

bool is_pageable(const void* pointer, uint64_t bytes) {
  return !is_device_memory(pointer, 1) && !is_pinned(pointer, bytes);
}

bool is_pageable(const Copy& copy) {
  return is_pageable(copy.to, copy.bytes) || is_pageable(copy.from, copy.bytes);
}

Status copy_on(aclrtStream stream, const char* name, const Copy& copy) {
  if (copy.bytes == 0) return {};
  Status status = check(copy);
  if (!status.ok()) return status;
  trace("  %s, %llu bytes, %p <- %p", name_of(copy.kind),
        static_cast<unsigned long long>(copy.bytes), copy.to, copy.from);
  const bool pageable = is_pageable(copy);
  status = launch_on(stream, name, [copy, pageable]() -> Status {
    if (!pageable && is_pageable(copy)) {
      return error(ACL_ERROR_RT_SYS_DMA, "the host memory was freed before the copy ran");
    }
    return run_late(copy);
  });
  // As in CANN: pageable memory may be gone when the device gets there, so the call waits.
  return status.ok() && pageable ? synchronize(stream) : status;
}

Status check(const Fill& fill) {
  if (fill.to == nullptr) return null_argument("devPtr");
  if (fill.bytes > fill.room) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "count %llu is larger than maxCount %llu",
                 static_cast<unsigned long long>(fill.bytes),
                 static_cast<unsigned long long>(fill.room));
  }
  if (is_device_memory(fill.to, fill.bytes) || is_pinned(fill.to, fill.bytes)) return {};
  return error(ACL_ERROR_RT_PARAM_INVALID, "%llu bytes leave device memory: devPtr %p is %s",
               static_cast<unsigned long long>(fill.bytes), fill.to,
               describe_device_memory(fill.to).c_str());
}

void run(const Fill& fill) { std::memset(fill.to, fill.value, fill.bytes); }

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                              aclrtMemcpyKind kind) {
  return api(__func__, [&] { return copy_now({dst, destMax, src, count, kind}); });
}

CANN_API aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                                   aclrtMemcpyKind kind, aclrtStream stream) {
  return api(__func__, [&] {
    return copy_on(stream, "aclrtMemcpyAsync", {dst, destMax, src, count, kind});
  });
}

CANN_API aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src,
                                                size_t count, aclrtMemcpyKind kind,
                                                aclrtStream stream) {
  return api(__func__, [&] {
    return copy_on(stream, "aclrtMemcpyAsyncWithCondition", {dst, destMax, src, count, kind});
  });
}

CANN_API aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return api(__func__, [&]() -> Status {
    int device = 0;
    Status status = require_device(device);
    const Fill fill{devPtr, maxCount, value, count};
    if (status.ok()) status = check(fill);
    if (status.ok()) run(fill);
    return status;
  });
}

CANN_API aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                                   aclrtStream stream) {
  return api(__func__, [&]() -> Status {
    const Fill fill{devPtr, maxCount, value, count};
    Status status = check(fill);
    if (!status.ok()) return status;
    return launch_on(stream, "aclrtMemsetAsync", [fill] { return run_late(fill); });
  });
}
