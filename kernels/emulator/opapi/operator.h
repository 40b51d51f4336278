// How an aclnn operator is defined. One line makes both of its functions, aclnnMulsGetWorkspaceSize
// and aclnnMuls:
//
//   OPERATOR(aclnnMuls, In self, Number n, Out out) { write(out, at::mul(self, n)); }
//
// The parameters are those that torch_npu passes, in its order; their types (arguments.h) say how
// they arrive and are checked. The body runs in the stream's order, on the device's memory; what it
// throws is the operator's failure.
#pragma once

#include "arguments.h"

#include <atomic>
#include <functional>
#include <tuple>

namespace emu {

// One record per operator of the libraries that are loaded.
struct EMU_API Operator {
  explicit Operator(const char* name);

  const char* const name;
  std::atomic<uint64_t> runs = 0;
  Operator* const next;  // the operator defined before
};

// What phase 2 runs; it owns what it uses. `workspace` is the memory that phase 1 asked for.
using Body = std::function<void(void* workspace)>;

// Phase 1. `make` reads the arguments and gives the body; what it throws is an invalid parameter.
EMU_API int prepare(
    Operator& op, uint64_t* workspace_size, aclOpExecutor** executor, uint64_t workspace_bytes,
    const std::function<Body()>& make);

// Phase 2: runs the executor's body in the stream's order, and ends the executor.
EMU_API int execute(
    Operator& op, void* workspace, aclOpExecutor* executor, aclrtStream stream);

// Reads the arguments of `compute`, from number `I` on, as its parameters' types say.
template <class... Parameters, size_t... I>
int prepare_call(
    Operator& op, void (*compute)(Parameters...), std::index_sequence<I...>,
    uint64_t* workspace_size, aclOpExecutor** executor, typename Argument<Parameters>::Raw... raw) {
  return prepare(op, workspace_size, executor, 0, [&]() -> Body {
    // Braces: read from left to right, so that the first wrong argument is the one reported.
    std::tuple<Parameters...> arguments{Argument<Parameters>::read(raw, I + 1)...};
    return [compute, arguments = std::move(arguments)](void*) { std::apply(compute, arguments); };
  });
}

// The type in which a caller passes argument I of `compute`.
template <class Compute, size_t I>
struct RawArgument;
template <class... Parameters, size_t I>
struct RawArgument<void (*)(Parameters...), I> {
  using type = typename Argument<std::tuple_element_t<I, std::tuple<Parameters...>>>::Raw;
};

}  // namespace emu

// The parameters of a C function have to be spelled out: EMU_RAW_3(f) declares a0, a1 and a2 with
// the types in which arguments of f are passed, EMU_NAMES_3 is "a0, a1, a2".
#define EMU_RAW(compute, i) typename emu::RawArgument<decltype(&compute), i>::type a##i
#define EMU_RAW_1(f) EMU_RAW(f, 0)
#define EMU_RAW_2(f) EMU_RAW_1(f), EMU_RAW(f, 1)
#define EMU_RAW_3(f) EMU_RAW_2(f), EMU_RAW(f, 2)
#define EMU_RAW_4(f) EMU_RAW_3(f), EMU_RAW(f, 3)
#define EMU_RAW_5(f) EMU_RAW_4(f), EMU_RAW(f, 4)
#define EMU_RAW_6(f) EMU_RAW_5(f), EMU_RAW(f, 5)
#define EMU_RAW_7(f) EMU_RAW_6(f), EMU_RAW(f, 6)
#define EMU_RAW_8(f) EMU_RAW_7(f), EMU_RAW(f, 7)
#define EMU_RAW_9(f) EMU_RAW_8(f), EMU_RAW(f, 8)
#define EMU_RAW_10(f) EMU_RAW_9(f), EMU_RAW(f, 9)
#define EMU_RAW_11(f) EMU_RAW_10(f), EMU_RAW(f, 10)
#define EMU_RAW_12(f) EMU_RAW_11(f), EMU_RAW(f, 11)
#define EMU_RAW_13(f) EMU_RAW_12(f), EMU_RAW(f, 12)
#define EMU_RAW_14(f) EMU_RAW_13(f), EMU_RAW(f, 13)
#define EMU_RAW_15(f) EMU_RAW_14(f), EMU_RAW(f, 14)
#define EMU_RAW_16(f) EMU_RAW_15(f), EMU_RAW(f, 15)

#define EMU_NAMES_1 a0
#define EMU_NAMES_2 EMU_NAMES_1, a1
#define EMU_NAMES_3 EMU_NAMES_2, a2
#define EMU_NAMES_4 EMU_NAMES_3, a3
#define EMU_NAMES_5 EMU_NAMES_4, a4
#define EMU_NAMES_6 EMU_NAMES_5, a5
#define EMU_NAMES_7 EMU_NAMES_6, a6
#define EMU_NAMES_8 EMU_NAMES_7, a7
#define EMU_NAMES_9 EMU_NAMES_8, a8
#define EMU_NAMES_10 EMU_NAMES_9, a9
#define EMU_NAMES_11 EMU_NAMES_10, a10
#define EMU_NAMES_12 EMU_NAMES_11, a11
#define EMU_NAMES_13 EMU_NAMES_12, a12
#define EMU_NAMES_14 EMU_NAMES_13, a13
#define EMU_NAMES_15 EMU_NAMES_14, a14
#define EMU_NAMES_16 EMU_NAMES_15, a15

#define EMU_COUNT(...) \
  EMU_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
#define EMU_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#define EMU_JOIN(a, b) EMU_JOIN_(a, b)
#define EMU_JOIN_(a, b) a##b

#define OPERATOR(name, ...) EMU_OPERATOR(name, EMU_COUNT(__VA_ARGS__), __VA_ARGS__)
#define EMU_OPERATOR(name, count, ...)                                                             \
  static void name##Compute(__VA_ARGS__);                                                          \
  static emu::Operator name##Operator{#name};                                                      \
  CANN_API int name##GetWorkspaceSize(                                                             \
      EMU_JOIN(EMU_RAW_, count)(name##Compute), uint64_t* workspace_size,                          \
      aclOpExecutor** executor) {                                                                  \
    return emu::prepare_call(                                                                      \
        name##Operator, &name##Compute, std::make_index_sequence<count>{}, workspace_size,         \
        executor, EMU_JOIN(EMU_NAMES_, count));                                                    \
  }                                                                                                \
  CANN_API int name(                                                                               \
      void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream) {               \
    return emu::execute(name##Operator, workspace, executor, stream);                              \
  }                                                                                                \
  static void name##Compute(__VA_ARGS__)
