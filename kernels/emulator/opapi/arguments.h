// The parameter types of an operator (operator.h): what a caller of the aclnn function passes, and
// what the operator's body sees.
#pragma once

#include "acl_objects.h"

#include <array>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <vector>

struct aclOpExecutor;

namespace emu {

struct BadArgument : std::runtime_error {
  BadArgument(size_t number, const std::string& what)
      : std::runtime_error("argument " + std::to_string(number) + " is " + what) {}
};

// The live object that argument `number` is; an error if it is none of this kind.
EMU_API Handle object(const void* raw, Kind kind, size_t number);

// The view of argument `number`; an error unless it is device memory, and of a type that ATen has.
EMU_API const at::Tensor& device_view(const aclTensor& tensor, size_t number);

// Throws if an integer argument must be meant for a pointer parameter: the list is shifted.
EMU_API void check_integer(int64_t value, size_t number);

// A tensor that is read.
class In {
 public:
  In(Handle object, const at::Tensor& value) : object_(std::move(object)), value_(value) {}

  operator const at::Tensor&() const { return value_; }
  const at::Tensor& operator*() const { return value_; }
  const at::Tensor* operator->() const { return &value_; }

 protected:
  Handle object_;
  at::Tensor value_;
};

// A tensor that is written: write(out, value), or one of ATen's in-place functions.
class Out : public In {
 public:
  using In::In;

  // A shape that is known only now, such as nonzero's; the output has room for the largest.
  void set_view_shape(at::IntArrayRef shape) const {
    static_cast<aclTensor&>(*object_).view_shape = shape.vec();
  }
};

// A null pointer is "not given".
template <class T>
class Optional : public std::optional<T> {
 public:
  using std::optional<T>::optional;

  operator std::optional<at::Tensor>() const
    requires std::is_base_of_v<In, T>
  {
    return this->has_value() ? std::optional<at::Tensor>(**(*this)) : std::nullopt;
  }
  operator std::optional<at::Scalar>() const
    requires(!std::is_base_of_v<In, T>)
  {
    return this->has_value() ? std::optional<at::Scalar>(*(*this)) : std::nullopt;
  }
};

class Number {
 public:
  explicit Number(at::Scalar value) : value_(value) {}

  operator const at::Scalar&() const { return value_; }
  const at::Scalar& operator*() const { return value_; }
  const at::Scalar* operator->() const { return &value_; }

 private:
  at::Scalar value_;
};

struct Ints : std::vector<int64_t> {
  using std::vector<int64_t>::vector;
};

// As the masks of backward operators come.
struct Flags : std::vector<bool> {
  using std::vector<bool>::vector;

  template <size_t N>
  operator std::array<bool, N>() const {
    std::array<bool, N> result{};
    for (size_t i = 0; i < N; ++i) result[i] = this->at(i);
    return result;
  }
};

// A list of tensors; an absent one is undefined.
class Tensors {
 public:
  explicit Tensors(std::vector<Handle> objects, std::vector<at::Tensor> values)
      : objects_(std::move(objects)), values_(std::move(values)) {}

  operator at::TensorList() const { return values_; }
  const at::Tensor& operator[](size_t i) const { return values_.at(i); }
  size_t size() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<Handle> objects_;
  std::vector<at::Tensor> values_;
};

struct Numbers : std::vector<at::Scalar> {
  using std::vector<at::Scalar>::vector;
};

// An aclDataType by value.
struct Type {
  at::ScalarType value;
  operator at::ScalarType() const { return value; }
};

// Reading: Argument<T>::Raw is the caller's type, read(raw, number) gives the T or throws.
template <class T>
struct Argument;

#define EMU_OBJECT_ARGUMENT(T, acl_type)                  \
  template <>                                             \
  struct EMU_API Argument<T> {                            \
    using Raw = const acl_type*;                          \
    static T read(const acl_type* raw, size_t number);    \
  };
EMU_OBJECT_ARGUMENT(In, aclTensor)
EMU_OBJECT_ARGUMENT(Out, aclTensor)
EMU_OBJECT_ARGUMENT(Number, aclScalar)
EMU_OBJECT_ARGUMENT(Ints, aclIntArray)
EMU_OBJECT_ARGUMENT(Flags, aclBoolArray)
EMU_OBJECT_ARGUMENT(Tensors, aclTensorList)
EMU_OBJECT_ARGUMENT(Numbers, aclScalarList)
#undef EMU_OBJECT_ARGUMENT

template <class T>
struct Argument<Optional<T>> {
  using Raw = typename Argument<T>::Raw;
  static Optional<T> read(Raw raw, size_t number) {
    return raw ? Optional<T>(Argument<T>::read(raw, number)) : Optional<T>();
  }
};

template <>
struct EMU_API Argument<Type> {
  using Raw = int;
  static Type read(int raw, size_t number);
};

template <>
struct EMU_API Argument<std::string> {
  using Raw = const char*;
  static std::string read(const char* raw, size_t number);
};

template <class T>
  requires std::is_arithmetic_v<T>
struct Argument<T> {
  using Raw = T;
  static T read(T raw, size_t number) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) check_integer(int64_t(raw), number);
    return raw;
  }
};

// Writes a result of the output's shape, converted to its type; an error where ATen has no such
// conversion on its own, as of a fraction to an integer.
EMU_API void write(const at::Tensor& out, const at::Tensor& value);

EMU_API void write_both(
    const at::Tensor& first, const at::Tensor& second, std::tuple<at::Tensor, at::Tensor> values);

// Writes a result whose shape the caller learns by aclGetViewShape.
EMU_API void write_resized(const Out& out, const at::Tensor& value);

}  // namespace emu
