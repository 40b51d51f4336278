// What CANN hands to an operator's host functions: shapes, dtypes, attributes, the chip. Only what
// our operators use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
enum DataType { DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT64 = 9, DT_BF16 = 27 };
enum Format { FORMAT_NCHW = 0, FORMAT_ND = 2 };

}  // namespace ge

namespace fe {

struct PlatFormInfos {
  uint32_t vector_cores = 0;
  uint64_t ub_size = 0;
};

}  // namespace fe

namespace gert {

class Shape {
 public:
  Shape() = default;
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t i) const { return dims_.at(i); }
  void SetDimNum(size_t count) { dims_.resize(count); }
  void SetDim(size_t i, int64_t value) { dims_.at(i) = value; }

 private:
  std::vector<int64_t> dims_;
};

struct StorageShape {
  Shape shape;
  const Shape& GetStorageShape() const { return shape; }
};

struct CompileTimeTensorDesc {
  ge::DataType type;
  ge::DataType GetDataType() const { return type; }
};

union Attribute {
  int64_t integer;
  bool boolean;
  float number;
};

struct RuntimeAttrs {
  std::vector<Attribute> values;
  const int64_t* GetInt(size_t i) const { return i < values.size() ? &values[i].integer : nullptr; }
  const bool* GetBool(size_t i) const { return i < values.size() ? &values[i].boolean : nullptr; }
  const float* GetFloat(size_t i) const { return i < values.size() ? &values[i].number : nullptr; }
};

class TilingData {
 public:
  void* GetData() { return bytes_; }
  size_t GetCapacity() const { return sizeof(bytes_); }
  void SetDataSize(size_t size) { size_ = size; }
  size_t GetDataSize() const { return size_; }

 private:
  alignas(8) uint8_t bytes_[512] = {};
  size_t size_ = 0;
};

// Inputs, outputs and attributes of one call, and what its host functions say about it.
struct Call {
  std::vector<StorageShape> inputs;
  std::vector<CompileTimeTensorDesc> input_types;
  std::vector<Shape> outputs;               // as InferShape says
  std::vector<StorageShape> given_outputs;  // as the caller made them
  std::vector<CompileTimeTensorDesc> output_types;
  RuntimeAttrs attributes;
  fe::PlatFormInfos platform;
  TilingData tiling;
  uint64_t tiling_key = 0;
  uint32_t block_dim = 0;
  std::vector<size_t> workspaces;
};

template <class T>
const T* At(const std::vector<T>& values, size_t i) {
  return i < values.size() ? &values[i] : nullptr;
}

class TilingContext {
 public:
  explicit TilingContext(Call& call) : call_(call) {}
  const StorageShape* GetInputShape(size_t i) const { return At(call_.inputs, i); }
  const CompileTimeTensorDesc* GetInputDesc(size_t i) const { return At(call_.input_types, i); }
  const CompileTimeTensorDesc* GetOutputDesc(size_t i) const { return At(call_.output_types, i); }
  const StorageShape* GetOutputShape(size_t i) const { return At(call_.given_outputs, i); }
  const RuntimeAttrs* GetAttrs() const { return &call_.attributes; }
  fe::PlatFormInfos* GetPlatformInfo() const { return &call_.platform; }
  TilingData* GetRawTilingData() { return &call_.tiling; }
  size_t* GetWorkspaceSizes(size_t count) {
    call_.workspaces.resize(count);
    return call_.workspaces.data();
  }
  void SetBlockDim(uint32_t cores) { call_.block_dim = cores; }
  void SetTilingKey(uint64_t key) { call_.tiling_key = key; }

 private:
  Call& call_;
};

class InferShapeContext {
 public:
  explicit InferShapeContext(Call& call) : call_(call) {}
  const Shape* GetInputShape(size_t i) const {
    return i < call_.inputs.size() ? &call_.inputs[i].shape : nullptr;
  }
  Shape* GetOutputShape(size_t i) { return i < call_.outputs.size() ? &call_.outputs[i] : nullptr; }
  const RuntimeAttrs* GetAttrs() const { return &call_.attributes; }

 private:
  Call& call_;
};

class InferDataTypeContext {
 public:
  explicit InferDataTypeContext(Call& call) : call_(call) {}
  ge::DataType GetInputDataType(size_t i) const { return call_.input_types.at(i).type; }
  ge::graphStatus SetOutputDataType(size_t i, ge::DataType type) {
    call_.output_types.at(i).type = type;
    return ge::GRAPH_SUCCESS;
  }

 private:
  Call& call_;
};

}  // namespace gert
