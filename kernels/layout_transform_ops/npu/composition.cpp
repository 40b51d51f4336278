#include "composition.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/repeat_interleave.h>

#include <vector>

namespace torchrec_ascend::npu {
namespace {

// cast(values * scale), the product in float32.
at::Tensor converted(const at::Tensor& values, double scale, at::ScalarType dtype) {
  if (scale == 1.0) {
    return values.to(dtype);
  }
  return values.to(at::kFloat).mul(static_cast<double>(static_cast<float>(scale))).to(dtype);
}

// Scatter may change the payload of a NaN; an integer has none.
at::ScalarType integer_of_size(int64_t bytes) {
  return bytes == 2 ? at::kShort : bytes == 4 ? at::kInt : at::kLong;
}

} // namespace

void recat_composed(
    const at::Tensor& rows, at::IntArrayRef dims, double scale, at::Tensor& out) {
  const at::Tensor values = converted(rows, scale, out.scalar_type());
  std::vector<at::Tensor> parts;
  int64_t offset = 0;
  for (const int64_t dim : dims) {
    if (dim > 0) {
      parts.push_back(values.narrow(1, offset, dim).reshape({-1}));
    }
    offset += dim;
  }
  at::cat_out(out, parts);
}

void unrecat_composed(const at::Tensor& flat, at::IntArrayRef dims, at::Tensor& out) {
  const at::Tensor values = converted(flat, 1.0, out.scalar_type());
  const int64_t batch = out.size(0);
  std::vector<at::Tensor> parts;
  int64_t offset = 0;
  for (const int64_t dim : dims) {
    if (dim > 0) {
      parts.push_back(values.narrow(0, batch * offset, batch * dim).view({batch, dim}));
    }
    offset += dim;
  }
  at::cat_out(out, parts, 1);
}

at::Tensor recat_composed_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets) {
  const int64_t batch = grad.size(0);
  const int64_t width = grad.size(1);
  at::Tensor out = at::empty_like(grad).view({-1});
  if (out.numel() == 0) {
    return out;
  }
  // Where column c of row b goes: its rank's segment, then its row there, then its place in the row.
  const at::Tensor dim = at::repeat_interleave(dims, dims, 0, width);
  const at::Tensor offset = at::repeat_interleave(offsets, dims, 0, width);
  const at::Tensor column = at::arange(width, dims.options());
  const at::Tensor row = at::arange(batch, dims.options()).unsqueeze(1);
  const at::Tensor to = row.mul(dim).add(offset.mul(batch - 1).add(column));
  const at::ScalarType integer = integer_of_size(grad.element_size());
  out.view(integer).scatter_(0, to.view({-1}), grad.view({-1}).view(integer));
  return out;
}

} // namespace torchrec_ascend::npu
