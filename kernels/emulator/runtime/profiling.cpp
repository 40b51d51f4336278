// Msprof*: torch_npu announces itself to CANN's profiler at load time. There is no profiler here,
// so what it reports is dropped; the identifiers it asks for are real.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#define CANN_API extern "C" __attribute__((visibility("default")))

CANN_API int32_t MsprofRegisterCallback(uint32_t, int32_t (*)(uint32_t, void*, uint32_t)) {
  return 0;
}

CANN_API int32_t MsprofReportApi(uint32_t, const void*) { return 0; }
CANN_API int32_t MsprofReportCompactInfo(uint32_t, const void*, uint32_t) { return 0; }
CANN_API int32_t MsprofReportAdditionalInfo(uint32_t, const void*, uint32_t) { return 0; }

CANN_API uint64_t MsprofGetHashId(const char* hashInfo, size_t length) {
  return std::hash<std::string_view>{}({hashInfo, length});
}

CANN_API uint64_t MsprofSysCycleTime() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
