// Options of CANN's operator compiler, which torch_npu sets and reads. Nothing is compiled here.
#include <acl/acl_op_compiler.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "status.h"

using namespace emu;
namespace {
std::mutex mutex;
std::map<aclCompileOpt, std::string>& options() {
  static auto& options = *new std::map<aclCompileOpt, std::string>{
      {ACL_OP_JIT_COMPILE, "disable"}, {ACL_PRECISION_MODE, "must_keep_origin_dtype"}};
  return options;
}
}  // namespace

CANN_API aclError aclSetCompileopt(aclCompileOpt opt, const char* value) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    std::lock_guard lock(mutex);
    options()[opt] = value;
    return {};
  });
}

CANN_API size_t aclGetCompileoptSize(aclCompileOpt opt) {
  std::lock_guard lock(mutex);
  return options()[opt].size() + 1;
}

CANN_API aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length) {
  return api(__func__, [&]() -> Status {
    if (value == nullptr) return null_argument("value");
    std::lock_guard lock(mutex);
    const std::string& text = options()[opt];
    if (length <= text.size()) {
      return error(ACL_ERROR_INVALID_PARAM, "length %zu is too small for %zu", length,
                   text.size() + 1);
    }
    std::snprintf(value, length, "%s", text.c_str());
    return {};
  });
}
