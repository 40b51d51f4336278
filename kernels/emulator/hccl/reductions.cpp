// HcclAllReduce, HcclReduce, HcclReduceScatter, HcclReduceScatterV: every rank reduces a part of the
// buffer, then the parts go where they belong.
#include "reduce.h"
#include "sides.h"

#include <cstring>

namespace emu::hccl {
namespace {

Status start_reduce_scatter(const char* function, const Call& call, Side send, void* receive,
                            uint64_t receive_bytes, std::shared_ptr<Communicator> communicator,
                            aclrtStream stream) {
  check_reduction(call.dtype, call.reduce);
  const Side own{receive, same_part(communicator->size(), receive_bytes), call.dtype};
  check_own("sendCounts", "recvCount", send, own, communicator->rank());
  check_buffer("sendBuf", send.buffer, span(send.parts));
  check_buffer("recvBuf", receive, receive_bytes);
  return start(std::move(communicator), stream,
               {function, call, {{receive, receive_bytes}}, [=](Communicator& self) {
                  const std::vector<char> reduced = reduce_own_part(self, call, send);
                  if (!reduced.empty()) std::memcpy(receive, reduced.data(), reduced.size());
                }});
}

}  // namespace
}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count,
                                  HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                  aclrtStream stream) {
  return call("HcclAllReduce", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(count, dataType);
    check_reduction(dataType, op);
    check_buffer("sendBuf", sendBuf, bytes);
    check_buffer("recvBuf", recvBuf, bytes);
    const Call call{HCCL_CMD_ALLREDUCE, dataType, op, kNone, bytes};
    const Parts parts = shares(count, communicator->size(), dataType);
    return start(communicator, stream,
                 {"HcclAllReduce", call, {{recvBuf, bytes}}, [=](Communicator& self) {
                    std::vector<char> reduced =
                        reduce_own_part(self, call, {sendBuf, parts, call.dtype});
                    const Parts own = same_part(self.size(), reduced.size());
                    all_to_all(self, call, {reduced.data(), own, call.dtype},
                               {recvBuf, parts, call.dtype});
                  }});
  });
}

CANN_API HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                               HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream) {
  return call("HcclReduce", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(count, dataType);
    const bool is_root = communicator->rank() == root;
    check_rank("root", root, communicator->size());
    check_reduction(dataType, op);
    check_buffer("sendBuf", sendBuf, bytes);
    if (is_root) check_buffer("recvBuf", recvBuf, bytes);
    const Call call{HCCL_CMD_REDUCE, dataType, op, root, bytes};
    const Parts parts = shares(count, communicator->size(), dataType);
    return start(communicator, stream,
                 {"HcclReduce", call, {{recvBuf, is_root ? bytes : 0}}, [=](Communicator& self) {
                    std::vector<char> reduced =
                        reduce_own_part(self, call, {sendBuf, parts, call.dtype});
                    const Part own{0, reduced.size()};
                    all_to_all(self, call,
                               {reduced.data(), only(root, own, self.size()), call.dtype},
                               {recvBuf, is_root ? parts : Parts(self.size()), call.dtype});
                  }});
  });
}

CANN_API HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount,
                                      HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                      aclrtStream stream) {
  return call("HcclReduceScatter", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(recvCount, dataType);
    return start_reduce_scatter(
        "HcclReduceScatter", {HCCL_CMD_REDUCE_SCATTER, dataType, op, kNone, bytes},
        {sendBuf, equal_parts(communicator->size(), bytes), dataType}, recvBuf, bytes, communicator,
        stream);
  });
}

CANN_API HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts,
                                       const void* sendDispls, void* recvBuf, uint64_t recvCount,
                                       HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                       aclrtStream stream) {
  return call("HcclReduceScatterV", [&] {
    auto communicator = find(comm);
    Parts parts = split_parts("send", sendCounts, sendDispls, communicator->size(), dataType);
    return start_reduce_scatter("HcclReduceScatterV",
                                {HCCL_CMD_REDUCE_SCATTER_V, dataType, op, kNone, kByRank},
                                {sendBuf, std::move(parts), dataType}, recvBuf,
                                bytes_of(recvCount, dataType), communicator, stream);
  });
}
