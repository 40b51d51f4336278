// CANN's macros for the data that the host hands to a kernel: here, a plain struct.
#pragma once
#include <cstdint>

#define BEGIN_TILING_DATA_DEF(name) struct name {
#define TILING_DATA_FIELD_DEF(type, field) type field;
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(op, name) static_assert(sizeof(name) > 0);
