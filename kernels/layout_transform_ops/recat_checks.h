// What every backend of recat checks before it touches memory. All throw c10::Error (RuntimeError
// in Python) naming the argument, its value and what was expected.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <c10/util/irange.h>

#include <functional>
#include <utility>

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

// Whether the memory from the first to the last element of each meets. Both have elements, and
// strides >= 0 (as every tensor has).
inline bool ranges_meet(const at::Tensor& a, const at::Tensor& b) {
  const auto range = [](const at::Tensor& t) {
    int64_t last = 0;
    for (const auto d : c10::irange(t.dim())) {
      last += (t.size(d) - 1) * t.stride(d);
    }
    const auto* begin = static_cast<const char*>(t.const_data_ptr());
    return std::pair{begin, begin + (last + 1) * t.element_size()};
  };
  const auto [a_begin, a_end] = range(a);
  const auto [b_begin, b_end] = range(b);
  return std::less<>()(a_begin, b_end) && std::less<>()(b_begin, a_end);
}

inline void check_out(
    const char* op, const at::Tensor& out, const char* argument, const at::Tensor& in,
    at::IntArrayRef expected) {
  check_dtype(op, "out", out.scalar_type());
  TORCH_CHECK(
      out.device() == in.device(), op, ": out is on ", out.device(), ", expected ", in.device());
  TORCH_CHECK(
      out.sizes() == expected, op, ": out has shape ", out.sizes(), ", expected ", expected);
  TORCH_CHECK(
      out.is_contiguous(), op, ": out has strides ", out.strides(), ", expected contiguous");
  TORCH_CHECK(
      out.numel() == 0 || !ranges_meet(out, in),
      op, ": out at ", out.const_data_ptr(), " overlaps ", argument, " at ", in.const_data_ptr(),
      ", expected memory of its own");
}

// [B, ...] -> [B, width] with unit stride along columns: free for the layouts autograd produces
// except an expanded column, which costs the one copy.
inline at::Tensor as_rows(const char* op, const at::Tensor& grad) {
  check_dtype(op, "grad", grad.scalar_type());
  TORCH_CHECK(
      grad.dim() == 2 || grad.dim() == 3,
      op, ": grad has shape ", grad.sizes(), ", expected [B, sum(dims)] or [B, T, D]");
  at::Tensor rows =
      grad.dim() == 3 ? grad.reshape({grad.size(0), grad.size(1) * grad.size(2)}) : grad;
  return rows.stride(1) == 1 || rows.size(1) <= 1 ? rows : rows.contiguous();
}

// as_rows of recat's grad, whose columns are those of dims.
inline at::Tensor checked_rows(const at::Tensor& grad, at::IntArrayRef dims) {
  at::Tensor rows = as_rows("recat", grad);
  check_width("recat", "dims", dims, checked_width("recat", "dims", dims), rows.size(1));
  return rows;
}

inline int64_t check_flat(const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size) {
  check_dtype("unrecat", "flat", flat.scalar_type());
  TORCH_CHECK(flat.dim() == 1, "unrecat: flat has shape ", flat.sizes(), ", expected 1-D");
  const int64_t width = checked_width("unrecat", "dims", dims);
  const int64_t numel = checked_numel("unrecat", batch_size, width);
  TORCH_CHECK(
      flat.numel() == numel,
      "unrecat: flat has ", flat.numel(), " elements, expected batch_size * sum(dims) = ",
      batch_size, " * ", width, " = ", numel);
  return width;
}

// Of fbgemm's three. Their contract has no copy to make: a gradient must be contiguous.
inline void check_fbgemm_grad(
    const char* op, const at::Tensor& grad, int64_t dim, const char* shape) {
  check_dtype(op, "grad_output", grad.scalar_type());
  TORCH_CHECK(
      grad.dim() == dim, op, ": grad_output has shape ", grad.sizes(), ", expected ", shape);
  TORCH_CHECK(
      grad.is_contiguous(),
      op, ": grad_output has strides ", grad.strides(), ", expected contiguous");
}

inline void check_index(
    const char* op, const char* argument, const at::Tensor& index, const at::Tensor& grad) {
  TORCH_CHECK(
      index.scalar_type() == at::kLong,
      op, ": ", argument, " has dtype ", index.scalar_type(), ", expected int64");
  TORCH_CHECK(
      index.dim() == 1 && index.is_contiguous(),
      op, ": ", argument, " has shape ", index.sizes(), ", expected 1-D and contiguous");
  TORCH_CHECK(
      index.device() == grad.device(),
      op, ": ", argument, " is on ", index.device(), ", expected ", grad.device());
}

} // namespace torchrec_ascend
