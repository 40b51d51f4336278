// Recat and unrecat on a CPU: the interface between the operators (which check and split the work
// over threads) and the copy loops (compiled once per instruction set). No torch headers here.
#pragma once

#include <cstdint>

namespace torchrec_ascend {

enum class Dtype : int { f32, f16, bf16, f64 };

// One call. The "rows" side is [batch, width] with `row_stride` elements between rows; the "flat"
// side is the rank-ordered buffer of kernels/layout_transform_ops/README.md: rank t's run of
// batch * dims[t] elements begins at batch * (dims[0] + ... + dims[t-1]).
struct RecatTask {
  const void* src = nullptr;
  void* dst = nullptr;
  Dtype src_dtype = Dtype::f32;
  Dtype dst_dtype = Dtype::f32;
  const int64_t* dims = nullptr; // [num_ranks], elements, >= 0
  int64_t num_ranks = 0;
  int64_t batch = 0;
  int64_t width = 0; // sum of dims, elements
  int64_t row_stride = 0; // elements
  double scale = 1.0; // dst = cast(src * scale); the product in f64 if either side is f64, else f32
  bool stream = false; // bypass the caches when storing
};

// Does rows [row_begin, row_end) of a task. Disjoint row ranges may run at the same time.
using RecatRows = void (*)(const RecatTask& task, int64_t row_begin, int64_t row_end);

struct RecatKernels {
  const char* isa = nullptr;
  RecatRows recat = nullptr; // rows -> flat
  RecatRows unrecat = nullptr; // flat -> rows
};

// The kernels compiled for `isa` ("avx512", "avx2", "baseline"), or the best this CPU runs for
// "auto". Returns nullptr for a name that is unknown or that this CPU does not run.
const RecatKernels* recat_kernels(const char* isa);

} // namespace torchrec_ascend
