#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "options.h"

namespace emu {
namespace {

// New and freed memory shows itself: 0xDB in each byte is a large negative float or integer.
constexpr int poison = 0xDB;
// Poisoning touches real memory of the host, so only the start of a large block gets it.
constexpr uint64_t most_poisoned = uint64_t{1} << 20;
// Freed blocks stay mapped for a while, so that late users see poison and do not crash.
constexpr size_t most_kept = 64;

struct Block {
  uint64_t bytes;
  uint64_t mapped;  // whole pages
  int device;
};

using Blocks = std::map<uintptr_t, Block>;

struct Memory {
  std::shared_mutex mutex;
  Blocks live;  // by address
  std::deque<std::pair<void*, uint64_t>> freed;
  std::array<uint64_t, max_devices> used{};
};

Memory& memory() {
  static auto& memory = *new Memory;  // never destroyed: workers may outlive main()
  return memory;
}

uint64_t whole_pages(uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

// torch_npu knows "out of memory" by CANN's code EL0004 or these words.
#define OUT_OF_MEMORY "EL0004: Failed to allocate memory: "

Status check_room(int device, uint64_t bytes) {
  const uint64_t used = memory().used[device];
  const uint64_t total = chip().hbm_bytes;
  const bool injected = fault_due("fail_alloc");
  if (!injected && bytes <= total - used) return {};
  return error(ACL_ERROR_RT_MEMORY_ALLOCATION,
               OUT_OF_MEMORY "%" PRIu64 " bytes on npu:%d, where %" PRIu64 " of %" PRIu64
                             " are in use%s",
               bytes, device, used, total, injected ? " (injected by fail_alloc)" : "");
}

// The live block that holds the address, or the end.
Blocks::const_iterator block_at(uintptr_t address) {
  const Blocks& live = memory().live;
  auto block = live.upper_bound(address);
  if (block == live.begin()) return live.end();
  --block;
  return address - block->first < block->second.bytes ? block : live.end();
}

// Poisons a freed block and keeps its addresses, at little cost, until enough others were freed.
void keep_freed(void* address, uint64_t mapped) {
  std::memset(address, poison, std::min(mapped, most_poisoned));
  if (mapped > most_poisoned) {
    madvise(static_cast<char*>(address) + most_poisoned, mapped - most_poisoned, MADV_DONTNEED);
  }
  auto& freed = memory().freed;
  freed.emplace_back(address, mapped);
  if (freed.size() > most_kept) {
    munmap(freed.front().first, freed.front().second);
    freed.pop_front();
  }
}

}  // namespace

Status allocate_device_memory(int device, uint64_t bytes, void** address) {
  std::lock_guard lock(memory().mutex);
  Status status = check_room(device, bytes);
  if (!status.ok()) return status;
  // An emulated device may have more memory than the host: pages come when they are touched.
  const uint64_t mapped = whole_pages(bytes);
  void* block = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) {
    return error(ACL_ERROR_RT_MEMORY_ALLOCATION,
                 OUT_OF_MEMORY "the host refuses %" PRIu64 " bytes: %s", bytes,
                 std::strerror(errno));
  }
  std::memset(block, poison, std::min(mapped, most_poisoned));
  memory().live[reinterpret_cast<uintptr_t>(block)] = {bytes, mapped, device};
  memory().used[device] += bytes;
  *address = block;
  return {};
}

Status free_device_memory(void* address) {
  std::lock_guard lock(memory().mutex);
  const auto found = memory().live.find(reinterpret_cast<uintptr_t>(address));
  if (found == memory().live.end()) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "%p is not the start of a live allocation", address);
  }
  const Block block = found->second;
  memory().live.erase(found);
  memory().used[block.device] -= block.bytes;
  keep_freed(address, block.mapped);
  return {};
}

void release_device_memory(int device, bool unmap) {
  std::lock_guard lock(memory().mutex);
  std::erase_if(memory().live, [&](const auto& entry) {
    const Block& block = entry.second;
    if (block.device != device) return false;
    if (unmap) munmap(reinterpret_cast<void*>(entry.first), block.mapped);
    return true;
  });
  memory().used[device] = 0;
}

uint64_t used_device_bytes(int device) {
  std::shared_lock lock(memory().mutex);
  return memory().used[device];
}

int device_of(const void* pointer, uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(memory().mutex);
  const auto found = block_at(address);
  if (found == memory().live.end()) return -1;
  const Block& block = found->second;
  return bytes <= block.bytes - (address - found->first) ? block.device : -1;
}

bool is_device_memory(const void* pointer, uint64_t bytes) {
  return bytes == 0 || device_of(pointer, bytes) >= 0;  // an empty range lies anywhere
}

std::string describe_device_memory(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock lock(memory().mutex);
  const auto found = block_at(address);
  if (found == memory().live.end()) return "outside device memory";
  char text[128];
  std::snprintf(text, sizeof text, "at byte %" PRIu64 " of %" PRIu64 " allocated on npu:%d",
                static_cast<uint64_t>(address - found->first), found->second.bytes,
                found->second.device);
  return text;
}

}  // namespace emu
