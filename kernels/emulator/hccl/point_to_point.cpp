// HcclSend, HcclRecv, HcclBatchSendRecv, and groups, whose sends and receives make one exchange.
#include "exchange.h"
#include "operation.h"

namespace emu::hccl {
namespace {

struct Message {
  bool sends = false;
  uint32_t peer = 0;
  Transfer part;
};

struct Pending {
  std::shared_ptr<Communicator> communicator;
  aclrtStream stream = nullptr;
  Message message;
};

struct Group {
  int depth = 0;
  std::vector<Pending> pending;
};

thread_local Group group;

Message checked(bool sends, void* buffer, uint64_t count, uint32_t dtype, uint32_t peer,
                const Communicator& communicator) {
  const uint64_t bytes = bytes_of(count, dtype);
  check_rank(sends ? "destRank" : "srcRank", peer, communicator.size());
  check_buffer(sends ? "sendBuf" : "recvBuf", buffer, bytes);
  return {sends, peer, {buffer, bytes, dtype}};
}

Status start_messages(const char* function, uint32_t op, const char* during,
                      std::vector<Message> messages, std::shared_ptr<Communicator> communicator,
                      aclrtStream stream) {
  const Call call{.op = op};
  std::vector<faults::Region> written;
  for (const Message& message : messages) {
    if (!message.sends) written.push_back({message.part.buffer, message.part.bytes});
  }
  return start(std::move(communicator), stream,
               {function, call, std::move(written), [=](Communicator& self) {
                  Exchange exchange(self, call, Takes::peers_named, during);
                  for (const auto& [sends, peer, part] : messages) {
                    if (sends) exchange.send(peer, part.buffer, part.bytes, part.dtype);
                    if (!sends) exchange.receive(peer, part.buffer, part.bytes, part.dtype);
                  }
                  exchange.run(self.identity().exec_timeout);
                }});
}

Status start_one(const char* function, bool sends, void* buffer, uint64_t count, uint32_t dtype,
                 uint32_t peer, HcclComm comm, aclrtStream stream) {
  auto communicator = find(comm);
  const Message message = checked(sends, buffer, count, dtype, peer, *communicator);
  if (group.depth > 0) {
    communicator->require_usable();
    group.pending.push_back({communicator, stream, message});
    return {};
  }
  return start_messages(function, HCCL_CMD_SEND, sends ? "Send" : "Recv", {message}, communicator,
                        stream);
}

// Those of the first communicator and stream, in order; the others stay.
std::vector<Message> take_first(std::vector<Pending>& pending) {
  const Pending first = pending.front();
  std::vector<Message> taken;
  std::vector<Pending> rest;
  for (Pending& one : pending) {
    if (one.communicator == first.communicator && one.stream == first.stream) {
      taken.push_back(one.message);
    } else {
      rest.push_back(std::move(one));
    }
  }
  pending = std::move(rest);
  return taken;
}

Status end_group() {
  if (group.depth == 0) throw Error(HCCL_E_PARA, "no group was started on this thread");
  if (--group.depth > 0) return {};
  std::vector<Pending> pending = std::move(group.pending);
  group.pending.clear();
  while (!pending.empty()) {
    const Pending first = pending.front();
    const Status status =
        start_messages("HcclGroupEnd", HCCL_CMD_SEND, "a group of Send and Recv",
                       take_first(pending), first.communicator, first.stream);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace
}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType,
                             uint32_t destRank, HcclComm comm, aclrtStream stream) {
  return call("HcclSend", [&] {
    return start_one("HcclSend", true, sendBuf, count, dataType, destRank, comm, stream);
  });
}

CANN_API HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType,
                             uint32_t srcRank, HcclComm comm, aclrtStream stream) {
  return call("HcclRecv", [&] {
    return start_one("HcclRecv", false, recvBuf, count, dataType, srcRank, comm, stream);
  });
}

CANN_API HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum,
                                      HcclComm comm, aclrtStream stream) {
  return call("HcclBatchSendRecv", [&] {
    auto communicator = find(comm);
    if (sendRecvInfo == nullptr) throw Error(HCCL_E_PTR, "sendRecvInfo is null");
    if (itemNum == 0) throw Error(HCCL_E_PARA, "itemNum is 0");
    std::vector<Message> messages;
    for (uint32_t index = 0; index < itemNum; ++index) {
      const HcclSendRecvItem& item = sendRecvInfo[index];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV) {
        throw Error(HCCL_E_PARA, "sendRecvInfo[" + std::to_string(index) +
                                     "].sendRecvType is " + std::to_string(item.sendRecvType) +
                                     ", expected HCCL_SEND or HCCL_RECV");
      }
      messages.push_back(checked(item.sendRecvType == HCCL_SEND, item.buf, item.count,
                                 item.dataType, item.remoteRank, *communicator));
    }
    return start_messages("HcclBatchSendRecv", HCCL_CMD_BATCH_SEND_RECV, "BatchSendRecv",
                          std::move(messages), communicator, stream);
  });
}

CANN_API HcclResult HcclGroupStart() {
  ++group.depth;
  return HCCL_SUCCESS;
}

CANN_API HcclResult HcclGroupEnd() { return call("HcclGroupEnd", end_group); }
