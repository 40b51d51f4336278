// What the host hands to the kernel. The names are those of RecatCopyAsync::Problem.
#ifndef RECAT_COPY_ASYNC_TILING_H
#define RECAT_COPY_ASYNC_TILING_H
#include "recat_copy_async_plan.h"
#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(RecatCopyAsyncTilingData)
TILING_DATA_FIELD_DEF(int64_t, batchSize);
TILING_DATA_FIELD_DEF(int64_t, rowElems);
TILING_DATA_FIELD_DEF(int64_t, rankNum);
TILING_DATA_FIELD_DEF(int64_t, rowUnit);
TILING_DATA_FIELD_DEF(int64_t, rowBlocks);
TILING_DATA_FIELD_DEF(int64_t, coreNum);
TILING_DATA_FIELD_DEF(int64_t, tileElems);
TILING_DATA_FIELD_DEF(int64_t, directElems);
TILING_DATA_FIELD_DEF(uint32_t, inverse);
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;

REGISTER_TILING_DATA_CLASS(RecatCopyAsync, RecatCopyAsyncTilingData)

inline void SetTiling(
    const recat::PlanInput& in, const recat::Plan& plan, bool inverse, float scale,
    RecatCopyAsyncTilingData& data) {
  data.set_batchSize(in.batchSize);
  data.set_rowElems(in.rowElems);
  data.set_rankNum(in.rankNum);
  data.set_rowUnit(plan.rowUnit);
  data.set_rowBlocks(plan.rowBlocks);
  data.set_coreNum(plan.coreNum);
  data.set_tileElems(plan.tileElems);
  data.set_directElems(plan.directElems);
  data.set_inverse(inverse ? 1 : 0);
  data.set_scale(scale);
}

}  // namespace optiling
#endif
