// Operators on lists of tensors, as the optimizers use them. An operator with a number takes it as
// an aclScalar in its V2; the older one, for a tensor, is never called where V2 exists: left out.
#include "operator.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/div.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

using namespace emu;

namespace {

// out[i] = value(i). The lists may be the same tensors.
void each(const Tensors& out, const auto& value) {
  for (size_t i = 0; i < out.size(); ++i) write(out[i], value(i));
}

}  // namespace

#define UNARY(Name, function)                                 \
  OPERATOR(aclnnForeach##Name, Tensors self, Tensors out) {   \
    each(out, [&](size_t i) { return at::function(self[i]); }); \
  }
#define LISTS(Name, function)                                              \
  OPERATOR(aclnnForeach##Name##List, Tensors self, Tensors other, Tensors out) { \
    each(out, [&](size_t i) { return at::function(self[i], other[i]); });  \
  }
#define LISTS_WITH_ALPHA(Name, function)                                                       \
  OPERATOR(aclnnForeach##Name##ListV2, Tensors self, Tensors other, Number alpha, Tensors out) { \
    each(out, [&](size_t i) { return at::function(self[i], other[i], alpha); });               \
  }
// With one number for all, and with one for each.
#define NUMBER(Name, function)                                                        \
  OPERATOR(aclnnForeach##Name##ScalarV2, Tensors self, Number other, Tensors out) {   \
    each(out, [&](size_t i) { return at::function(self[i], *other); });               \
  }                                                                                   \
  OPERATOR(aclnnForeach##Name##ScalarList, Tensors self, Numbers other, Tensors out) { \
    each(out, [&](size_t i) { return at::function(self[i], other.at(i)); });          \
  }
// The numbers of a list come as a tensor on the device here.
#define TERNARY(Name, function)                                                                  \
  OPERATOR(                                                                                      \
      aclnnForeach##Name##ScalarV2, Tensors self, Tensors a, Tensors b, Number n, Tensors out) { \
    each(out, [&](size_t i) { return at::function(self[i], a[i], b[i], n); });                   \
  }                                                                                              \
  OPERATOR(                                                                                      \
      aclnnForeach##Name##ScalarList, Tensors self, Tensors a, Tensors b, In n, Tensors out) {   \
    each(out, [&](size_t i) { return at::function(self[i], a[i], b[i], (*n)[i].item()); });      \
  }

UNARY(Abs, abs)
UNARY(Acos, acos)
UNARY(Asin, asin)
UNARY(Atan, atan)
UNARY(Cos, cos)
UNARY(Cosh, cosh)
UNARY(Erf, erf)
UNARY(Erfc, erfc)
UNARY(Exp, exp)
UNARY(Expm1, expm1)
UNARY(Log, log)
UNARY(Log10, log10)
UNARY(Log1p, log1p)
UNARY(Log2, log2)
UNARY(Neg, neg)
UNARY(Reciprocal, reciprocal)
UNARY(Sigmoid, sigmoid)
UNARY(Sign, sign)
UNARY(Sin, sin)
UNARY(Sinh, sinh)
UNARY(Sqrt, sqrt)
UNARY(Tan, tan)
UNARY(Tanh, tanh)

LISTS_WITH_ALPHA(Add, add)
LISTS_WITH_ALPHA(Sub, sub)
LISTS(Mul, mul)
LISTS(Div, div)
LISTS(Pow, pow)
LISTS(Maximum, maximum)
LISTS(Minimum, minimum)

NUMBER(Add, add)
NUMBER(Sub, sub)
NUMBER(Mul, mul)
NUMBER(Div, div)
NUMBER(Pow, pow)
NUMBER(Maximum, clamp_min)
NUMBER(Minimum, clamp_max)

TERNARY(Addcmul, addcmul)
TERNARY(Addcdiv, addcdiv)

OPERATOR(aclnnForeachPowScalarAndTensor, Number self, Tensors exponent, Tensors out) {
  each(out, [&](size_t i) { return at::pow(*self, exponent[i]); });
}
OPERATOR(aclnnForeachLerpList, Tensors self, Tensors end, Tensors weight, Tensors out) {
  each(out, [&](size_t i) { return at::lerp(self[i], end[i], weight[i]); });
}
OPERATOR(aclnnForeachLerpScalar, Tensors self, Tensors end, Number weight, Tensors out) {
  each(out, [&](size_t i) { return at::lerp(self[i], end[i], weight); });
}
OPERATOR(aclnnForeachNorm, Tensors self, Number p, Tensors out) {
  each(out, [&](size_t i) { return at::linalg_vector_norm(self[i], p); });
}
OPERATOR(aclnnForeachCopy, Tensors source, Tensors out) {
  for (size_t i = 0; i < out.size(); ++i) out[i].copy_(source[i]);
}
OPERATOR(aclnnForeachZeroInplace, Tensors self) {
  for (const at::Tensor& tensor : self) tensor.zero_();
}

OPERATOR(aclnnForeachRoundOffNumberV2, Tensors self, Number mode, Tensors out) {
  each(out, [&](size_t i) {
    switch (mode->toLong()) {
      case 1: return at::round(self[i]);
      case 2: return at::floor(self[i]);
      case 3: return at::ceil(self[i]);
      case 5: return at::trunc(self[i]);
      case 7: return at::frac(self[i]);
    }
    throw std::runtime_error("rounding mode " + std::to_string(mode->toLong()));
  });
}
