// What the vector unit does to a tile in UB: scale and cast, and moving columns of any width.
//
// A vector instruction needs addresses on 32-byte blocks, and the columns of a rank begin and end
// anywhere. TransDataTo5HD (16-bit form) turns 16 lanes of n numbers into n blocks of 16 numbers,
// one from each lane. There a column is a block, so block copies move columns, whatever their width.
// Turned back, a lane holds the columns of one rank without gaps. A 32-bit element is two numbers.
#ifndef RECAT_COPY_ASYNC_VECTOR_H
#define RECAT_COPY_ASYNC_VECTOR_H
#include "recat_copy_async_dma.h"

namespace RecatCopyAsync {

constexpr int64_t LANES = 16;
constexpr int64_t CHUNK_ELEMS = 2048;  // of a cast through float32, which has no room for a tile

__aicore__ inline void VectorBarrier() { AscendC::PipeBarrier<PIPE_V>(); }

template <typename T>
struct IsFloat {
  static constexpr bool value = false;
};
template <>
struct IsFloat<float> {
  static constexpr bool value = true;
};

// to = cast(from * scale), the product in float32, rounded to nearest even. May change `from`.
template <typename TIn, typename TOut>
__aicore__ inline void Convert(
    const AscendC::LocalTensor<TOut>& to, const AscendC::LocalTensor<TIn>& from,
    const AscendC::LocalTensor<float>& chunk, float scale, int64_t count) {
  const int32_t n = static_cast<int32_t>(count);
  if constexpr (IsFloat<TIn>::value && IsFloat<TOut>::value) {
    AscendC::Muls(to, from, scale, n);
  } else if constexpr (IsFloat<TIn>::value) {
    if (scale != 1.0f) {
      AscendC::Muls(from, from, scale, n);
      VectorBarrier();
    }
    AscendC::Cast(to, from, AscendC::RoundMode::CAST_RINT, n);
  } else if constexpr (IsFloat<TOut>::value) {
    AscendC::Cast(to, from, AscendC::RoundMode::CAST_NONE, n);
    if (scale != 1.0f) {
      VectorBarrier();
      AscendC::Muls(to, to, scale, n);
    }
  } else {
    for (int64_t i = 0; i < count; i += CHUNK_ELEMS) {
      const int32_t part = static_cast<int32_t>(Min(CHUNK_ELEMS, count - i));
      AscendC::Cast(chunk, from[i], AscendC::RoundMode::CAST_NONE, part);
      VectorBarrier();
      AscendC::Muls(chunk, chunk, scale, part);
      VectorBarrier();
      AscendC::Cast(to[i], chunk, AscendC::RoundMode::CAST_RINT, part);
      VectorBarrier();
    }
  }
  VectorBarrier();
}

// 16 blocks, `fromStep` numbers apart, become 16 blocks `toStep` apart, number i of block k being
// number k of block i. `repeats` times, `fromNext` and `toNext` blocks further each time.
__aicore__ inline void Transpose(
    const AscendC::LocalTensor<uint16_t>& to, int64_t toStep, int64_t toNext,
    const AscendC::LocalTensor<uint16_t>& from, int64_t fromStep, int64_t fromNext,
    int64_t repeats) {
  uint64_t toList[LANES];
  uint64_t fromList[LANES];
  for (int64_t i = 0; i < LANES; ++i) {
    toList[i] = reinterpret_cast<uint64_t>(to[i * toStep].GetPhyAddr());
    fromList[i] = reinterpret_cast<uint64_t>(from[i * fromStep].GetPhyAddr());
  }
  AscendC::TransDataTo5HDParams params;
  params.dstHighHalf = false;
  params.srcHighHalf = false;
  params.repeatTimes = static_cast<uint8_t>(repeats);
  // A single repeat begins one stride after the list's addresses: it must have none.
  params.dstRepStride = static_cast<uint16_t>(repeats > 1 ? toNext : 0);
  params.srcRepStride = static_cast<uint16_t>(repeats > 1 ? fromNext : 0);
  AscendC::TransDataTo5HD<uint16_t>(toList, fromList, params);
}

// 16 lanes of `numbers` (a multiple of 16) -> `numbers` blocks of 16.
__aicore__ inline void LanesToBlocks(
    const AscendC::LocalTensor<uint16_t>& blocks, const AscendC::LocalTensor<uint16_t>& lanes,
    int64_t numbers) {
  Transpose(blocks, LANES, LANES, lanes, numbers, 1, numbers / LANES);
}

__aicore__ inline void BlocksToLanes(
    const AscendC::LocalTensor<uint16_t>& lanes, const AscendC::LocalTensor<uint16_t>& blocks,
    int64_t numbers) {
  Transpose(lanes, numbers, 1, blocks, LANES, LANES, numbers / LANES);
}

// `rows` runs of `len` blocks, `fromPitch` and `toPitch` blocks apart.
template <typename T>
__aicore__ inline void CopyBlocks(
    const AscendC::LocalTensor<T>& to, int64_t toPitch, const AscendC::LocalTensor<T>& from,
    int64_t fromPitch, int64_t rows, int64_t len) {
  const AscendC::DataCopyParams copy(
      static_cast<uint16_t>(rows), static_cast<uint16_t>(len),
      static_cast<uint16_t>(fromPitch - len), static_cast<uint16_t>(toPitch - len));
  AscendC::DataCopy(to, from, copy);
}

}  // namespace RecatCopyAsync
#endif
