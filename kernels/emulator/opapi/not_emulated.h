// Operators that torch_npu may call and that are not emulated (not_emulated.txt).
#pragma once

#include "emulator.h"

namespace emu {

// CANN's "no such kernel", with a message that tells where to add it.
int not_emulated(const char* name);

}  // namespace emu

#define NOT_EMULATED(name)                                                  \
  CANN_API int name##GetWorkspaceSize() { return emu::not_emulated(#name); } \
  CANN_API int name() { return emu::not_emulated(#name); }
