// Where the compiled operator RecatCopyAsync comes from, and CANN's functions to call it with.
#pragma once

#include <acl/acl.h>

#include <cstdint>
#include <string>

struct aclTensor;
struct aclOpExecutor;

namespace torchrec_ascend::npu {

// The functions one call needs, under CANN's names without "acl" and "aclnnRecatCopyAsync". They
// are looked up, not linked: the library loads where the operator package is missing.
struct RecatCopyAsyncApi {
  aclTensor* (*create_tensor)(
      const int64_t* view_dims, uint64_t view_dims_num, aclDataType dtype, const int64_t* strides,
      int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dims_num,
      void* data) = nullptr;
  int (*destroy_tensor)(const aclTensor* tensor) = nullptr;
  int (*get_workspace_size)(
      const aclTensor* grad_output, const aclTensor* dim_sum_per_rank,
      const aclTensor* cumsum_dim_sum_per_rank, int64_t batch_size, bool inverse, double scale,
      const aclTensor* out, uint64_t* workspace_size, aclOpExecutor** executor) = nullptr;
  int (*run)(
      void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) =
      nullptr;
};

struct OperatorPackage {
  bool found = false;
  std::string explanation;  // the library that serves, or what was searched and lacked
  RecatCopyAsyncApi api;
};

// Searched once, on the first call: the vendor folders of ASCEND_CUSTOM_OPP_PATH in their order,
// then vendors/torchrec_ascend beside this library.
const OperatorPackage& operator_package();

} // namespace torchrec_ascend::npu
