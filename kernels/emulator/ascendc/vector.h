// The vector instructions that the kernels use.
#pragma once
#include <algorithm>

#include "data_copy.h"
#include "types.h"

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };

namespace AscendC {
inline namespace EMU_ARCH_NAMESPACE {

template <pipe_t PIPE>
void PipeBarrier() {
  static_assert(PIPE != PIPE_S, "a hardware error");
  if (PIPE == PIPE_V || PIPE == PIPE_ALL) {
    emu::Current().Barrier();
  }
}

template <typename T>
void CheckCount(const LocalTensor<T>& tensor, int32_t count) {
  EMU_CHECK(count > 0, "a vector instruction without elements");
  EMU_CHECK(count * sizeof(T) <= tensor.Size(), "a vector operand past the end of its tensor");
}

template <typename To, typename From>
void Elementwise(
    const LocalTensor<To>& to, const LocalTensor<From>& from, int32_t count, bool in_place) {
  CheckCount(to, count);
  CheckCount(from, count);
  emu::Core& core = emu::Current();
  core.VectorRead(from.GetPhyAddr(), count * sizeof(From));
  core.VectorWrite(to.GetPhyAddr(), count * sizeof(To));
  core.VectorDone(in_place && to.Offset() == from.Offset());
}

inline void Muls(
    const LocalTensor<float>& to, const LocalTensor<float>& from, float scale, int32_t count) {
  Elementwise(to, from, count, true);
  for (int32_t i = 0; i < count && emu::Current().launch.moves; ++i) {
    to.GetPhyAddr()[i] = from.GetPhyAddr()[i] * scale;
  }
}

enum class RoundMode { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC };

// CAST_NONE: only where nothing is rounded. Two rounding modes are emulated.
template <typename To, typename From>
void Cast(
    const LocalTensor<To>& to, const LocalTensor<From>& from, RoundMode mode, int32_t count) {
  static_assert(sizeof(To) != sizeof(From), "not a cast of the device");
  const bool widens = sizeof(To) > sizeof(From);
  EMU_CHECK(
      widens ? mode == RoundMode::CAST_NONE
             : mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_TRUNC,
      "a rounding mode that is not emulated for this cast");
  Elementwise(to, from, count, false);
  for (int32_t i = 0; i < count && emu::Current().launch.moves; ++i) {
    const float value = emu::ToFloat(from.GetPhyAddr()[i]);
    if (mode == RoundMode::CAST_TRUNC) {
      emu::FromFloat<false>(value, to.GetPhyAddr()[i]);
    } else {
      emu::FromFloat<true>(value, to.GetPhyAddr()[i]);
    }
  }
}

struct TransDataTo5HDParams {
  bool dstHighHalf = true;
  bool srcHighHalf = true;
  uint8_t repeatTimes = 1;
  uint16_t dstRepStride = 0;
  uint16_t srcRepStride = 0;
};

// Number i of destination block k is number k of source block i. As on the device, a single repeat
// begins one stride after the addresses of the lists.
template <typename T>
void TransDataTo5HD(
    uint64_t (&to)[16], uint64_t (&from)[16], const TransDataTo5HDParams& params) {
  static_assert(sizeof(T) == 2, "only the 16-bit form is emulated");
  EMU_CHECK(!params.dstHighHalf && !params.srcHighHalf, "the half blocks are for 8-bit types");
  EMU_CHECK(params.repeatTimes >= 1, "repeatTimes is 0");
  emu::Core& core = emu::Current();
  const uint64_t first = params.repeatTimes == 1 ? 1 : 0;
  const auto block = [&](uint64_t address, uint64_t repeat, uint64_t stride) {
    return reinterpret_cast<T*>(address + (repeat + first) * stride * kUbBlock);
  };
  for (uint64_t r = 0; r < params.repeatTimes; ++r) {
    for (int i = 0; i < 16; ++i) {
      core.VectorRead(block(from[i], r, params.srcRepStride), kUbBlock);
      core.VectorWrite(block(to[i], r, params.dstRepStride), kUbBlock);
    }
  }
  core.VectorDone(false);
  for (uint64_t r = 0; r < params.repeatTimes && core.launch.moves; ++r) {
    for (int i = 0; i < 16; ++i) {
      for (int k = 0; k < 16; ++k) {
        block(to[k], r, params.dstRepStride)[i] = block(from[i], r, params.srcRepStride)[k];
      }
    }
  }
}

}  // namespace EMU_ARCH_NAMESPACE
}  // namespace AscendC
