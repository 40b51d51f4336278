// HcclAlltoAll, HcclAlltoAllV, HcclAlltoAllVC.
#include "sides.h"

namespace emu::hccl {
namespace {

Status start_all_to_all(const char* function, uint32_t op, uint64_t bytes, Side send, Side receive,
                        std::shared_ptr<Communicator> communicator, aclrtStream stream) {
  check_own("sendCounts", "recvCounts", send, receive, communicator->rank());
  check_buffer("sendBuf", send.buffer, span(send.parts));
  check_buffer("recvBuf", receive.buffer, span(receive.parts));
  check_apart(send.buffer, span(send.parts), receive.buffer, span(receive.parts));
  const Call call{op, kNone, kNone, kNone, bytes};
  return start(std::move(communicator), stream,
               {function, call, regions(receive), [=](Communicator& self) {
                  all_to_all(self, call, send, receive);
                }});
}

}  // namespace
}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType,
                                 const void* recvBuf, uint64_t recvCount, HcclDataType recvType,
                                 HcclComm comm, aclrtStream stream) {
  return call("HcclAlltoAll", [&] {
    auto communicator = find(comm);
    const uint32_t size = communicator->size();
    const uint64_t bytes = bytes_of(sendCount, sendType);
    return start_all_to_all(
        "HcclAlltoAll", HCCL_CMD_ALLTOALL, bytes,
        {const_cast<void*>(sendBuf), equal_parts(size, bytes), sendType},
        {const_cast<void*>(recvBuf), equal_parts(size, bytes_of(recvCount, recvType)), recvType},
        communicator, stream);
  });
}

CANN_API HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                                  HcclDataType sendType, const void* recvBuf,
                                  const void* recvCounts, const void* rdispls,
                                  HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return call("HcclAlltoAllV", [&] {
    auto communicator = find(comm);
    const uint32_t size = communicator->size();
    return start_all_to_all("HcclAlltoAllV", HCCL_CMD_ALLTOALLV, kByRank,
                            {const_cast<void*>(sendBuf),
                             split_parts("send", sendCounts, sdispls, size, sendType), sendType},
                            {const_cast<void*>(recvBuf),
                             split_parts("recv", recvCounts, rdispls, size, recvType), recvType},
                            communicator, stream);
  });
}

CANN_API HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix,
                                   HcclDataType sendType, const void* recvBuf,
                                   HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return call("HcclAlltoAllVC", [&] {
    auto communicator = find(comm);
    if (sendCountMatrix == nullptr) throw Error(HCCL_E_PTR, "sendCountMatrix is null");
    const uint64_t* const matrix = static_cast<const uint64_t*>(sendCountMatrix);
    const uint32_t size = communicator->size();
    const uint32_t rank = communicator->rank();
    std::vector<uint64_t> column;  // what every rank sends to this one
    for (uint32_t sender = 0; sender < size; ++sender) column.push_back(matrix[sender * size + rank]);
    return start_all_to_all(
        "HcclAlltoAllVC", HCCL_CMD_ALLTOALLVC, kByRank,
        {const_cast<void*>(sendBuf),
         split_parts("send", matrix + rank * size, nullptr, size, sendType), sendType},
        {const_cast<void*>(recvBuf), split_parts("recv", column.data(), nullptr, size, recvType),
         recvType},
        communicator, stream);
  });
}
