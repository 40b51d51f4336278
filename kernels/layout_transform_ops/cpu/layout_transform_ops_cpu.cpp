// CPU kernels: checks, threads, and registration under torchrec_ascend:: and (where fbgemm has
// none) fbgemm::. The copy loops are in recat_kernel.inc.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "../recat_checks.h"
#include "recat_kernel.h"

namespace torchrec_ascend {
namespace {

// Below this many output bytes the result stays in the caches, where its reader wants it.
constexpr int64_t kDefaultStreamBytes = 4 << 20;
// glibc maps an allocation above this anew each time (DEFAULT_MMAP_THRESHOLD_MAX, 64-bit): its pages
// come zeroed, in the caches, and streaming past them costs more than it saves.
constexpr int64_t kFreshPagesBytes = 32 << 20;
// A thread's share of the source is at least this, so that starting it pays.
constexpr int64_t kGrainBytes = 512 << 10;

std::atomic<const RecatKernels*> g_kernels{nullptr};
std::atomic<int64_t> g_stream_bytes{kDefaultStreamBytes};

const RecatKernels& kernels() {
  const RecatKernels* chosen = g_kernels.load(std::memory_order_relaxed);
  if (chosen == nullptr) {
    chosen = recat_kernels("auto");
    g_kernels.store(chosen, std::memory_order_relaxed);
  }
  return *chosen;
}

// For tests and benchmarks: forces an instruction set and the streaming threshold in bytes.
void set_cpu_options(const std::string& isa, int64_t stream_bytes) {
  const RecatKernels* chosen = recat_kernels(isa.c_str());
  TORCH_CHECK(
      chosen != nullptr, "isa is \"", isa, "\", expected auto, baseline, avx2 or avx512 as far as "
      "this CPU runs them");
  g_kernels = chosen;
  g_stream_bytes = stream_bytes < 0 ? kDefaultStreamBytes : stream_bytes;
}

std::string cpu_isa() {
  return kernels().isa;
}

Dtype dtype_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return Dtype::f32;
    case at::kHalf:
      return Dtype::f16;
    case at::kBFloat16:
      return Dtype::bf16;
    default:
      return Dtype::f64; // check_dtype let nothing else through
  }
}

enum class Output { given, allocated };

// Asks for huge pages under a large new output: 512 times fewer page faults, where the kernel agrees.
void advise_huge_pages(const at::Tensor& out) {
#if defined(__linux__)
  constexpr uintptr_t kHugePage = 2 << 20; // out has at least kFreshPagesBytes: first < last
  const auto begin = reinterpret_cast<uintptr_t>(out.const_data_ptr());
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (begin + out.nbytes()) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE); // a hint: may fail
#endif
}

void launch(
    bool recat, RecatTask task, const at::Tensor& src, at::Tensor& dst, Output output) {
  if (dst.numel() == 0) {
    return;
  }
  task.src = src.const_data_ptr();
  task.dst = dst.mutable_data_ptr();
  task.src_dtype = dtype_of(src.scalar_type());
  task.dst_dtype = dtype_of(dst.scalar_type());
  const auto bytes = static_cast<int64_t>(dst.nbytes());
  const bool fresh_pages = output == Output::allocated && bytes >= kFreshPagesBytes;
  if (fresh_pages) {
    advise_huge_pages(dst);
  }
  task.stream = bytes >= g_stream_bytes.load() && !fresh_pages;
  const auto run = recat ? kernels().recat : kernels().unrecat;
  const int64_t row_bytes = task.width * src.element_size();
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / std::max<int64_t>(1, row_bytes));
  at::parallel_for(0, task.batch, grain, [&](int64_t begin, int64_t end) {
    run(task, begin, end);
  });
}

// Whether the memory from the first to the last element of each meets. Both have elements, and
// strides >= 0 (as every tensor has).
bool ranges_meet(const at::Tensor& a, const at::Tensor& b) {
  const auto range = [](const at::Tensor& t) {
    int64_t last = 0;
    for (const auto d : c10::irange(t.dim())) {
      last += (t.size(d) - 1) * t.stride(d);
    }
    const auto* begin = static_cast<const char*>(t.const_data_ptr());
    return std::pair{begin, begin + (last + 1) * t.element_size()};
  };
  const auto [a_begin, a_end] = range(a);
  const auto [b_begin, b_end] = range(b);
  return std::less<>()(a_begin, b_end) && std::less<>()(b_begin, a_end);
}

void check_out(
    const char* op, const at::Tensor& out, const char* argument, const at::Tensor& in,
    at::IntArrayRef expected) {
  check_dtype(op, "out", out.scalar_type());
  TORCH_CHECK(
      out.device() == in.device(), op, ": out is on ", out.device(), ", expected ", in.device());
  TORCH_CHECK(
      out.sizes() == expected, op, ": out has shape ", out.sizes(), ", expected ", expected);
  TORCH_CHECK(
      out.is_contiguous(), op, ": out has strides ", out.strides(), ", expected contiguous");
  TORCH_CHECK(
      out.numel() == 0 || !ranges_meet(out, in),
      op, ": out at ", out.const_data_ptr(), " overlaps ", argument, " at ", in.const_data_ptr(),
      ", expected memory of its own");
}

