#include "recat_copy_async.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch_npu/csrc/framework/OpCommand.h>

#include <memory>

#include "operator_package.h"

namespace torchrec_ascend::npu {
namespace {

aclDataType acl_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ACL_FLOAT;
    case at::kHalf:
      return ACL_FLOAT16;
    case at::kBFloat16:
      return ACL_BF16;
    case at::kLong:
      return ACL_INT64;
    default:
      TORCH_INTERNAL_ASSERT(false, "no kernel for ", dtype);
  }
}

// A view of a tensor's memory for CANN; owns nothing of the tensor.
class AclTensor {
 public:
  AclTensor(const RecatCopyAsyncApi& api, const at::Tensor& tensor) : api_(api) {
    const auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
    handle_ = api.create_tensor(
        tensor.sizes().data(), tensor.dim(), acl_dtype(tensor.scalar_type()),
        tensor.strides().data(), tensor.storage_offset(), ACL_FORMAT_ND, &elements, 1,
        const_cast<void*>(tensor.storage().data()));
    TORCH_CHECK(handle_ != nullptr, "aclCreateTensor failed: ", message());
  }
  ~AclTensor() {
    api_.destroy_tensor(handle_);
  }
  AclTensor(const AclTensor&) = delete;
  AclTensor& operator=(const AclTensor&) = delete;
  const aclTensor* get() const {
    return handle_;
  }
  static std::string message() {
    const char* text = aclGetRecentErrMsg();
    return text == nullptr ? "CANN gives no message" : text;
  }

 private:
  const RecatCopyAsyncApi& api_;
  aclTensor* handle_ = nullptr;
};

struct Call {
  Call(
      const RecatCopyAsyncApi& api, const at::Tensor& in, const at::Tensor& dims,
      const at::Tensor& offsets, const at::Tensor& out)
      : in(api, in), dims(api, dims), offsets(api, offsets), out(api, out) {}
  AclTensor in, dims, offsets, out;
};

} // namespace

bool has_kernel(at::ScalarType in, at::ScalarType out) {
  const auto is_16_bit = [](at::ScalarType dtype) {
    return dtype == at::kHalf || dtype == at::kBFloat16;
  };
  if (in == at::kFloat || out == at::kFloat) {
    return (in == at::kFloat || is_16_bit(in)) && (out == at::kFloat || is_16_bit(out));
  }
  return in == out && is_16_bit(in);
}

void recat_copy_async(
    const at::Tensor& in, const at::Tensor& dims, const at::Tensor& offsets, int64_t batch_size,
    bool inverse, double scale, const at::Tensor& out) {
  const RecatCopyAsyncApi& api = operator_package().api;
  const c10::DeviceGuard guard(out.device());
  // false: what torch_npu has queued on the host need not reach the stream first.
  const aclrtStream stream =
      c10_npu::getCurrentNPUStream(out.device().index()).stream(/*need_empty=*/false);
  auto call = std::make_shared<Call>(api, in, dims, offsets, out);
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = api.get_workspace_size(
      call->in.get(), call->dims.get(), call->offsets.get(), batch_size, inverse, scale,
      call->out.get(), &workspace_size, &executor);
  TORCH_CHECK(
      code == 0, "aclnnRecatCopyAsyncGetWorkspaceSize failed (", code, "): ", AclTensor::message());
  void* workspace = nullptr;
  if (workspace_size > 0) {
    // Freed on the host at once; the allocator hands it out again in this stream's order.
    workspace = at::empty({static_cast<int64_t>(workspace_size)}, out.options().dtype(at::kByte))
                    .mutable_data_ptr();
  }
  at_npu::native::OpCommand command;
  command.Name("aclnnRecatCopyAsync");
  command.SetCustomHandler([call, workspace, workspace_size, executor, stream, &api]() -> int {
    const int status = api.run(workspace, workspace_size, executor, stream);
    TORCH_CHECK(
        status == 0, "aclnnRecatCopyAsync failed (", status, "): ", AclTensor::message());
    return status;
  });
  command.Run();
}

} // namespace torchrec_ascend::npu
