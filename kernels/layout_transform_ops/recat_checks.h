// What every backend of recat checks before it touches memory. All throw c10::Error (RuntimeError
// in Python) naming the argument, its value and what was expected.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <limits>

namespace torchrec_ascend {

inline bool is_recat_dtype(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kDouble;
}

inline void check_dtype(const char* op, const char* argument, at::ScalarType dtype) {
  TORCH_CHECK(
      is_recat_dtype(dtype),
      op, ": ", argument, " has dtype ", dtype, ", expected float32, float16, bfloat16 or float64");
}

// Sum of dims, each >= 0; `unit` multiplies each (features per rank -> columns).
inline int64_t checked_width(
    const char* op, const char* argument, at::IntArrayRef dims, int64_t unit = 1) {
  int64_t width = 0;
  for (const auto t : c10::irange(dims.size())) {
    TORCH_CHECK(
        dims[t] >= 0, op, ": ", argument, "[", t, "] is ", dims[t], ", expected >= 0");
    int64_t columns = 0;
    const bool overflow = __builtin_mul_overflow(dims[t], unit, &columns) ||
        __builtin_add_overflow(width, columns, &width);
    TORCH_CHECK(!overflow, op, ": the sum of ", argument, " overflows int64 at index ", t);
  }
  return width;
}

inline void check_width(
    const char* op, const char* argument, at::IntArrayRef dims, int64_t width, int64_t columns) {
  TORCH_CHECK(
      width == columns,
      op, ": ", argument, " = ", dims, " covers ", width, " columns, grad has ", columns);
}

inline int64_t checked_numel(const char* op, int64_t batch_size, int64_t width) {
  int64_t numel = 0;
  TORCH_CHECK(batch_size >= 0, op, ": batch_size is ", batch_size, ", expected >= 0");
  TORCH_CHECK(
      !__builtin_mul_overflow(batch_size, width, &numel),
      op, ": batch_size ", batch_size, " times sum(dims) ", width, " overflows int64");
  return numel;
}

} // namespace torchrec_ascend
