#include "operation.h"

#include "names.h"

#include <algorithm>

namespace emu::hccl {
namespace {

Status run(Communicator& communicator, const Operation& operation, bool behind_host) {
  try {
    communicator.perform([&] {
      faults::drop_rank();
      operation.body(communicator);
      faults::corrupt(communicator, operation.call.op, operation.written);
    });
    return {};
  } catch (const Error& error) {
    const Identity& who = communicator.identity();
    const std::string message = std::string("emulated HCCL: ") + operation.function + ": " +
                                error.what() + " [communicator " + who.name + ", rank " +
                                std::to_string(who.rank) + " of " + std::to_string(who.size) + "]";
    // A failure behind the host surfaces in the runtime, whose codes are others.
    const int late =
        error.result == HCCL_E_TIMEOUT ? ACL_ERROR_RT_TASK_TIMEOUT : ACL_ERROR_RT_INTERNAL_ERROR;
    return {behind_host ? late : error.result, message};
  }
}

}  // namespace

Status start(std::shared_ptr<Communicator> communicator, aclrtStream stream, Operation operation) {
  communicator->require_usable();
  trace("%s: %s, communicator %s, rank %u of %u", operation.function,
        describe(operation.call).c_str(), communicator->identity().name.c_str(),
        communicator->rank(), communicator->size());
  const char* function = operation.function;
  const bool behind_host = asynchronous() && stream != nullptr;
  return launch(stream, function,
                [communicator = std::move(communicator), operation = std::move(operation),
                 behind_host] { return run(*communicator, operation, behind_host); });
}

uint64_t bytes_of(uint64_t count, uint32_t dtype) {
  const uint64_t element = dtype_bytes(dtype);
  if (element == 0) {
    throw Error(HCCL_E_NOT_SUPPORT, "HCCL has no data type " + std::to_string(dtype));
  }
  uint64_t bytes;
  if (__builtin_mul_overflow(count, element, &bytes) || bytes > (uint64_t{1} << 62)) {
    throw Error(HCCL_E_PARA, "a count of " + std::to_string(count) + " does not fit memory");
  }
  return bytes;
}

Parts equal_parts(uint32_t ranks, uint64_t bytes) {
  bytes_of(ranks * (bytes >> 8), HCCL_DATA_TYPE_UINT8);  // all together fit too
  Parts parts;
  for (uint32_t rank = 0; rank < ranks; ++rank) parts.push_back({rank * bytes, bytes});
  return parts;
}

Parts split_parts(const char* name, const void* counts, const void* displs, uint32_t ranks,
                  uint32_t dtype) {
  if (counts == nullptr) throw Error(HCCL_E_PTR, std::string(name) + " counts are null");
  const uint64_t* const count = static_cast<const uint64_t*>(counts);
  const uint64_t* const displacement = static_cast<const uint64_t*>(displs);
  Parts parts;
  uint64_t end = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint64_t offset = displacement != nullptr ? bytes_of(displacement[rank], dtype) : end;
    parts.push_back({offset, bytes_of(count[rank], dtype)});
    end = offset + parts.back().bytes;
  }
  return parts;
}

uint64_t span(const Parts& parts) {
  uint64_t end = 0;
  for (const Part& part : parts) {
    if (part.bytes > 0) end = std::max(end, part.offset + part.bytes);
  }
  return end;
}

void check_buffer(const char* argument, const void* buffer, uint64_t bytes) {
  if (bytes == 0) return;
  if (buffer == nullptr) throw Error(HCCL_E_PTR, std::string(argument) + " is null");
  if (!is_device_memory(buffer, bytes)) {
    throw Error(HCCL_E_PARA, std::string(argument) + ": " + std::to_string(bytes) +
                                 " bytes there are not in one allocation of device memory");
  }
}

void check_apart(const void* send, uint64_t send_bytes, const void* receive,
                 uint64_t receive_bytes) {
  const auto* const from = static_cast<const char*>(send);
  const auto* const to = static_cast<const char*>(receive);
  if (send_bytes > 0 && receive_bytes > 0 && from < to + receive_bytes && to < from + send_bytes) {
    throw Error(HCCL_E_PARA, "sendBuf and recvBuf overlap");
  }
}

void check_rank(const char* argument, uint32_t rank, uint32_t size) {
  if (rank < size) return;
  throw Error(HCCL_E_PARA, std::string(argument) + " is " + std::to_string(rank) +
                               ", expected below the number of ranks, " + std::to_string(size));
}

}  // namespace emu::hccl
