// The operators over a device's copies: checks, allocation, and the forms each copy is offered in.
// A backend says how one copy runs:
//
//   struct Backend {
//     // rows [B, sum(dims)], unit stride along columns -> out [B * sum(dims)], contiguous.
//     static void recat(const at::Tensor& rows, at::IntArrayRef dims, double scale,
//                       at::Tensor& out, Output output);
//     // flat [B * sum(dims)] -> out [B, sum(dims)], contiguous.
//     static void unrecat(const at::Tensor& flat, at::IntArrayRef dims,
//                         at::Tensor& out, Output output);
//   };
#pragma once

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <vector>

#include "recat_checks.h"

namespace torchrec_ascend {

// Whether the caller brought `out` or the operator allocated it.
enum class Output { given, allocated };

template <class Backend>
struct RecatOperators {
  static at::Tensor recat(
      const at::Tensor& grad, at::IntArrayRef dims, double scale,
      std::optional<at::ScalarType> dtype) {
    const at::Tensor rows = checked_rows(grad, dims);
    check_dtype("recat", "dtype", dtype.value_or(grad.scalar_type()));
    at::Tensor out =
        at::empty({rows.numel()}, grad.options().dtype(dtype.value_or(grad.scalar_type())));
    Backend::recat(rows, dims, scale, out, Output::allocated);
    return out;
  }

  static at::Tensor& recat_out(
      const at::Tensor& grad, at::IntArrayRef dims, double scale, at::Tensor& out) {
    const at::Tensor rows = checked_rows(grad, dims);
    check_out("recat", out, "grad", grad, {rows.numel()});
    Backend::recat(rows, dims, scale, out, Output::given);
    return out;
  }

  static at::Tensor unrecat(
      const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size,
      std::optional<at::ScalarType> dtype) {
    const int64_t width = check_flat(flat, dims, batch_size);
    check_dtype("unrecat", "dtype", dtype.value_or(flat.scalar_type()));
    at::Tensor out =
        at::empty({batch_size, width}, flat.options().dtype(dtype.value_or(flat.scalar_type())));
    Backend::unrecat(flat.contiguous(), dims, out, Output::allocated);
    return out;
  }

  static at::Tensor& unrecat_out(
      const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size, at::Tensor& out) {
    const int64_t width = check_flat(flat, dims, batch_size);
    check_out("unrecat", out, "flat", flat, {batch_size, width});
    Backend::unrecat(flat.contiguous(), dims, out, Output::given);
    return out;
  }

  static at::Tensor recat_embedding_grad_output(const at::Tensor& grad, at::IntArrayRef features) {
    const char* op = "recat_embedding_grad_output";
    check_fbgemm_grad(op, grad, 3, "[B, T_global, D]");
    const int64_t total = checked_width(op, "num_features_per_rank", features);
    TORCH_CHECK(
        total == grad.size(1), op, ": num_features_per_rank = ", features, " counts ", total,
        " features, grad_output has ", grad.size(1));
    checked_width(op, "num_features_per_rank", features, grad.size(2));
    std::vector<int64_t> dims(features.begin(), features.end());
    for (int64_t& dim : dims) {
      dim *= grad.size(2);
    }
    at::Tensor out = at::empty({grad.numel()}, grad.options());
    const at::Tensor rows = grad.view({grad.size(0), grad.size(1) * grad.size(2)});
    Backend::recat(rows, dims, 1.0, out, Output::allocated);
    return out;
  }

  static at::Tensor recat_embedding_grad_output_mixed_D(
      const at::Tensor& grad, at::IntArrayRef dims) {
    const char* op = "recat_embedding_grad_output_mixed_D";
    check_fbgemm_grad(op, grad, 2, "[B, sum(dim_sum_per_rank)]");
    check_width(
        op, "dim_sum_per_rank", dims, checked_width(op, "dim_sum_per_rank", dims), grad.size(1));
    at::Tensor out = at::empty({grad.numel()}, grad.options());
    Backend::recat(grad, dims, 1.0, out, Output::allocated);
    return out;
  }

  static void register_own(torch::Library& m) {
    m.impl("recat", &recat);
    m.impl("recat.out", &recat_out);
    m.impl("unrecat", &unrecat);
    m.impl("unrecat.out", &unrecat_out);
  }
};

// Shapes, dtypes and devices of the form whose dims are tensors; their values are the backend's.
inline void check_recat_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets) {
  const char* op = "recat_embedding_grad_output_mixed_D_batch";
  check_fbgemm_grad(op, grad, 2, "[B, sum(dim_sum_per_rank)]");
  check_index(op, "dim_sum_per_rank", dims, grad);
  check_index(op, "cumsum_dim_sum_per_rank", offsets, grad);
  TORCH_CHECK(
      offsets.numel() == dims.numel(),
      op, ": cumsum_dim_sum_per_rank has ", offsets.numel(), " entries, dim_sum_per_rank ",
      dims.numel());
}

} // namespace torchrec_ascend
