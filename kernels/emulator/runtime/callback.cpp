// Host functions in a stream: aclrtLaunchHostFunc, and the older aclrtLaunchCallback, whose
// functions run on the threads that aclrtSubscribeReport named and that call aclrtProcessReport.
#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "stream.h"

namespace emu {
namespace {

struct Callback {
  std::function<void()> function;
  bool done = false;
};

// Callbacks on their way from streams to threads.
struct Reports {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, uint64_t> thread_of;  // by stream
  std::map<uint64_t, std::deque<std::shared_ptr<Callback>>> waiting;
};

Reports& reports() {
  static auto& reports = *new Reports;
  return reports;
}

// Hands the callback to the subscribed thread; waits for it if `block`.
Status deliver(int stream, const std::shared_ptr<Callback>& callback, bool block) {
  std::unique_lock lock(reports().mutex);
  const auto thread = reports().thread_of.find(stream);
  if (thread == reports().thread_of.end()) {
    return error(ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread is subscribed to the stream");
  }
  reports().waiting[thread->second].push_back(callback);
  reports().changed.notify_all();
  if (block) reports().changed.wait(lock, [&] { return callback->done; });
  return {};
}

Status process_one(int32_t timeout_ms) {
  std::unique_lock lock(reports().mutex);
  auto& mine = reports().waiting[static_cast<uint64_t>(pthread_self())];
  const auto ready = [&] { return !mine.empty(); };
  if (timeout_ms < 0) {
    reports().changed.wait(lock, ready);
  } else if (!reports().changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready)) {
    return error(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came in %d ms", timeout_ms);
  }
  const std::shared_ptr<Callback> callback = mine.front();
  mine.pop_front();
  lock.unlock();
  callback->function();
  lock.lock();
  callback->done = true;
  reports().changed.notify_all();
  return {};
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return api(__func__, [&]() -> Status {
    if (fn == nullptr) return null_argument("fn");
    return launch_on(stream, "aclrtLaunchHostFunc", [fn, args]() -> Status {
      fn(args);
      return {};
    });
  });
}

CANN_API aclError aclrtLaunchCallback(aclrtCallback fn, void* userData,
                                      aclrtCallbackBlockType blockType, aclrtStream stream) {
  return api(__func__, [&]() -> Status {
    if (fn == nullptr) return null_argument("fn");
    std::shared_ptr<Stream> found;
    Status status = find_stream(stream, found);
    if (!status.ok()) return status;
    auto callback = std::make_shared<Callback>();
    callback->function = [fn, userData] { fn(userData); };
    const bool block = blockType == ACL_CALLBACK_BLOCK;
    return launch_on(stream, "aclrtLaunchCallback", [id = stream_id(found), callback, block] {
      return deliver(id, callback, block);
    });
  });
}

CANN_API aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return api(__func__, [&]() -> Status {
    std::shared_ptr<Stream> found;
    Status status = find_stream(stream, found);
    if (!status.ok()) return status;
    std::lock_guard lock(reports().mutex);
    reports().thread_of[stream_id(found)] = threadId;
    return {};
  });
}

CANN_API aclError aclrtUnSubscribeReport(uint64_t, aclrtStream stream) {
  return release_api(__func__, [&]() -> Status {
    std::shared_ptr<Stream> found;
    Status status = find_stream(stream, found);
    if (!status.ok()) return status;
    std::lock_guard lock(reports().mutex);
    reports().thread_of.erase(stream_id(found));
    return {};
  });
}

CANN_API aclError aclrtProcessReport(int32_t timeout) {
  return api(__func__, [&] { return process_one(timeout); });
}
