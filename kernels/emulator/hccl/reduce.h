// Reduction arithmetic. Always in rank order, so that a result never depends on timing.
#pragma once

#include "hccl/hccl_types.h"

#include <cstdint>
#include <vector>

namespace emu::hccl {

// Throws Error where the emulated chip's HCCL does not have the reduction for the dtype.
void check_reduction(uint32_t dtype, uint32_t reduce);

// result[i] = sources[0][i] op sources[1][i] op ..., `count` elements each, one source a rank.
// float16 and bfloat16 accumulate in float32 and are rounded once, integers wrap, a NaN stays.
// `result` may be one of the sources.
void reduce_in_rank_order(void* result, const std::vector<const void*>& sources, uint64_t count,
                          uint32_t dtype, uint32_t reduce);

}  // namespace emu::hccl
