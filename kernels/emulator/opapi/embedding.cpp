// Embedding tables.
#include "operator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_embedding_bag.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/embedding_renorm.h>
#include <ATen/ops/searchsorted.h>

using namespace emu;

namespace {

constexpr int64_t kMaxMode = 2;

// ATen's backward skips a row that the table does not have; a card would write past the table.
void check_rows(const at::Tensor& indices, int64_t rows) {
  if (indices.numel() == 0) return;
  const auto least = indices.min().item<int64_t>();
  const auto most = indices.max().item<int64_t>();
  TORCH_CHECK(
      least >= 0 && most < rows, "index out of range: ", least < 0 ? least : most,
      " in a table of ", rows, " rows");
}

// The bag of each index, for bags that start at `offsets`.
at::Tensor bags(const at::Tensor& offsets, int64_t count) {
  return at::searchsorted(offsets, at::arange(count, offsets.options()), false, true) - 1;
}

// Some of the outputs are empty where torch_npu does not need them.
void write_if_wanted(const Out& out, const at::Tensor& value) {
  if (out->numel() > 0) out->copy_(value.narrow(0, 0, out->size(0)));
}

}  // namespace

OPERATOR(aclnnEmbedding, In weight, In indices, Out out) {
  write(out, at::embedding(weight, indices));
}
OPERATOR(
    aclnnEmbeddingDenseBackward, In grad, In indices, int64_t rows, int64_t padding_idx,
    bool scale_grad_by_freq, Out out) {
  check_rows(indices, rows);
  write(out, at::embedding_dense_backward(grad, indices, rows, padding_idx, scale_grad_by_freq));
}
OPERATOR(aclnnEmbeddingRenorm, Out self, In indices, double max_norm, double norm_type) {
  check_rows(indices, self->size(0));
  at::Tensor table = *self;
  at::embedding_renorm_(table, indices, max_norm, norm_type);
}

OPERATOR(
    aclnnEmbeddingBag, In weight, In indices, In offsets, bool scale_grad_by_freq, int64_t mode,
    bool sparse, Optional<In> per_sample_weights, bool include_last_offset, int64_t padding_idx,
    Out out, Out offset2bag, Out bag_size, Out max_indices) {
  check_rows(indices, weight->size(0));
  const auto [pooled, unused_bag, unused_size, maxima] = at::_embedding_bag(
      weight, indices, offsets, scale_grad_by_freq, mode, false, per_sample_weights,
      include_last_offset, padding_idx);
  write(out, pooled);

  const int64_t count = out->size(0);
  const at::Tensor starts = offsets->narrow(0, 0, count).to(at::kLong);
  const at::Tensor bag = bags(starts, indices->numel());
  write_if_wanted(offset2bag, bag);
  const at::Tensor pooled_ids = padding_idx < 0 ? bag : bag.masked_select(indices->ne(padding_idx));
  write_if_wanted(bag_size, at::bincount(pooled_ids, {}, bag_size->numel()));
  if (mode == kMaxMode) write_if_wanted(max_indices, maxima);
}
