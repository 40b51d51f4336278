// HcclAllGather, HcclAllGatherV, HcclBroadcast, HcclScatter, HcclBarrier.
#include "sides.h"

namespace emu::hccl {
namespace {

Status start_all_gather(const char* function, const Call& call, void* send, uint64_t send_bytes,
                        Side receive, std::shared_ptr<Communicator> communicator,
                        aclrtStream stream) {
  const Side out{send, same_part(communicator->size(), send_bytes), call.dtype};
  check_own("sendCount", "recvCounts", out, receive, communicator->rank());
  check_buffer("sendBuf", send, send_bytes);
  check_buffer("recvBuf", receive.buffer, span(receive.parts));
  return start(std::move(communicator), stream,
               {function, call, regions(receive), [=](Communicator& self) {
                  all_to_all(self, call, out, receive);
                }});
}

}  // namespace
}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount,
                                  HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  return call("HcclAllGather", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(sendCount, dataType);
    return start_all_gather("HcclAllGather", {HCCL_CMD_ALLGATHER, dataType, kNone, kNone, bytes},
                            sendBuf, bytes,
                            {recvBuf, equal_parts(communicator->size(), bytes), dataType},
                            communicator, stream);
  });
}

CANN_API HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf,
                                   const void* recvCounts, const void* recvDispls,
                                   HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  return call("HcclAllGatherV", [&] {
    auto communicator = find(comm);
    Parts parts = split_parts("recv", recvCounts, recvDispls, communicator->size(), dataType);
    return start_all_gather("HcclAllGatherV",
                            {HCCL_CMD_ALLGATHER_V, dataType, kNone, kNone, kByRank}, sendBuf,
                            bytes_of(sendCount, dataType), {recvBuf, std::move(parts), dataType},
                            communicator, stream);
  });
}

CANN_API HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root,
                                  HcclComm comm, aclrtStream stream) {
  return call("HcclBroadcast", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(count, dataType);
    const uint32_t size = communicator->size();
    const bool is_root = communicator->rank() == root;
    check_rank("root", root, size);
    check_buffer("buf", buf, bytes);
    Parts out = is_root ? same_part(size, bytes) : Parts(size);
    out[root] = {};
    const Parts in = is_root ? Parts(size) : only(root, {0, bytes}, size);
    const Call call{HCCL_CMD_BROADCAST, dataType, kNone, root, bytes};
    return start(communicator, stream,
                 {"HcclBroadcast", call, {{buf, is_root ? 0 : bytes}}, [=](Communicator& self) {
                    all_to_all(self, call, {buf, out, call.dtype}, {buf, in, call.dtype});
                  }});
  });
}

CANN_API HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount,
                                HcclDataType dataType, uint32_t root, HcclComm comm,
                                aclrtStream stream) {
  return call("HcclScatter", [&] {
    auto communicator = find(comm);
    const uint64_t bytes = bytes_of(recvCount, dataType);
    const uint32_t size = communicator->size();
    check_rank("root", root, size);
    const Parts out = communicator->rank() == root ? equal_parts(size, bytes) : Parts(size);
    const Parts in = only(root, {0, bytes}, size);
    check_buffer("sendBuf", sendBuf, span(out));
    check_buffer("recvBuf", recvBuf, bytes);
    const Call call{HCCL_CMD_SCATTER, dataType, kNone, root, bytes};
    return start(communicator, stream,
                 {"HcclScatter", call, {{recvBuf, bytes}}, [=](Communicator& self) {
                    all_to_all(self, call, {sendBuf, out, call.dtype}, {recvBuf, in, call.dtype});
                  }});
  });
}

CANN_API HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return call("HcclBarrier", [&] {
    auto communicator = find(comm);
    const Call call{.op = HCCL_CMD_BARRIER};
    return start(communicator, stream, {"HcclBarrier", call, {}, [=](Communicator& self) {
                   const Side nothing{nullptr, Parts(self.size()), kNone};
                   all_to_all(self, call, nothing, nothing);
                 }});
  });
}
