// recat and unrecat made of stock operators, for where the compiled one is missing. More passes over
// the data than one, and as many small operators as there are ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace torchrec_ascend::npu {

// As a backend of recat_operators.h.
void recat_composed(
    const at::Tensor& rows, at::IntArrayRef dims, double scale, at::Tensor& out);
void unrecat_composed(const at::Tensor& flat, at::IntArrayRef dims, at::Tensor& out);

// dims and offsets (int64 [ranks]) stay on the device: no synchronisation. grad [B, S], contiguous.
at::Tensor recat_composed_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets);

} // namespace torchrec_ascend::npu
