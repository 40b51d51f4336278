// LocalTensor and GlobalTensor of Ascend C, over emulated memory.
#pragma once
#include "core.h"

namespace AscendC {
inline namespace EMU_ARCH_NAMESPACE {

enum class TPosition { GM, VECIN, VECOUT, VECCALC };

template <typename T>
class LocalTensor {
 public:
  LocalTensor() = default;
  LocalTensor(emu::Buffer* buffer, uint32_t offset, uint32_t size)
      : buffer_(buffer), offset_(offset), size_(size) {}

  LocalTensor operator[](uint32_t element) const {
    const uint64_t skipped = uint64_t{element} * sizeof(T);
    EMU_CHECK(skipped <= size_, "a LocalTensor's offset is past its end");
    return {buffer_, static_cast<uint32_t>(offset_ + skipped),
            static_cast<uint32_t>(size_ - skipped)};
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    return {buffer_, offset_, size_};
  }
  T* GetPhyAddr() const { return reinterpret_cast<T*>(emu::Current().ub.data() + offset_); }

  emu::Buffer* GetBuffer() const {
    EMU_CHECK(buffer_ != nullptr, "a LocalTensor that no queue gave");
    return buffer_;
  }
  uint32_t Offset() const { return offset_; }  // bytes
  uint32_t Size() const { return size_; }

 private:
  emu::Buffer* buffer_ = nullptr;
  uint32_t offset_ = 0;
  uint32_t size_ = 0;
};

template <typename T>
class GlobalTensor {
 public:
  void SetGlobalBuffer(T* begin, uint64_t elements) {
    EMU_CHECK(reinterpret_cast<uintptr_t>(begin) % sizeof(T) == 0, "GM: element alignment");
    if (elements > 0) {
      emu::Current().Find(begin, elements * sizeof(T), "SetGlobalBuffer");
    }
    begin_ = begin;
    elements_ = elements;
  }
  GlobalTensor operator[](uint64_t element) const {
    EMU_CHECK(element <= elements_, "a GlobalTensor's offset is past its end");
    GlobalTensor rest = *this;
    rest.begin_ += element;
    rest.elements_ -= element;
    return rest;
  }
  T GetValue(uint64_t element) const {
    EMU_CHECK(element < elements_, "GetValue past the end of a GlobalTensor");
    ++emu::Current().ledger.scalar_reads;
    return begin_[element];
  }
  T* Begin() const { return begin_; }
  uint64_t Bytes() const { return elements_ * sizeof(T); }

 private:
  T* begin_ = nullptr;
  uint64_t elements_ = 0;
};

}  // namespace EMU_ARCH_NAMESPACE
}  // namespace AscendC
