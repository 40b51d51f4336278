// The kernel's entries by architecture and dtypes.
#pragma once
#include <cstdint>

namespace emu {

using RecatKernel = void (*)(
    uint8_t* in, uint8_t* dims, uint8_t* cumsum, uint8_t* out, uint8_t* workspace,
    uint8_t* tiling);

// nullptr: no such pair. Dtypes as in RecatEmulatedDtype.
RecatKernel RecatKernelOf2201(int in_dtype, int out_dtype);
RecatKernel RecatKernelOf3510(int in_dtype, int out_dtype);

}  // namespace emu
