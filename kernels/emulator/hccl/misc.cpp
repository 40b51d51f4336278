// Questions about a communicator, configuration, and what is not emulated.
#include "communicator.h"
#include "names.h"

#include <atomic>
#include <cstring>

namespace emu::hccl {
namespace {

constexpr int kConfigs = HCCL_CONFIG_RESERVED;
std::atomic<int32_t> configs[kConfigs];  // kept to be asked for: results are deterministic anyway

void check_config(HcclConfig config) {
  if (config >= 0 && config < kConfigs) return;
  throw Error(HCCL_E_PARA, "config is " + std::to_string(config) + ", expected below " +
                               std::to_string(kConfigs));
}

HcclResult not_emulated(const char* function) {
  return call(function,
              []() -> Status { throw Error(HCCL_E_NOT_SUPPORT, "this function is not emulated"); });
}

template <typename T>
void answer(T* to, const T& value) {
  if (to == nullptr) throw Error(HCCL_E_PTR, "the pointer for the answer is null");
  *to = value;
}

}  // namespace
}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return call("HcclGetCommName", [&]() -> emu::Status {
    const auto communicator = find(comm);
    if (commName == nullptr) throw Error(HCCL_E_PTR, "commName is null");
    std::strcpy(commName, communicator->identity().name.c_str());  // below COMM_NAME_MAX_LENGTH
    return {};
  });
}

CANN_API HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  return call("HcclGetRankSize", [&]() -> emu::Status {
    answer(rankSize, find(comm)->size());
    return {};
  });
}

CANN_API HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  return call("HcclGetRankId", [&]() -> emu::Status {
    answer(rank, find(comm)->rank());
    return {};
  });
}

// Failures behind the host. The reason stays for this thread's aclGetRecentErrMsg, where torch_npu's
// watchdog looks for it. One that a call has returned is no longer news.
CANN_API HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return call("HcclGetCommAsyncError", [&]() -> emu::Status {
    const auto communicator = find(comm);
    const HcclResult failure = emu::asynchronous() ? communicator->failure() : HCCL_SUCCESS;
    answer(asyncError, failure);
    if (failure != HCCL_SUCCESS) {
      emu::report({failure, "emulated HCCL: communicator " + communicator->identity().name +
                                " failed: " + communicator->failure_reason()});
    }
    return {};
  });
}

CANN_API const char* HcclGetErrorString(HcclResult code) { return result_text(code); }

CANN_API HcclResult HcclCommDestroy(HcclComm comm) {
  return call("HcclCommDestroy", [&]() -> emu::Status {
    withdraw(comm)->destroy();
    return {};
  });
}

// All of HcclCommConfig is accepted; the name and the timeout have an effect.
CANN_API uint32_t HcclGetCommConfigCapability() { return HCCL_COMM_CONFIG_RESERVED; }

CANN_API HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue) {
  return call("HcclSetConfig", [&]() -> emu::Status {
    check_config(config);
    configs[config] = configValue.value;
    return {};
  });
}

CANN_API HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue) {
  return call("HcclGetConfig", [&]() -> emu::Status {
    check_config(config);
    answer(configValue, HcclConfigValue{configs[config]});
    return {};
  });
}

#define NOT_EMULATED(function, ...) \
  CANN_API HcclResult function(__VA_ARGS__) { return not_emulated(#function); }

NOT_EMULATED(HcclCommInitAll, uint32_t, int32_t*, HcclComm*)
NOT_EMULATED(HcclCommSuspend, HcclComm)
NOT_EMULATED(HcclCommResume, HcclComm)
NOT_EMULATED(HcclCommSetMemoryRange, HcclComm, void*, size_t, size_t, uint64_t)
NOT_EMULATED(HcclCommUnsetMemoryRange, HcclComm, void*)
NOT_EMULATED(HcclCommActivateCommMemory, HcclComm, void*, size_t, size_t, aclrtDrvMemHandle,
             uint64_t)
NOT_EMULATED(HcclCommDeactivateCommMemory, HcclComm, void*)
NOT_EMULATED(HcclCommWorkingDevNicSet, HcclComm, uint32_t*, bool*, uint32_t)
NOT_EMULATED(HcclSetCommConfig, HcclComm, HcclConfig, HcclConfigValue)
NOT_EMULATED(HcclGetCommConfig, HcclComm, HcclConfig, HcclConfigValue*)
NOT_EMULATED(HcclCommRegister, HcclComm, void*, uint64_t, void**, uint32_t)
NOT_EMULATED(HcclCommDeregister, HcclComm, void*)
NOT_EMULATED(HcclCommExchangeMem, HcclComm, void*, uint32_t*, uint32_t)
NOT_EMULATED(HcclCommSymWinRegister, HcclComm, void*, uint64_t, void**, uint32_t)
NOT_EMULATED(HcclCommSymWinDeregister, void*)
NOT_EMULATED(HcommMemAlloc, void**, uint64_t)
NOT_EMULATED(HcommMemFree, void*)
