// Fused optimizers, and what the gradient scaler uses.
#include "operator.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/add.h>

using namespace emu;

namespace {

// torch_npu passes the number of steps before this one.
at::Tensor this_step(const at::Tensor& before) {
  return at::add(before, 1).to(at::kFloat).reshape({});
}

}  // namespace

OPERATOR(aclnnForeachNonFiniteCheckAndUnscale, Tensors grads, Out found_inf, In inv_scale) {
  at::Tensor found = *found_inf;
  at::_amp_foreach_non_finite_check_and_unscale_(grads, found, inv_scale);
}
OPERATOR(
    aclnnAmpUpdateScale, In scale, In growth_tracker, In found_inf, double growth_factor,
    double backoff_factor, int64_t growth_interval, Out new_scale, Out new_growth_tracker) {
  at::Tensor value = scale->clone();
  at::Tensor tracker = growth_tracker->clone();
  at::_amp_update_scale_(
      value, tracker, found_inf, growth_factor, backoff_factor, growth_interval);
  write(new_scale, value);
  write(new_growth_tracker, tracker);
}

OPERATOR(
    aclnnFusedSgd, Tensors params, Tensors grads, Optional<Tensors> momentum_buffers,
    Optional<In> grad_scale, float weight_decay, float momentum, float lr, float dampening,
    bool nesterov, bool maximize, bool is_first_step) {
  const at::TensorList buffers =
      momentum_buffers ? at::TensorList(*momentum_buffers) : at::TensorList();
  at::_fused_sgd_(
      params, grads, buffers, weight_decay, momentum, lr, dampening, nesterov, maximize,
      is_first_step, grad_scale);
}
// The maxima are not meant without amsgrad, whatever is passed.
OPERATOR(
    aclnnFusedAdam, Tensors params, Tensors grads, Tensors exp_avgs, Tensors exp_avg_sqs,
    Tensors max_exp_avg_sqs, Tensors steps, Optional<In> grad_scale, Optional<In> found_inf,
    double lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad,
    bool maximize) {
  const at::TensorList maxima = amsgrad ? at::TensorList(max_exp_avg_sqs) : at::TensorList();
  std::vector<at::Tensor> these;
  for (const at::Tensor& step : steps) these.push_back(this_step(step));
  at::_fused_adam_(
      params, grads, exp_avgs, exp_avg_sqs, maxima, these, lr, beta1, beta2, weight_decay, eps,
      amsgrad, maximize, grad_scale, found_inf);
}
OPERATOR(
    aclnnApplyAdamWV2, Out param, Out exp_avg, Out exp_avg_sq, Optional<Out> max_exp_avg_sq,
    In grad, In step, float lr, float beta1, float beta2, float weight_decay, float eps,
    bool amsgrad, bool maximize) {
  std::vector<at::Tensor> maxima;
  if (max_exp_avg_sq) maxima.push_back(**max_exp_avg_sq);
  at::_fused_adamw_(
      {*param}, {*grad}, {*exp_avg}, {*exp_avg_sq}, maxima, {this_step(step)}, lr, beta1,
      beta2, weight_decay, eps, amsgrad, maximize);
}
