// Settings that torch_npu makes and that have no effect on an emulated chip: they are kept and given
// back, no more.
//   time limits of operators    tasks here end or fail
//   overflow and saturation     arithmetic is the host's
//   failure modes               a failed stream always stops
//   determinism                 tasks are computed in one order
//   hints to caches             there are none
#include <map>
#include <mutex>

#include "device.h"
#include "stream.h"

namespace emu {
namespace {

struct Settings {
  std::mutex mutex;
  std::map<aclSysParamOpt, int64_t> parameters;
  std::map<aclrtStream, uint32_t> overflow;
};

Settings& settings() {
  static auto& settings = *new Settings;
  return settings;
}

Status keep(aclSysParamOpt option, int64_t value) {
  std::lock_guard lock(settings().mutex);
  settings().parameters[option] = value;
  return {};
}

Status check_stream(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  return find_own_stream(stream, found);
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return api(__func__, [&] { return keep(opt, value); });
}

CANN_API aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return api(__func__, [&] { return keep(opt, value); });
}

CANN_API aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    std::lock_guard lock(settings().mutex);
    *value = settings().parameters[opt];  // 0, off, until it is set
    return {};
  });
}

CANN_API aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  return api(__func__, [&]() -> Status {
    Status status = check_stream(stream);
    if (!status.ok()) return status;
    std::lock_guard lock(settings().mutex);
    settings().overflow[stream] = flag;
    return {};
  });
}

CANN_API aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return api(__func__, [&]() -> Status {
    if (flag == nullptr) return null_argument("flag");
    Status status = check_stream(stream);
    if (!status.ok()) return status;
    std::lock_guard lock(settings().mutex);
    const auto found = settings().overflow.find(stream);
    *flag = found == settings().overflow.end() ? 0 : found->second;
    return {};
  });
}

CANN_API aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t) {
  return api(__func__, [&] { return check_stream(stream); });
}

CANN_API aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr,
                                          aclrtStreamAttrValue*) {
  return api(__func__, [&] { return check_stream(stream); });
}

CANN_API aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode) {
  return api(__func__, []() -> Status { return {}; });
}

CANN_API aclError aclrtSetOpWaitTimeout(uint32_t) {
  return api(__func__, []() -> Status { return {}; });
}

CANN_API aclError aclrtSetOpExecuteTimeOut(uint32_t) {
  return api(__func__, []() -> Status { return {}; });
}

CANN_API aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  return api(__func__, [&]() -> Status {
    if (actualTimeout == nullptr) return null_argument("actualTimeout");
    *actualTimeout = timeout;
    return {};
  });
}

CANN_API aclError aclrtCmoAsync(void*, size_t, aclrtCmoType, aclrtStream stream) {
  return api(__func__, [&] { return check_stream(stream); });
}
