#define RECAT_ISA "baseline"
#define RECAT_KERNELS recat_kernels_baseline
#include "recat_kernel.inc"
