#include "sides.h"

#include "exchange.h"
#include "names.h"
#include "reduce.h"

namespace emu::hccl {

void all_to_all(Communicator& communicator, const Call& call, const Side& send,
                const Side& receive) {
  Exchange exchange(communicator, call, Takes::everyone, operator_name(call.op));
  for (uint32_t rank = 0; rank < communicator.size(); ++rank) {
    const Part& out = send.parts[rank];
    const Part& in = receive.parts[rank];
    exchange.send(rank, static_cast<char*>(send.buffer) + out.offset, out.bytes, send.dtype);
    exchange.receive(rank, static_cast<char*>(receive.buffer) + in.offset, in.bytes, receive.dtype);
  }
  exchange.run(communicator.identity().exec_timeout);
}

std::vector<char> reduce_own_part(Communicator& communicator, const Call& call, const Side& send) {
  const uint64_t bytes = send.parts[communicator.rank()].bytes;
  std::vector<char> received(bytes * communicator.size());
  all_to_all(communicator, call, send,
             {received.data(), equal_parts(communicator.size(), bytes), call.dtype});
  std::vector<const void*> sources;
  for (uint32_t rank = 0; rank < communicator.size(); ++rank) {
    sources.push_back(received.data() + rank * bytes);
  }
  reduce_in_rank_order(received.data(), sources, bytes / dtype_bytes(call.dtype), call.dtype,
                       call.reduce);
  received.resize(bytes);
  return received;
}

Parts shares(uint64_t count, uint32_t ranks, uint32_t dtype) {
  Parts parts;
  const uint64_t element = dtype_bytes(dtype);
  uint64_t begin = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint64_t elements = count / ranks + (rank < count % ranks ? 1 : 0);
    parts.push_back({begin * element, elements * element});
    begin += elements;
  }
  return parts;
}

Parts same_part(uint32_t ranks, uint64_t bytes) { return Parts(ranks, Part{0, bytes}); }

Parts only(uint32_t rank, const Part& part, uint32_t ranks) {
  Parts parts(ranks);
  parts[rank] = part;
  return parts;
}

void check_own(const char* sent, const char* expected, const Side& send, const Side& receive,
               uint32_t rank) {
  const uint64_t out = send.parts[rank].bytes;
  const uint64_t in = receive.parts[rank].bytes;
  if (out == in && send.dtype == receive.dtype) return;
  throw Error(HCCL_E_PARA, "rank " + std::to_string(rank) + " gives itself " +
                               std::to_string(out) + " bytes of " + dtype_name(send.dtype) + " (" +
                               sent + ") and expects " + std::to_string(in) + " of " +
                               dtype_name(receive.dtype) + " (" + expected + ")");
}

std::vector<faults::Region> regions(const Side& receive) {
  std::vector<faults::Region> written;
  for (const Part& part : receive.parts) {
    written.push_back({static_cast<char*>(receive.buffer) + part.offset, part.bytes});
  }
  return written;
}

}  // namespace emu::hccl
