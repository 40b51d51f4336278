#include "status.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

namespace emu {
namespace {

std::atomic<bool> forked{false};

struct ThreadError {
  int code = ACL_SUCCESS;
  std::string message;   // for aclGetRecentErrMsg
  std::string returned;  // keeps what aclGetRecentErrMsg returned last
};

// Never destroyed: at exit, destructors elsewhere still call CANN.
ThreadError& thread_error() {
  thread_local ThreadError& error = *new ThreadError;
  return error;
}

std::string formatted(const char* format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string text(length < 0 ? 0 : length, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

// Where trace() writes; null if nowhere.
FILE* trace_file() {
  static FILE* const file = []() -> FILE* {
    const char* value = std::getenv("NPU_EMU_TRACE");
    if (value == nullptr || *value == '\0' || std::string(value) == "0") return nullptr;
    return std::string(value) == "1" ? stderr : std::fopen(value, "a");
  }();
  return file;
}

}  // namespace

void trace(const char* format, ...) {
  FILE* file = trace_file();
  if (file == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  const std::string text = formatted(format, arguments);
  va_end(arguments);
  std::fprintf(file, "[emulated CANN %d.%d] %s\n", getpid(), gettid(), text.c_str());
  std::fflush(file);
}

Status error(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status{code, formatted(format, arguments)};
  va_end(arguments);
  return status;
}

bool forked_after_use() { return forked.load(std::memory_order_relaxed); }

void note_use() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
}

Status forked_child() {
  return error(ACL_ERROR_RT_CONTEXT_NULL,
               "this process was forked after its parent used an NPU, and cannot use one: start it "
               "with the spawn method");
}

Status current_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return error(ACL_ERROR_BAD_ALLOC, "the host is out of memory");
  } catch (const std::exception& exception) {
    return error(ACL_ERROR_INTERNAL_ERROR, "%s", exception.what());
  } catch (...) {
    return error(ACL_ERROR_INTERNAL_ERROR, "unknown exception");
  }
}

int report(const Status& status) {
  if (status.ok()) return ACL_SUCCESS;
  thread_error().code = status.code;
  thread_error().message = status.message;
  return status.code;
}

int finish(const char* function, Status status) {
  if (status.ok()) {
    trace("%s", function);
    return ACL_SUCCESS;
  }
  status.message = std::string("emulated CANN: ") + function + ": " + status.message;
  trace("%s -> %d (%s)", function, status.code, status.message.c_str());
  return report(status);
}

int not_emulated(const char* function) {
  // Not ACL_ERROR_RT_FEATURE_NOT_SUPPORT: torch_npu prints a warning for that one and goes on.
  return finish(function, error(ACL_ERROR_API_NOT_SUPPORT, "not emulated"));
}

int not_in_driver(const char* function) {
  return finish(function, error(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not emulated"));
}

}  // namespace emu

// As in CANN, the message is handed out once.
CANN_API const char* aclGetRecentErrMsg() {
  emu::ThreadError& error = emu::thread_error();
  error.returned = std::exchange(error.message, {});
  return error.returned.c_str();
}

CANN_API aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return emu::thread_error().code; }

CANN_API aclError aclrtGetLastError(aclrtLastErrLevel) {
  return std::exchange(emu::thread_error().code, ACL_SUCCESS);
}
