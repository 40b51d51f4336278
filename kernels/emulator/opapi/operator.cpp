#include "operator.h"

#include "not_emulated.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

// In the libraries that torch_cpu brings along; MKL only where torch is built with it.
extern "C" {
void omp_set_num_threads(int) __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
int MKL_Set_Num_Threads_Local(int) __attribute__((weak));
}

struct aclOpExecutor : emu::Object {
  aclOpExecutor(const emu::Operator& op, emu::Body body)
      : Object(emu::Kind::executor), op(op), body(std::move(body)) {}

  const emu::Operator& op;
  const emu::Body body;
};

namespace emu {
namespace {

// CANN's codes, acl/error_codes and aclnn's reference.
constexpr int kParameterInvalid = 161002;
constexpr int kRuntimeError = 361001;
constexpr int kNoKernel = 561002;

std::atomic<Operator*> operators = nullptr;

// A device's operators take no part in what the calling thread has set up for its own: autograd,
// autocast, dispatch modes, profiling.
struct PlainAten {
  static c10::DispatchKeySet excluded() {
    c10::DispatchKeySet result = c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    return result | c10::autocast_dispatch_keyset;
  }

  c10::impl::ForceDispatchKeyGuard keys{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect), excluded()};
  at::DisableRecordFunctionGuard no_records;
};

// Eight ranks on two cores are no place for thread pools; and sums are then in one fixed order.
struct OneThread {
  OneThread() {
    at::get_num_threads();  // ATen sets up a new thread at its first question: not later
    if (omp_set_num_threads) {
      omp_before = omp_get_max_threads();
      omp_set_num_threads(1);
    }
    if (MKL_Set_Num_Threads_Local) mkl_before = MKL_Set_Num_Threads_Local(1);
  }
  ~OneThread() {
    if (omp_set_num_threads) omp_set_num_threads(omp_before);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(mkl_before);
  }

  int omp_before = 1;
  int mkl_before = 0;
};

std::string failed(const Operator& op, const std::string& why) {
  return std::string("emulated ") + op.name + ": " + why;
}

Status run(Operator& op, const Body& body, void* workspace) {
  PlainAten plain;
  OneThread one;
  ++op.runs;
  try {
    body(workspace);
    return {};
  } catch (const c10::Error& error) {
    return {kRuntimeError, failed(op, error.what_without_backtrace())};
  } catch (const std::exception& error) {
    return {kRuntimeError, failed(op, error.what())};
  }
}

}  // namespace

int not_emulated(const char* name) {
  return report({kNoKernel, std::string("emulated CANN: ") + name +
                                " is not emulated; add it to kernels/emulator/opapi"});
}

Operator::Operator(const char* name) : name(name), next(operators) { operators = this; }

int prepare(
    Operator& op, uint64_t* workspace_size, aclOpExecutor** executor, uint64_t workspace_bytes,
    const std::function<Body()>& make) {
  try {
    if (!workspace_size || !executor || find(workspace_size) || find(executor)) {
      throw std::runtime_error("the caller passes more or fewer arguments than it takes");
    }
    auto made = std::make_shared<aclOpExecutor>(op, make());
    *workspace_size = workspace_bytes;
    *executor = static_cast<aclOpExecutor*>(add(std::move(made)));
    return ACL_SUCCESS;
  } catch (const std::exception& error) {
    return report({kParameterInvalid, failed(op, error.what())});
  }
}

int execute(Operator& op, void* workspace, aclOpExecutor* executor, aclrtStream stream) {
  trace("%s", op.name);
  Handle handle = remove(executor);
  if (!handle || handle->kind != Kind::executor) {
    return report({kParameterInvalid, failed(op, "the executor is " + describe(executor))});
  }
  if (&executor->op != &op) {
    const std::string owner = executor->op.name;
    return report({kParameterInvalid, failed(op, "the executor is " + owner + "'s")});
  }
  return report(launch(stream, op.name, [&op, handle, executor, workspace] {
    return run(op, executor->body, workspace);
  }));
}

}  // namespace emu

CANN_API int aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  emu::remove(executor);
  return ACL_SUCCESS;
}

// For the tests: calls visit(name, runs) for every emulated operator that is loaded. Not in CANN.
CANN_API void emuOperators(void (*visit)(const char* name, uint64_t runs)) {
  for (emu::Operator* op = emu::operators; op; op = op->next) visit(op->name, op->runs);
}
