#include "arguments.h"

#include <ATen/ops/from_blob.h>

namespace emu {

Handle object(const void* raw, Kind kind, size_t number) {
  Handle found = find(raw);
  if (!found || found->kind != kind) {
    throw BadArgument(number, describe(raw) + ", expected an " + name(kind));
  }
  return found;
}

const at::Tensor& device_view(const aclTensor& tensor, size_t number) {
  if (!tensor.value.defined()) {
    throw BadArgument(number, "an aclTensor of aclDataType " + std::to_string(tensor.acl_type) +
                                  ", which is not emulated");
  }
  const at::Tensor& value = tensor.value;
  if (value.numel() > 0 && !is_device_memory(value.data_ptr(), value.storage().nbytes())) {
    throw BadArgument(number, "an aclTensor outside of the memory allocated on the device");
  }
  return value;
}

void check_integer(int64_t value, size_t number) {
  const auto address = reinterpret_cast<const char*>(value);
  char here;
  const auto distance = address - &here;  // the size and executor pointers are on a caller's stack
  if (find(address) || (distance > -(1 << 20) && distance < (1 << 20))) {
    throw BadArgument(number, "a pointer, expected an integer");
  }
}

namespace {

const aclTensor& as_tensor(const Handle& object) { return static_cast<const aclTensor&>(*object); }

// An element of list `number`.
std::vector<Handle> elements(const auto& list, Kind kind, size_t number) {
  std::vector<Handle> result;
  for (const auto* element : list.elements) {
    result.push_back(element ? object(element, kind, number) : nullptr);
  }
  return result;
}

}  // namespace

In Argument<In>::read(const aclTensor* raw, size_t number) {
  Handle handle = object(raw, Kind::tensor, number);
  return In(handle, device_view(as_tensor(handle), number));
}

Out Argument<Out>::read(const aclTensor* raw, size_t number) {
  Handle handle = object(raw, Kind::tensor, number);
  return Out(handle, device_view(as_tensor(handle), number));
}

Number Argument<Number>::read(const aclScalar* raw, size_t number) {
  Handle handle = object(raw, Kind::scalar, number);
  return Number(static_cast<aclScalar&>(*handle).value);
}

Ints Argument<Ints>::read(const aclIntArray* raw, size_t number) {
  Handle handle = object(raw, Kind::int_array, number);
  const auto& values = static_cast<aclIntArray&>(*handle).values;
  return Ints(values.begin(), values.end());
}

Flags Argument<Flags>::read(const aclBoolArray* raw, size_t number) {
  Handle handle = object(raw, Kind::bool_array, number);
  const auto& values = static_cast<aclBoolArray&>(*handle).values;
  return Flags(values.begin(), values.end());
}

Tensors Argument<Tensors>::read(const aclTensorList* raw, size_t number) {
  Handle handle = object(raw, Kind::tensor_list, number);
  auto objects = elements(static_cast<aclTensorList&>(*handle), Kind::tensor, number);
  std::vector<at::Tensor> values;
  for (const Handle& element : objects) {
    values.push_back(element ? device_view(as_tensor(element), number) : at::Tensor());
  }
  return Tensors(std::move(objects), std::move(values));
}

Numbers Argument<Numbers>::read(const aclScalarList* raw, size_t number) {
  Handle handle = object(raw, Kind::scalar_list, number);
  Numbers values;
  const auto& list = static_cast<aclScalarList&>(*handle);
  for (const Handle& element : elements(list, Kind::scalar, number)) {
    if (!element) throw BadArgument(number, "an aclScalarList with a null element");
    values.push_back(static_cast<aclScalar&>(*element).value);
  }
  return values;
}

Type Argument<Type>::read(int raw, size_t number) {
  const auto type = scalar_type(raw);
  if (!type) {
    throw BadArgument(number, "aclDataType " + std::to_string(raw) + ", which is not emulated");
  }
  return Type{*type};
}

std::string Argument<std::string>::read(const char* raw, size_t number) {
  if (!raw || find(raw)) throw BadArgument(number, describe(raw) + ", expected a text");
  return raw;
}

void write(const at::Tensor& out, const at::Tensor& value) {
  TORCH_CHECK(
      out.sizes() == value.sizes(), "the output has shape ", out.sizes(), ", the result ",
      value.sizes());
  TORCH_CHECK(
      c10::canCast(value.scalar_type(), out.scalar_type()), "the output has type ",
      out.scalar_type(), ", the result ", value.scalar_type());
  out.copy_(value);
}

void write_both(
    const at::Tensor& first, const at::Tensor& second, std::tuple<at::Tensor, at::Tensor> values) {
  write(first, std::get<0>(values));
  write(second, std::get<1>(values));
}

void write_resized(const Out& out, const at::Tensor& value) {
  TORCH_CHECK(
      value.numel() <= out->numel(), "the output has room for ", out->numel(),
      " elements, the result has ", value.numel());
  if (value.numel() > 0) {
    at::from_blob(out->data_ptr(), value.sizes(), out->options()).copy_(value);
  }
  out.set_view_shape(value.sizes());
}

}  // namespace emu
