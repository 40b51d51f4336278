// NPU kernels of the layout operators, for torch_npu: the compiled operator RecatCopyAsync where its
// package is installed, else a composition of stock operators. Loaded after torch_npu, by
// torchrec_ascend.ops.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "npu/composition.h"
#include "npu/operator_package.h"
#include "npu/recat_copy_async.h"
#include "npu/split_cache.h"
#include "recat_operators.h"

namespace torchrec_ascend {
namespace {

// Whether the compiled operator serves a copy between these dtypes. float64 is not in it.
bool compiled(at::ScalarType in, at::ScalarType out) {
  const npu::OperatorPackage& package = npu::operator_package();
  if (!package.found) {
    TORCH_WARN_ONCE(
        "torchrec_ascend: recat and unrecat on the NPU are composed of stock operators, because "
        "the compiled operator RecatCopyAsync was not found: ", package.explanation);
  }
  return package.found && npu::has_kernel(in, out);
}

// torch_npu casts to float32 where float64 is asked for, which is no error there but wrong here.
void check_conversion(const char* op, at::ScalarType in, at::ScalarType out, double scale) {
  TORCH_CHECK(
      (in != at::kDouble && out != at::kDouble) || (in == out && scale == 1.0), op, ": ", in,
      " to ", out, " with scale ", scale, ": on an NPU float64 is copied, neither cast nor scaled");
}

struct Npu {
  static void recat(
      const at::Tensor& rows, at::IntArrayRef dims, double scale, at::Tensor& out, Output) {
    check_conversion("recat", rows.scalar_type(), out.scalar_type(), scale);
    if (out.numel() == 0) {
      return;
    }
    if (!compiled(rows.scalar_type(), out.scalar_type())) {
      npu::recat_composed(rows, dims, scale, out);
      return;
    }
    const npu::Splits splits = npu::device_splits(dims, out.device());
    npu::recat_copy_async(
        rows.contiguous(), splits.dims, splits.offsets, rows.size(0), false, scale, out);
  }

  static void unrecat(const at::Tensor& flat, at::IntArrayRef dims, at::Tensor& out, Output) {
    check_conversion("unrecat", flat.scalar_type(), out.scalar_type(), 1.0);
    if (out.numel() == 0) {
      return;
    }
    if (!compiled(flat.scalar_type(), out.scalar_type())) {
      npu::unrecat_composed(flat, dims, out);
      return;
    }
    const npu::Splits splits = npu::device_splits(dims, out.device());
    npu::recat_copy_async(flat, splits.dims, splits.offsets, out.size(0), true, 1.0, out);
  }
};

using Operators = RecatOperators<Npu>;

// The values of dims and offsets are on the device and are not checked: that would wait for it.
at::Tensor recat_embedding_grad_output_mixed_D_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets) {
  check_recat_batch(grad, dims, offsets);
  TORCH_CHECK(
      grad.numel() == 0 || dims.numel() > 0,
      "recat_embedding_grad_output_mixed_D_batch: dim_sum_per_rank has 0 entries, expected one per "
      "rank for the ", grad.size(1), " columns of grad_output");
  if (!compiled(grad.scalar_type(), grad.scalar_type())) {
    return npu::recat_composed_batch(grad, dims, offsets);
  }
  at::Tensor out = at::empty({grad.numel()}, grad.options());
  if (out.numel() > 0) {
    npu::recat_copy_async(grad, dims, offsets, grad.size(0), false, 1.0, out);
  }
  return out;
}

// Boxed, because all unboxed kernels of an operator must have one C++ signature, and fbgemm's CPU kernel
// takes dim_sum_per_rank as a std::vector.
void recat_embedding_grad_output_mixed_D(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const std::vector<int64_t> dims = torch::jit::pop(*stack).toIntVector();
  const at::Tensor grad = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, Operators::recat_embedding_grad_output_mixed_D(grad, dims));
}

// (whether the compiled operator serves, and from where or why not)
std::tuple<bool, std::string> npu_operator_package() {
  const npu::OperatorPackage& package = npu::operator_package();
  return {package.found, package.explanation};
}

} // namespace
} // namespace torchrec_ascend

TORCH_LIBRARY_FRAGMENT(torchrec_ascend, m) {
  m.def(
      "_npu_operator_package() -> (bool found, str explanation)",
      &torchrec_ascend::npu_operator_package);
}

TORCH_LIBRARY_IMPL(torchrec_ascend, PrivateUse1, m) {
  torchrec_ascend::Operators::register_own(m);
}

TORCH_LIBRARY_IMPL(fbgemm, PrivateUse1, m) {
  // A package that brought NPU kernels of its own keeps them.
  const auto offer = [&m](const char* name, auto kernel) {
    const auto op = c10::Dispatcher::singleton().findOp({std::string("fbgemm::") + name, ""});
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) {
      m.impl(name, std::move(kernel));
    }
  };
  using torchrec_ascend::Operators;
  offer("recat_embedding_grad_output", &Operators::recat_embedding_grad_output);
  offer(
      "recat_embedding_grad_output_mixed_D",
      torch::CppFunction::makeFromBoxedFunction<
          &torchrec_ascend::recat_embedding_grad_output_mixed_D>());
  offer(
      "recat_embedding_grad_output_mixed_D_batch",
      &torchrec_ascend::recat_embedding_grad_output_mixed_D_batch);
}
