#include "faults.h"

#include "names.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace emu::hccl::faults {
namespace {

constexpr int kDroppedExitCode = 77;
std::mutex mutex;
std::optional<uint32_t> own_rank;

[[noreturn]] void malformed(const char* knob, const std::string& value, const char* form) {
  throw Error(HCCL_E_PARA, std::string("NPU_EMU_FAULT ") + knob + "=" + value + ", expected " + form);
}

}  // namespace

void note_rank(uint32_t rank) {
  std::lock_guard lock(mutex);
  if (!own_rank) own_rank = rank;
}

void drop_rank() {
  static std::string counted;
  static uint64_t count = 0;
  const std::optional<std::string> value = fault("drop_rank");
  std::lock_guard lock(mutex);
  if (value.value_or("") != counted) {
    counted = value.value_or("");
    count = 0;
  }
  if (!value) return;
  unsigned long rank = 0;
  unsigned long when = 0;
  if (std::sscanf(value->c_str(), "%lu@%lu", &rank, &when) != 2 || when == 0) {
    malformed("drop_rank", *value, "RANK@N with N from 1");
  }
  if (rank == own_rank && ++count == when) {
    std::fprintf(stderr, "emulated HCCL: drop_rank=%s ends rank %lu\n", value->c_str(), rank);
    _exit(kDroppedExitCode);
  }
}

void corrupt(const Communicator& communicator, uint32_t op, const std::vector<Region>& written) {
  const std::optional<std::string> value = fault("collective_zeros");
  if (!value || communicator.size() <= 2) return;
  if (*value != "any" && *value != operator_knob(op)) return;
  for (const Region& region : written) {
    if (region.bytes > 0) std::memset(region.at, 0, region.bytes);
  }
}

std::chrono::microseconds link_delay(uint32_t rank, uint32_t peer) {
  const std::optional<std::string> value = fault("delay_link");
  if (!value) return {};
  unsigned long first = 0;
  unsigned long second = 0;
  unsigned long microseconds = 0;
  if (std::sscanf(value->c_str(), "%lu-%lu@%lu", &first, &second, &microseconds) != 3) {
    malformed("delay_link", *value, "RANK-RANK@MICROSECONDS");
  }
  const bool named = (rank == first && peer == second) || (rank == second && peer == first);
  return std::chrono::microseconds(named ? microseconds : 0);
}

}  // namespace emu::hccl::faults