// [B, ...] -> [B, width] with unit stride along columns: free for the layouts autograd produces
// except an expanded column, which costs the one copy.
at::Tensor as_rows(const char* op, const at::Tensor& grad) {
  check_dtype(op, "grad", grad.scalar_type());
  TORCH_CHECK(
      grad.dim() == 2 || grad.dim() == 3,
      op, ": grad has shape ", grad.sizes(), ", expected [B, sum(dims)] or [B, T, D]");
  at::Tensor rows = grad.dim() == 3 ? grad.reshape({grad.size(0), grad.size(1) * grad.size(2)}) : grad;
  return rows.stride(1) == 1 || rows.size(1) <= 1 ? rows : rows.contiguous();
}

void recat_into(
    const at::Tensor& rows, at::IntArrayRef dims, double scale, at::Tensor& out,
    Output output = Output::allocated) {
  RecatTask task;
  task.dims = dims.data();
  task.num_ranks = static_cast<int64_t>(dims.size());
  task.batch = rows.size(0);
  task.width = rows.size(1);
  task.row_stride = rows.stride(0);
  task.scale = scale;
  launch(true, task, rows, out, output);
}

at::Tensor recat(
    const at::Tensor& grad, at::IntArrayRef dims, double scale,
    std::optional<at::ScalarType> dtype) {
  const at::Tensor rows = as_rows("recat", grad);
  check_width("recat", "dims", dims, checked_width("recat", "dims", dims), rows.size(1));
  check_dtype("recat", "dtype", dtype.value_or(grad.scalar_type()));
  at::Tensor out =
      at::empty({rows.numel()}, grad.options().dtype(dtype.value_or(grad.scalar_type())));
  recat_into(rows, dims, scale, out);
  return out;
}

at::Tensor& recat_out(
    const at::Tensor& grad, at::IntArrayRef dims, double scale, at::Tensor& out) {
  const at::Tensor rows = as_rows("recat", grad);
  check_width("recat", "dims", dims, checked_width("recat", "dims", dims), rows.size(1));
  check_out("recat", out, "grad", grad, {rows.numel()});
  recat_into(rows, dims, scale, out, Output::given);
  return out;
}

void unrecat_into(
    const at::Tensor& flat, at::IntArrayRef dims, at::Tensor& out,
    Output output = Output::allocated) {
  const at::Tensor src = flat.contiguous();
  RecatTask task;
  task.dims = dims.data();
  task.num_ranks = static_cast<int64_t>(dims.size());
  task.batch = out.size(0);
  task.width = out.size(1);
  task.row_stride = out.size(1);
  launch(false, task, src, out, output);
}

int64_t check_flat(const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size) {
  check_dtype("unrecat", "flat", flat.scalar_type());
  TORCH_CHECK(flat.dim() == 1, "unrecat: flat has shape ", flat.sizes(), ", expected 1-D");
  const int64_t width = checked_width("unrecat", "dims", dims);
  const int64_t numel = checked_numel("unrecat", batch_size, width);
  TORCH_CHECK(
      flat.numel() == numel,
      "unrecat: flat has ", flat.numel(), " elements, expected batch_size * sum(dims) = ",
      batch_size, " * ", width, " = ", numel);
  return width;
}

at::Tensor unrecat(
    const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size,
    std::optional<at::ScalarType> dtype) {
  const int64_t width = check_flat(flat, dims, batch_size);
  check_dtype("unrecat", "dtype", dtype.value_or(flat.scalar_type()));
  at::Tensor out =
      at::empty({batch_size, width}, flat.options().dtype(dtype.value_or(flat.scalar_type())));
  unrecat_into(flat, dims, out);
  return out;
}

at::Tensor& unrecat_out(
    const at::Tensor& flat, at::IntArrayRef dims, int64_t batch_size, at::Tensor& out) {
  const int64_t width = check_flat(flat, dims, batch_size);
  check_out("unrecat", out, "flat", flat, {batch_size, width});
  unrecat_into(flat, dims, out, Output::given);
  return out;
}

// fbgemm's three. Their contract has no copy to make: a gradient must be contiguous.
void check_fbgemm_grad(const char* op, const at::Tensor& grad, int64_t dim, const char* shape) {
  check_dtype(op, "grad_output", grad.scalar_type());
  TORCH_CHECK(
      grad.dim() == dim, op, ": grad_output has shape ", grad.sizes(), ", expected ", shape);
  TORCH_CHECK(
      grad.is_contiguous(),
      op, ": grad_output has strides ", grad.strides(), ", expected contiguous");
}

