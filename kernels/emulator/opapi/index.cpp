// Reading and writing at indices. ATen checks that every index is inside; so an index that is not
// fails here too, where a card would read or write other memory.
#include "operator.h"

#include <ATen/ops/gather.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_add.h>
#include <ATen/ops/index_copy.h>
#include <ATen/ops/index_fill.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/put.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/take.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

using namespace emu;

namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

// torch_npu passes a dimension without an index as an empty tensor.
Indices given(const Tensors& indices) {
  Indices result;
  for (const at::Tensor& index : indices) {
    const bool present = index.defined() && index.numel() > 0;
    result.push_back(present ? std::optional(index) : std::nullopt);
  }
  return result;
}

bool any_given(const Tensors& indices) {
  for (const at::Tensor& index : indices) {
    if (index.defined() && index.numel() > 0) return true;
  }
  return false;
}

at::Tensor positions(const Ints& list) {
  return at::tensor(static_cast<const std::vector<int64_t>&>(list), at::kLong);
}

at::Tensor as_long(const at::Tensor& index) { return index.to(at::kLong); }

// torch_npu asks for no other: aclnnScatter replaces, aclnnScatterReduce adds.
void check_reduction(int64_t reduction, int64_t expected) {
  TORCH_CHECK(
      reduction == expected, "reduction ", reduction, " is not emulated, only ", expected);
}

}  // namespace

OPERATOR(aclnnIndexSelect, In self, int64_t dim, In index, Out out) {
  write(out, at::index_select(self, dim, index));
}
OPERATOR(aclnnGather, In self, int64_t dim, In index, Out out) {
  write(out, at::gather(self, dim, as_long(index)));
}
OPERATOR(aclnnTake, In self, In index, Out out) { write(out, at::take(self, as_long(index))); }
OPERATOR(aclnnIndex, In self, Tensors indices, Out out) {
  if (out->numel() > 0) write(out, at::index(self, given(indices)));
}
OPERATOR(aclnnIndexPutImpl, Out self, Tensors indices, In values, bool accumulate, bool unsafe) {
  if (any_given(indices)) self->index_put_(given(indices), values, accumulate);
}
OPERATOR(aclnnInplacePut, Out self, In index, In source, bool accumulate) {
  self->put_(as_long(index), source, accumulate);
}
OPERATOR(aclnnIndexAdd, In self, int64_t dim, In index, In source, Number alpha, Out out) {
  write(out, at::index_add(self, dim, index, source, alpha));
}
OPERATOR(aclnnIndexCopy, In self, int64_t dim, In index, In source, Out out) {
  write(out, at::index_copy(self, dim, as_long(index), source));
}
OPERATOR(aclnnInplaceIndexCopy, Out self, int64_t dim, In index, In source) {
  self->index_copy_(dim, as_long(index), source);
}
OPERATOR(aclnnIndexFill, In self, int64_t dim, In index, Number value, Out out) {
  write(out, at::index_fill(self, dim, as_long(index), value));
}
OPERATOR(aclnnInplaceIndexFill, Out self, int64_t dim, In index, Number value) {
  self->index_fill_(dim, as_long(index), value);
}
OPERATOR(aclnnIndexFillTensor, In self, int64_t dim, Ints index, Number value, Out out) {
  write(out, at::index_fill(self, dim, positions(index), value));
}

OPERATOR(aclnnScatterAdd, In self, int64_t dim, In index, In source, Out out) {
  write(out, at::scatter_add(self, dim, as_long(index), source));
}
OPERATOR(aclnnScatter, In self, int64_t dim, In index, In source, int64_t reduction, Out out) {
  check_reduction(reduction, 0);
  write(out, at::scatter(self, dim, as_long(index), source));
}
OPERATOR(aclnnScatterValue, In self, int64_t dim, In index, Number n, int64_t reduction, Out out) {
  check_reduction(reduction, 0);
  write(out, at::scatter(self, dim, as_long(index), n));
}
OPERATOR(aclnnInplaceScatter, Out self, int64_t dim, In index, In source, int64_t reduction) {
  check_reduction(reduction, 0);
  self->scatter_(dim, as_long(index), source);
}
OPERATOR(aclnnInplaceScatterValue, Out self, int64_t dim, In index, Number n, int64_t reduction) {
  check_reduction(reduction, 0);
  self->scatter_(dim, as_long(index), *n);
}
OPERATOR(
    aclnnScatterReduce, In self, int64_t dim, In index, In source, int64_t reduction,
    bool include_self, Out out) {
  check_reduction(reduction, 1);
  write(out, at::scatter_reduce(self, dim, as_long(index), source, "sum", include_self));
}
OPERATOR(
    aclnnInplaceScatterReduce, Out self, int64_t dim, In index, In source, int64_t reduction,
    bool include_self) {
  check_reduction(reduction, 1);
  self->scatter_reduce_(dim, as_long(index), source, "sum", include_self);
}

OPERATOR(aclnnNonzero, In self, Out out) { write_resized(out, at::nonzero(self)); }
OPERATOR(aclnnNonzeroV2, In self, Out out) { write_resized(out, at::nonzero(self).t()); }

OPERATOR(aclnnOneHot, In self, int64_t classes, In on, In off, int64_t axis, Out out) {
  TORCH_CHECK(axis == -1, "axis ", axis, ", expected -1");
  out->copy_(off->reshape({}).expand(out->sizes()));
  // As on the card, a class outside of [0, classes) sets nothing.
  const at::Tensor valid = self->ge(0).logical_and(self->lt(classes));
  const at::Tensor where = as_long(at::where(valid, self, 0)).unsqueeze(-1);
  const at::Tensor chosen = at::where(valid, on->reshape({}), off->reshape({})).unsqueeze(-1);
  if (self->numel() > 0 && classes > 0) out->scatter_(-1, where, chosen.to(out->scalar_type()));
}
