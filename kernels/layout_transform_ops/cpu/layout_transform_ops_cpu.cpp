// CPU kernels: checks, threads, and registration under torchrec_ascend:: and (where fbgemm has
// none) fbgemm::. The copy loops are in recat_kernel.inc.
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <atomic>
#include <string>

#include "../recat_operators.h"
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

// rows: [B, width]. row_stride, in elements: of the rows.
RecatTask task_of(at::IntArrayRef dims, const at::Tensor& rows, int64_t row_stride, double scale) {
  RecatTask task;
  task.dims = dims.data();
  task.num_ranks = static_cast<int64_t>(dims.size());
  task.batch = rows.size(0);
  task.width = rows.size(1);
  task.row_stride = row_stride;
  task.scale = scale;
  return task;
}

struct Cpu {
  static void recat(
      const at::Tensor& rows, at::IntArrayRef dims, double scale, at::Tensor& out, Output output) {
    launch(true, task_of(dims, rows, rows.stride(0), scale), rows, out, output);
  }

  static void unrecat(
      const at::Tensor& flat, at::IntArrayRef dims, at::Tensor& out, Output output) {
    launch(false, task_of(dims, out, out.size(1), 1.0), flat, out, output);
  }
};

using Operators = RecatOperators<Cpu>;

at::Tensor recat_embedding_grad_output_mixed_D_batch(
    const at::Tensor& grad, const at::Tensor& dims, const at::Tensor& offsets) {
  const char* op = "recat_embedding_grad_output_mixed_D_batch";
  check_recat_batch(grad, dims, offsets);
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
  Cpu::recat(grad, d, 1.0, out, Output::allocated);
  return out;
}

} // namespace
} // namespace torchrec_ascend

TORCH_LIBRARY_FRAGMENT(torchrec_ascend, m) {
  m.def("_cpu_isa() -> str", &torchrec_ascend::cpu_isa);
  m.def("_set_cpu_options(str isa, int stream_bytes=-1) -> ()", &torchrec_ascend::set_cpu_options);
}

TORCH_LIBRARY_IMPL(torchrec_ascend, CPU, m) {
  torchrec_ascend::Operators::register_own(m);
}

TORCH_LIBRARY_IMPL(fbgemm, CPU, m) {
  const auto missing = [](const char* name) {
    const auto op = c10::Dispatcher::singleton().findOp({std::string("fbgemm::") + name, ""});
    return !op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU);
  };
  if (missing("recat_embedding_grad_output")) {
    m.impl("recat_embedding_grad_output", &torchrec_ascend::Operators::recat_embedding_grad_output);
  }
  if (missing("recat_embedding_grad_output_mixed_D")) {
    m.impl(
        "recat_embedding_grad_output_mixed_D",
        &torchrec_ascend::Operators::recat_embedding_grad_output_mixed_D);
  }
  if (missing("recat_embedding_grad_output_mixed_D_batch")) {
    m.impl(
        "recat_embedding_grad_output_mixed_D_batch",
        &torchrec_ascend::recat_embedding_grad_output_mixed_D_batch);
  }
}
