// Host side of RecatCopyAsync: its definition, the shape and dtype of its result, and its tiling.
#include <cstdio>

#include "recat_copy_async_plan.h"
#include "recat_copy_async_tiling.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace {

constexpr size_t kGradOutput = 0;
constexpr size_t kDims = 1;
constexpr size_t kCumsum = 2;
constexpr size_t kShardedGradOutput = 0;
// Attributes, in the definition's order.
constexpr size_t kBatchSize = 0;
constexpr size_t kInverse = 1;
constexpr size_t kScale = 2;

// Rows are [B, S], flat is [B * S]. recat goes from rows to flat, its inverse back. False where the
// input is not what the attributes say.
bool RowElems(const gert::Shape& in, int64_t batchSize, bool inverse, int64_t& rowElems) {
  if (!inverse) {
    if (in.GetDimNum() != 2 || in.GetDim(0) != batchSize) {
      return false;
    }
    rowElems = in.GetDim(1);
    return rowElems >= 0;
  }
  if (in.GetDimNum() != 1 || batchSize < 0) {
    return false;
  }
  const int64_t elems = in.GetDim(0);
  rowElems = batchSize == 0 ? 0 : elems / batchSize;
  return elems == batchSize * rowElems;
}

int64_t Elements(const gert::Shape& shape) {
  int64_t elems = 1;
  for (size_t i = 0; i < shape.GetDimNum(); ++i) {
    elems *= shape.GetDim(i);
  }
  return elems;
}

// CANN's caller learns no more than that it failed, so the reason goes to standard error.
ge::graphStatus Failed(const char* reason) {
  std::fprintf(stderr, "RecatCopyAsync: %s\n", reason);
  return ge::GRAPH_FAILED;
}

int64_t SizeOf(ge::DataType type) {
  switch (type) {
    case ge::DT_FLOAT:
      return 4;
    case ge::DT_FLOAT16:
    case ge::DT_BF16:
      return 2;
    default:
      return 0;  // MakePlan refuses it
  }
}

}  // namespace

namespace optiling {

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const auto* grad = context->GetInputShape(kGradOutput);
  const auto* dims = context->GetInputShape(kDims);
  const auto* cumsum = context->GetInputShape(kCumsum);
  const auto* from = context->GetInputDesc(kGradOutput);
  const auto* to = context->GetOutputDesc(kShardedGradOutput);
  const auto* out = context->GetOutputShape(kShardedGradOutput);
  const auto* attrs = context->GetAttrs();
  auto* raw = context->GetRawTilingData();
  size_t* workspace = context->GetWorkspaceSizes(1);
  if (grad == nullptr || dims == nullptr || cumsum == nullptr || from == nullptr || to == nullptr ||
      out == nullptr || attrs == nullptr || raw == nullptr || workspace == nullptr ||
      context->GetPlatformInfo() == nullptr) {
    return Failed("an input, output, attribute or the platform is missing");
  }
  const int64_t* batchSize = attrs->GetInt(kBatchSize);
  const bool* inverse = attrs->GetBool(kInverse);
  const float* scale = attrs->GetFloat(kScale);
  if (batchSize == nullptr || inverse == nullptr || scale == nullptr) {
    return Failed("batch_size, inverse or scale is missing");
  }