at::Tensor recat_embedding_grad_output(const at::Tensor& grad, at::IntArrayRef features) {
  const char* op = "recat_embedding_grad_output";
  check_fbgemm_grad(op, grad, 3, "[B, T_global, D]");
  const int64_t total = checked_width(op, "num_features_per_rank", features);
  TORCH_CHECK(
      total == grad.size(1), op, ": num_features_per_rank = ", features, " counts ", total,
      " features, grad_output has ", grad.size(1));
  checked_width(op, "num_features_per_rank", features, grad.size(2));
  std::vector<int64_t> dims(features.begin(), features.end());
  for (int64_t& dim : dims) {
    dim *= grad.size(2);
  }
  at::Tensor out = at::empty({grad.numel()}, grad.options());
  recat_into(grad.view({grad.size(0), grad.size(1) * grad.size(2)}), dims, 1.0, out);
  return out;
}

at::Tensor recat_embedding_grad_output_mixed_D(const at::Tensor& grad, at::IntArrayRef dims) {
  const char* op = "recat_embedding_grad_output_mixed_D";
  check_fbgemm_grad(op, grad, 2, "[B, sum(dim_sum_per_rank)]");
  check_width(
      op, "dim_sum_per_rank", dims, checked_width(op, "dim_sum_per_rank", dims), grad.size(1));
  at::Tensor out = at::empty({grad.numel()}, grad.options());
  recat_into(grad, dims, 1.0, out);
  return out;
}

void check_index(
    const char* op, const char* argument, const at::Tensor& index, const at::Tensor& grad) {
  TORCH_CHECK(
      index.scalar_type() == at::kLong,
      op, ": ", argument, " has dtype ", index.scalar_type(), ", expected int64");
  TORCH_CHECK(
      index.dim() == 1 && index.is_contiguous(),
      op, ": ", argument, " has shape ", index.sizes(), ", expected 1-D and contiguous");
  TORCH_CHECK(
      index.device() == grad.device(),
      op, ": ", argument, " is on ", index.device(), ", expected ", grad.device());
}

at::Tensor recat_embedding_grad_output_mixed_D_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets) {
  const char* op = "recat_embedding_grad_output_mixed_D_batch";
  check_fbgemm_grad(op, grad, 2, "[B, sum(dim_sum_per_rank)]");
  check_index(op, "dim_sum_per_rank", dims, grad);
  check_index(op, "cumsum_dim_sum_per_rank", offsets, grad);
  TORCH_CHECK(
      offsets.numel() == dims.numel(),
      op, ": cumsum_dim_sum_per_rank has ", offsets.numel(), " entries, dim_sum_per_rank ",
      dims.numel());
  const at::IntArrayRef d(dims.const_data_ptr<int64_t>(), dims.numel());
  const at::IntArrayRef c(offsets.const_data_ptr<int64_t>(), offsets.numel());
  check_width(op, "dim_sum_per_rank", d, checked_width(op, "dim_sum_per_rank", d), grad.size(1));
  int64_t sum = 0;
  for (const auto t : c10::irange(d.size())) {
    TORCH_CHECK(
        c[t] == sum,
        op, ": cumsum_dim_sum_per_rank[", t, "] is ", c[t], ", expected ", sum,
        " (the prefix is exclusive and begins with 0)");
    sum += d[t];
  }
  at::Tensor out = at::empty({grad.numel()}, grad.options());
  recat_into(grad, d, 1.0, out);
  return out;
}

} // namespace
} // namespace torchrec_ascend

TORCH_LIBRARY_FRAGMENT(torchrec_ascend, m) {
  m.def("_cpu_isa() -> str", &torchrec_ascend::cpu_isa);
  m.def("_set_cpu_options(str isa, int stream_bytes=-1) -> ()", &torchrec_ascend::set_cpu_options);
}

TORCH_LIBRARY_IMPL(torchrec_ascend, CPU, m) {
  m.impl("recat", &torchrec_ascend::recat);
  m.impl("recat.out", &torchrec_ascend::recat_out);
  m.impl("unrecat", &torchrec_ascend::unrecat);
  m.impl("unrecat.out", &torchrec_ascend::unrecat_out);
}

TORCH_LIBRARY_IMPL(fbgemm, CPU, m) {
  const auto missing = [](const char* name) {
    const auto op = c10::Dispatcher::singleton().findOp({std::string("fbgemm::") + name, ""});
    return !op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
  };
  if (missing("recat_embedding_grad_output")) {
    m.impl("recat_embedding_grad_output", &torchrec_ascend::recat_embedding_grad_output);
  }
  if (missing("recat_embedding_grad_output_mixed_D")) {
    m.impl(
        "recat_embedding_grad_output_mixed_D",
        &torchrec_ascend::recat_embedding_grad_output_mixed_D);
  }
  if (missing("recat_embedding_grad_output_mixed_D_batch")) {
    m.impl(
        "recat_embedding_grad_output_mixed_D_batch",
        &torchrec_ascend::recat_embedding_grad_output_mixed_D_batch);
  }
}
