// Quantisation, and the product with quantised weights.
#include "operator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/round.h>
#include <ATen/ops/stack.h>

using namespace emu;

namespace {

// int4 values, eight in an int32, the first in the lowest bits: [..., n] -> [..., 8 n] in float.
at::Tensor unpacked(const at::Tensor& packed) {
  std::vector<at::Tensor> nibbles;
  for (int64_t i = 0; i < 8; ++i) {
    // Up to the top and down again: the sign comes along.
    nibbles.push_back(packed.bitwise_left_shift(28 - 4 * i).bitwise_right_shift(28));
  }
  return at::stack(nibbles, -1).flatten(-2).to(at::kFloat);
}

// Weights [.., k, n] in float. A transposed view of int32 is packed along k.
at::Tensor weights(const at::Tensor& weight) {
  if (weight.scalar_type() != at::kInt) return weight.to(at::kFloat);
  const bool transposed = weight.stride(-2) == 1 && weight.stride(-1) == weight.size(-2);
  return transposed ? unpacked(weight.transpose(-1, -2)).transpose(-1, -2) : unpacked(weight);
}

// A scale or an offset for each element of weights of k rows: one for all, one a column, or one a
// column and group of `group` rows.
at::Tensor per_weight(const at::Tensor& value, int64_t k, int64_t group) {
  const at::Tensor result = value.to(at::kFloat);
  return group > 0 ? result.repeat_interleave(group, 0).narrow(0, 0, k) : result;
}

void multiply(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale,
    const Optional<In>& offset, const Optional<In>& quant_scale, const Optional<In>& bias,
    int64_t group, const at::Tensor& out) {
  TORCH_CHECK(!quant_scale, "a quantised output (quant_scale) is not emulated");
  at::Tensor w = weights(weight);
  const int64_t k = w.size(-2);
  if (offset) w = w + per_weight(**offset, k, group);
  w = w * per_weight(scale, k, group);
  at::Tensor y = at::matmul(x.to(at::kFloat), w);
  if (bias) y = y + (*bias)->to(at::kFloat);
  write(out, y);
}

at::Tensor quantized(const at::Tensor& scaled, at::ScalarType type) {
  const bool is_signed = type == at::kChar;
  TORCH_CHECK(
      is_signed || type == at::kByte || type == at::kInt, "output type ", type,
      " is not emulated, only int8, uint8 and int32");
  const at::Tensor rounded = at::round(scaled);
  if (type == at::kInt) return rounded.to(type);
  return (is_signed ? at::clamp(rounded, -128, 127) : at::clamp(rounded, 0, 255)).to(type);
}

}  // namespace

OPERATOR(
    aclnnWeightQuantBatchMatmulV2, In x, In weight, In scale, Optional<In> offset,
    Optional<In> quant_scale, Optional<In> quant_offset, Optional<In> bias, int group, Out out) {
  multiply(x, weight, scale, offset, quant_scale, bias, group, out);
}
OPERATOR(
    aclnnWeightQuantBatchMatmulV3, In x, In weight, In scale, Optional<In> offset,
    Optional<In> quant_scale, Optional<In> quant_offset, Optional<In> bias, int group,
    int inner_precise, Out out) {
  multiply(x, weight, scale, offset, quant_scale, bias, group, out);
}

// x / scale + zero point; scale and zero point are for one `axis` of x.
OPERATOR(
    aclnnQuantize, In x, In scales, Optional<In> zero_points, Type type, int64_t axis,
    Out out) {
  std::vector<int64_t> shape(x->dim(), 1);
  if (scales->numel() > 1) shape.at(axis < 0 ? axis + x->dim() : axis) = scales->numel();
  at::Tensor scaled = *x / scales->reshape(shape);
  if (zero_points) scaled = at::round(scaled) + (*zero_points)->to(at::kFloat).reshape(shape);
  write(out, quantized(scaled, type));
}

// round(x * scale + offset), along the last dimension.
OPERATOR(
    aclnnAscendQuantV3, In x, In scale, Optional<In> offset, bool sqrt_mode, std::string round_mode,
    Type type, int64_t axis, Out out) {
  TORCH_CHECK(
      !sqrt_mode && round_mode == "round" && axis == -1,
      "only without sqrt_mode, with round_mode \"round\" and axis -1");
  at::Tensor scaled = x->to(at::kFloat) * scale->to(at::kFloat);
  if (offset) scaled = scaled + (*offset)->to(at::kFloat);
  write(out, quantized(scaled, type));
}
// (x + offset) * scale.
OPERATOR(
    aclnnAscendAntiQuant, In x, In scale, Optional<In> offset, Type type, bool sqrt_mode,
    Out out) {
  TORCH_CHECK(!sqrt_mode, "sqrt_mode is not emulated");
  at::Tensor value = x->to(at::kFloat);
  if (offset) value = value + (*offset)->to(at::kFloat);
  write(out, value * scale->to(at::kFloat));
}
