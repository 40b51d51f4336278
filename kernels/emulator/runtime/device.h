// Devices and the context that a thread works in. There is one context per device.
#pragma once

#include "status.h"

namespace emu {

// The device of the calling thread, or an error if it has none.
Status require_device(int& device);

Status check_device_id(int64_t device);

// While it lives, the calling thread runs a task of a stream of this device.
class TaskDevice {
 public:
  explicit TaskDevice(int device);
  ~TaskDevice();
  TaskDevice(const TaskDevice&) = delete;
  TaskDevice& operator=(const TaskDevice&) = delete;

 private:
  int before_;
};

}  // namespace emu
