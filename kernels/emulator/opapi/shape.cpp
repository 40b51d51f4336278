// Copies, casts, joins, repeats, and tensors made from nothing.
#include "operator.h"

#include <ATen/ops/_chunk_cat.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logspace.h>
#include <ATen/ops/range.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/unfold_backward.h>

using namespace emu;

OPERATOR(aclnnInplaceCopy, Out self, In source) { self->copy_(source); }
OPERATOR(aclnnCast, In self, Type type, Out out) { out->copy_(self); }
OPERATOR(aclnnInplaceFillScalar, Out self, Number value) { self->fill_(value); }
OPERATOR(aclnnInplaceFillTensor, Out self, In value) { self->fill_(value->reshape({})); }
OPERATOR(aclnnInplaceZero, Out self) { self->zero_(); }
OPERATOR(aclnnInplaceOne, Out self) { self->fill_(1); }
OPERATOR(aclnnInplaceFillDiagonal, Out self, Number value, bool wrap) {
  self->fill_diagonal_(value, wrap);
}

OPERATOR(aclnnArange, Number start, Number end, Number step, Out out) {
  write(out, at::arange(start, end, step, out->options()));
}
OPERATOR(aclnnRange, Number start, Number end, Number step, Out out) {
  write(out, at::range(start, end, step, out->options()));
}
OPERATOR(aclnnLinspace, Number start, Number end, int64_t steps, Out out) {
  write(out, at::linspace(start, end, steps, out->options()));
}
OPERATOR(aclnnLogSpace, Number start, Number end, int64_t steps, double base, Out out) {
  write(out, at::logspace(start, end, steps, base, out->options()));
}
OPERATOR(aclnnEye, int64_t n, int64_t m, Out out) { write(out, at::eye(n, m, out->options())); }

OPERATOR(aclnnCat, Tensors tensors, int64_t dim, Out out) {
  write(out, at::cat(at::TensorList(tensors), dim));
}
OPERATOR(aclnnStack, Tensors tensors, int64_t dim, Out out) {
  write(out, at::stack(tensors, dim));
}
OPERATOR(aclnnChunkCat, Tensors tensors, int64_t dim, int64_t chunks, Out out) {
  write(out, at::_chunk_cat(tensors, dim, chunks));
}
OPERATOR(aclnnSplitWithSize, In self, Ints sizes, int64_t dim, Tensors outs) {
  const auto parts = at::split_with_sizes(self, sizes, dim);
  for (size_t i = 0; i < parts.size(); ++i) write(outs[i], parts[i]);
}
OPERATOR(aclnnConstantPadNd, In self, Ints pad, Number value, Out out) {
  write(out, at::constant_pad_nd(self, pad, value));
}

OPERATOR(aclnnFlip, In self, Ints dims, Out out) { write(out, at::flip(self, dims)); }
OPERATOR(aclnnRoll, In self, Ints shifts, Ints dims, Out out) {
  write(out, at::roll(self, shifts, dims));
}
OPERATOR(aclnnTril, In self, int64_t diagonal, Out out) { write(out, at::tril(self, diagonal)); }
OPERATOR(aclnnTriu, In self, int64_t diagonal, Out out) { write(out, at::triu(self, diagonal)); }
OPERATOR(aclnnInplaceTril, Out self, int64_t diagonal) { write(self, at::tril(self, diagonal)); }
OPERATOR(aclnnInplaceTriu, Out self, int64_t diagonal) { write(self, at::triu(self, diagonal)); }

OPERATOR(aclnnRepeat, In self, Ints repeats, Out out) { write(out, self->repeat(repeats)); }
OPERATOR(aclnnRepeatInterleave, In self, In repeats, int64_t output_size, Out out) {
  write(out, at::repeat_interleave(self, repeats, std::nullopt, output_size));
}
OPERATOR(
    aclnnRepeatInterleaveWithDim, In self, In repeats, int64_t dim, int64_t output_size, Out out) {
  write(out, at::repeat_interleave(self, repeats, dim, output_size));
}
OPERATOR(aclnnRepeatInterleaveInt, In self, int64_t repeats, int64_t output_size, Out out) {
  write(out, at::repeat_interleave(self, repeats, std::nullopt, output_size));
}
OPERATOR(
    aclnnRepeatInterleaveIntWithDim, In self, int64_t repeats, int64_t dim, int64_t output_size,
    Out out) {
  write(out, at::repeat_interleave(self, repeats, dim, output_size));
}
OPERATOR(aclnnRepeatInterleaveTensor, In repeats, int64_t output_size, Out out) {
  write(out, at::repeat_interleave(repeats, std::optional<int64_t>(output_size)));
}
OPERATOR(aclnnRepeatInterleaveGrad, In grad, In repeats, int64_t dim, Out out) {
  const at::Tensor source = at::repeat_interleave(repeats->to(at::kLong));
  out->zero_();
  out->index_add_(dim, source, grad);
}
OPERATOR(
    aclnnUnfoldGrad, In grad, Ints input_sizes, int64_t dim, int64_t size, int64_t step, Out out) {
  write(out, at::unfold_backward(grad, input_sizes, dim, size, step));
}
