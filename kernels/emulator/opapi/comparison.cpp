// Comparisons and choice.
#include "operator.h"

#include <ATen/ops/eq.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/fill.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/le.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/masked_scatter.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/where.h>

using namespace emu;

#define COMPARISON(Name, function)                                                             \
  OPERATOR(aclnn##Name##Tensor, In self, In other, Out out) {                                  \
    write(out, at::function(self, other));                                                     \
  }                                                                                            \
  OPERATOR(aclnn##Name##Scalar, In self, Number other, Out out) {                              \
    write(out, at::function(self, other));                                                     \
  }                                                                                            \
  OPERATOR(aclnnInplace##Name##Tensor, Out self, In other) {                                   \
    write(self, at::function(self, other));                                                    \
  }                                                                                            \
  OPERATOR(aclnnInplace##Name##Scalar, Out self, Number other) {                               \
    write(self, at::function(self, other));                                                    \
  }

COMPARISON(Eq, eq)
COMPARISON(Ne, ne)
COMPARISON(Gt, gt)
COMPARISON(Ge, ge)
COMPARISON(Lt, lt)
COMPARISON(Le, le)

OPERATOR(aclnnEqual, In self, In other, Out out) { out->fill_(at::equal(self, other)); }
OPERATOR(aclnnIsClose, In self, In other, double rtol, double atol, bool equal_nan, Out out) {
  write(out, at::isclose(self, other, rtol, atol, equal_nan));
}
OPERATOR(aclnnIsInScalarTensor, Number x, In set, bool unique, bool invert, Out out) {
  write(out, at::isin(x, set, unique, invert));
}
OPERATOR(aclnnIsInTensorScalar, In x, Number one, bool unique, bool invert, Out out) {
  write(out, at::isin(x, one, unique, invert));
}
OPERATOR(aclnnSWhere, In condition, In self, In other, Out out) {
  write(out, at::where(condition->to(at::kBool), self, other));
}
OPERATOR(aclnnInplaceMaskedFillScalar, Out self, In mask, Number value) {
  self->masked_fill_(mask, value);
}
OPERATOR(aclnnInplaceMaskedFillTensor, Out self, In mask, In value) {
  self->masked_fill_(mask, value->reshape({}));
}
OPERATOR(aclnnInplaceMaskedScatter, Out self, In mask, In source) {
  self->masked_scatter_(mask->to(at::kBool), source);
}
OPERATOR(aclnnMaskedSelect, In self, In mask, Out out) {
  write_resized(out, at::masked_select(self, mask->to(at::kBool)));
}
