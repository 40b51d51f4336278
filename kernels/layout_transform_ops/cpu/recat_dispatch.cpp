// Chooses, once per process and by what the CPU reports, which compiled form of the loops runs.
#include <cstring>

#include "recat_kernel.h"

namespace torchrec_ascend {

extern const RecatKernels recat_kernels_baseline;
#if defined(__x86_64__)
extern const RecatKernels recat_kernels_avx2;
extern const RecatKernels recat_kernels_avx512;
#endif

const RecatKernels* recat_kernels(const char* isa) {
  const bool any = strcmp(isa, "auto") == 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl");
  if (avx512 && (any || strcmp(isa, "avx512") == 0)) {
    return &recat_kernels_avx512;
  }
  if (avx2 && (any || strcmp(isa, "avx2") == 0)) {
    return &recat_kernels_avx2;
  }
#endif
  return any || strcmp(isa, "baseline") == 0 ? &recat_kernels_baseline : nullptr;
}

} // namespace torchrec_ascend
