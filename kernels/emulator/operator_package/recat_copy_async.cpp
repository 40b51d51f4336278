// aclnnRecatCopyAsync: the operator's own tiling and kernel, on the emulated chip's vector cores.
#include "operator.h"
#include "recat_copy_async_emulated.h"

using namespace emu;

static int dtype(const at::Tensor& tensor, size_t number) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return RECAT_EMULATED_FLOAT32;
    case at::kHalf:
      return RECAT_EMULATED_FLOAT16;
    case at::kBFloat16:
      return RECAT_EMULATED_BFLOAT16;
    default:
      throw BadArgument(number, "of a dtype that the operator is not defined for");
  }
}

// CANN's name for what a package is built for.
static const char* compute_unit(const std::string& soc) {
  if (soc.rfind("Ascend910B", 0) == 0) return "ascend910b";
  if (soc.rfind("Ascend910_93", 0) == 0) return "ascend910_93";
  return "ascend950";
}

OPERATOR(
    aclnnRecatCopyAsync, In grad_output, In dim_sum_per_rank, In cumsum_dim_sum_per_rank,
    int64_t batch_size, bool inverse, double scale, Out sharded_grad_output) {
  if (!recat_emulated_is_for(compute_unit(chip().soc))) {
    throw std::runtime_error("the operator is not defined for " + chip().soc);
  }
  RecatEmulatedCall call = {};
  call.in_dtype = dtype(grad_output, 1);
  call.out_dtype = dtype(sharded_grad_output, 7);
  // CANN makes what is not contiguous so, before the kernel. Our adapter passes nothing of the kind.
  const auto require = [](const at::Tensor& tensor, size_t number) {
    if (!tensor.is_contiguous()) throw BadArgument(number, "not contiguous");
  };
  require(grad_output, 1);
  require(dim_sum_per_rank, 2);
  require(cumsum_dim_sum_per_rank, 3);
  require(sharded_grad_output, 7);
  // What of the shapes is wrong is for the operator's own host functions to say.
  const auto shape = [](const at::Tensor& tensor) {
    return RecatEmulatedShape{tensor.sizes().data(), tensor.dim()};
  };
  const RecatEmulatedShapes shapes = {
      shape(grad_output), shape(dim_sum_per_rank), shape(cumsum_dim_sum_per_rank),
      shape(sharded_grad_output)};
  call.shapes = &shapes;
  call.in = grad_output->const_data_ptr();
  call.dims = dim_sum_per_rank->const_data_ptr<int64_t>();
  call.cumsum = cumsum_dim_sum_per_rank->const_data_ptr<int64_t>();
  call.out = sharded_grad_output->mutable_data_ptr();
  call.batch_size = batch_size;
  call.row_elems = batch_size == 0 ? 0 : grad_output->numel() / batch_size;
  call.rank_num = dim_sum_per_rank->numel();
  call.inverse = inverse;
  call.scale = static_cast<float>(scale);
  call.arch = chip().arch;
  call.cores = chip().vector_cores;
  call.ub_size = static_cast<int64_t>(chip().ub_bytes);
  call.mode = RECAT_EMULATED_RUN;
  if (recat_emulated_run(&call) != 0) {
    throw std::runtime_error(recat_emulated_message());
  }
}
