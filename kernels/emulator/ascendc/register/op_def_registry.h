// The definition of an operator, as its host source writes it down with OpDef and OP_ADD. Kept, so
// that tests can read it and calls can be checked against it.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "host_context.h"
#include "register/tilingdata_base.h"

namespace ops {

enum Option { OPTIONAL = 0, REQUIRED = 1 };

struct OpParamDef {
  std::string name;
  Option option = OPTIONAL;
  std::vector<ge::DataType> types;
  std::vector<ge::Format> formats;
  OpParamDef& ParamType(Option value) { return option = value, *this; }
  OpParamDef& DataType(std::vector<ge::DataType> value) { return types = value, *this; }
  OpParamDef& Format(std::vector<ge::Format> value) { return formats = value, *this; }
  OpParamDef& UnknownShapeFormat(const std::vector<ge::Format>&) { return *this; }
};

struct OpAttrDef {
  std::string name;
  Option option = REQUIRED;
  std::string type;
  std::string value;  // the default, as JSON
  OpAttrDef& AttrType(Option chosen) { return option = chosen, *this; }
  OpAttrDef& Int() { return type = "int", *this; }
  OpAttrDef& Bool(bool preset) { return type = "bool", value = preset ? "true" : "false", *this; }
  OpAttrDef& Float(float preset) { return type = "float", value = std::to_string(preset), *this; }
};

struct OpAICoreDef {
  ge::graphStatus (*tiling)(gert::TilingContext*) = nullptr;
  std::vector<std::string> chips;
  void SetTiling(ge::graphStatus (*function)(gert::TilingContext*)) { tiling = function; }
  void AddConfig(const char* chip) { chips.push_back(chip); }
};

// Parts are kept in a deque: what a caller holds stays where it is when others are added.
class OpDef {
 public:
  explicit OpDef(const char* name) : name(name) {}
  OpParamDef& Input(const char* of) { return Added(inputs, of); }
  OpParamDef& Output(const char* of) { return Added(outputs, of); }
  OpAttrDef& Attr(const char* of) { return Added(attributes, of); }
  OpAICoreDef& AICore() { return core; }
  OpDef& SetInferShape(ge::graphStatus (*function)(gert::InferShapeContext*)) {
    return infer_shape = function, *this;
  }
  OpDef& SetInferDataType(ge::graphStatus (*function)(gert::InferDataTypeContext*)) {
    return infer_type = function, *this;
  }

  std::string name;
  std::deque<OpParamDef> inputs, outputs;
  std::deque<OpAttrDef> attributes;
  OpAICoreDef core;
  ge::graphStatus (*infer_shape)(gert::InferShapeContext*) = nullptr;
  ge::graphStatus (*infer_type)(gert::InferDataTypeContext*) = nullptr;

 private:
  template <class T>
  static T& Added(std::deque<T>& parts, const char* of) {
    parts.emplace_back();
    parts.back().name = of;
    return parts.back();
  }
};

}  // namespace ops

// One function an operator: the definition by name.
#define OP_ADD(Op)                              \
  const OpDef& EmulatedDefinition##Op() {       \
    static const Op definition(#Op);            \
    return definition;                          \
  }                                             \
  static_assert(true)
