// Events. Each record is an object of its own, so that a wait keeps to the record it was made for,
// whatever is recorded later and on whichever stream.
#include <atomic>

#include "device.h"
#include "record.h"
#include "registry.h"

namespace emu {
namespace {

struct Event {
  const uint32_t flags;
  // Made by aclrtCreateEventExWithFlag: before the first record it counts as complete.
  const bool ex;
  std::mutex mutex;
  std::shared_ptr<Record> latest;  // null before the first record
  std::shared_ptr<std::atomic<int>> waiting = std::make_shared<std::atomic<int>>(0);

  Event(uint32_t event_flags, bool event_ex) : flags(event_flags), ex(event_ex) {}

  std::shared_ptr<Record> record() {
    std::lock_guard lock(mutex);
    return latest;
  }

  void set(std::shared_ptr<Record> record) {
    std::lock_guard lock(mutex);
    latest = std::move(record);
  }
};

Registry<Event>& events() {
  static auto& registry = *new Registry<Event>;  // never destroyed: workers may outlive main()
  return registry;
}

Status unknown_event(aclrtEvent handle) {
  return error(ACL_ERROR_RT_PARAM_INVALID, "event %p does not exist", handle);
}

// A CANN function that does something with a live event.
template <typename Body>
int event_api(const char* function, aclrtEvent handle, Body body) {
  return api(function, [&]() -> Status {
    const std::shared_ptr<Event> event = events().find(handle);
    return event == nullptr ? unknown_event(handle) : body(*event);
  });
}

Status create(aclrtEvent* handle, uint32_t flags, bool ex) {
  if (handle == nullptr) return null_argument("event");
  int device = 0;
  Status status = require_device(device);
  if (status.ok()) *handle = events().add(std::make_shared<Event>(flags, ex));
  return status;
}

Status record(Event& event, aclrtStream stream) {
  auto record = std::make_shared<Record>();
  event.set(record);
  Status status = launch_on(
      stream, "aclrtRecordEvent",
      [record]() -> Status {
        record->finish({});
        return {};
      },
      [record](const Status& reason) { record->finish(reason); });
  if (!status.ok()) record->finish(status);  // or a wait for it would not end
  return status;
}

Status wait(Event& event, aclrtStream handle) {
  std::shared_ptr<Stream> stream;
  Status status = find_own_stream(handle, stream);
  if (!status.ok()) return status;
  const std::shared_ptr<Record> record = event.record();
  if (record == nullptr) {
    if (event.ex || (event.flags & ACL_EVENT_EXTERNAL)) return {};
    return error(ACL_ERROR_RT_PARAM_INVALID, "the event has not been recorded");
  }
  const auto stop = stream == nullptr ? std::stop_token{} : stream->stop_token();
  const auto waiting = event.waiting;
  ++*waiting;
  status = launch_on(
      handle, "aclrtStreamWaitEvent",
      [record, stop, waiting] {
        Status result = record->wait(stop);
        --*waiting;
        return result;
      },
      [waiting](const Status&) { --*waiting; });
  return status;
}

Status time_of(aclrtEvent handle, Record::Clock::time_point& time) {
  const std::shared_ptr<Event> event = events().find(handle);
  if (event == nullptr) return unknown_event(handle);
  if (!(event->flags & ACL_EVENT_TIME_LINE)) {
    return error(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                 "event %p was created without ACL_EVENT_TIME_LINE", handle);
  }
  const std::shared_ptr<Record> record = event->record();
  if (record == nullptr || !record->done()) {
    return error(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %p is not complete", handle);
  }
  time = record->time();
  return record->status();
}

}  // namespace
}  // namespace emu

using namespace emu;

CANN_API aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return api(__func__, [&] { return create(event, flag, false); });
}

CANN_API aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return api(__func__, [&] { return create(event, flag, true); });
}

CANN_API aclError aclrtDestroyEvent(aclrtEvent event) {
  return release_api(__func__, [&]() -> Status {
    return events().remove(event) == nullptr ? unknown_event(event) : Status{};
  });
}

CANN_API aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return event_api(__func__, event, [&](Event& found) { return record(found, stream); });
}

CANN_API aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return event_api(__func__, event, [&](Event& found) { return wait(found, stream); });
}

// Waits that were launched before keep their record, so the event can forget it at once.
CANN_API aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return event_api(__func__, event, [&](Event& found) -> Status {
    std::shared_ptr<Stream> on;
    Status status = find_own_stream(stream, on);
    if (status.ok()) found.set(nullptr);
    return status;
  });
}

CANN_API aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return event_api(__func__, event, [&](Event& found) {
    const std::shared_ptr<Record> record = found.record();
    return record == nullptr ? Status{} : record->wait({});
  });
}

CANN_API aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return event_api(__func__, event, [&](Event& found) -> Status {
    if (status == nullptr) return null_argument("status");
    const std::shared_ptr<Record> record = found.record();
    const bool done = record == nullptr ? found.ex : record->done();
    *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return record == nullptr ? Status{} : record->status();
  });
}

CANN_API aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return event_api(__func__, event, [&](Event& found) -> Status {
    if (status == nullptr) return null_argument("status");
    const bool done = *found.waiting == 0;
    *status = done ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return {};
  });
}

CANN_API aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return api(__func__, [&]() -> Status {
    if (ms == nullptr) return null_argument("ms");
    Record::Clock::time_point start, end;
    Status status = time_of(startEvent, start);
    if (status.ok()) status = time_of(endEvent, end);
    if (status.ok()) *ms = std::chrono::duration<float, std::milli>(end - start).count();
    return status;
  });
}

CANN_API aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return api(__func__, [&]() -> Status {
    if (timestamp == nullptr) return null_argument("timestamp");
    Record::Clock::time_point time;
    Status status = time_of(event, time);
    const auto since = std::chrono::duration_cast<std::chrono::microseconds>(
        time.time_since_epoch());
    if (status.ok()) *timestamp = static_cast<uint64_t>(since.count());
    return status;
  });
}
