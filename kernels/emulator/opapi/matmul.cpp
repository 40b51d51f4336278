// Products of matrices. cube_math_type chooses the card's precision: of no effect here.
#include "operator.h"

#include <ATen/ops/addbmm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/addmv.h>
#include <ATen/ops/addr.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>

using namespace emu;

#define PRODUCT(Name, function)                                           \
  OPERATOR(aclnn##Name, In self, In other, Out out, int8_t cube_math_type) { \
    write(out, at::function(self, other));                                \
  }
#define SUM_AND_PRODUCT(Name, function)                                                   \
  OPERATOR(                                                                               \
      aclnn##Name, In self, In a, In b, Number beta, Number alpha, Out out, int8_t math) { \
    write(out, at::function(self, a, b, beta, alpha));                                    \
  }

PRODUCT(Mm, mm)
PRODUCT(Matmul, matmul)
PRODUCT(BatchMatMul, bmm)
PRODUCT(Mv, mv)
SUM_AND_PRODUCT(Addmm, addmm)
SUM_AND_PRODUCT(Addbmm, addbmm)
SUM_AND_PRODUCT(Baddbmm, baddbmm)

OPERATOR(aclnnDot, In self, In other, Out out) { write(out, at::dot(self, other)); }
OPERATOR(
    aclnnInplaceAddmm, Out self, In a, In b, Number beta, Number alpha, int8_t cube_math_type) {
  write(self, at::addmm(self, a, b, beta, alpha));
}
OPERATOR(  // alpha first: not the order of the others
    aclnnAddmv, In self, In mat, In vec, Number alpha, Number beta, Out out, int8_t math) {
  write(out, at::addmv(self, mat, vec, beta, alpha));
}
OPERATOR(aclnnAddr, In self, In a, In b, Number beta, Number alpha, Out out) {
  write(out, at::addr(self, a, b, beta, alpha));
}
OPERATOR(aclnnInplaceAddr, Out self, In a, In b, Number beta, Number alpha) {
  write(self, at::addr(self, a, b, beta, alpha));
}
