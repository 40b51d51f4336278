// The objects that aclnn functions take: tensors, scalars, arrays, and lists of them. CANN's
// functions that create and destroy them are in acl_objects.cpp.
#pragma once

#include "emulator.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace emu {

enum class Kind {
  tensor, scalar, int_array, float_array, bool_array, tensor_list, scalar_list, executor
};

// The C type's name, such as "aclTensor".
EMU_API const char* name(Kind kind);

struct Object {
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;

  const Kind kind;
};

using Handle = std::shared_ptr<Object>;

// An application holds an object's address. It is looked up before it is followed, so that a wrong
// argument is an error message and not a crash. A Handle keeps the object alive, even after the
// application has destroyed it.
EMU_API Object* add(Handle object);
EMU_API Handle find(const void* address);    // null unless it is a live object
EMU_API Handle remove(const void* address);  // the application gives it up

// ATen's type for an aclDataType, or none (such as ACL_INT4).
EMU_API std::optional<at::ScalarType> scalar_type(int acl_type);

// For messages: "an aclTensor", "null", or "0x10, which is no live acl object".
EMU_API std::string describe(const void* address);

}  // namespace emu

// A view of device memory. `value` is undefined where ATen has no such data type.
struct aclTensor : emu::Object {
  aclTensor() : Object(emu::Kind::tensor) {}

  int acl_type = 0;
  at::Tensor value;
  std::vector<int64_t> view_shape;  // what aclGetViewShape answers; nonzero and the like change it
};

struct aclScalar : emu::Object {
  explicit aclScalar(at::Scalar value) : Object(emu::Kind::scalar), value(value) {}

  at::Scalar value;
};

struct aclIntArray : emu::Object {
  aclIntArray(const int64_t* first, uint64_t size)
      : Object(emu::Kind::int_array), values(first, first + size) {}

  std::vector<int64_t> values;
};

struct aclFloatArray : emu::Object {
  aclFloatArray(const float* first, uint64_t size)
      : Object(emu::Kind::float_array), values(first, first + size) {}

  std::vector<float> values;
};

struct aclBoolArray : emu::Object {
  aclBoolArray(const bool* first, uint64_t size)
      : Object(emu::Kind::bool_array), values(first, first + size) {}

  std::vector<bool> values;
};

// A list owns its elements: destroying it destroys them.
struct aclTensorList : emu::Object {
  aclTensorList() : Object(emu::Kind::tensor_list) {}

  std::vector<const aclTensor*> elements;
};

struct aclScalarList : emu::Object {
  aclScalarList() : Object(emu::Kind::scalar_list) {}

  std::vector<const aclScalar*> elements;
};
