// One launch of the compiled operator RecatCopyAsync.
#pragma once

#include <ATen/core/Tensor.h>

namespace torchrec_ascend::npu {

// Whether the operator has a kernel from `in` to `out`.
bool has_kernel(at::ScalarType in, at::ScalarType out);

// Queues the copy on the current stream of out's device. All tensors contiguous and on that device,
// out not empty; dims and offsets int64 [ranks]. inverse: flat to rows (unrecat).
//
// Raises c10::Error with CANN's message where CANN refuses the call.
void recat_copy_async(
    const at::Tensor& in, const at::Tensor& dims, const at::Tensor& offsets, int64_t batch_size,
    bool inverse, double scale, const at::Tensor& out);

} // namespace torchrec_ascend::npu
