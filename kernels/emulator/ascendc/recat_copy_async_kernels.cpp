// The unmodified kernel source, compiled for one architecture and every pair of dtypes.
#include "kernel_operator.h"

#include "recat_copy_async_emulated.h"
#include "recat_copy_async_kernels.h"
#include "recat_copy_async_tiling.h"

#define EMU_TILING_DATA optiling::RecatCopyAsyncTilingData
#define EMU_CAT_(a, b) a##b
#define EMU_CAT(a, b) EMU_CAT_(a, b)
#define EMU_ENTRY(pair) EMU_CAT(recat_copy_async_##pair##_, __NPU_ARCH__)

// A namespace for each architecture, since the same names stand for different code there. The entry
// has C linkage, so it gets a name of its own for each pair.
namespace EMU_ARCH_NAMESPACE {

#include "recat_copy_async_kernel.h"

#define recat_copy_async EMU_ENTRY(ff)
#define DTYPE_GRAD_OUTPUT float
#define DTYPE_SHARDED_GRAD_OUTPUT float
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_SHARDED_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(fh)
#define DTYPE_SHARDED_GRAD_OUTPUT half
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_SHARDED_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(fb)
#define DTYPE_SHARDED_GRAD_OUTPUT bfloat16_t
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(bb)
#define DTYPE_GRAD_OUTPUT bfloat16_t
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_SHARDED_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(bf)
#define DTYPE_SHARDED_GRAD_OUTPUT float
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(hf)
#define DTYPE_GRAD_OUTPUT half
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async
#undef DTYPE_SHARDED_GRAD_OUTPUT

#define recat_copy_async EMU_ENTRY(hh)
#define DTYPE_SHARDED_GRAD_OUTPUT half
#include "op_kernel/recat_copy_async.cpp"
#undef recat_copy_async

}  // namespace EMU_ARCH_NAMESPACE

namespace emu {

RecatKernel EMU_CAT(RecatKernelOf, __NPU_ARCH__)(int in_dtype, int out_dtype) {
  using namespace EMU_ARCH_NAMESPACE;
  constexpr int kDtypes = 3;  // in the order of RecatEmulatedDtype
  static const RecatKernel kernels[kDtypes][kDtypes] = {
      {EMU_ENTRY(ff), EMU_ENTRY(fh), EMU_ENTRY(fb)},
      {EMU_ENTRY(hf), EMU_ENTRY(hh), nullptr},
      {EMU_ENTRY(bf), nullptr, EMU_ENTRY(bb)},
  };
  const bool known =
      in_dtype >= 0 && in_dtype < kDtypes && out_dtype >= 0 && out_dtype < kDtypes;
  return known ? kernels[in_dtype][out_dtype] : nullptr;
}

}  // namespace emu
