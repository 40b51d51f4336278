// Copies between global memory and the unified buffer (UB), within DataCopyPad's limits.
#ifndef RECAT_COPY_ASYNC_DMA_H
#define RECAT_COPY_ASYNC_DMA_H
#include "kernel_operator.h"
#include "recat_copy_async_split.h"

namespace RecatCopyAsync {

constexpr int64_t UB_BLOCK = 32;  // bytes: UB addresses and strides
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 3510)
constexpr bool COMPACT = true;    // a load can pack its pieces in UB
constexpr int64_t GM_LINE = 128;  // bytes
constexpr int64_t MAX_GM_STRIDE = (1LL << 40) - 1;
#else
constexpr bool COMPACT = false;  // each piece begins on a block of UB
constexpr int64_t GM_LINE = 512;
constexpr int64_t MAX_GM_STRIDE = (1LL << 32) - 1;  // a larger one would be cut to 32 bits
#endif

// `count` pieces of `len` elements: at most 4095 for one DataCopyPad, which the size of a tile sees
// to (kMaxTileSize of the plan: a piece takes a block of UB or more). From one piece's first element
// to the next one's it is `gmPitch` elements in global memory and `ubPitch` in UB. ubPitch == len:
// packed.
struct Pieces {
  int64_t count;
  int64_t len;
  int64_t gmPitch;
  int64_t ubPitch;
};

__aicore__ inline Pieces Merged(const Pieces& p) {
  if (p.gmPitch == p.len && p.ubPitch == p.len) {
    return {1, p.count * p.len, p.count * p.len, p.count * p.len};
  }
  return p;
}

template <typename T>
__aicore__ inline bool StrideFits(const Pieces& p) {
  const int64_t gap = (p.gmPitch - p.len) * static_cast<int64_t>(sizeof(T));
  return p.count <= 1 || gap <= MAX_GM_STRIDE;
}

// Blocks of UB between a piece's last block and the next piece.
template <typename T>
__aicore__ inline int64_t UbGap(const Pieces& p) {
  const int64_t size = static_cast<int64_t>(sizeof(T));
  return p.count <= 1 ? 0 : (p.ubPitch * size - RoundUp(p.len * size, UB_BLOCK)) / UB_BLOCK;
}

template <typename T>
__aicore__ inline void LoadOnce(
    const AscendC::LocalTensor<T>& ub, const AscendC::GlobalTensor<T>& gm, const Pieces& p) {
  const int64_t size = static_cast<int64_t>(sizeof(T));
  const bool pack = COMPACT && p.count > 1 && p.ubPitch == p.len && p.len * size % UB_BLOCK != 0;
  AscendC::DataCopyExtParams copy;
  copy.blockCount = static_cast<uint16_t>(p.count);
  copy.blockLen = static_cast<uint32_t>(p.len * size);
  copy.srcStride =
      static_cast<decltype(copy.srcStride)>(p.count > 1 ? (p.gmPitch - p.len) * size : 0);
  copy.dstStride = static_cast<decltype(copy.dstStride)>(pack ? 0 : UbGap<T>(p));
  AscendC::DataCopyPadExtParams<T> pad;
  pad.isPad = false;
  pad.leftPadding = 0;
  pad.rightPadding = 0;
#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 3510)
  if (pack) {
    AscendC::DataCopyPad<T, AscendC::PaddingMode::Compact>(ub, gm, copy, pad);
    return;
  }
#endif
  AscendC::DataCopyPad(ub, gm, copy, pad);
}

template <typename T>
__aicore__ inline void StoreOnce(
    const AscendC::GlobalTensor<T>& gm, const AscendC::LocalTensor<T>& ub, const Pieces& p) {
  const int64_t size = static_cast<int64_t>(sizeof(T));
  AscendC::DataCopyExtParams copy;
  copy.blockCount = static_cast<uint16_t>(p.count);
  copy.blockLen = static_cast<uint32_t>(p.len * size);
  copy.srcStride = static_cast<decltype(copy.srcStride)>(UbGap<T>(p));
  copy.dstStride =
      static_cast<decltype(copy.dstStride)>(p.count > 1 ? (p.gmPitch - p.len) * size : 0);
  AscendC::DataCopyPad(gm, ub, copy);
}

// The two below go piece by piece where the distance in global memory is more than a stride can
// say. Pieces are not packed then: only 3510 packs, and its strides reach beyond its memory.
template <typename T>
__aicore__ inline void Load(
    const AscendC::LocalTensor<T>& ub, const AscendC::GlobalTensor<T>& gm, int64_t offset,
    const Pieces& pieces) {
  const Pieces p = Merged(pieces);
  if (StrideFits<T>(p)) {
    LoadOnce<T>(ub, gm[offset], p);
    return;
  }
  for (int64_t i = 0; i < p.count; ++i) {
    LoadOnce<T>(ub[i * p.ubPitch], gm[offset + i * p.gmPitch], {1, p.len, p.len, p.len});
  }
}

template <typename T>
__aicore__ inline void Store(
    const AscendC::GlobalTensor<T>& gm, int64_t offset, const AscendC::LocalTensor<T>& ub,
    const Pieces& pieces) {
  const Pieces p = Merged(pieces);
  if (StrideFits<T>(p)) {
    StoreOnce<T>(gm[offset], ub, p);
    return;
  }
  for (int64_t i = 0; i < p.count; ++i) {
    StoreOnce<T>(gm[offset + i * p.gmPitch], ub[i * p.ubPitch], {1, p.len, p.len, p.len});
  }
}

}  // namespace RecatCopyAsync
#endif
