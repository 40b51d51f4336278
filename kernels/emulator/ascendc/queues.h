// TPipe, TQue, TQueBind and TBuf of Ascend C. Loads land as late as DeQue allows, stores leave as late
// as the next AllocTensor of their buffer: a kernel that forgets a step reads poison or fails.
#pragma once
#include <deque>
#include <list>

#include "tensors.h"

namespace AscendC {
inline namespace EMU_ARCH_NAMESPACE {

template <TPosition FROM, TPosition TO, int32_t DEPTH>
class TQueBind {
 public:
  TQueBind() = default;
  TQueBind(const TQueBind&) = delete;
  TQueBind& operator=(const TQueBind&) = delete;
  ~TQueBind() noexcept(false) {
    if (std::uncaught_exceptions() > 0) {
      return;
    }
    EMU_CHECK(queued_.empty(), "the kernel ends with a tensor in a queue");
    for (emu::Buffer& buffer : buffers_) {
      EMU_CHECK(buffer.state == emu::State::kFree, "the kernel ends with a tensor not freed");
      buffer.Flush();
    }
  }

  // The buffers take turns. The device would wait for the next one: for ever, if it is not freed.
  template <typename T>
  LocalTensor<T> AllocTensor() {
    EMU_CHECK(!buffers_.empty(), "AllocTensor of a queue without InitBuffer");
    emu::Buffer& buffer = buffers_[next_];
    EMU_CHECK(buffer.state == emu::State::kFree, "AllocTensor: no free buffer, the device hangs");
    next_ = (next_ + 1) % buffers_.size();
    buffer.Flush();
    buffer.state = emu::State::kAllocated;
    return {&buffer, buffer.offset, buffer.size};
  }
  template <typename T>
  void EnQue(const LocalTensor<T>& tensor) {
    Take(tensor, emu::State::kAllocated, "EnQue of a tensor that was not allocated");
    EMU_CHECK(queued_.size() < DEPTH, "more tensors in a queue than its depth");
    tensor.GetBuffer()->state = emu::State::kQueued;
    queued_.push_back(tensor.GetBuffer());
  }
  template <typename T>
  LocalTensor<T> DeQue() {
    EMU_CHECK(!queued_.empty(), "DeQue of an empty queue");
    emu::Buffer& buffer = *queued_.front();
    queued_.pop_front();
    buffer.Flush();
    buffer.state = emu::State::kDequeued;
    return {&buffer, buffer.offset, buffer.size};
  }
  template <typename T>
  void FreeTensor(LocalTensor<T>& tensor) {
    Take(tensor, emu::State::kDequeued, "FreeTensor of a tensor that was not dequeued");
    tensor.GetBuffer()->state = emu::State::kFree;
  }

 private:
  friend class TPipe;
  template <typename T>
  void Take(const LocalTensor<T>& tensor, emu::State state, const char* message) {
    bool mine = false;
    for (emu::Buffer& buffer : buffers_) {
      mine = mine || &buffer == tensor.GetBuffer();
    }
    EMU_CHECK(mine, "a tensor of another queue");
    EMU_CHECK(tensor.GetBuffer()->state == state, message);
  }
  std::deque<emu::Buffer> buffers_;
  std::deque<emu::Buffer*> queued_;
  size_t next_ = 0;
};

template <TPosition POSITION, int32_t DEPTH>
class TQue : public TQueBind<
                 POSITION == TPosition::VECIN ? TPosition::GM : POSITION,
                 POSITION == TPosition::VECIN ? POSITION : TPosition::GM, DEPTH> {};

template <TPosition POSITION = TPosition::VECCALC>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() {
    EMU_CHECK(buffer_.size > 0, "Get of a TBuf without InitBuffer");
    return {&buffer_, buffer_.offset, buffer_.size};
  }

 private:
  friend class TPipe;
  emu::Buffer buffer_;
};

class TPipe {
 public:
  template <TPosition FROM, TPosition TO, int32_t DEPTH>
  void InitBuffer(TQueBind<FROM, TO, DEPTH>& queue, uint8_t count, uint32_t size) {
    EMU_CHECK(queue.buffers_.empty(), "InitBuffer twice");
    EMU_CHECK(count >= 1 && count <= 8, "InitBuffer: number of buffers");
    for (uint8_t i = 0; i < count; ++i) {
      queue.buffers_.emplace_back();
      queue.buffers_.back().stores = FROM == TPosition::VECOUT;
      Place(queue.buffers_.back(), size);
    }
  }
  template <TPosition POSITION>
  void InitBuffer(TBuf<POSITION>& buffer, uint32_t size) {
    buffer.buffer_.state = emu::State::kScratch;
    Place(buffer.buffer_, size);
  }

 private:
  static void Place(emu::Buffer& buffer, uint32_t size) {
    emu::Core& core = emu::Current();
    EMU_CHECK(size > 0 && size % 32 == 0, "InitBuffer: the size is no multiple of 32 bytes");
    EMU_CHECK(
        uint64_t{core.ub_used} + size <= core.ub.size(),
        "InitBuffer: the unified buffer is full at " + std::to_string(core.ub_used) + " bytes");
    buffer.offset = core.ub_used;
    buffer.size = size;
    core.ub_used += size;
    core.buffers.push_back(&buffer);
  }
};

}  // namespace EMU_ARCH_NAMESPACE
}  // namespace AscendC
