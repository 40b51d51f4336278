// What a tiling function asks about the chip.
#pragma once
#include "host_context.h"

namespace platform_ascendc {

enum class CoreMemType { UB };

class PlatformAscendC {
 public:
  explicit PlatformAscendC(const fe::PlatFormInfos* platform) : platform_(platform) {}
  uint32_t GetCoreNumAiv() const { return platform_->vector_cores; }
  void GetCoreMemSize(const CoreMemType&, uint64_t& size) const { size = platform_->ub_size; }

 private:
  const fe::PlatFormInfos* platform_;
};

}  // namespace platform_ascendc
