#define RECAT_ISA "avx512"
#define RECAT_KERNELS recat_kernels_avx512
#include "recat_kernel.inc"
