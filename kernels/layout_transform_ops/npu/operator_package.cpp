#include "operator_package.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

namespace torchrec_ascend::npu {
namespace {

constexpr const char* kLibrary = "op_api/lib/libcust_opapi.so";
constexpr const char* kVendor = "vendors/torchrec_ascend";

// The folder of the library that holds this function.
std::filesystem::path own_folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || !info.dli_fname) {
    return {};
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

std::vector<std::filesystem::path> vendor_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* listed = std::getenv("ASCEND_CUSTOM_OPP_PATH")) {
    std::istringstream entries(listed);
    for (std::string entry; std::getline(entries, entry, ':');) {
      if (!entry.empty()) {
        folders.emplace_back(entry);
      }
    }
  }
  folders.push_back(own_folder() / kVendor);
  return folders;
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// aclCreateTensor and its kin: CANN 8 and newer have them in libnnopbase.so, the loader of
// operator packages; older ones, and the emulated CANN, in libopapi.so.
bool find_tensor_functions(RecatCopyAsyncApi& api) {
  for (const char* name : {"libnnopbase.so", "libopapi.so"}) {
    void* library = dlopen(name, RTLD_LAZY);
    if (library != nullptr && find(library, "aclCreateTensor", api.create_tensor) &&
        find(library, "aclDestroyTensor", api.destroy_tensor)) {
      return true;
    }
  }
  return false;
}

OperatorPackage search() {
  OperatorPackage package;
  std::ostringstream tried;
  for (const auto& folder : vendor_folders()) {
    const auto path = folder / kLibrary;
    if (!std::filesystem::exists(path)) {
      tried << "; " << path.string() << " does not exist";
      continue;
    }
    void* library = dlopen(path.c_str(), RTLD_LAZY);
    if (library == nullptr) {
      tried << "; " << dlerror();
    } else if (
        !find(library, "aclnnRecatCopyAsyncGetWorkspaceSize", package.api.get_workspace_size) ||
        !find(library, "aclnnRecatCopyAsync", package.api.run)) {
      tried << "; " << path.string() << " has no aclnnRecatCopyAsync";
    } else if (!find_tensor_functions(package.api)) {
      tried << "; neither libnnopbase.so nor libopapi.so has aclCreateTensor";
    } else {
      package.found = true;
      package.explanation = path.string();
      return package;
    }
  }
  package.explanation = "no operator package" + tried.str();
  return package;
}

} // namespace

const OperatorPackage& operator_package() {
  static const OperatorPackage package = search();
  return package;
}

} // namespace torchrec_ascend::npu
