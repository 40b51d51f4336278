// aclAppLog: torch_npu's own log, shown under CANN's variables for it.
#include <sys/types.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator.h"

namespace {

// ASCEND_SLOG_PRINT_TO_STDOUT=1 shows messages from ASCEND_GLOBAL_LOG_LEVEL up (0 debug .. 3 error,
// which is the default). Read once.
int shown_from() {
  static const int level = [] {
    const char* show = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
    if (show == nullptr || std::strcmp(show, "1") != 0) return ACL_ERROR + 1;
    const char* least = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
    return least == nullptr ? static_cast<int>(ACL_ERROR) : std::atoi(least);
  }();
  return level;
}

}  // namespace

CANN_API void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
                        const char* fmt, ...) {
  static const char* const names[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  if (logLevel < shown_from() || logLevel < ACL_DEBUG || logLevel > ACL_ERROR) return;
  char text[2048];
  va_list arguments;
  va_start(arguments, fmt);
  std::vsnprintf(text, sizeof text, fmt, arguments);
  va_end(arguments);
  std::printf("[%s] APP(%d): %s:%u %s: %s\n", names[logLevel], getpid(), file, line, func, text);
  std::fflush(stdout);
}
