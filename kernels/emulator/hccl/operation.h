// How an operator of the API starts: its arguments are checked, then it runs in its stream's order.
#pragma once

#include "faults.h"
#include "message.h"

namespace emu::hccl {

struct Operation {
  const char* function;  // of the API, for messages
  Call call;
  std::vector<faults::Region> written;  // what it receives
  std::function<void(Communicator&)> body;
};

// Launches on the stream. Throws Error when the communicator has failed before.
Status start(std::shared_ptr<Communicator> communicator, aclrtStream stream, Operation operation);

// Part of a buffer, in bytes.
struct Part {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
using Parts = std::vector<Part>;  // one a rank

// The checks throw Error, which names the argument and its value.

// count elements in bytes; HCCL has the dtype, and the number of bytes fits.
uint64_t bytes_of(uint64_t count, uint32_t dtype);

// `ranks` parts of `bytes` each, one after the other.
Parts equal_parts(uint32_t ranks, uint64_t bytes);

// From arrays of uint64_t, `ranks` each, which are the caller's only during the call. displs may be
// null: the parts follow each other.
Parts split_parts(const char* name, const void* counts, const void* displs, uint32_t ranks,
                  uint32_t dtype);

// Bytes from the start of the buffer to the end of its last part.
uint64_t span(const Parts& parts);

// [buffer, buffer + bytes) lies in device memory; nothing is asked of an empty one.
void check_buffer(const char* argument, const void* buffer, uint64_t bytes);

// The two do not overlap.
void check_apart(const void* send, uint64_t send_bytes, const void* receive, uint64_t receive_bytes);

void check_rank(const char* argument, uint32_t rank, uint32_t size);

}  // namespace emu::hccl
