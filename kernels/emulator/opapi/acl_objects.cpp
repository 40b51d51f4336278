#include "acl_objects.h"

#include <ATen/ops/from_blob.h>

#include "registry.h"

namespace emu {
namespace {

Registry<Object>& objects() {
  static auto& registry = *new Registry<Object>;  // never destroyed: threads may outlive statics
  return registry;
}

}  // namespace

const char* name(Kind kind) {
  switch (kind) {
    case Kind::tensor: return "aclTensor";
    case Kind::scalar: return "aclScalar";
    case Kind::int_array: return "aclIntArray";
    case Kind::float_array: return "aclFloatArray";
    case Kind::bool_array: return "aclBoolArray";
    case Kind::tensor_list: return "aclTensorList";
    case Kind::scalar_list: return "aclScalarList";
    case Kind::executor: return "aclOpExecutor";
  }
  return "unknown";
}

Object* add(Handle object) { return objects().add(std::move(object)); }

Handle find(const void* address) { return objects().find(address); }

Handle remove(const void* address) { return objects().remove(address); }

std::string describe(const void* address) {
  if (!address) return "null";
  if (Handle object = find(address)) return std::string("an ") + name(object->kind);
  char text[64];
  snprintf(text, sizeof text, "%p, which is no live acl object", address);
  return text;
}

std::optional<at::ScalarType> scalar_type(int acl_type) {
  switch (acl_type) {
    case ACL_FLOAT: return at::kFloat;
    case ACL_FLOAT16: return at::kHalf;
    case ACL_INT8: return at::kChar;
    case ACL_INT32: return at::kInt;
    case ACL_UINT8: return at::kByte;
    case ACL_INT16: return at::kShort;
    case ACL_UINT16: return at::kUInt16;
    case ACL_UINT32: return at::kUInt32;
    case ACL_INT64: return at::kLong;
    case ACL_UINT64: return at::kUInt64;
    case ACL_DOUBLE: return at::kDouble;
    case ACL_BOOL: return at::kBool;
    case ACL_COMPLEX64: return at::kComplexFloat;
    case ACL_COMPLEX128: return at::kComplexDouble;
    case ACL_BF16: return at::kBFloat16;
    default: return std::nullopt;
  }
}

namespace {

template <class T>
at::Scalar read(const void* value) {
  return *static_cast<const T*>(value);
}

std::optional<at::Scalar> read_scalar(const void* value, int acl_type) {
  switch (acl_type) {
    case ACL_FLOAT: return read<float>(value);
    case ACL_FLOAT16: return read<at::Half>(value);
    case ACL_BF16: return read<at::BFloat16>(value);
    case ACL_INT8: return read<int8_t>(value);
    case ACL_UINT8: return read<uint8_t>(value);
    case ACL_INT16: return read<int16_t>(value);
    case ACL_INT32: return read<int32_t>(value);
    case ACL_INT64: return read<int64_t>(value);
    case ACL_DOUBLE: return read<double>(value);
    case ACL_BOOL: return read<bool>(value);
    case ACL_COMPLEX64: return read<c10::complex<float>>(value);
    case ACL_COMPLEX128: return read<c10::complex<double>>(value);
    default: return std::nullopt;
  }
}

template <class T>
T* create(std::shared_ptr<T> object) {
  return static_cast<T*>(add(std::move(object)));
}

int destroy(const void* address, Kind kind) {
  if (!address) return ACL_SUCCESS;
  Handle object = find(address);
  if (!object || object->kind != kind) {
    return report({ACL_ERROR_INVALID_PARAM, std::string("emulated CANN: to destroy an ") +
                                                name(kind) + ", got " + describe(address)});
  }
  remove(address);
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace emu

CANN_API aclTensor* aclCreateTensor(
    const int64_t* view_dims, uint64_t view_dims_num, aclDataType data_type, const int64_t* stride,
    int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dims_num,
    void* tensor_data) {
  auto tensor = std::make_shared<aclTensor>();
  tensor->acl_type = data_type;
  tensor->view_shape.assign(view_dims, view_dims + view_dims_num);
  if (auto type = emu::scalar_type(data_type)) {
    // Formats other than ND are laid out like ND here (README.md, what it cannot show).
    char* first = static_cast<char*>(tensor_data) + offset * int64_t(c10::elementSize(*type));
    tensor->value = at::from_blob(
        first, at::IntArrayRef(view_dims, view_dims_num), at::IntArrayRef(stride, view_dims_num),
        at::TensorOptions().dtype(*type).device(at::kCPU));
  }
  return emu::create(tensor);
}

CANN_API aclScalar* aclCreateScalar(void* value, aclDataType data_type) {
  auto scalar = emu::read_scalar(value, data_type);
  return scalar ? emu::create(std::make_shared<aclScalar>(*scalar)) : nullptr;
}

CANN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return emu::create(std::make_shared<aclIntArray>(value, size));
}

CANN_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return emu::create(std::make_shared<aclFloatArray>(value, size));
}

CANN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return emu::create(std::make_shared<aclBoolArray>(value, size));
}

CANN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  auto list = std::make_shared<aclTensorList>();
  list->elements.assign(value, value + size);
  return emu::create(list);
}

CANN_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
  auto list = std::make_shared<aclScalarList>();
  list->elements.assign(value, value + size);
  return emu::create(list);
}

CANN_API int aclDestroyTensor(const aclTensor* tensor) {
  return emu::destroy(tensor, emu::Kind::tensor);
}

CANN_API int aclDestroyScalar(const aclScalar* scalar) {
  return emu::destroy(scalar, emu::Kind::scalar);
}

CANN_API int aclDestroyIntArray(const aclIntArray* array) {
  return emu::destroy(array, emu::Kind::int_array);
}

CANN_API int aclDestroyFloatArray(const aclFloatArray* array) {
  return emu::destroy(array, emu::Kind::float_array);
}

CANN_API int aclDestroyBoolArray(const aclBoolArray* array) {
  return emu::destroy(array, emu::Kind::bool_array);
}

CANN_API int aclDestroyTensorList(const aclTensorList* list) {
  emu::Handle object = emu::find(list);
  const int code = emu::destroy(list, emu::Kind::tensor_list);
  if (object && code == ACL_SUCCESS) {
    for (const aclTensor* element : list->elements) aclDestroyTensor(element);
  }
  return code;
}

CANN_API int aclDestroyScalarList(const aclScalarList* list) {
  emu::Handle object = emu::find(list);
  const int code = emu::destroy(list, emu::Kind::scalar_list);
  if (object && code == ACL_SUCCESS) {
    for (const aclScalar* element : list->elements) aclDestroyScalar(element);
  }
  return code;
}

// The caller frees *view_dims with delete[].
CANN_API int aclGetViewShape(
    const aclTensor* tensor, int64_t** view_dims, uint64_t* view_dims_num) {
  emu::Handle object = emu::find(tensor);
  if (!object || object->kind != emu::Kind::tensor) {
    return emu::report({ACL_ERROR_INVALID_PARAM,
                        "emulated aclGetViewShape: got " + emu::describe(tensor)});
  }
  *view_dims_num = tensor->view_shape.size();
  *view_dims = new int64_t[std::max<size_t>(1, tensor->view_shape.size())];
  std::copy(tensor->view_shape.begin(), tensor->view_shape.end(), *view_dims);
  return ACL_SUCCESS;
}
