// Schemas of torchrec_ascend's layout operators, and fbgemm's where fbgemm_gpu is not loaded.
// Load fbgemm_gpu first (torchrec_ascend.ops does): what it defines stays its own.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace torchrec_ascend {
namespace {

namespace functional = at::functionalization::impl;

template <class Signature>
c10::TypedOperatorHandle<Signature> find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

at::Tensor unwrap(const at::Tensor& tensor) {
  if (!functional::isFunctionalTensor(tensor)) {
    return tensor;
  }
  functional::sync(tensor);
  return functional::from_functional_tensor(tensor);
}

at::Tensor& replace(at::Tensor& out, const at::Tensor& value) {
  TORCH_CHECK(
      functional::isFunctionalTensor(out), "out must be a tensor of the program that is traced");
  TORCH_CHECK(
      out.sizes() == value.sizes(), "out has shape ", out.sizes(), ", expected ", value.sizes());
  functional::replace_(out, value);
  functional::commit_update(out);
  functional::sync(out);
  return out;
}

// The .out forms seen by torch.compile: PyTorch rewrites mutation into the functional form, and
// does so by itself only for operators of its own that return an alias.
at::Tensor& recat_out_functional(
    const at::Tensor& grad, at::IntArrayRef dims, double scale, at::Tensor& out) {
  static const auto op = find_op<at::Tensor(
      const at::Tensor&, at::IntArrayRef, double, std::optional<at::ScalarType>)>(
      "torchrec_ascend::recat");
  const at::Tensor rows = unwrap(grad);
  at::AutoDispatchSkipFunctionalize guard;
  return replace(out, op.call(rows, dims, scale, out.scalar_type()));
}

at::Tensor& unrecat_out_functional(
    const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size, at::Tensor& out) {
  static const auto op = find_op<at::Tensor(
      const at::Tensor&, at::IntArrayRef, int64_t, std::optional<at::ScalarType>)>(
      "torchrec_ascend::unrecat");
  const at::Tensor src = unwrap(flat);
  at::AutoDispatchSkipFunctionalize guard;
  return replace(out, op.call(src, dims, batch_size, out.scalar_type()));
}

} // namespace
} // namespace torchrec_ascend

TORCH_LIBRARY_FRAGMENT(torchrec_ascend, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def(
      "recat(Tensor grad, int[] dims, *, float scale=1.0, ScalarType? dtype=None) -> Tensor", tags);
  m.def(
      "recat.out(Tensor grad, int[] dims, *, float scale=1.0, Tensor(a!) out) -> Tensor(a!)", tags);
  m.def(
      "unrecat(Tensor flat, int[] dims, int batch_size, *, ScalarType? dtype=None) -> Tensor", tags);
  m.def(
      "unrecat.out(Tensor flat, int[] dims, int batch_size, *, Tensor(a!) out) -> Tensor(a!)", tags);
}

TORCH_LIBRARY_IMPL(torchrec_ascend, Functionalize, m) {
  m.impl("recat.out", &torchrec_ascend::recat_out_functional);
  m.impl("unrecat.out", &torchrec_ascend::unrecat_out_functional);
}

// The .out forms have no derivative: a backward through one raises, and does not lose the gradient.
TORCH_LIBRARY_IMPL(torchrec_ascend, Autograd, m) {
  m.impl("recat.out", torch::autograd::autogradNotImplementedFallback());
  m.impl("unrecat.out", torch::autograd::autogradNotImplementedFallback());
}

// Writing to out counts as a new version of it: a backward that saved the old one raises.
TORCH_LIBRARY_IMPL(torchrec_ascend, ADInplaceOrView, m) {
  m.impl("recat.out", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
  m.impl("unrecat.out", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}

TORCH_LIBRARY_FRAGMENT(fbgemm, m) {
  const auto define = [&m](const char* name, const char* schema) {
    if (!c10::Dispatcher::singleton().findSchema({std::string("fbgemm::") + name, ""})) {
      m.def(schema);
    }
  };
  define(
      "recat_embedding_grad_output",
      "recat_embedding_grad_output(Tensor grad_output, int[] num_features_per_rank) -> Tensor");
  define(
      "recat_embedding_grad_output_mixed_D",
      "recat_embedding_grad_output_mixed_D(Tensor grad_output, int[] dim_sum_per_rank) -> Tensor");
  define(
      "recat_embedding_grad_output_mixed_D_batch",
      "recat_embedding_grad_output_mixed_D_batch(Tensor grad_output, Tensor dim_sum_per_rank, "
      "Tensor cumsum_dim_sum_per_rank) -> Tensor");
}
