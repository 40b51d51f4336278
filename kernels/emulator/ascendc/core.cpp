#include "core.h"

#include <algorithm>

namespace emu {
namespace {

thread_local Core* current = nullptr;
constexpr uint32_t kBlock = 32;
constexpr uint64_t kMostLines = uint64_t{1} << 32;  // beyond it, unique lines are not counted

} // namespace

void Fail(const std::string& message) {
  throw Error(message);
}

Core& Current() {
  return *current;
}

void SetCurrent(Core* core) {
  current = core;
}

void Buffer::Flush() {
  for (const auto& action : pending) {
    action();
  }
  pending.clear();
  loading.clear();
}

Core::Core(Launch& launch, uint32_t index, uint32_t count, uint32_t ub_size)
    : launch(launch), index(index), count(count), ub(ub_size, 0xAB), written_(ub_size / kBlock + 1),
      read_(ub_size / kBlock + 1), lines_(launch.regions.size()) {}

uint32_t Core::UbOffset(const void* address, uint64_t size) const {
  const auto* byte = static_cast<const uint8_t*>(address);
  EMU_CHECK(
      byte >= ub.data() && byte + size <= ub.data() + ub.size(), "outside the unified buffer");
  return static_cast<uint32_t>(byte - ub.data());
}

const Buffer& Core::BufferAt(uint32_t offset, uint64_t size) const {
  for (const Buffer* buffer : buffers) {
    if (offset >= buffer->offset && offset < buffer->offset + buffer->size) {
      EMU_CHECK(offset + size <= buffer->offset + buffer->size, "past the end of a tensor in UB");
      return *buffer;
    }
  }
  Fail("no tensor at this place in UB");
}

void Core::VectorAccess(const void* address, uint64_t size, bool write) {
  const uint32_t offset = UbOffset(address, size);
  EMU_CHECK(offset % kBlock == 0, "a vector operand does not begin on a 32-byte block");
  const Buffer& buffer = BufferAt(offset, size);
  const bool ready = buffer.state == State::kScratch || buffer.state == State::kDequeued ||
                     (buffer.state == State::kAllocated && buffer.stores);
  EMU_CHECK(ready, "a vector operand is not ready: not allocated, in a queue, or freed");
  EMU_CHECK(buffer.pending.empty(), "a vector operand has a DMA in flight");
  for (uint64_t block = offset / kBlock; block * kBlock < offset + size; ++block) {
    EMU_CHECK(written_[block] != epoch_, "a PipeBarrier<PIPE_V> is missing: written before");
    EMU_CHECK(!write || read_[block] != epoch_, "a PipeBarrier<PIPE_V> is missing: read before");
  }
  accesses_.push_back({offset, size, write});
}

void Core::VectorDone(bool in_place) {
  ++ledger.vector_ops;
  for (const Access& access : accesses_) {
    auto& blocks = access.write ? written_ : read_;
    const auto& others = access.write ? read_ : written_;
    for (uint64_t block = access.offset / kBlock; block * kBlock < access.offset + access.size;
         ++block) {
      EMU_CHECK(in_place || others[block] != epoch_, "an instruction's operands overlap");
      blocks[block] = epoch_;
    }
    ledger.vector_bytes += access.write ? access.size : 0;
  }
  accesses_.clear();
}

void Core::Loaded(uint32_t offset, uint64_t size) {
  for (uint64_t block = offset / kBlock; block * kBlock < offset + size; ++block) {
    written_[block] = read_[block] = 0;
  }
}

const Region& Core::Find(const void* address, uint64_t size, const char* what) const {
  const auto* byte = static_cast<const uint8_t*>(address);
  for (const Region& region : launch.regions) {
    if (byte >= region.begin && byte < region.begin + region.size) {
      EMU_CHECK(
          size <= region.size - (byte - region.begin),
          std::string(what) + " past the end of " + region.name);
      return region;
    }
  }
  Fail(std::string(what) + " outside global memory");
}

uint64_t Core::CountLines(
    const Region& region, uint64_t offset, uint64_t count, uint64_t size, uint64_t pitch) {
  std::vector<bool>& seen = lines_[&region - launch.regions.data()];
  const uint64_t all = region.size / launch.line + 1;
  if (seen.empty() && all < kMostLines) {
    seen.resize(all);
  }
  uint64_t touched = 0;
  uint64_t next = 0;  // the first line that this DMA has not counted
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t begin = offset + i * pitch;
    for (uint64_t line = std::max(begin / launch.line, next);
         line <= (begin + size - 1) / launch.line; ++line) {
      ++touched;
      if (!seen.empty() && !seen[line]) {
        seen[line] = true;
        ++(region.writable ? ledger.store_unique_lines : ledger.load_unique_lines);
      }
      next = line + 1;
    }
  }
  return touched;
}

void Core::WriteOnce(uint64_t offset, uint64_t size) {
  if (launch.written.empty()) {
    return;
  }
  for (uint64_t byte = offset; byte < offset + size; ++byte) {
    EMU_CHECK(!launch.written[byte], "byte " + std::to_string(byte) + " is written twice");
    launch.written[byte] = true;
  }
}

} // namespace emu
