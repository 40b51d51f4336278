// aclrtStream: handles, and what CANN offers on them.
#include <algorithm>
#include <atomic>

#include "device.h"
#include "registry.h"
#include "stream.h"

namespace emu {
namespace {

// How long destruction waits for a task that is running. A copy or a computation ends long before;
// a collective without its peers does not, and is left behind.
constexpr auto patience = std::chrono::seconds(2);

Registry<Stream>& streams() {
  static auto& registry = *new Registry<Stream>;  // never destroyed: workers may outlive main()
  return registry;
}

Status unknown_stream(aclrtStream handle) {
  return error(ACL_ERROR_RT_PARAM_INVALID, "stream %p does not exist", handle);
}

Status create(aclrtStream* handle) {
  static std::atomic<int> next_id{0};
  if (handle == nullptr) return null_argument("stream");
  int device = 0;
  Status status = require_device(device);
  if (status.ok()) *handle = streams().add(std::make_shared<Stream>(next_id++, device));
  return status;
}

Status synchronize_stream(aclrtStream handle, int32_t timeout_ms) {
  std::shared_ptr<Stream> stream;
  Status status = find_stream(handle, stream);
  return status.ok() && stream != nullptr ? stream->synchronize(timeout_ms) : status;
}

// All of them, even after a failure; the first failure counts.
Status synchronize_device(int32_t timeout_ms) {
  int device = 0;
  Status first = require_device(device);
  if (!first.ok()) return first;
  std::vector<std::shared_ptr<Stream>> all = streams().all();
  std::ranges::sort(all, {}, &Stream::id);
  for (const auto& stream : all) {
    if (stream->device() != device) continue;
    Status status = stream->synchronize(timeout_ms);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace

Status find_stream(aclrtStream handle, std::shared_ptr<Stream>& stream) {
  if (handle == nullptr) return {};
  stream = streams().find(handle);
  return stream == nullptr ? unknown_stream(handle) : Status{};
}

Status find_own_stream(aclrtStream handle, std::shared_ptr<Stream>& stream) {
  int device = 0;
  Status status = require_device(device);
  if (status.ok()) status = find_stream(handle, stream);
  if (!status.ok() || stream == nullptr || stream->device() == device) return status;
  return error(ACL_ERROR_RT_STREAM_CONTEXT, "stream %d is of npu:%d, but the thread is on npu:%d",
               stream->id(), stream->device(), device);
}

Status launch_on(aclrtStream handle, const char* name, Task task, Dropped dropped) {
  std::shared_ptr<Stream> stream;
  Status status = find_own_stream(handle, stream);
  if (!status.ok()) return status;
  if (stream == nullptr) return task();
  trace("launch %s on stream %d of npu:%d", name, stream->id(), stream->device());
  return stream->launch(name, std::move(task), std::move(dropped));
}

Status launch(aclrtStream stream, const char* name, Task task) {
  if (forked_after_use()) return forked_child();
  try {
    return launch_on(stream, name, std::move(task));
  } catch (...) {
    return current_exception();
  }
}

Status synchronize(aclrtStream stream) {
  return forked_after_use() ? forked_child() : synchronize_stream(stream, -1);
}

bool abort_streams(int device) {
  std::vector<std::shared_ptr<Stream>> aborted;
  for (const auto& stream : streams().all()) {
    if (device != all_devices && stream->device() != device) continue;
    if (streams().remove(stream.get()) != nullptr) aborted.push_back(stream);
  }
  for (const auto& stream : aborted) stream->abort();
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  bool ended = true;
  for (const auto& stream : aborted) ended = stream->wait_for_end(deadline) && ended;
  return ended;
}

}  // namespace emu

using namespace emu;

CANN_API aclError aclrtCreateStream(aclrtStream* stream) {
  return api(__func__, [&] { return create(stream); });
}

// Priorities and the fast-launch flags only change how soon a task runs.
CANN_API aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return api(__func__, [&] { return create(stream); });
}

CANN_API aclError aclrtDestroyStream(aclrtStream stream) {
  return release_api(__func__, [&]() -> Status {
    const std::shared_ptr<Stream> found = streams().remove(stream);
    if (found == nullptr) return unknown_stream(stream);
    found->close();
    return {};
  });
}

CANN_API aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return release_api(__func__, [&]() -> Status {
    const std::shared_ptr<Stream> found = streams().remove(stream);
    if (found == nullptr) return unknown_stream(stream);
    found->abort();
    found->wait_for_end(std::chrono::steady_clock::now() + patience);
    return {};
  });
}

CANN_API aclError aclrtSynchronizeStream(aclrtStream stream) {
  return api(__func__, [&] { return synchronize_stream(stream, -1); });
}

CANN_API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return api(__func__, [&] { return synchronize_stream(stream, timeout); });
}

CANN_API aclError aclrtSynchronizeDevice() {
  return api(__func__, [&] { return synchronize_device(-1); });
}

CANN_API aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  return api(__func__, [&] { return synchronize_device(timeout); });
}

CANN_API aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return api(__func__, [&]() -> Status {
    if (status == nullptr) return null_argument("status");
    std::shared_ptr<Stream> found;
    Status result = find_stream(stream, found);
    bool done = true;
    if (found != nullptr) result = found->query(done);
    *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return result;
  });
}

CANN_API aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  return api(__func__, [&]() -> Status {
    if (streamId == nullptr) return null_argument("streamId");
    std::shared_ptr<Stream> found;
    Status status = find_stream(stream, found);
    if (status.ok()) *streamId = stream_id(found);
    return status;
  });
}
