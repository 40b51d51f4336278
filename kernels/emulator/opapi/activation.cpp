// Activations and softmax, forward and backward.
#include "unary.h"

#include <ATen/ops/_add_relu.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_prelu_kernel.h>
#include <ATen/ops/_prelu_kernel_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/elu_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/glu_backward.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardshrink_backward.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardsigmoid_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardswish_backward.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/hardtanh_backward.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/log_sigmoid_backward.h>
#include <ATen/ops/log_sigmoid_forward.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/logit_backward.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mish_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softplus_backward.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/softshrink_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/threshold_backward.h>

using namespace emu;

// `saved` is the forward's input or output, as the function wants it.
#define BACKWARD(Name, function) \
  OPERATOR(aclnn##Name, In grad, In saved, Out out) { write(out, at::function(grad, saved)); }
#define BACKWARD_OF_NUMBER(Name, function)                   \
  OPERATOR(aclnn##Name, In grad, In self, Number n, Out out) { \
    write(out, at::function(grad, self, n));                 \
  }

UNARY(Gelu, gelu)
UNARY(Hardsigmoid, hardsigmoid)
UNARY(Hardswish, hardswish)
UNARY(Mish, mish)
UNARY(Relu, relu)
UNARY(Sigmoid, sigmoid)
UNARY(Silu, silu)
INPLACE(Hardsigmoid, hardsigmoid)
INPLACE(Hardswish, hardswish)
INPLACE(Mish, mish)
INPLACE(Relu, relu)
INPLACE(Sigmoid, sigmoid)
BACKWARD(GeluBackward, gelu_backward)
BACKWARD(HardsigmoidBackward, hardsigmoid_backward)
BACKWARD(HardswishBackwardV2, hardswish_backward)
BACKWARD(MishBackward, mish_backward)
BACKWARD(SigmoidBackward, sigmoid_backward)
BACKWARD(SiluBackward, silu_backward)
BACKWARD(TanhBackward, tanh_backward)
BACKWARD_OF_NUMBER(HardshrinkBackward, hardshrink_backward)
BACKWARD_OF_NUMBER(SoftshrinkBackward, softshrink_backward)
BACKWARD_OF_NUMBER(ThresholdBackward, threshold_backward)

OPERATOR(aclnnAddRelu, In self, In other, Number alpha, Out out) {
  write(out, at::_add_relu(self, other, alpha));
}
OPERATOR(aclnnInplaceAddRelu, Out self, In other, Number alpha) {
  write(self, at::_add_relu(self, other, alpha));
}

OPERATOR(aclnnGeluV2, In self, int64_t tanh, Out out) {
  write(out, at::gelu(self, tanh ? "tanh" : "none"));
}
OPERATOR(aclnnGeluBackwardV2, In grad, In self, std::string approximate, Out out) {
  write(out, at::gelu_backward(grad, self, approximate));
}

OPERATOR(aclnnCelu, In self, Number alpha, Out out) { write(out, at::celu(self, alpha)); }
OPERATOR(aclnnInplaceCelu, Out self, Number alpha) { write(self, at::celu(self, alpha)); }
OPERATOR(aclnnElu, In self, Number alpha, Number scale, Number input_scale, Out out) {
  write(out, at::elu(self, alpha, scale, input_scale));
}
OPERATOR(aclnnInplaceElu, Out self, Number alpha, Number scale, Number input_scale) {
  write(self, at::elu(self, alpha, scale, input_scale));
}
OPERATOR(
    aclnnEluBackward, In grad, Number alpha, Number scale, Number input_scale, bool is_result,
    In self_or_result, Out out) {
  write(out, at::elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result));
}
OPERATOR(aclnnGlu, In self, int64_t dim, Out out) { write(out, at::glu(self, dim)); }
OPERATOR(aclnnGluBackward, In grad, In self, int64_t dim, Out out) {
  write(out, at::glu_backward(grad, self, dim));
}
OPERATOR(aclnnHardshrink, In self, Number n, Out out) { write(out, at::hardshrink(self, n)); }
OPERATOR(aclnnSoftshrink, In self, Number n, Out out) { write(out, at::softshrink(self, n)); }
OPERATOR(aclnnHardtanh, In self, Number min, Number max, Out out) {
  write(out, at::hardtanh(self, min, max));
}
OPERATOR(aclnnInplaceHardtanh, Out self, Number min, Number max) {
  write(self, at::hardtanh(self, min, max));
}
OPERATOR(aclnnHardtanhBackward, In grad, In self, Number min, Number max, Out out) {
  write(out, at::hardtanh_backward(grad, self, min, max));
}
OPERATOR(aclnnLeakyRelu, In self, Number slope, Out out) {
  write(out, at::leaky_relu(self, slope));
}
OPERATOR(aclnnInplaceLeakyRelu, Out self, Number slope) {
  write(self, at::leaky_relu(self, slope));
}
OPERATOR(aclnnLeakyReluBackward, In grad, In self, Number slope, bool is_result, Out out) {
  write(out, at::leaky_relu_backward(grad, self, slope, is_result));
}
OPERATOR(aclnnPrelu, In self, In weight, Out out) { write(out, at::_prelu_kernel(self, weight)); }
OPERATOR(aclnnPreluBackward, In grad, In self, In weight, Out grad_self, Out grad_weight) {
  // One weight per channel, or one for all.
  std::vector<int64_t> shape(self->dim(), 1);
  if (self->dim() > 1) shape[1] = weight->numel();
  auto [of_self, of_weight] = at::_prelu_kernel_backward(grad, self, weight->reshape(shape));
  write(grad_self, of_self);
  write(grad_weight, of_weight.sum_to_size(shape).reshape(weight->sizes()));
}
OPERATOR(aclnnSoftplus, In self, Number beta, Number threshold, Out out) {
  write(out, at::softplus(self, beta, threshold));
}
OPERATOR(aclnnSoftplusBackward, In grad, In self, Number beta, Number threshold, Out out) {
  write(out, at::softplus_backward(grad, self, beta, threshold));
}
OPERATOR(aclnnThreshold, In self, Number threshold, Number value, Out out) {
  write(out, at::threshold(self, threshold, value));
}
OPERATOR(aclnnInplaceThreshold, Out self, Number threshold, Number value) {
  write(self, at::threshold(self, threshold, value));
}
OPERATOR(aclnnLogit, In self, double eps, Out out) {
  write(out, at::logit(self, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}
OPERATOR(aclnnLogitGrad, In self, In grad, double eps, Out out) {
  write(out, at::logit_backward(grad, self, eps < 0 ? std::nullopt : std::optional<double>(eps)));
}
// The buffer is of this library's own making: the backward recomputes what it holds.
OPERATOR(aclnnLogSigmoidForward, In self, Out out, Optional<Out> buffer) {
  write(out, std::get<0>(at::log_sigmoid_forward(self)));
}
OPERATOR(aclnnLogSigmoidBackward, In grad, In self, Optional<In> buffer, Out out) {
  auto [value, saved] = at::log_sigmoid_forward(self);
  write(out, at::log_sigmoid_backward(grad, self, saved));
}

OPERATOR(aclnnSoftmax, In self, int64_t dim, Out out) {
  write(out, at::_softmax(self->to(out->scalar_type()), dim, false));
}
OPERATOR(aclnnSoftmaxBackward, In grad, In output, int64_t dim, Out out) {
  write(out, at::_softmax_backward_data(grad, output, dim, grad->scalar_type()));
}
OPERATOR(aclnnLogSoftmax, In self, int64_t dim, Out out) {
  write(out, at::_log_softmax(self->to(out->scalar_type()), dim, false));
}
OPERATOR(aclnnLogSoftmaxBackward, In grad, In output, int64_t dim, Out out) {
  write(out, at::_log_softmax_backward_data(grad, output, dim, grad->scalar_type()));
}
