// The columns per rank on the device, kept from call to call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace torchrec_ascend::npu {

struct Splits {
  at::Tensor dims;     // int64 [ranks]
  at::Tensor offsets;  // int64 [ranks], exclusive prefix of dims
};

// On `device`, ready for its current stream: copied there once per split and stream, from pinned
// memory and without waiting. dims: not empty, each >= 0, their sum in int64.
Splits device_splits(at::IntArrayRef dims, at::Device device);

} // namespace torchrec_ascend::npu
