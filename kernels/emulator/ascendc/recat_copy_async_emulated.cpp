#include "recat_copy_async_emulated.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core.h"
#include "definition.h"
#include "recat_copy_async_kernels.h"
#include "recat_copy_async_plan.h"
#include "recat_copy_async_split.h"
#include "recat_copy_async_tiling.h"

namespace ops {
const OpDef& EmulatedDefinitionRecatCopyAsync();  // OP_ADD of the operator's host source
}  // namespace ops

namespace emu {
namespace {

thread_local std::string message;

int64_t SizeOf(int dtype) {
  return dtype == RECAT_EMULATED_FLOAT32 ? 4 : 2;
}

RecatKernel KernelOf(const RecatEmulatedCall& call) {
  EMU_CHECK(call.arch == 2201 || call.arch == 3510, "arch: neither 2201 nor 3510");
  const RecatKernel kernel = (call.arch == 2201 ? RecatKernelOf2201 : RecatKernelOf3510)(
      call.in_dtype, call.out_dtype);
  EMU_CHECK(kernel != nullptr, "no kernel for this pair of dtypes");
  return kernel;
}

ge::DataType TypeOf(int dtype) {
  switch (dtype) {
    case RECAT_EMULATED_FLOAT32: return ge::DT_FLOAT;
    case RECAT_EMULATED_FLOAT16: return ge::DT_FLOAT16;
    default: return ge::DT_BF16;
  }
}

gert::StorageShape ShapeOf(const RecatEmulatedShape& shape) {
  return {gert::Shape(std::vector<int64_t>(shape.sizes, shape.sizes + shape.dims))};
}

gert::Call HostCall(const RecatEmulatedCall& call) {
  const int64_t elements = call.batch_size * call.row_elems;
  const gert::Shape rows({call.batch_size, call.row_elems}), flat({elements});
  const gert::StorageShape ranks{gert::Shape({call.rank_num})};
  gert::Call host;
  host.inputs = {{call.inverse ? flat : rows}, ranks, ranks};
  host.given_outputs = {{call.inverse ? rows : flat}};
  if (call.shapes != nullptr) {
    host.inputs = {ShapeOf(call.shapes->in), ShapeOf(call.shapes->dims),
                   ShapeOf(call.shapes->cumsum)};
    host.given_outputs = {ShapeOf(call.shapes->out)};
  }
  host.input_types = {{TypeOf(call.in_dtype)}, {ge::DT_INT64}, {ge::DT_INT64}};
  host.outputs.resize(1);
  host.output_types = {{TypeOf(call.out_dtype)}};
  host.attributes.values = {{.integer = call.batch_size}, {.boolean = call.inverse != 0},
                            {.number = call.scale}};
  host.platform = {static_cast<uint32_t>(call.cores), static_cast<uint64_t>(call.ub_size)};
  return host;
}

// The operator's own host functions say which result it gives and how it is launched.
void RunHost(const RecatEmulatedCall& call, gert::Call& host) {
  const ops::OpDef& definition = ops::EmulatedDefinitionRecatCopyAsync();
  gert::InferShapeContext shapes(host);
  EMU_CHECK(definition.infer_shape(&shapes) == ge::GRAPH_SUCCESS, "InferShape failed");
  int64_t elements = 1;
  for (size_t i = 0; i < host.outputs[0].GetDimNum(); ++i) {
    elements *= host.outputs[0].GetDim(i);
  }
  EMU_CHECK(elements == call.batch_size * call.row_elems, "InferShape: another size");
  gert::TilingContext tiling(host);
  EMU_CHECK(definition.core.tiling(&tiling) == ge::GRAPH_SUCCESS, "TilingFunc failed");
  EMU_CHECK(
      host.tiling.GetDataSize() == sizeof(optiling::RecatCopyAsyncTilingData) &&
          host.tiling.GetDataSize() <= host.tiling.GetCapacity(),
      "TilingFunc: another size of data");
}

Region RegionOf(const char* name, const void* begin, int64_t size, bool writable) {
  auto* bytes = static_cast<uint8_t*>(const_cast<void*>(begin));
  EMU_CHECK(size == 0 || bytes != nullptr, std::string(name) + " is null");
  return {name, bytes, static_cast<uint64_t>(size), writable};
}

void LaunchKernel(
    const RecatEmulatedCall& call, RecatKernel kernel, Launch& launch, gert::Call& host) {
  const int64_t cores = host.block_dim;
  EMU_CHECK(cores >= 1 && cores <= call.cores, "a launch of no core, or of more than there are");
  const auto address = [&](int i) { return launch.regions[i].begin; };
  for (int64_t i = 0; i < cores; ++i) {
    Core core(launch, static_cast<uint32_t>(i), static_cast<uint32_t>(cores),
              static_cast<uint32_t>(call.ub_size));
    SetCurrent(&core);
    kernel(address(0), address(1), address(2), address(3), nullptr,
           static_cast<uint8_t*>(host.tiling.GetData()));
    if (call.ledger != nullptr) {
      call.ledger[i] = core.ledger;
    }
  }
}

void Run(const RecatEmulatedCall& call) {
  const RecatKernel kernel = KernelOf(call);
  gert::Call host = HostCall(call);
  RunHost(call, host);
  const int64_t in_size = SizeOf(call.in_dtype);
  const int64_t out_size = SizeOf(call.out_dtype);
  const int64_t elements = call.batch_size * call.row_elems;
  Launch launch;
  launch.line = call.arch == 2201 ? 512 : 128;
  launch.moves = call.mode != RECAT_EMULATED_LEDGER;
  launch.tiling_key = host.tiling_key;
  launch.regions = {
      RegionOf("grad_output", call.in, elements * in_size, false),
      RegionOf("dim_sum_per_rank", call.dims, call.rank_num * 8, false),
      RegionOf("cumsum_dim_sum_per_rank", call.cumsum, call.rank_num * 8, false),
      RegionOf("sharded_grad_output", call.out, elements * out_size, true),
  };
  const bool strict = call.mode == RECAT_EMULATED_STRICT;
  if (strict) {
    launch.written.resize(elements * out_size);
    std::fill_n(static_cast<uint8_t*>(call.out), elements * out_size, uint8_t{0xEF});
  }
  if (call.ledger != nullptr) {
    std::memset(call.ledger, 0, call.cores * sizeof(*call.ledger));
  }
  LaunchKernel(call, kernel, launch, host);
  if (strict) {
    const auto missing = std::find(launch.written.begin(), launch.written.end(), false);
    EMU_CHECK(
        missing == launch.written.end(),
        "byte " + std::to_string(missing - launch.written.begin()) + " was never written");
  }
}

} // namespace
} // namespace emu

