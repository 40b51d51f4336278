// Which CANN this claims to be. torch_npu chooses between code paths by it.
#include <cstdio>

#include "status.h"

namespace {
constexpr const char* version = "9.1.0";
}

using namespace emu;

CANN_API aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  if (pkgName == nullptr) return finish(__func__, null_argument("pkgName"));
  if (versionStr == nullptr) return finish(__func__, null_argument("versionStr"));
  std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "%s", version);
  return finish(__func__, {});
}

CANN_API aclError aclsysGetCANNVersion(aclCANNPackageName, aclCANNPackageVersion* result) {
  if (result == nullptr) return finish(__func__, null_argument("version"));
  *result = {};
  std::snprintf(result->version, sizeof result->version, "%s", version);
  std::snprintf(result->majorVersion, sizeof result->majorVersion, "9");
  std::snprintf(result->minorVersion, sizeof result->minorVersion, "1");
  std::snprintf(result->releaseVersion, sizeof result->releaseVersion, "0");
  return finish(__func__, {});
}
