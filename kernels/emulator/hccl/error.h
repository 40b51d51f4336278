// How this library fails inside: an exception, turned into a return code and a message where a
// call or a task of a stream ends.
#pragma once

#include "../runtime/emulator.h"

#include "hccl/hccl.h"

#include <stdexcept>
#include <string>

namespace emu::hccl {

class Error : public std::runtime_error {
 public:
  Error(HcclResult result, const std::string& reason) : std::runtime_error(reason), result(result) {}
  HcclResult result;
};

// Runs the body of an API function: Status body().
template <typename Body>
HcclResult call(const char* function, Body body) {
  Status status;
  try {
    status = body();
  } catch (const Error& error) {
    status = {error.result, std::string("emulated HCCL: ") + function + ": " + error.what()};
  } catch (const std::bad_alloc&) {
    status = {HCCL_E_MEMORY, std::string("emulated HCCL: ") + function + ": out of host memory"};
  }
  return status.ok() ? HCCL_SUCCESS : static_cast<HcclResult>(report(status));
}

}  // namespace emu::hccl
