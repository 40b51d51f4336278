// Functions of one tensor, element by element, and rounding.
#include "unary.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

using namespace emu;

UNARY(Abs, abs)
UNARY(Acos, acos)
UNARY(Acosh, acosh)
UNARY(Asin, asin)
UNARY(Asinh, asinh)
UNARY(Atan, atan)
UNARY(Atanh, atanh)
UNARY(BitwiseNot, bitwise_not)
UNARY(Ceil, ceil)
UNARY(Cos, cos)
UNARY(Cosh, cosh)
UNARY(Erf, erf)
UNARY(Erfc, erfc)
UNARY(Erfinv, erfinv)
UNARY(Exp, exp)
UNARY(Exp2, exp2)
UNARY(Expm1, expm1)
UNARY(Floor, floor)
UNARY(Frac, frac)
UNARY(IsFinite, isfinite)
UNARY(IsNegInf, isneginf)
UNARY(IsPosInf, isposinf)
UNARY(Log, log)
UNARY(Log10, log10)
UNARY(Log1p, log1p)
UNARY(Log2, log2)
UNARY(LogicalNot, logical_not)
UNARY(Neg, neg)
UNARY(Reciprocal, reciprocal)
UNARY(Round, round)
UNARY(Rsqrt, rsqrt)
UNARY(Sign, sign)
UNARY(Signbit, signbit)
UNARY(Sin, sin)
UNARY(Sinc, sinc)
UNARY(Sinh, sinh)
UNARY(Sqrt, sqrt)
UNARY(Tan, tan)
UNARY(Tanh, tanh)
UNARY(Trunc, trunc)

INPLACE(Acos, acos)
INPLACE(Acosh, acosh)
INPLACE(Asin, asin)
INPLACE(Asinh, asinh)
INPLACE(Atan, atan)
INPLACE(Atanh, atanh)
INPLACE(Ceil, ceil)
INPLACE(Cos, cos)
INPLACE(Cosh, cosh)
INPLACE(Erf, erf)
INPLACE(Erfc, erfc)
INPLACE(Erfinv, erfinv)
INPLACE(Exp, exp)
INPLACE(Exp2, exp2)
INPLACE(Expm1, expm1)
INPLACE(Floor, floor)
INPLACE(Frac, frac)
INPLACE(Log, log)
INPLACE(Log10, log10)
INPLACE(Log1p, log1p)
INPLACE(Log2, log2)
INPLACE(LogicalNot, logical_not)
INPLACE(Reciprocal, reciprocal)
INPLACE(Rsqrt, rsqrt)
INPLACE(Sin, sin)
INPLACE(Sinc, sinc)
INPLACE(Sinh, sinh)
INPLACE(Sqrt, sqrt)
INPLACE(Tan, tan)
INPLACE(Tanh, tanh)

OPERATOR(aclnnRoundDecimals, In self, int64_t n, Out out) { write(out, at::round(self, n)); }
OPERATOR(aclnnInplaceRoundDecimals, Out self, int64_t n) { write(self, at::round(self, n)); }

OPERATOR(aclnnNanToNum, In self, float nan, float posinf, float neginf, Out out) {
  write(out, at::nan_to_num(self, nan, posinf, neginf));
}
OPERATOR(aclnnInplaceNanToNum, Out self, float nan, float posinf, float neginf) {
  write(self, at::nan_to_num(self, nan, posinf, neginf));
}
