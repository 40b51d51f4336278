// CANN's macros for the data that the host hands to a kernel: here a plain struct, which the kernel
// reads as it is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#define BEGIN_TILING_DATA_DEF(name) \
  struct name {                     \
    using Self = name;
#define TILING_DATA_FIELD_DEF(type, field) \
  type field = {};                         \
  void set_##field(type value) { field = value; }
#define END_TILING_DATA_DEF                                                         \
  size_t GetDataSize() const { return sizeof(Self); }                               \
  void SaveToBuffer(void* to, size_t capacity) const {                              \
    if (capacity < sizeof(Self)) throw std::length_error("tiling data: no room");   \
    std::memcpy(to, static_cast<const void*>(this), sizeof(Self));                  \
  }                                                                                 \
  }
#define REGISTER_TILING_DATA_CLASS(op, name) static_assert(sizeof(name) > 0);