  recat::PlanInput in = {};
  in.batchSize = *batchSize;
  const gert::Shape& ranks = dims->GetStorageShape();
  const gert::Shape& prefix = cumsum->GetStorageShape();
  if (!RowElems(grad->GetStorageShape(), in.batchSize, *inverse, in.rowElems)) {
    return Failed("grad_output has another shape than batch_size and inverse say");
  }
  // Nobody else holds the caller's output against the input.
  if (Elements(out->GetStorageShape()) != in.batchSize * in.rowElems) {
    return Failed("sharded_grad_output has another size than grad_output");
  }
  if (ranks.GetDimNum() != 1 || prefix.GetDimNum() != 1 || ranks.GetDim(0) != prefix.GetDim(0)) {
    return Failed("dim_sum_per_rank and cumsum_dim_sum_per_rank are not of one length");
  }
  in.rankNum = ranks.GetDim(0);
  in.inSize = SizeOf(from->GetDataType());
  in.outSize = SizeOf(to->GetDataType());
  in.convert = from->GetDataType() != to->GetDataType() || *scale != 1.0f;
  const platform_ascendc::PlatformAscendC platform(context->GetPlatformInfo());
  in.cores = platform.GetCoreNumAiv();
  uint64_t ubSize = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ubSize);
  in.ubSize = static_cast<int64_t>(ubSize);

  recat::Plan plan = {};
  if (const char* wrong = recat::MakePlan(in, plan)) {
    return Failed(wrong);
  }
  RecatCopyAsyncTilingData data;
  SetTiling(in, plan, *inverse, *scale, data);
  data.SaveToBuffer(raw->GetData(), raw->GetCapacity());
  raw->SetDataSize(data.GetDataSize());
  context->SetBlockDim(static_cast<uint32_t>(plan.coreNum));
  context->SetTilingKey(in.convert ? recat::kConvertKey : recat::kCopyKey);
  workspace[0] = 0;  // every byte goes from input to output through UB
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
  const gert::Shape* in = context->GetInputShape(kGradOutput);
  gert::Shape* out = context->GetOutputShape(kShardedGradOutput);
  const auto* attrs = context->GetAttrs();
  if (in == nullptr || out == nullptr || attrs == nullptr) {
    return GRAPH_FAILED;
  }
  const int64_t* batchSize = attrs->GetInt(kBatchSize);
  const bool* inverse = attrs->GetBool(kInverse);
  int64_t rowElems = 0;
  if (batchSize == nullptr || inverse == nullptr ||
      !RowElems(*in, *batchSize, *inverse, rowElems)) {
    return Failed("grad_output has another shape than batch_size and inverse say");
  }
  if (*inverse) {
    out->SetDimNum(2);
    out->SetDim(0, *batchSize);
    out->SetDim(1, rowElems);
  } else {
    out->SetDimNum(1);
    out->SetDim(0, *batchSize * rowElems);
  }
  return GRAPH_SUCCESS;
}

// For graphs. A call of the aclnn function says by its output which dtype it wants.
static graphStatus InferDataType(gert::InferDataTypeContext* context) {
  return context->SetOutputDataType(kShardedGradOutput, context->GetInputDataType(kGradOutput));
}

}  // namespace ge

namespace ops {

// Column i of the lists is one kernel: a copy, or a cast to or from float32.
class RecatCopyAsync : public OpDef {
 public:
  explicit RecatCopyAsync(const char* name) : OpDef(name) {
    using Types = std::vector<ge::DataType>;
    const Types from = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT,
                        ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const Types to = {ge::DT_FLOAT,   ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT16,
                      ge::DT_BF16,    ge::DT_FLOAT,   ge::DT_FLOAT};
    const Types splits(from.size(), ge::DT_INT64);
    const std::vector<ge::Format> nd(from.size(), ge::FORMAT_ND);
    this->Input("grad_output").ParamType(REQUIRED).DataType(from).Format(nd).UnknownShapeFormat(nd);
    for (const char* split : {"dim_sum_per_rank", "cumsum_dim_sum_per_rank"}) {
      this->Input(split).ParamType(REQUIRED).DataType(splits).Format(nd).UnknownShapeFormat(nd);
    }
    this->Output("sharded_grad_output")
        .ParamType(REQUIRED)
        .DataType(to)
        .Format(nd)
        .UnknownShapeFormat(nd);
    this->Attr("batch_size").AttrType(REQUIRED).Int();
    this->Attr("inverse").AttrType(OPTIONAL).Bool(false);
    this->Attr("scale").AttrType(OPTIONAL).Float(1.0f);
    this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
    this->AICore().AddConfig("ascend910_93");
#ifdef RECAT_ASCEND950  // run.sh defines it: CANN before 9 does not know this chip
    this->AICore().AddConfig("ascend950");
#endif
  }
};

OP_ADD(RecatCopyAsync);

}  // namespace ops
