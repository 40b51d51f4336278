// Limits on the cores that a device, a stream or a thread may use. They are kept and answered, to
// an operator that asks how many cores it has (aclrtGetResInCurrentThread) too.
#include <array>
#include <map>
#include <mutex>

#include "device.h"
#include "options.h"
#include "stream.h"

namespace emu {
namespace {

// Cube and vector cores, by aclrtDevResLimitType; 0 where there is no limit.
using Cores = std::array<uint32_t, 2>;

struct Limits {
  std::mutex mutex;
  std::map<int, Cores> of_device;
  std::map<int, Cores> of_stream;
};

Limits& limits() {
  static auto& limits = *new Limits;
  return limits;
}

thread_local int thread_stream = -1;  // whose limits hold in this thread

Cores all_cores() { return {chip().cube_cores, chip().vector_cores}; }

uint32_t lookup(const std::map<int, Cores>& set, int key, int type, uint32_t otherwise) {
  const auto found = set.find(key);
  return found == set.end() || found->second[type] == 0 ? otherwise : found->second[type];
}

// With the lock held.
uint32_t device_cores(int device, int type) {
  return lookup(limits().of_device, device, type, all_cores()[type]);
}

uint32_t stream_cores(int stream, int device, int type) {
  return lookup(limits().of_stream, stream, type, device_cores(device, type));
}

Status check_type(aclrtDevResLimitType type) {
  if (type == ACL_RT_DEV_RES_CUBE_CORE || type == ACL_RT_DEV_RES_VECTOR_CORE) return {};
  return error(ACL_ERROR_RT_PARAM_INVALID, "type %d is unknown", type);
}

Status check_limit(aclrtDevResLimitType type, uint32_t value) {
  Status status = check_type(type);
  if (!status.ok()) return status;
  const uint32_t most = all_cores()[type];
  if (value >= 1 && value <= most) return {};
  return error(ACL_ERROR_RT_PARAM_INVALID, "%u cores, but the chip has 1 to %u", value, most);
}

Status find_id(aclrtStream handle, int& id) {
  if (handle == nullptr) return null_argument("stream");
  std::shared_ptr<Stream> stream;
  Status status = find_stream(handle, stream);
  id = stream_id(stream);
  return status;
}

// Answers what `find` finds with the lock held.
template <typename Find>
Status answer(aclrtDevResLimitType type, uint32_t* value, Find find) {
  if (value == nullptr) return null_argument("value");
  Status status = check_type(type);
  if (!status.ok()) return status;
  std::lock_guard lock(limits().mutex);
  *value = find();
  return {};
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                         uint32_t value) {
  return api(__func__, [&]() -> Status {
    Status status = check_device_id(deviceId);
    if (status.ok()) status = check_limit(type, value);
    if (!status.ok()) return status;
    std::lock_guard lock(limits().mutex);
    limits().of_device[deviceId][type] = value;
    return {};
  });
}

CANN_API aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type,
                                         uint32_t* value) {
  return api(__func__, [&]() -> Status {
    Status status = check_device_id(deviceId);
    if (!status.ok()) return status;
    return answer(type, value, [&] { return device_cores(deviceId, type); });
  });
}

CANN_API aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  return api(__func__, [&]() -> Status {
    std::lock_guard lock(limits().mutex);
    limits().of_device.erase(deviceId);
    return check_device_id(deviceId);
  });
}

CANN_API aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                         uint32_t value) {
  return api(__func__, [&]() -> Status {
    int id = 0;
    Status status = find_id(stream, id);
    if (status.ok()) status = check_limit(type, value);
    if (!status.ok()) return status;
    std::lock_guard lock(limits().mutex);
    limits().of_stream[id][type] = value;
    return {};
  });
}

CANN_API aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                         uint32_t* value) {
  return api(__func__, [&]() -> Status {
    std::shared_ptr<Stream> found;
    Status status = find_stream(stream, found);
    if (!status.ok()) return status;
    const int device = found == nullptr ? current_device() : found->device();
    return answer(type, value, [&] { return stream_cores(stream_id(found), device, type); });
  });
}

CANN_API aclError aclrtResetStreamResLimit(aclrtStream stream) {
  return api(__func__, [&]() -> Status {
    int id = 0;
    Status status = find_id(stream, id);
    if (!status.ok()) return status;
    std::lock_guard lock(limits().mutex);
    limits().of_stream.erase(id);
    return {};
  });
}

CANN_API aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  return api(__func__, [&]() -> Status {
    int id = 0;
    Status status = find_id(stream, id);
    if (status.ok()) thread_stream = id;
    return status;
  });
}

CANN_API aclError aclrtUnuseStreamResInCurrentThread(aclrtStream) {
  return api(__func__, []() -> Status {
    thread_stream = -1;
    return {};
  });
}

CANN_API aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  return api(__func__, [&]() -> Status {
    int device = 0;
    Status status = require_device(device);
    if (!status.ok()) return status;
    return answer(type, value, [&] { return stream_cores(thread_stream, device, type); });
  });
}
