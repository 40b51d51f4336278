// Host memory that CANN allocated or was told about: what a device may reach asynchronously.
#pragma once

#include <cstdint>

namespace emu {

// Whether [pointer, pointer + bytes) lies in page-locked (or registered) host memory.
bool is_pinned(const void* pointer, uint64_t bytes);

}  // namespace emu
