// Settings that torch_npu makes and that have no effect on an emulated chip. Those that can be
// asked for are kept.
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
  std::map<int, uint32_t> overflow;  // by stream
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

Status own_stream_id(aclrtStream handle, int& id) {
  std::shared_ptr<Stream> stream;
  Status status = find_own_stream(handle, stream);
  id = stream_id(stream);
  return status;
}

Status check_stream(aclrtStream stream) {
  int id = 0;
  return own_stream_id(stream, id);
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
    int id = 0;
    Status status = own_stream_id(stream, id);
    if (!status.ok()) return status;
    std::lock_guard lock(settings().mutex);
    settings().overflow[id] = flag;
    return {};
  });
}

CANN_API aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  return api(__func__, [&]() -> Status {
    if (flag == nullptr) return null_argument("flag");
    int id = 0;
    Status status = own_stream_id(stream, id);
    if (!status.ok()) return status;
    std::lock_guard lock(settings().mutex);
    *flag = settings().overflow[id];  // 0, off, until it is set
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
