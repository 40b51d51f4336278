// Which address belongs to which device. Device memory is host memory that is counted.
#pragma once

#include <cstdint>
#include <string>

#include "status.h"

namespace emu {

Status allocate_device_memory(int device, uint64_t bytes, void** address);
Status free_device_memory(void* address);

// Forgets all allocations of a device; gives them back to the host if `unmap`.
void release_device_memory(int device, bool unmap);

uint64_t used_device_bytes(int device);

// The device in one of whose live allocations [pointer, pointer + bytes) lies, or -1.
int device_of(const void* pointer, uint64_t bytes);

// Where a pointer points, for a message.
std::string describe_device_memory(const void* pointer);

}  // namespace emu
