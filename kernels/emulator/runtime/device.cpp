// aclInit, and the device that a thread works on.
#include "device.h"

#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <regex>

#include "memory.h"
#include "options.h"
#include "stream.h"

namespace emu {
namespace {

constexpr int no_device = -1;

std::atomic<bool> initialized{false};
std::atomic<int> default_device{no_device};
std::array<std::atomic<bool>, max_devices> active;  // set, and not reset since

thread_local int thread_device = no_device;
thread_local int task_device = no_device;

struct Context {};

// What a context handle points to.
Context* context_of(int device) {
  static std::array<Context, max_devices> contexts;
  return &contexts[device];
}

void enter(int device) {
  note_use();
  active[device] = true;
  thread_device = device;
}

Status no_device_set() {
  return error(ACL_ERROR_RT_CONTEXT_NULL, "no device is set: call aclrtSetDevice first");
}

// aclInit's file may name the device of threads that call no aclrtSetDevice.
Status read_default_device(const char* path, int& device) {
  std::ifstream file(path);
  if (!file) return error(ACL_ERROR_INVALID_FILE, "cannot read %s", path);
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  std::smatch match;
  device = no_device;
  if (std::regex_search(json, match, std::regex("\"default_device\"\\s*:\\s*\"(\\d{1,6})\""))) {
    device = std::stoi(match[1]);
    return check_device_id(device);
  }
  return {};
}

}  // namespace

int current_device() {
  if (task_device != no_device) return task_device;
  return thread_device != no_device ? thread_device : default_device.load();
}

Status require_device(int& device) {
  device = current_device();
  if (device == no_device) return no_device_set();
  if (task_device == no_device && thread_device == no_device) enter(device);
  return {};
}

Status check_device_id(int64_t device) {
  const int64_t devices = chip().devices;
  if (device >= 0 && device < devices) return {};
  return error(ACL_ERROR_RT_INVALID_DEVICEID, "device %lld does not exist, there are %lld",
               static_cast<long long>(device), static_cast<long long>(devices));
}

TaskDevice::TaskDevice(int device) : before_(task_device) { task_device = device; }
TaskDevice::~TaskDevice() { task_device = before_; }

// torch_npu has a thread that asks every few microseconds for something to free: a third of a core
// for each process, also while it rests. Threads started from here on sleep up to this much longer
// than they ask for. Ours set their own.
constexpr unsigned long kTimerSlackNs = 2'000'000;

}  // namespace emu

using namespace emu;

CANN_API aclError aclInit(const char* configPath) {
  return api(__func__, [&]() -> Status {
    int device = no_device;
    if (configPath != nullptr && *configPath != '\0') {
      Status status = read_default_device(configPath, device);
      if (!status.ok()) return status;
    }
    chip();
    if (initialized.exchange(true)) {
      return error(ACL_ERROR_REPEAT_INITIALIZE, "called before, without aclFinalize");
    }
    default_device = device;
    note_use();
    prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    return {};
  });
}

CANN_API aclError aclFinalize() {
  return release_api(__func__, [&]() -> Status {
    if (!initialized.exchange(false)) return error(ACL_ERROR_UNINITIALIZE, "no aclInit before");
    default_device = no_device;
    abort_streams(all_devices);  // or work would go on while the process takes itself apart
    return {};
  });
}

CANN_API aclError aclrtGetDeviceCount(uint32_t* count) {
  if (count == nullptr) return finish(__func__, null_argument("count"));
  try {
    *count = chip().devices;
    return finish(__func__, {});
  } catch (...) {
    return finish(__func__, current_exception());
  }
}

CANN_API aclError aclrtSetDevice(int32_t deviceId) {
  return api(__func__, [&]() -> Status {
    Status status = check_device_id(deviceId);
    if (status.ok()) enter(deviceId);
    return status;
  });
}

CANN_API aclError aclrtResetDevice(int32_t deviceId) {
  return release_api(__func__, [&]() -> Status {
    Status status = check_device_id(deviceId);
    if (!status.ok()) return status;
    active[deviceId] = false;
    if (thread_device == deviceId) thread_device = no_device;
    const bool stopped = abort_streams(deviceId);
    // A task that still runs may use the memory: it is leaked then, and no longer counted.
    release_device_memory(deviceId, stopped);
    return {};
  });
}

CANN_API aclError aclrtGetDevice(int32_t* deviceId) {
  return api(__func__, [&]() -> Status {
    if (deviceId == nullptr) return null_argument("deviceId");
    // Asking does not open the default device.
    const int device = current_device();
    if (device == no_device) return no_device_set();
    *deviceId = device;
    return {};
  });
}

CANN_API aclError aclrtGetCurrentContext(aclrtContext* context) {
  return api(__func__, [&]() -> Status {
    if (context == nullptr) return null_argument("context");
    int device = no_device;
    Status status = require_device(device);
    if (status.ok()) *context = context_of(device);
    return status;
  });
}

CANN_API aclError aclrtSetCurrentContext(aclrtContext context) {
  return api(__func__, [&]() -> Status {
    for (uint32_t device = 0; device < chip().devices; ++device) {
      if (context == context_of(static_cast<int>(device)) && active[device]) {
        enter(static_cast<int>(device));
        return {};
      }
    }
    return error(ACL_ERROR_RT_CONTEXT_NULL, "context %p does not exist", context);
  });
}

CANN_API aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* state) {
  return api(__func__, [&]() -> Status {
    Status status = check_device_id(deviceId);
    if (!status.ok()) return status;
    if (flags != nullptr) *flags = 0;
    if (state != nullptr) *state = active[deviceId] ? 1 : 0;
    return {};
  });
}
