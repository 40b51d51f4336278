// Losses, forward and backward.
#include "operator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy.h>
#include <ATen/ops/binary_cross_entropy_backward.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/mse_loss_backward.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/smooth_l1_loss_backward.h>
#include <ATen/ops/soft_margin_loss.h>
#include <ATen/ops/soft_margin_loss_backward.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

using namespace emu;

namespace {

constexpr int64_t kMean = 1;  // at::Reduction::Mean, as torch_npu passes it

// The derivative of the reduction, for a loss of `count` elements.
at::Tensor reduced(const at::Tensor& gradient, int64_t reduction, int64_t count) {
  return reduction == kMean ? gradient / count : gradient;
}

}  // namespace

OPERATOR(
    aclnnBinaryCrossEntropy, In self, In target, Optional<In> weight, int64_t reduction, Out out) {
  write(out, at::binary_cross_entropy(self, target, weight, reduction));
}
OPERATOR(
    aclnnBinaryCrossEntropyBackward, In grad, In self, In target, Optional<In> weight,
    int64_t reduction, Out out) {
  write(out, at::binary_cross_entropy_backward(grad, self, target, weight, reduction));
}
OPERATOR(
    aclnnBinaryCrossEntropyWithLogits, In self, In target, Optional<In> weight,
    Optional<In> pos_weight, int64_t reduction, Out out) {
  write(out, at::binary_cross_entropy_with_logits(self, target, weight, pos_weight, reduction));
}
// As ATen differentiates the forward: the same operations in the same order.
OPERATOR(
    aclnnBinaryCrossEntropyWithLogitsBackward, In grad, In self, In target, Optional<In> weight,
    Optional<In> pos_weight, int64_t reduction, Out out) {
  at::Tensor result;
  if (pos_weight) {
    const at::Tensor t = **pos_weight * *target;
    result = (t + 1 - *target) * at::sigmoid(self) - t;
  } else {
    result = at::sigmoid(self) - *target;
  }
  result = result * *grad;
  if (weight) result = result * **weight;
  write(out, reduced(result, reduction, self->numel()));
}

OPERATOR(aclnnMseLoss, In self, In target, int64_t reduction, Out out) {
  write(out, at::mse_loss(self, target, reduction));
}
OPERATOR(aclnnMseLossBackward, In grad, In self, In target, int64_t reduction, Out out) {
  write(out, at::mse_loss_backward(grad, self, target, reduction));
}
OPERATOR(aclnnL1Loss, In self, In target, int64_t reduction, Out out) {
  write(out, at::l1_loss(self, target, reduction));
}
OPERATOR(aclnnL1LossBackward, In grad, In self, In target, int64_t reduction, Out out) {
  write(out, reduced(at::sign(*self - *target) * *grad, reduction, self->numel()));
}
OPERATOR(aclnnSmoothL1Loss, In self, In target, int64_t reduction, float beta, Out out) {
  write(out, at::smooth_l1_loss(self, target, reduction, beta));
}
OPERATOR(
    aclnnSmoothL1LossBackward, In grad, In self, In target, int64_t reduction, float beta,
    Out out) {
  write(out, at::smooth_l1_loss_backward(grad, self, target, reduction, beta));
}
OPERATOR(aclnnSoftMarginLoss, In self, In target, int64_t reduction, Out out) {
  write(out, at::soft_margin_loss(self, target, reduction));
}
OPERATOR(aclnnSoftMarginLossBackward, In grad, In self, In target, int64_t reduction, Out out) {
  write(out, at::soft_margin_loss_backward(grad, self, target, reduction));
}

OPERATOR(aclnnKlDiv, In self, In target, int64_t reduction, bool log_target, Out out) {
  write(out, at::kl_div(self, target, reduction, log_target));
}
OPERATOR(
    aclnnKlDivBackward, In grad, In self, In target, int64_t reduction, bool log_target, Out out) {
  const at::Tensor result =
      log_target ? -target->exp() * *grad
                 : at::where(*target > 0, -*target * *grad, at::zeros_like(self));
  write(out, reduced(result, reduction, self->numel()));
}

OPERATOR(
    aclnnNLLLoss, In self, In target, Optional<In> weight, int64_t reduction, int64_t ignore_index,
    Out out, Out total_weight) {
  auto [loss, total] = at::nll_loss_forward(self, target, weight, reduction, ignore_index);
  write(out, loss);
  total_weight->copy_(total.reshape(total_weight->sizes()));
}
OPERATOR(
    aclnnNLLLossBackward, In grad, In self, In target, Optional<In> weight, int64_t reduction,
    int64_t ignore_index, In total_weight, Out out) {
  write(out, at::nll_loss_backward(
                 grad, self, target, weight, reduction, ignore_index, total_weight));
}
