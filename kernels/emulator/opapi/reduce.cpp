// Reductions. An empty list of dimensions means all of them.
#include "operator.h"

#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/kthvalue.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/median.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/renorm.h>
#include <ATen/ops/std.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/trace.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_mean.h>

using namespace emu;

OPERATOR(aclnnReduceSum, In self, Ints dims, bool keepdim, Type type, Out out) {
  write(out, at::sum(self, dims, keepdim, type));
}
OPERATOR(aclnnReduceNansum, In self, Ints dims, bool keepdim, Type type, Out out) {
  write(out, at::nansum(self, dims, keepdim, type));
}
OPERATOR(aclnnMean, In self, Ints dims, bool keepdim, Type type, Out out) {
  write(out, at::mean(self, dims, keepdim, type));
}
OPERATOR(aclnnProd, In self, Type type, Out out) { write(out, at::prod(self, type)); }
OPERATOR(aclnnProdDim, In self, int64_t dim, bool keepdim, Type type, Out out) {
  write(out, at::prod(self, dim, keepdim, type));
}
OPERATOR(aclnnLogSumExp, In self, Ints dims, bool keepdim, Out out) {
  write(out, at::logsumexp(self, dims, keepdim));
}
OPERATOR(aclnnTrace, In self, Out out) { write(out, at::trace(self)); }

OPERATOR(aclnnMax, In self, Out out) { write(out, at::max(self)); }
OPERATOR(aclnnMin, In self, Out out) { write(out, at::min(self)); }
OPERATOR(aclnnAmax, In self, Ints dims, bool keepdim, Out out) {
  write(out, at::amax(self, dims, keepdim));
}
OPERATOR(aclnnAmin, In self, Ints dims, bool keepdim, Out out) {
  write(out, at::amin(self, dims, keepdim));
}
OPERATOR(aclnnAminmax, In self, Ints dims, bool keepdim, Out min, Out max) {
  write(min, at::amin(self, dims, keepdim));
  write(max, at::amax(self, dims, keepdim));
}
OPERATOR(aclnnAminmaxAll, In self, Out min, Out max) {
  write(min, at::min(self));
  write(max, at::max(self));
}
OPERATOR(aclnnAminmaxDim, In self, int64_t dim, bool keepdim, Out min, Out max) {
  write(min, at::amin(self, dim, keepdim));
  write(max, at::amax(self, dim, keepdim));
}
OPERATOR(aclnnMaxDim, In self, int64_t dim, bool keepdim, Out values, Out indices) {
  write_both(values, indices, at::max(self, dim, keepdim));
}
OPERATOR(aclnnMinDim, In self, int64_t dim, bool keepdim, Out values, Out indices) {
  write_both(values, indices, at::min(self, dim, keepdim));
}
OPERATOR(aclnnArgMax, In self, int64_t dim, bool keepdim, Out out) {
  write(out, at::argmax(self, dim, keepdim));
}
OPERATOR(aclnnArgMin, In self, int64_t dim, bool keepdim, Out out) {
  write(out, at::argmin(self, dim, keepdim));
}
OPERATOR(aclnnMedian, In self, Out out) { write(out, at::median(self)); }
OPERATOR(aclnnNanMedian, In self, Out out) { write(out, at::nanmedian(self)); }
OPERATOR(aclnnMedianDim, In self, int64_t dim, bool keepdim, Out values, Out indices) {
  write_both(values, indices, at::median(self, dim, keepdim));
}
OPERATOR(aclnnNanMedianDim, In self, int64_t dim, bool keepdim, Out values, Out indices) {
  write_both(values, indices, at::nanmedian(self, dim, keepdim));
}
OPERATOR(aclnnKthvalue, In self, int64_t k, int64_t dim, bool keepdim, Out values, Out indices) {
  write_both(values, indices, at::kthvalue(self, k, dim, keepdim));
}

OPERATOR(aclnnAll, In self, Ints dims, bool keepdim, Out out) {
  write(out, dims.empty() ? at::all(self) : at::all(self, dims, keepdim));
}
OPERATOR(aclnnAny, In self, Ints dims, bool keepdim, Out out) {
  write(out, dims.empty() ? at::any(self) : at::any(self, dims, keepdim));
}

OPERATOR(aclnnStd, In self, Ints dims, int64_t correction, bool keepdim, Out out) {
  write(out, at::std(self, dims, correction, keepdim));
}
OPERATOR(aclnnVarCorrection, In self, Ints dims, int64_t correction, bool keepdim, Out out) {
  write(out, at::var(self, dims, correction, keepdim));
}
OPERATOR(
    aclnnStdMeanCorrection, In self, Ints dims, int64_t correction, bool keepdim, Out std,
    Out mean) {
  write_both(std, mean, at::std_mean(self, dims, correction, keepdim));
}
OPERATOR(aclnnVarMean, In self, Ints dims, int64_t correction, bool keepdim, Out var, Out mean) {
  write_both(var, mean, at::var_mean(self, dims, correction, keepdim));
}

OPERATOR(aclnnNorm, In self, Number p, Ints dims, bool keepdim, Out out) {
  write(out, at::norm(self, *p, dims, keepdim));
}
OPERATOR(
    aclnnLinalgVectorNorm, In self, Number p, Ints dims, bool keepdim, Type type, Out out) {
  write(out, at::linalg_vector_norm(self, p, dims, keepdim, type));
}
OPERATOR(aclnnRenorm, In self, Number p, int64_t dim, Number max, Out out) {
  write(out, at::renorm(self, p, dim, max));
}
OPERATOR(aclnnInplaceRenorm, Out self, Number p, int64_t dim, Number max) {
  write(self, at::renorm(self, p, dim, max));
}

OPERATOR(aclnnBincount, In self, Optional<In> weights, int64_t minlength, Out out) {
  write(out, at::bincount(self, weights, minlength));
}
OPERATOR(aclnnHistc, In self, int64_t bins, Number min, Number max, Out out) {
  // ATen's CPU kernel takes floating-point input only.
  const at::Tensor values =
      self->is_floating_point() ? *self : self->to(at::kDouble);
  write(out, at::histc(values, bins, min, max).to(out->scalar_type()));
}
