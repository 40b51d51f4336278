#include "names.h"

#include <algorithm>
#include <cctype>

namespace emu::hccl {

const char* operator_name(uint32_t op) {
  switch (op) {
    case HCCL_CMD_BROADCAST: return "Broadcast";
    case HCCL_CMD_ALLREDUCE: return "AllReduce";
    case HCCL_CMD_REDUCE: return "Reduce";
    case HCCL_CMD_SEND: return "Send";
    case HCCL_CMD_RECEIVE: return "Recv";
    case HCCL_CMD_ALLGATHER: return "AllGather";
    case HCCL_CMD_REDUCE_SCATTER: return "ReduceScatter";
    case HCCL_CMD_ALLTOALLV: return "AlltoAllV";
    case HCCL_CMD_ALLTOALLVC: return "AlltoAllVC";
    case HCCL_CMD_ALLTOALL: return "AlltoAll";
    case HCCL_CMD_SCATTER: return "Scatter";
    case HCCL_CMD_BATCH_SEND_RECV: return "BatchSendRecv";
    case HCCL_CMD_ALLGATHER_V: return "AllGatherV";
    case HCCL_CMD_REDUCE_SCATTER_V: return "ReduceScatterV";
    case HCCL_CMD_INIT: return "communicator set-up";
    case HCCL_CMD_BARRIER: return "Barrier";
    default: return "unknown operator";
  }
}

std::string operator_knob(uint32_t op) {
  std::string name = operator_name(op);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return name;
}

std::string dtype_name(uint32_t dtype) {
  switch (dtype) {
    case HCCL_DATA_TYPE_INT8: return "int8";
    case HCCL_DATA_TYPE_INT16: return "int16";
    case HCCL_DATA_TYPE_INT32: return "int32";
    case HCCL_DATA_TYPE_FP16: return "float16";
    case HCCL_DATA_TYPE_FP32: return "float32";
    case HCCL_DATA_TYPE_INT64: return "int64";
    case HCCL_DATA_TYPE_UINT64: return "uint64";
    case HCCL_DATA_TYPE_UINT8: return "uint8";
    case HCCL_DATA_TYPE_UINT16: return "uint16";
    case HCCL_DATA_TYPE_UINT32: return "uint32";
    case HCCL_DATA_TYPE_FP64: return "float64";
    case HCCL_DATA_TYPE_BFP16: return "bfloat16";
    case HCCL_DATA_TYPE_INT128: return "int128";
    case HCCL_DATA_TYPE_HIF8: return "hif8";
    case HCCL_DATA_TYPE_FP8E4M3: return "float8_e4m3";
    case HCCL_DATA_TYPE_FP8E5M2: return "float8_e5m2";
    case HCCL_DATA_TYPE_FP8E8M0: return "float8_e8m0";
    default: return "dtype " + std::to_string(dtype);
  }
}

uint64_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_UINT8:
    case HCCL_DATA_TYPE_HIF8:
    case HCCL_DATA_TYPE_FP8E4M3:
    case HCCL_DATA_TYPE_FP8E5M2:
    case HCCL_DATA_TYPE_FP8E8M0: return 1;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_UINT16:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_BFP16: return 2;
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_UINT32:
    case HCCL_DATA_TYPE_FP32: return 4;
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64: return 8;
    case HCCL_DATA_TYPE_INT128: return 16;
    default: return 0;
  }
}

std::string reduce_name(uint32_t reduce) {
  switch (reduce) {
    case HCCL_REDUCE_SUM: return "sum";
    case HCCL_REDUCE_PROD: return "prod";
    case HCCL_REDUCE_MAX: return "max";
    case HCCL_REDUCE_MIN: return "min";
    default: return "reduction " + std::to_string(reduce);
  }
}

std::string rank_name(uint32_t rank) { return "rank " + std::to_string(rank); }

const char* result_text(HcclResult result) {
  switch (result) {
    case HCCL_SUCCESS: return "no error";
    case HCCL_E_PARA: return "parameter error";
    case HCCL_E_PTR: return "empty pointer";
    case HCCL_E_MEMORY: return "memory error";
    case HCCL_E_INTERNAL: return "internal error";
    case HCCL_E_NOT_SUPPORT: return "feature not supported";
    case HCCL_E_NOT_FOUND: return "resource not found";
    case HCCL_E_UNAVAIL: return "resource unavailable";
    case HCCL_E_SYSCALL: return "system call error";
    case HCCL_E_TIMEOUT: return "timeout";
    case HCCL_E_OPEN_FILE_FAILURE: return "open file failure";
    case HCCL_E_TCP_CONNECT: return "tcp connect failure";
    case HCCL_E_ROCE_CONNECT: return "roce connect failure";
    case HCCL_E_TCP_TRANSFER: return "tcp transfer failure";
    case HCCL_E_ROCE_TRANSFER: return "roce transfer failure";
    case HCCL_E_RUNTIME: return "runtime api call failure";
    case HCCL_E_DRV: return "driver api call failure";
    case HCCL_E_PROFILING: return "profiling api call failure";
    case HCCL_E_CCE: return "cce api call failure";
    case HCCL_E_NETWORK: return "network api call failure";
    case HCCL_E_AGAIN: return "try again";
    case HCCL_E_REMOTE: return "error on a remote rank";
    case HCCL_E_SUSPENDING: return "communicator is suspending";
    case HCCL_E_OPRETRY_FAIL: return "operator retry failure";
    case HCCL_E_OOM: return "out of memory";
    default: return "unknown error code";
  }
}

}  // namespace emu::hccl
