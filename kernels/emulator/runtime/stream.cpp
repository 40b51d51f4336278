#include "stream.h"

#include <sys/prctl.h>

#include <utility>

#include "device.h"
#include "options.h"

namespace emu {

Status Stream::launch(const char* name, Task task, Dropped dropped) {
  Item item{name, std::move(task), std::move(dropped)};
  if (!asynchronous()) return run_inline(item);
  std::lock_guard lock(mutex_);
  Status status = cannot_launch();
  if (!status.ok()) return status;
  queue_.push_back(std::move(item));
  if (!has_worker_) {
    worker_ = std::thread([self = shared_from_this()] { self->work(); });
    has_worker_ = true;
  }
  changed_.notify_all();
  return {};
}

// With the lock held.
Status Stream::cannot_launch() const {
  if (failure_) return *failure_;
  if (closing_) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "stream %d of npu:%d is destroyed", id_, device_);
  }
  return {};
}

Status Stream::run_inline(const Item& item) {
  std::lock_guard turn(turn_);
  std::unique_lock lock(mutex_);
  Status status = cannot_launch();
  if (!status.ok()) return status;
  const bool nested = std::exchange(running_, true);  // a task that launches on its own stream
  runner_ = std::this_thread::get_id();
  lock.unlock();
  status = run(item);
  lock.lock();
  running_ = nested;
  changed_.notify_all();
  return status;
}

Status Stream::run(const Item& item) {
  const TaskDevice on(device_);
  Status status;
  try {
    status = item.task();
  } catch (...) {
    status = current_exception();
    status.code = ACL_ERROR_RT_AICORE_EXCEPTION;
  }
  if (status.ok()) return status;
  if (status.message.find(item.name) == std::string::npos) {
    status.message = item.name + ": " + status.message;
  }
  trace("task on stream %d of npu:%d -> %d (%s)", id_, device_, status.code,
        status.message.c_str());
  return status;
}

void Stream::work() {
  prctl(PR_SET_TIMERSLACK, 50'000UL);  // delays are to be what was asked for
  std::unique_lock lock(mutex_);
  runner_ = std::this_thread::get_id();
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) break;
    run_first(lock);
    changed_.notify_all();
  }
  has_worker_ = false;
  changed_.notify_all();
}

void Stream::run_first(std::unique_lock<std::mutex>& lock) {
  running_ = true;
  Status status;
  {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    delay();
    if (!stop_.stop_requested()) {
      status = run(item);
    } else if (item.dropped) {
      item.dropped(error(ACL_ERROR_RT_STREAM_ABORT, "the stream was destroyed"));
    }
  }  // what the task holds is released before the stream counts as done
  lock.lock();
  if (!status.ok()) {
    fail(lock, error(status.code, "asynchronous error on stream %d of npu:%d: %s", id_, device_,
                     status.message.c_str()));
  }
  running_ = false;
}

void Stream::delay() {
  if (task_delay().count() == 0) return;
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_for(lock, stop_.get_token(), task_delay(), [] { return false; });
}

// Keeps the first failure and drops the queue. Called, and left, with the lock held.
void Stream::fail(std::unique_lock<std::mutex>& lock, const Status& failure) {
  if (!failure_) failure_ = failure;
  const Status reason = *failure_;
  std::deque<Item> dropped;
  dropped.swap(queue_);
  lock.unlock();
  for (const Item& item : dropped) {
    trace("dropped %s on stream %d of npu:%d", item.name.c_str(), id_, device_);
    if (item.dropped) item.dropped(reason);
  }
  dropped.clear();
  lock.lock();
}

Status Stream::synchronize(int32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  if (running_ && runner_ == std::this_thread::get_id()) {
    return error(ACL_ERROR_RT_PARAM_INVALID, "a task of stream %d of npu:%d waits for the stream",
                 id_, device_);
  }
  const auto done = [&] { return idle(); };
  if (timeout_ms < 0) {
    changed_.wait(lock, done);
  } else if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) {
    return error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d of npu:%d is busy after %d ms", id_,
                 device_, timeout_ms);
  }
  return failure_.value_or(Status{});
}

Status Stream::query(bool& done) {
  std::lock_guard lock(mutex_);
  done = idle();
  return failure_.value_or(Status{});
}

void Stream::close() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  changed_.notify_all();
  std::thread worker = std::move(worker_);
  lock.unlock();
  if (!worker.joinable()) return;
  if (worker.get_id() == std::this_thread::get_id()) {
    worker.detach();  // destroyed from one of its own tasks
  } else {
    worker.join();
  }
}

void Stream::abort() {
  stop_.request_stop();
  std::unique_lock lock(mutex_);
  closing_ = true;
  fail(lock, error(ACL_ERROR_RT_STREAM_ABORT, "stream %d of npu:%d was destroyed", id_, device_));
  changed_.notify_all();
  if (worker_.joinable()) worker_.detach();
}

bool Stream::wait_for_end(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (running_ && runner_ == std::this_thread::get_id()) return false;
  return changed_.wait_until(lock, deadline, [&] { return !has_worker_ && !running_; });
}

}  // namespace emu
