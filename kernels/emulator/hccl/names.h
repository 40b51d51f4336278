// Names and sizes of HCCL's enumerations.
#pragma once

#include "hccl/hccl_types.h"

#include <cstdint>
#include <string>

namespace emu::hccl {

// "AllReduce" for HCCL_CMD_ALLREDUCE.
const char* operator_name(uint32_t op);

// "alltoallv" for HCCL_CMD_ALLTOALLV, as a fault knob spells it.
std::string operator_knob(uint32_t op);

// "float32"; "dtype 99" for one that HCCL does not have.
std::string dtype_name(uint32_t dtype);

// Bytes of an element; 0 for a dtype that HCCL does not have.
uint64_t dtype_bytes(uint32_t dtype);

// "sum"; "reduction 99" for one that HCCL does not have.
std::string reduce_name(uint32_t reduce);

// "rank 2"
std::string rank_name(uint32_t rank);

const char* result_text(HcclResult result);

}  // namespace emu::hccl
