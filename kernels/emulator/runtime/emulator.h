// What the emulated libraries (libascendcl, libhccl, libopapi, the operator package) share. Nothing
// here is part of CANN: an application sees CANN's own headers only.
#pragma once

#include <acl/acl.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#define EMU_API __attribute__((visibility("default")))  // an internal function for the others
#define CANN_API extern "C" __attribute__((visibility("default")))  // a function CANN has

namespace emu {

// The emulated chip, as `python -m torchrec_ascend.emulator` describes it in the environment
// (the figures' one home is torchrec_ascend/device.py).
struct Chip {
  std::string soc;        // NPU_EMU_SOC, such as "Ascend910B1"
  int arch = 0;           // NPU_EMU_ARCH, __NPU_ARCH__: 2201 (Atlas A2, A3) or 3510 (A5)
  uint32_t devices = 0;   // NPU_EMU_DEVICES
  uint32_t cube_cores = 0;    // NPU_EMU_CUBE_CORES
  uint32_t vector_cores = 0;  // NPU_EMU_VECTOR_CORES
  uint64_t hbm_bytes = 0;     // NPU_EMU_HBM_BYTES, per device
  uint64_t l2_bytes = 0;      // NPU_EMU_L2_BYTES
  uint64_t ub_bytes = 0;      // NPU_EMU_UB_BYTES, unified buffer of one vector core, as tiling sees it
};

// Throws std::runtime_error naming the variable that is missing or malformed.
EMU_API const Chip& chip();

// NPU_EMU_ASYNC=1: each stream has a worker thread and runs behind the host, NPU_EMU_DELAY_US
// before each task. Otherwise a task runs inside the call that launches it.
EMU_API bool asynchronous();

// How a task ended. message names the operator and the reason, for aclGetRecentErrMsg.
struct Status {
  int code = 0;
  std::string message;
  bool ok() const { return code == 0; }
};

using Task = std::function<Status()>;

// Runs `task` in the stream's order. The status returned is that of the launch: in synchronous mode
// also the task's. A task that fails in asynchronous mode fails the stream: what is queued behind it
// is dropped, and every later synchronise, query or launch on the stream reports it, with `name`.
// A null stream runs the task at once. An exception in a task is a failure (ACL_ERROR_RT_AICORE...).
EMU_API Status launch(aclrtStream stream, const char* name, Task task);

// Waits for the stream's queue, and returns its failure if it has one.
EMU_API Status synchronize(aclrtStream stream);

// Keeps the message for this thread's aclGetRecentErrMsg and returns the code, to end a CANN_API
// function with.
EMU_API int report(const Status& status);

// NPU_EMU_TRACE=1 (stderr) or a file name: one line per call. printf-like.
EMU_API void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Fault knobs, NPU_EMU_FAULT="name=value;name=value", read again at each use so that a test can turn
// one on and off in a running process.
EMU_API std::optional<std::string> fault(const char* name);

// For a knob whose value is a count n: true at the n-th call since the knob took this value; "n+":
// and at every later one.
EMU_API bool fault_due(const char* name);

// The device that the calling thread (or the stream of the running task) is on; -1 before
// aclrtSetDevice.
EMU_API int current_device();

// True if [pointer, pointer + bytes) is empty, or lies in one live allocation of an emulated device.
EMU_API bool is_device_memory(const void* pointer, uint64_t bytes);

}  // namespace emu
