// half and bfloat16_t of Ascend C, rounding to nearest even.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace emu {

struct half {
  uint16_t bits = 0;
};
struct bfloat16_t {
  uint16_t bits = 0;
};

inline float ToFloat(float x) { return x; }
inline float ToFloat(bfloat16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline float ToFloat(half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t exponent = x.bits >> 10 & 31;
  const uint32_t fraction = x.bits & 1023;
  if (exponent == 31) {
    return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  }
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

// `bits` without its `drop` lowest bits; ToEven rounds to nearest even, else they are cut off.
template <bool ToEven>
uint32_t Drop(uint32_t bits, uint32_t drop) {
  if (!ToEven || drop == 0) {
    return bits >> drop;
  }
  return (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
}

template <bool ToEven>
void FromFloat(float x, float& result) {
  result = x;
}
template <bool ToEven>
void FromFloat(float x, bfloat16_t& result) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  result.bits = static_cast<uint16_t>(x != x ? bits >> 16 | 0x40 : Drop<ToEven>(bits, 16));
}
template <bool ToEven>
void FromFloat(float x, half& result) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t value = 0;
  if (magnitude > 0x7F800000u) {
    value = 0x7E00;
  } else if (magnitude >= 0x47800000u) {  // 2^16 and infinity
    value = 0x7C00;
  } else if (magnitude >= 0x38800000u) {  // 2^-14: normal, or rounded up to infinity
    value = Drop<ToEven>(magnitude - (112u << 23), 13);
  } else if (magnitude >= 0x33000000u) {  // 2^-25: subnormal
    const uint32_t shift = 126 - (magnitude >> 23);
    value = Drop<ToEven>((magnitude & 0x7FFFFF) | 0x800000, shift);
  }
  result.bits = static_cast<uint16_t>(sign | value);
}

}  // namespace emu
