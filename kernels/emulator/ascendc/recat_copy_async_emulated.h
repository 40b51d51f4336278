// RecatCopyAsync on emulated cores: the kernel source of the operator, run by the host stand-in for
// Ascend C. C linkage; libemu_recat_copy_async.so.
#pragma once
#include <stdint.h>

#include "ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

enum RecatEmulatedDtype { RECAT_EMULATED_FLOAT32, RECAT_EMULATED_FLOAT16, RECAT_EMULATED_BFLOAT16 };

enum RecatEmulatedMode {
  RECAT_EMULATED_LEDGER,  // counts and checks only: `in` and `out` are not touched, may be invented
  RECAT_EMULATED_RUN,
  // Also: the output begins as poison, and each of its bytes is written exactly once.
  RECAT_EMULATED_STRICT
};

struct RecatEmulatedShape {
  const int64_t* sizes;
  int64_t dims;
};

struct RecatEmulatedShapes {
  struct RecatEmulatedShape in, dims, cumsum, out;
};

struct RecatEmulatedCall {
  const void* in;         // [B, S] or, inverse, [B * S]
  const int64_t* dims;    // [R], elements
  const int64_t* cumsum;  // [R], exclusive prefix
  void* out;              // [B * S]; like `in` aligned to its elements, counted as on a line's begin
  int64_t batch_size, row_elems, rank_num;
  int32_t in_dtype, out_dtype;  // RecatEmulatedDtype; equal, or one of them float32
  int32_t inverse;
  float scale;
  int32_t arch;     // 2201 or 3510
  int64_t cores;    // vector cores of the chip
  int64_t ub_size;  // bytes of a core's unified buffer (torchrec_ascend/device.py)
  int32_t mode;     // RecatEmulatedMode
  struct EmulatedLedger* ledger;  // [cores], or null
  // The tensors' own shapes, for the host functions; null: those that the sizes above say.
  const struct RecatEmulatedShapes* shapes;
};

struct RecatEmulatedPlan {
  int64_t row_unit, row_blocks, core_num, tile_elems, direct_elems;
};

// 0, or an error with a message for this thread. The kernel runs on the calling thread, core by core.
int recat_emulated_run(const struct RecatEmulatedCall* call);
const char* recat_emulated_message(void);

// The operator's definition, in the form of recat_copy_async.json.
const char* recat_emulated_definition(void);
// Whether the operator is defined for that compute unit, such as "ascend910b".
int recat_emulated_is_for(const char* unit);

// The tiling plan of a call, from its sizes alone. in_size, out_size: bytes of an element.
int recat_emulated_plan(
    int64_t batch_size, int64_t row_elems, int64_t rank_num, int64_t in_size, int64_t out_size,
    int32_t convert, int64_t cores, int64_t ub_size, struct RecatEmulatedPlan* plan);
// First row of a row block; first block and column of a core, before borders snap to ranks.
int64_t recat_emulated_block_begin(
    int64_t batch_size, int64_t row_unit, int64_t row_blocks, int64_t block);
void recat_emulated_border(
    int64_t core, int64_t core_num, int64_t row_blocks, int64_t row_elems, int64_t* block,
    int64_t* column);

#ifdef __cplusplus
}
#endif
