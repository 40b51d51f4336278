#pragma once

#include <chrono>

#include "emulator.h"

namespace emu {

inline constexpr uint32_t max_devices = 64;

// NPU_EMU_DELAY_US: how long a stream waits before each task, in asynchronous mode.
std::chrono::microseconds task_delay();

}  // namespace emu
