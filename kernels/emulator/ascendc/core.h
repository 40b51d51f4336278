// One emulated vector core: its unified buffer (UB), its view of global memory (GM), its ledger.
// Shared by both architectures.
#pragma once
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ledger.h"

namespace emu {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void Fail(const std::string& message);

// The rule that was broken, with the value.
#define EMU_CHECK(condition, message)                 \
  do {                                                \
    if (!(condition)) {                               \
      ::emu::Fail(std::string(message) + " [" #condition "]"); \
    }                                                 \
  } while (0)

struct Region {
  const char* name;
  uint8_t* begin;
  uint64_t size;
  bool writable;
};

using Ledger = EmulatedLedger;

// What a launch looks like to all its cores.
struct Launch {
  std::vector<Region> regions;
  uint64_t line = 512;     // bytes
  bool moves = true;       // false: only the ledger, memory is not touched
  uint64_t tiling_key = 0;
  std::vector<bool> written;  // bytes of the writable region, where each is to be written once
};

enum class State { kFree, kAllocated, kQueued, kDequeued, kScratch };

// A buffer of a queue. What is pending happens as late as the device may do it.
struct Buffer {
  uint32_t offset = 0;
  uint32_t size = 0;
  State state = State::kFree;
  bool stores = false;  // pending are stores: they may still read when the tensor has been freed
  std::vector<std::function<void()>> pending;
  std::vector<std::pair<uint32_t, uint32_t>> loading;  // parts of UB that pending loads will write

  void Flush();
};

struct Core {
  Core(Launch& launch, uint32_t index, uint32_t count, uint32_t ub_size);

  Launch& launch;
  uint32_t index, count;
  std::vector<uint8_t> ub;
  uint32_t ub_used = 0;
  std::vector<Buffer*> buffers;
  Ledger ledger = {};

  uint32_t UbOffset(const void* address, uint64_t size) const;
  const Buffer& BufferAt(uint32_t offset, uint64_t size) const;

  // Vector instructions overlap unless a PipeBarrier is between: no block that one writes may be
  // touched by another before the next barrier. An instruction names what it reads and writes, then
  // calls VectorDone.
  void VectorRead(const void* address, uint64_t size) { VectorAccess(address, size, false); }
  void VectorWrite(const void* address, uint64_t size) { VectorAccess(address, size, true); }
  void VectorDone(bool in_place);
  void Barrier() { ++epoch_; }
  void Loaded(uint32_t offset, uint64_t size);  // by a DMA, which waited for the vector unit

  const Region& Find(const void* address, uint64_t size, const char* what) const;
  // `count` bursts of `size` bytes, `pitch` apart, from `offset` of a region on.
  uint64_t CountLines(const Region& region, uint64_t offset, uint64_t count, uint64_t size,
                      uint64_t pitch);
  void WriteOnce(uint64_t offset, uint64_t size);

 private:
  struct Access {
    uint32_t offset;
    uint64_t size;
    bool write;
  };
  void VectorAccess(const void* address, uint64_t size, bool write);
  std::vector<Access> accesses_;           // of the instruction under way
  std::vector<uint32_t> written_, read_;  // epoch of the last access, by block of 32 bytes
  uint32_t epoch_ = 1;
  std::vector<std::vector<bool>> lines_;  // by region: lines touched
};

// The core that runs on this thread.
Core& Current();
void SetCurrent(Core* core);

}  // namespace emu
