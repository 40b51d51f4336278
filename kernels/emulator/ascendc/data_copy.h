// DataCopyPad between GM and UB, and DataCopy within UB, with their limits.
#pragma once
#include <cstring>

#include "queues.h"

namespace AscendC {
inline namespace EMU_ARCH_NAMESPACE {

constexpr uint64_t kUbBlock = 32;
constexpr uint64_t kLargeDma = 16 * 1024;
inline uint64_t Blocks(uint64_t bytes) { return (bytes + kUbBlock - 1) / kUbBlock * kUbBlock; }

enum class PaddingMode : uint8_t { Normal = 0, Compact };

// A field of the device's struct. There, what does not fit is cut off without a word.
template <typename T>
class Field {
 public:
  constexpr Field(int64_t value = 0) : value_(static_cast<T>(value)) {
    EMU_CHECK(value_ == value, "a DMA parameter does not fit its field");
  }
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

struct DataCopyExtParams {
  uint16_t blockCount = 0;
  uint32_t blockLen = 0;
#if __NPU_ARCH__ == 3510
  Field<int64_t> srcStride, dstStride;
#else
  Field<uint32_t> srcStride, dstStride;
#endif
  uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  T paddingValue = T();
};

// Where the bursts of one DMA lie. Strides in the parameters are from end to start: bytes in GM,
// blocks in UB.
struct Bursts {
  uint64_t count, size, gm_pitch, ub_pitch;

  Bursts(const DataCopyExtParams& p, size_t element, int64_t gm_gap, int64_t ub_gap, bool compact)
      : count(p.blockCount), size(p.blockLen), gm_pitch(size + gm_gap),
        ub_pitch(compact ? size : Blocks(size) + ub_gap * kUbBlock) {
    EMU_CHECK(p.blockCount >= 1 && p.blockCount <= 4095, "blockCount is not in 1..4095");
    EMU_CHECK(p.blockLen >= 1 && p.blockLen <= 2097151, "blockLen is not in 1..2097151");
    EMU_CHECK(p.blockLen % element == 0, "blockLen is no multiple of the element");
    EMU_CHECK(gm_gap >= 0 && gm_gap < int64_t{1} << 40, "the GM stride is not in 0..2^40-1");
    EMU_CHECK(ub_gap >= 0 && ub_gap <= 65535, "the UB stride is not in 0..65535 blocks");
    EMU_CHECK(!compact || ub_gap == 0, "a UB stride in compact mode");
  }
  uint64_t GmSpan() const { return gm_pitch * (count - 1) + size; }
  uint64_t UbSpan() const { return Blocks(ub_pitch * (count - 1) + size); }
};

template <typename T, PaddingMode MODE = PaddingMode::Normal>
void DataCopyPad(
    const LocalTensor<T>& to, const GlobalTensor<T>& from, const DataCopyExtParams& params,
    const DataCopyPadExtParams<T>& pad) {
  static_assert(MODE == PaddingMode::Normal || __NPU_ARCH__ == 3510, "compact: 3510 only");
  EMU_CHECK(!pad.isPad && pad.leftPadding == 0 && pad.rightPadding == 0, "padding: not emulated");
  const Bursts b(
      params, sizeof(T), params.srcStride, params.dstStride, MODE == PaddingMode::Compact);
  emu::Core& core = emu::Current();
  emu::Buffer& buffer = *to.GetBuffer();
  EMU_CHECK(
      buffer.state == emu::State::kAllocated && !buffer.stores,
      "a load into a tensor that is not allocated for loads");
  EMU_CHECK(to.Offset() % kUbBlock == 0, "a load to UB that is not on a 32-byte block");
  EMU_CHECK(b.UbSpan() <= to.Size(), "a load past the end of its tensor in UB");
  EMU_CHECK(b.GmSpan() <= from.Bytes(), "a load past the end of its GlobalTensor");
  const uint32_t begin = to.Offset();
  for (const auto& [other, end] : buffer.loading) {
    EMU_CHECK(begin >= end || begin + b.UbSpan() <= other, "two loads to one place of UB");
  }
  buffer.loading.emplace_back(begin, static_cast<uint32_t>(begin + b.UbSpan()));

  const emu::Region& region = core.Find(from.Begin(), b.GmSpan(), "a load");
  const auto* gm = reinterpret_cast<const uint8_t*>(from.Begin());
  emu::Ledger& ledger = core.ledger;
  ++ledger.loads;
  ledger.load_bursts += b.count;
  ledger.load_bytes += b.count * b.size;
  ledger.load_lines += core.CountLines(region, gm - region.begin, b.count, b.size, b.gm_pitch);
  ledger.large_dma_bytes += b.count * b.size >= kLargeDma ? b.count * b.size : 0;
  core.Loaded(begin, b.UbSpan());
  if (!core.launch.moves) {
    return;
  }
  uint8_t* ub = core.ub.data() + begin;
  std::memset(ub, 0xCD, b.UbSpan());  // until it lands
  buffer.pending.push_back([=] {
    for (uint64_t i = 0; i < b.count; ++i) {
      std::memcpy(ub + i * b.ub_pitch, gm + i * b.gm_pitch, b.size);
    }
  });
}

template <typename T>
void DataCopyPad(
    const GlobalTensor<T>& to, const LocalTensor<T>& from, const DataCopyExtParams& params) {
  const Bursts b(params, sizeof(T), params.dstStride, params.srcStride, false);
  emu::Core& core = emu::Current();
  emu::Buffer& buffer = *from.GetBuffer();
  EMU_CHECK(
      buffer.state == emu::State::kDequeued, "a store from a tensor that was not dequeued");
  EMU_CHECK(from.Offset() % kUbBlock == 0, "a store from UB that is not on a 32-byte block");
  EMU_CHECK(b.UbSpan() <= from.Size(), "a store past the end of its tensor in UB");
  EMU_CHECK(b.GmSpan() <= to.Bytes(), "a store past the end of its GlobalTensor");
  const emu::Region& region = core.Find(to.Begin(), b.GmSpan(), "a store");
  EMU_CHECK(region.writable, "a store to an input");

  auto* gm = reinterpret_cast<uint8_t*>(to.Begin());
  emu::Ledger& ledger = core.ledger;
  ++ledger.stores;
  ledger.store_bursts += b.count;
  ledger.store_bytes += b.count * b.size;
  ledger.store_lines += core.CountLines(region, gm - region.begin, b.count, b.size, b.gm_pitch);
  ledger.large_dma_bytes += b.count * b.size >= kLargeDma ? b.count * b.size : 0;
  for (uint64_t i = 0; i < b.count; ++i) {
    core.WriteOnce(gm - region.begin + i * b.gm_pitch, b.size);
  }
  if (!core.launch.moves) {
    return;
  }
  const uint8_t* ub = core.ub.data() + from.Offset();
  buffer.pending.push_back([=] {
    for (uint64_t i = 0; i < b.count; ++i) {
      std::memcpy(gm + i * b.gm_pitch, ub + i * b.ub_pitch, b.size);
    }
  });
}

// Lengths and strides in blocks.
struct DataCopyParams {
  DataCopyParams(uint16_t count, uint16_t len, uint16_t src_stride, uint16_t dst_stride)
      : blockCount(count), blockLen(len), srcStride(src_stride), dstStride(dst_stride) {}
  uint16_t blockCount, blockLen, srcStride, dstStride;
};

template <typename T>
void DataCopy(
    const LocalTensor<T>& to, const LocalTensor<T>& from, const DataCopyParams& p) {
  EMU_CHECK(p.blockCount >= 1 && p.blockCount <= 4095, "blockCount is not in 1..4095");
  EMU_CHECK(p.blockLen >= 1, "blockLen is 0");
  emu::Core& core = emu::Current();
  const uint64_t size = p.blockLen * kUbBlock;
  auto* dst = reinterpret_cast<uint8_t*>(to.GetPhyAddr());
  const auto* src = reinterpret_cast<const uint8_t*>(from.GetPhyAddr());
  for (uint64_t i = 0; i < p.blockCount; ++i) {
    core.VectorRead(src + i * (size + p.srcStride * kUbBlock), size);
    core.VectorWrite(dst + i * (size + p.dstStride * kUbBlock), size);
  }
  core.VectorDone(false);
  for (uint64_t i = 0; i < p.blockCount && core.launch.moves; ++i) {
    std::memcpy(
        dst + i * (size + p.dstStride * kUbBlock), src + i * (size + p.srcStride * kUbBlock), size);
  }
}

}  // namespace EMU_ARCH_NAMESPACE
}  // namespace AscendC
