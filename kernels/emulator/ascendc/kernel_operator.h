// The host stand-in for the part of Ascend C that our kernels use: the unmodified op_kernel sources
// compile against it with a C++20 compiler, for __NPU_ARCH__ 2201 (Atlas A2, A3) or 3510 (A5).
#pragma once

#if __NPU_ARCH__ == 2201
#define EMU_ARCH_NAMESPACE arch_2201
#elif __NPU_ARCH__ == 3510
#define EMU_ARCH_NAMESPACE arch_3510
#else
#error "__NPU_ARCH__ is neither 2201 nor 3510"
#endif

#include "vector.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
using GM_ADDR = uint8_t*;
using emu::bfloat16_t;
using emu::half;

namespace AscendC {
inline namespace EMU_ARCH_NAMESPACE {
inline int64_t GetBlockIdx() { return emu::Current().index; }
inline int64_t GetBlockNum() { return emu::Current().count; }
}  // namespace EMU_ARCH_NAMESPACE
}  // namespace AscendC

// Whoever includes a kernel defines EMU_TILING_DATA, the struct that the host fills.
#define GET_TILING_DATA(name, pointer) \
  const auto& name = *reinterpret_cast<const EMU_TILING_DATA*>(pointer)
#define TILING_KEY_IS(key) (::emu::Current().launch.tiling_key == (key))
