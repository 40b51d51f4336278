// Arithmetic of two tensors, or of a tensor and a number.
#include "operator.h"

#include <ATen/ops/add.h>
#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/gcd.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logaddexp2.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/xlogy.h>

using namespace emu;

// A: the type of the first argument, B: of the second.
#define BINARY(Name, A, B, function) \
  OPERATOR(aclnn##Name, A self, B other, Out out) { write(out, at::function(self, other)); }
#define INPLACE(Name, B, function) \
  OPERATOR(aclnnInplace##Name, Out self, B other) { write(self, at::function(self, other)); }
#define WITH_ALPHA(Name, B, function)                           \
  OPERATOR(aclnn##Name, In self, B other, Number alpha, Out out) { \
    write(out, at::function(self, other, alpha));               \
  }
#define INPLACE_WITH_ALPHA(Name, B, function)                  \
  OPERATOR(aclnnInplace##Name, Out self, B other, Number alpha) { \
    write(self, at::function(self, other, alpha));             \
  }

WITH_ALPHA(Add, In, add)
WITH_ALPHA(Adds, Number, add)
WITH_ALPHA(Sub, In, sub)
WITH_ALPHA(Subs, Number, sub)
WITH_ALPHA(Rsub, In, rsub)
WITH_ALPHA(Rsubs, Number, rsub)
INPLACE_WITH_ALPHA(Add, In, add)
INPLACE_WITH_ALPHA(Adds, Number, add)
INPLACE_WITH_ALPHA(Sub, In, sub)
INPLACE_WITH_ALPHA(Subs, Number, sub)

OPERATOR(aclnnAddV3, Number self, In other, Number alpha, Out out) {
  write(out, at::add(at::mul(other, alpha), self));
}

BINARY(Mul, In, In, mul)
BINARY(Muls, In, Number, mul)
BINARY(Div, In, In, div)
BINARY(Divs, In, Number, div)
BINARY(FloorDivide, In, In, floor_divide)
BINARY(FloorDivides, In, Number, floor_divide)
BINARY(FmodTensor, In, In, fmod)
BINARY(FmodScalar, In, Number, fmod)
BINARY(RemainderTensorTensor, In, In, remainder)
BINARY(RemainderTensorScalar, In, Number, remainder)
BINARY(RemainderScalarTensor, Number, In, remainder)
BINARY(PowTensorTensor, In, In, pow)
BINARY(PowTensorScalar, In, Number, pow)
BINARY(PowScalarTensor, Number, In, pow)
BINARY(Maximum, In, In, maximum)
BINARY(Minimum, In, In, minimum)
BINARY(Atan2, In, In, atan2)
BINARY(Gcd, In, In, gcd)
BINARY(LogAddExp, In, In, logaddexp)
BINARY(LogAddExp2, In, In, logaddexp2)
BINARY(XLogYTensor, In, In, xlogy)
BINARY(XLogYScalarOther, In, Number, xlogy)
BINARY(XLogYScalarSelf, Number, In, xlogy)

INPLACE(Mul, In, mul)
INPLACE(Muls, Number, mul)
INPLACE(Div, In, div)
INPLACE(Divs, Number, div)
INPLACE(FloorDivide, In, floor_divide)
INPLACE(FloorDivides, Number, floor_divide)
INPLACE(FmodTensor, In, fmod)
INPLACE(FmodScalar, Number, fmod)
INPLACE(RemainderTensorTensor, In, remainder)
INPLACE(RemainderTensorScalar, Number, remainder)
INPLACE(PowTensorTensor, In, pow)
INPLACE(PowTensorScalar, Number, pow)
INPLACE(Atan2, In, atan2)
INPLACE(XLogYScalarOther, Number, xlogy)

namespace {

std::optional<std::string_view> rounding(int mode) {
  switch (mode) {
    case 0: return std::nullopt;
    case 1: return "trunc";
    case 2: return "floor";
  }
  throw std::runtime_error("rounding mode " + std::to_string(mode) + ", expected 0, 1 or 2");
}

}  // namespace

OPERATOR(aclnnDivMod, In self, In other, int mode, Out out) {
  write(out, at::div(self, other, rounding(mode)));
}
OPERATOR(aclnnDivMods, In self, Number other, int mode, Out out) {
  write(out, at::div(self, other, rounding(mode)));
}
OPERATOR(aclnnInplaceDivMod, Out self, In other, int mode) {
  write(self, at::div(self, other, rounding(mode)));
}
OPERATOR(aclnnInplaceDivMods, Out self, Number other, int mode) {
  write(self, at::div(self, other, rounding(mode)));
}

BINARY(LogicalAnd, In, In, logical_and)
BINARY(LogicalOr, In, In, logical_or)
BINARY(LogicalXor, In, In, logical_xor)
INPLACE(LogicalAnd, In, logical_and)
INPLACE(LogicalOr, In, logical_or)

BINARY(BitwiseAndTensor, In, In, bitwise_and)
BINARY(BitwiseAndScalar, In, Number, bitwise_and)
BINARY(BitwiseOrTensor, In, In, bitwise_or)
BINARY(BitwiseOrScalar, In, Number, bitwise_or)
BINARY(BitwiseXorTensor, In, In, bitwise_xor)
BINARY(BitwiseXorScalar, In, Number, bitwise_xor)
BINARY(LeftShift, In, In, bitwise_left_shift)
BINARY(LeftShifts, In, Number, bitwise_left_shift)
BINARY(RightShift, In, In, bitwise_right_shift)
INPLACE(BitwiseAndTensor, In, bitwise_and)
INPLACE(BitwiseAndScalar, Number, bitwise_and)
INPLACE(BitwiseXorTensor, In, bitwise_xor)
INPLACE(BitwiseXorScalar, Number, bitwise_xor)

OPERATOR(aclnnClamp, In self, Optional<Number> min, Optional<Number> max, Out out) {
  write(out, at::clamp(self, std::optional<at::Scalar>(min), std::optional<at::Scalar>(max)));
}
OPERATOR(aclnnClampTensor, In self, Optional<In> min, Optional<In> max, Out out) {
  write(out, at::clamp(self, std::optional<at::Tensor>(min), std::optional<at::Tensor>(max)));
}
BINARY(ClampMin, In, Number, clamp_min)
BINARY(ClampMax, In, Number, clamp_max)
BINARY(ClampMinTensor, In, In, clamp_min)
BINARY(ClampMaxTensor, In, In, clamp_max)
INPLACE(ClampMax, Number, clamp_max)
INPLACE(ClampMinTensor, In, clamp_min)
INPLACE(ClampMaxTensor, In, clamp_max)

OPERATOR(aclnnLerp, In self, In end, In w, Out out) { write(out, at::lerp(self, end, w)); }
OPERATOR(aclnnLerps, In self, In end, Number w, Out out) { write(out, at::lerp(self, end, w)); }
OPERATOR(aclnnInplaceLerp, Out self, In end, In w) { write(self, at::lerp(self, end, w)); }
OPERATOR(aclnnInplaceLerps, Out self, In end, Number w) { write(self, at::lerp(self, end, w)); }

OPERATOR(aclnnAddcmul, In self, In a, In b, Number value, Out out) {
  write(out, at::addcmul(self, a, b, value));
}
OPERATOR(aclnnAddcdiv, In self, In a, In b, Number value, Out out) {
  write(out, at::addcdiv(self, a, b, value));
}
OPERATOR(aclnnInplaceAddcmul, Out self, In a, In b, Number value) {
  write(self, at::addcmul(self, a, b, value));
}
OPERATOR(aclnnInplaceAddcdiv, Out self, In a, In b, Number value) {
  write(self, at::addcdiv(self, a, b, value));
}
