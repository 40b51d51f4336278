// What the environment says about the emulated chip, the mode and the fault knobs.
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>

#include "options.h"

namespace emu {
namespace {

std::string text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') {
    throw std::runtime_error(std::string(name) +
                             " is not set: start with python -m torchrec_ascend.emulator");
  }
  return value;
}

uint64_t number(const char* name, uint64_t least, uint64_t most) {
  const std::string value = text(name);
  char* end = nullptr;
  errno = 0;
  const uint64_t parsed = std::strtoull(value.c_str(), &end, 10);
  const bool digits = value.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || errno != 0 || parsed < least || parsed > most) {
    throw std::runtime_error(std::string(name) + "=" + value + ", expected a number from " +
                             std::to_string(least) + " to " + std::to_string(most));
  }
  return parsed;
}

uint64_t number_or_zero(const char* name, uint64_t most) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? 0 : number(name, 0, most);
}

Chip read_chip() {
  Chip chip;
  chip.soc = text("NPU_EMU_SOC");
  chip.arch = static_cast<int>(number("NPU_EMU_ARCH", 1, 9999));
  chip.devices = static_cast<uint32_t>(number("NPU_EMU_DEVICES", 1, max_devices));
  chip.cube_cores = static_cast<uint32_t>(number("NPU_EMU_CUBE_CORES", 1, 1024));
  chip.vector_cores = static_cast<uint32_t>(number("NPU_EMU_VECTOR_CORES", 1, 1024));
  chip.hbm_bytes = number("NPU_EMU_HBM_BYTES", 1 << 20, uint64_t{1} << 40);
  chip.l2_bytes = number("NPU_EMU_L2_BYTES", 1, uint64_t{1} << 40);
  chip.ub_bytes = number("NPU_EMU_UB_BYTES", 1, uint64_t{1} << 30);
  return chip;
}

// How often fault_due was asked about a knob since it took its value.
struct Count {
  std::string value;
  uint64_t calls = 0;
};

}  // namespace

const Chip& chip() {
  static const Chip& chip = *new Chip(read_chip());  // never destroyed: it is used until the end
  return chip;
}

bool asynchronous() {
  static const bool value = number_or_zero("NPU_EMU_ASYNC", 1) == 1;
  return value;
}

std::chrono::microseconds task_delay() {
  static const std::chrono::microseconds value(number_or_zero("NPU_EMU_DELAY_US", 60'000'000));
  return value;
}

std::optional<std::string> fault(const char* name) {
  const char* knobs = std::getenv("NPU_EMU_FAULT");
  std::string rest = knobs == nullptr ? "" : knobs;
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    const std::string knob = rest.substr(0, end);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
    const size_t equals = knob.find('=');
    if (equals != std::string::npos && knob.substr(0, equals) == name) {
      return knob.substr(equals + 1);
    }
  }
  return std::nullopt;
}

bool fault_due(const char* name) {
  static std::mutex mutex;
  static auto& counts = *new std::map<std::string, Count>;
  const std::optional<std::string> value = fault(name);
  std::lock_guard lock(mutex);
  if (!value) {
    counts.erase(name);
    return false;
  }
  Count& count = counts[name];
  if (count.value != *value) count = {*value, 0};
  const bool onwards = value->ends_with('+');  // "3+": the third call and all that follow
  const uint64_t n = std::strtoull(value->c_str(), nullptr, 10);
  if (n == 0) return false;
  ++count.calls;
  return onwards ? count.calls >= n : count.calls == n;
}

}  // namespace emu
