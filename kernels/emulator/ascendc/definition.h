// An operator's definition in the form of msopgen's JSON, for tests to compare with the file.
#pragma once
#include <sstream>
#include <string>

#include "register/op_def_registry.h"

namespace emu {

inline const char* NameOf(ge::DataType type) {
  switch (type) {
    case ge::DT_FLOAT: return "float";
    case ge::DT_FLOAT16: return "float16";
    case ge::DT_BF16: return "bfloat16";
    case ge::DT_INT64: return "int64";
  }
  return "unknown";
}

inline const char* NameOf(ge::Format format) {
  switch (format) {
    case ge::FORMAT_NCHW: return "NCHW";
    case ge::FORMAT_ND: return "ND";
  }
  return "unknown";
}

inline const char* NameOf(ops::Option option) {
  return option == ops::REQUIRED ? "required" : "optional";
}

template <class T>
std::string Names(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += std::string(text.empty() ? "" : ", ") + '"' + NameOf(value) + '"';
  }
  return "[" + text + "]";
}

inline std::string Parameters(const std::deque<ops::OpParamDef>& parameters) {
  std::ostringstream text;
  for (const auto& p : parameters) {
    text << (text.tellp() > 0 ? ", " : "") << "{\"name\": \"" << p.name << "\", \"param_type\": \""
         << NameOf(p.option) << "\", \"format\": " << Names(p.formats)
         << ", \"type\": " << Names(p.types) << "}";
  }
  return "[" + text.str() + "]";
}

inline std::string Json(const ops::OpDef& op) {
  std::ostringstream attributes;
  for (const auto& a : op.attributes) {
    attributes << (attributes.tellp() > 0 ? ", " : "") << "{\"name\": \"" << a.name
               << "\", \"param_type\": \"" << NameOf(a.option) << "\", \"type\": \"" << a.type << '"';
    if (!a.value.empty()) {
      attributes << ", \"default_value\": " << a.value;
    }
    attributes << "}";
  }
  return "[{\"op\": \"" + op.name + "\", \"language\": \"cpp\", \"input_desc\": " +
         Parameters(op.inputs) + ", \"output_desc\": " + Parameters(op.outputs) +
         ", \"attr\": [" + attributes.str() + "]}]";
}

}  // namespace emu
