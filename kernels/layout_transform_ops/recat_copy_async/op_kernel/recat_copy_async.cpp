// Entry of RecatCopyAsync. Tiling key 1: a copy, no bit changes. Key 2: with a scale or a cast.
#include "recat_copy_async_kernel.h"

extern "C" __global__ __aicore__ void recat_copy_async(
    GM_ADDR grad_output, GM_ADDR dim_sum_per_rank, GM_ADDR cumsum_dim_sum_per_rank,
    GM_ADDR sharded_grad_output, GM_ADDR workspace, GM_ADDR tiling) {
  GET_TILING_DATA(data, tiling);
  RecatCopyAsync::Problem problem = {};
  problem.batchSize = data.batchSize;
  problem.rowElems = data.rowElems;
  problem.rankNum = data.rankNum;
  problem.rowUnit = data.rowUnit;
  problem.rowBlocks = data.rowBlocks;
  problem.coreNum = data.coreNum;
  problem.tileElems = data.tileElems;
  problem.directElems = data.directElems;
  problem.inverse = data.inverse != 0;
  problem.scale = data.scale;
  if (TILING_KEY_IS(1)) {
    // Where the sizes differ the host never asks for a copy.
    if constexpr (sizeof(DTYPE_GRAD_OUTPUT) == sizeof(DTYPE_SHARDED_GRAD_OUTPUT)) {
      using T = typename RecatCopyAsync::Payload<sizeof(DTYPE_GRAD_OUTPUT)>::Type;
      RecatCopyAsync::Run<T, T, false>(
          grad_output, dim_sum_per_rank, cumsum_dim_sum_per_rank, sharded_grad_output, problem);
    }
  } else if (TILING_KEY_IS(2)) {
    RecatCopyAsync::Run<DTYPE_GRAD_OUTPUT, DTYPE_SHARDED_GRAD_OUTPUT, true>(
        grad_output, dim_sum_per_rank, cumsum_dim_sum_per_rank, sharded_grad_output, problem);
  }
}
