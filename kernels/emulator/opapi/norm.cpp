// Normalisation layers.
#include "operator.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>

#include <ATen/TensorOperators.h>

using namespace emu;

namespace {

// The last dimensions of `input`, as many as `gamma` has.
std::vector<int64_t> last_dims(const at::Tensor& input, const at::Tensor& gamma) {
  std::vector<int64_t> dims;
  for (int64_t d = input.dim() - gamma.dim(); d < input.dim(); ++d) dims.push_back(d);
  return dims;
}

void write_if_given(const Optional<Out>& out, const at::Tensor& value) {
  if (out) write(*out, value);
}

}  // namespace

OPERATOR(
    aclnnLayerNorm, In input, Ints shape, Optional<In> weight, Optional<In> bias, double eps,
    Out out, Out mean, Out rstd) {
  auto [value, value_mean, value_rstd] =
      at::native_layer_norm(input, shape, weight, bias, eps);
  write(out, value);
  // Of an input without elements they come without its dimensions.
  write(mean, value_mean.reshape(mean->sizes()));
  write(rstd, value_rstd.reshape(rstd->sizes()));
}
OPERATOR(
    aclnnLayerNormBackward, In grad, In input, Ints shape, In mean, In rstd, Optional<In> weight,
    Optional<In> bias, Flags wanted, Optional<Out> grad_input, Optional<Out> grad_weight,
    Optional<Out> grad_bias) {
  const auto type = input->scalar_type();
  auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(
      grad, input, shape, mean->to(type), rstd->to(type), weight, bias, wanted);
  write_if_given(grad_input, of_input);
  write_if_given(grad_weight, of_weight);
  write_if_given(grad_bias, of_bias);
}

OPERATOR(
    aclnnGroupNorm, In input, Optional<In> weight, Optional<In> bias, int64_t n, int64_t c,
    int64_t hxw, int64_t group, double eps, Out out, Out mean, Out rstd) {
  auto [value, value_mean, value_rstd] =
      at::native_group_norm(input, weight, bias, n, c, hxw, group, eps);
  write(out, value);
  write(mean, value_mean);
  write(rstd, value_rstd);
}
OPERATOR(
    aclnnGroupNormBackward, In grad, In input, In mean, In rstd, Optional<In> weight, int64_t n,
    int64_t c, int64_t hxw, int64_t group, Flags wanted, Optional<Out> grad_input,
    Optional<Out> grad_weight, Optional<Out> grad_bias) {
  auto [of_input, of_weight, of_bias] = at::native_group_norm_backward(
      grad, input, mean, rstd, weight, n, c, hxw, group, wanted);
  write_if_given(grad_input, of_input);
  write_if_given(grad_weight, of_weight);
  write_if_given(grad_bias, of_bias);
}

OPERATOR(
    aclnnBatchNorm, In input, Optional<In> weight, Optional<In> bias, Optional<In> running_mean,
    Optional<In> running_var, bool training, double momentum, double eps, Out out, Out save_mean,
    Out save_rstd) {
  auto [value, mean, rstd] = at::native_batch_norm(
      input, weight, bias, running_mean, running_var, training, momentum, eps);
  write(out, value);
  if (training) {
    write(save_mean, mean);
    write(save_rstd, rstd);
  }
}
OPERATOR(
    aclnnBatchNormBackward, In grad, In input, Optional<In> weight, Optional<In> running_mean,
    Optional<In> running_var, Optional<In> mean, Optional<In> rstd, bool training, double eps,
    Flags wanted, Optional<Out> grad_input, Optional<Out> grad_weight, Optional<Out> grad_bias) {
  auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
      grad, input, weight, running_mean, running_var, mean, rstd, training, eps, wanted);
  write_if_given(grad_input, of_input);
  write_if_given(grad_weight, of_weight);
  write_if_given(grad_bias, of_bias);
}

// x / rms(x) * gamma over the last dimensions, those of gamma.
OPERATOR(aclnnRmsNorm, In input, In gamma, double eps, Out out, Out rstd) {
  const std::vector<int64_t> dims = last_dims(input, gamma);
  const at::Tensor x = input->to(at::kFloat);
  const at::Tensor scale = at::rsqrt(at::mean(x * x, dims, true) + eps);
  write(out, x * scale * gamma->to(at::kFloat));
  write(rstd, scale);
}
OPERATOR(aclnnRmsNormGrad, In grad, In input, In rstd, In gamma, Out grad_input, Out grad_gamma) {
  const std::vector<int64_t> dims = last_dims(input, gamma);
  const at::Tensor dy = grad->to(at::kFloat);
  const at::Tensor normal = input->to(at::kFloat) * *rstd;
  const at::Tensor scaled = dy * gamma->to(at::kFloat);
  write(grad_input, (scaled - normal * at::mean(scaled * normal, dims, true)) * *rstd);
  write(grad_gamma, (dy * normal).sum_to_size(gamma->sizes()));
}
