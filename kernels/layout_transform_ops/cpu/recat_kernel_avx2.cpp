#define RECAT_ISA "avx2"
#define RECAT_KERNELS recat_kernels_avx2
#include "recat_kernel.inc"
