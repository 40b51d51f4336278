// Sorting, searching, scans, and the sets of distinct values.
#include "operator.h"

#include <ATen/ops/_unique.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/cummin.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/unique_consecutive.h>
#include <ATen/ops/unique_dim.h>

using namespace emu;

OPERATOR(
    aclnnSort, In self, bool stable, int64_t dim, bool descending, Out values, Out indices) {
  write_both(values, indices, at::sort(self, stable, dim, descending));
}
OPERATOR(
    aclnnTopk, In self, int64_t k, int64_t dim, bool largest, bool sorted, Out values,
    Out indices) {
  write_both(values, indices, at::topk(self, k, dim, largest, sorted));
}

OPERATOR(aclnnCumsum, In self, int64_t dim, Type type, Out out) {
  write(out, at::cumsum(self, dim, type));
}
OPERATOR(aclnnCumprod, In self, Number dim, Type type, Out out) {
  write(out, at::cumprod(self, dim->toLong(), type));
}
OPERATOR(aclnnCummax, In self, int64_t dim, Out values, Out indices) {
  write_both(values, indices, at::cummax(self, dim));
}
OPERATOR(aclnnCummin, In self, int64_t dim, Out values, Out indices) {
  write_both(values, indices, at::cummin(self, dim));
}

OPERATOR(aclnnBucketize, In self, In boundaries, bool out_int32, bool right, Out out) {
  write(out, at::bucketize(self, boundaries, out_int32, right));
}
OPERATOR(
    aclnnSearchSorted, In sorted, In self, bool out_int32, bool right, Optional<In> sorter,
    Out out) {
  write(out, at::searchsorted(sorted, self, out_int32, right, std::nullopt, sorter));
}
OPERATOR(
    aclnnSearchSorteds, In sorted, Number self, bool out_int32, bool right, Optional<In> sorter,
    Out out) {
  write(out, at::searchsorted(sorted, *self, out_int32, right, std::nullopt, sorter));
}

OPERATOR(aclnnUnique, In self, bool sorted, bool return_inverse, Out values, Out inverse) {
  auto [distinct, where] = at::_unique(self, sorted, return_inverse);
  write_resized(values, distinct);
  if (return_inverse) write_resized(inverse, where);
}
OPERATOR(
    aclnnUnique2, In self, bool sorted, bool return_inverse, bool return_counts, Out values,
    Out inverse, Out counts) {
  auto [distinct, where, count] = at::_unique2(self, sorted, return_inverse, return_counts);
  write_resized(values, distinct);
  if (return_inverse) write_resized(inverse, where);
  if (return_counts) write_resized(counts, count);
}
OPERATOR(
    aclnnUniqueDim, In self, bool sorted, bool return_inverse, int64_t dim, Out values,
    Out inverse, Out counts) {
  auto [distinct, where, count] = at::unique_dim(self, dim, sorted, return_inverse, true);
  write_resized(values, distinct);
  if (return_inverse) write_resized(inverse, where);
  write_resized(counts, count);
}
OPERATOR(
    aclnnUniqueConsecutive, In self, bool return_inverse, bool return_counts, int64_t dim,
    Out values, Out inverse, Out counts) {
  constexpr int64_t kNoDimension = 1000;
  const auto along = dim == kNoDimension ? std::nullopt : std::optional(dim);
  auto [distinct, where, count] =
      at::unique_consecutive(self, return_inverse, return_counts, along);
  write_resized(values, distinct);
  if (return_inverse) write_resized(inverse, where);
  if (return_counts) write_resized(counts, count);
}
