// CANN functions that torch_npu links to, or looks up without an alternative, and that are refused
// here. They take any arguments, so this file must not see CANN's declarations.
//
// A function that is missing altogether is one that torch_npu looks up and can do without: to it
// this CANN is too old (graph capture, batched copies, values in streams, error details).
namespace emu {
int not_emulated(const char* function);
int not_in_driver(const char* function);
}  // namespace emu

#define REFUSED(name, reason) \
  extern "C" __attribute__((visibility("default"))) int name() { return emu::reason(#name); }
#define NOT_EMULATED(name) REFUSED(name, not_emulated)
#define NOT_IN_DRIVER(name) REFUSED(name, not_in_driver)

// Virtual memory: torch_npu asks the driver for it before expandable_segments, and goes on without.
NOT_IN_DRIVER(aclrtReserveMemAddress)
NOT_EMULATED(aclrtReleaseMemAddress)
NOT_EMULATED(aclrtMallocPhysical)
NOT_EMULATED(aclrtFreePhysical)
NOT_EMULATED(aclrtMapMem)
NOT_EMULATED(aclrtUnmapMem)

// Memory of other processes.
NOT_EMULATED(aclrtMemExportToShareableHandle)
NOT_EMULATED(aclrtMemImportFromShareableHandle)
NOT_EMULATED(aclrtMemSetPidToShareableHandle)
NOT_EMULATED(aclrtDeviceGetBareTgid)
NOT_EMULATED(aclrtIpcMemGetExportKey)
NOT_EMULATED(aclrtIpcMemSetImportPid)
NOT_EMULATED(aclrtIpcMemImportByKey)
NOT_EMULATED(aclrtIpcMemClose)

// Kernels in binary form: operators are libopapi's, and ours runs on its host stand-in.
NOT_EMULATED(aclrtBinaryLoadFromData)
NOT_EMULATED(aclrtBinaryGetFunction)
NOT_EMULATED(aclrtGetFunctionAddr)
NOT_EMULATED(aclrtLaunchKernelWithHostArgs)
NOT_EMULATED(rtDevBinaryRegister)
NOT_EMULATED(rtFunctionRegister)
NOT_EMULATED(rtKernelLaunch)
NOT_EMULATED(rtGetC2cCtrlAddr)

// Load of the cores, and repair of a broken card: there is nothing to measure and nothing breaks.
NOT_EMULATED(aclrtGetDeviceUtilizationRate)
NOT_EMULATED(aclrtGetMemUsageInfo)
NOT_EMULATED(aclrtGetMemUceInfo)
NOT_EMULATED(aclrtMemUceRepair)
NOT_EMULATED(aclrtDeviceTaskAbort)

// Dumps of operators' tensors, and the profiler.
NOT_EMULATED(aclmdlInitDump)
NOT_EMULATED(aclmdlSetDump)
NOT_EMULATED(aclmdlFinalizeDump)
NOT_EMULATED(aclprofInit)
NOT_EMULATED(aclprofStart)
NOT_EMULATED(aclprofStop)
NOT_EMULATED(aclprofFinalize)