extern "C" __attribute__((visibility("default"))) int recat_emulated_run(
    const RecatEmulatedCall* call) {
  try {
    emu::Run(*call);
    return 0;
  } catch (const std::exception& error) {
    emu::message = std::string("RecatCopyAsync, emulated: ") + error.what();
    return 1;
  }
}

extern "C" __attribute__((visibility("default"))) const char* recat_emulated_message() {
  return emu::message.c_str();
}

extern "C" __attribute__((visibility("default"))) int recat_emulated_plan(
    int64_t batch_size, int64_t row_elems, int64_t rank_num, int64_t in_size, int64_t out_size,
    int32_t convert, int64_t cores, int64_t ub_size, RecatEmulatedPlan* result) {
  recat::Plan plan = {};
  const char* wrong = recat::MakePlan(
      {batch_size, row_elems, rank_num, in_size, out_size, convert != 0, cores, ub_size}, plan);
  if (wrong != nullptr) {
    emu::message = std::string("RecatCopyAsync, tiling: ") + wrong;
    return 1;
  }
  *result = {plan.rowUnit, plan.rowBlocks, plan.coreNum, plan.tileElems, plan.directElems};
  return 0;
}

extern "C" __attribute__((visibility("default"))) int64_t recat_emulated_block_begin(
    int64_t batch_size, int64_t row_unit, int64_t row_blocks, int64_t block) {
  return RecatCopyAsync::PartBegin(batch_size, row_unit, row_blocks, block);
}

extern "C" __attribute__((visibility("default"))) void recat_emulated_border(
    int64_t core, int64_t core_num, int64_t row_blocks, int64_t row_elems, int64_t* block,
    int64_t* column) {
  const RecatCopyAsync::Border border =
      RecatCopyAsync::BorderOf(core, core_num, row_blocks, row_elems);
  *block = border.block;
  *column = border.column;
}

extern "C" __attribute__((visibility("default"))) const char* recat_emulated_definition() {
  static const std::string text = emu::Json(ops::EmulatedDefinitionRecatCopyAsync());
  return text.c_str();
}

extern "C" __attribute__((visibility("default"))) int recat_emulated_is_for(const char* unit) {
  const auto& chips = ops::EmulatedDefinitionRecatCopyAsync().core.chips;
  return std::find(chips.begin(), chips.end(), unit) != chips.end();
}
