#include "reduce.h"

#include "error.h"
#include "names.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace emu::hccl {
namespace {

constexpr int kAtlasA5 = 3510;

struct Bfloat16 {
  uint16_t bits = 0;
};

float load(Bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

float load(_Float16 value) { return value; }

template <typename T>
T load(T value) {
  return value;
}

void store(float value, Bfloat16& to) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) {
    to.bits = 0x7fc0;
    return;
  }
  const uint32_t round_to_even = 0x7fff + ((bits >> 16) & 1);
  to.bits = static_cast<uint16_t>((bits + round_to_even) >> 16);
}

void store(float value, _Float16& to) { to = static_cast<_Float16>(value); }

template <typename T>
void store(T value, T& to) {
  to = value;
}

// Integers wrap, which signed arithmetic of C++ does not.
template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + b);
  return a + b;
}

template <typename T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  return a * b;
}

template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a > b ? a : b;
}

template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? a : b;
}

template <typename T, typename Combine>
void reduce_with(void* result, const std::vector<const void*>& sources, uint64_t count,
                 Combine combine) {
  T* const out = static_cast<T*>(result);
  for (uint64_t index = 0; index < count; ++index) {
    auto value = load(static_cast<const T*>(sources[0])[index]);
    for (size_t rank = 1; rank < sources.size(); ++rank) {
      value = combine(value, load(static_cast<const T*>(sources[rank])[index]));
    }
    store(value, out[index]);
  }
}

template <typename T>
void reduce_typed(void* result, const std::vector<const void*>& sources, uint64_t count,
                  uint32_t reduce) {
  using Value = decltype(load(T()));
  switch (reduce) {
    case HCCL_REDUCE_SUM: return reduce_with<T>(result, sources, count, add<Value>);
    case HCCL_REDUCE_PROD: return reduce_with<T>(result, sources, count, multiply<Value>);
    case HCCL_REDUCE_MAX: return reduce_with<T>(result, sources, count, larger<Value>);
    default: return reduce_with<T>(result, sources, count, smaller<Value>);
  }
}

// What HCCL's documents list: a reduction outside is an error on the card, and so it is here.
bool has_reduction(uint32_t dtype, uint32_t reduce) {
  const bool a5 = chip().arch == kAtlasA5;
  switch (dtype) {
    case HCCL_DATA_TYPE_INT8:
    case HCCL_DATA_TYPE_INT32:
    case HCCL_DATA_TYPE_INT64:
    case HCCL_DATA_TYPE_FP16:
    case HCCL_DATA_TYPE_FP32: return true;
    case HCCL_DATA_TYPE_INT16:
    case HCCL_DATA_TYPE_BFP16: return a5 || reduce != HCCL_REDUCE_PROD;
    case HCCL_DATA_TYPE_UINT64:
    case HCCL_DATA_TYPE_FP64: return a5;
    default: return false;
  }
}

}  // namespace

void check_reduction(uint32_t dtype, uint32_t reduce) {
  if (reduce > HCCL_REDUCE_MIN) {
    throw Error(HCCL_E_PARA, "op is " + std::to_string(reduce) + ", expected sum, prod, max or min");
  }
  if (!has_reduction(dtype, reduce)) {
    throw Error(HCCL_E_NOT_SUPPORT, "HCCL has no " + reduce_name(reduce) + " of " +
                                        dtype_name(dtype) + " on " + chip().soc);
  }
}

void reduce_in_rank_order(void* result, const std::vector<const void*>& sources, uint64_t count,
                          uint32_t dtype, uint32_t reduce) {
  switch (dtype) {
    case HCCL_DATA_TYPE_INT8: return reduce_typed<int8_t>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_INT16: return reduce_typed<int16_t>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_INT32: return reduce_typed<int32_t>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_INT64: return reduce_typed<int64_t>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_UINT64: return reduce_typed<uint64_t>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_FP16: return reduce_typed<_Float16>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_BFP16: return reduce_typed<Bfloat16>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_FP32: return reduce_typed<float>(result, sources, count, reduce);
    case HCCL_DATA_TYPE_FP64: return reduce_typed<double>(result, sources, count, reduce);
    default: throw Error(HCCL_E_NOT_SUPPORT, "no arithmetic for " + dtype_name(dtype));
  }
}

}  // namespace emu::hccl
