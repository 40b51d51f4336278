// A stream: a queue of tasks that run one after the other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "status.h"

namespace emu {

inline constexpr int all_devices = -1;

using Deadline = std::chrono::steady_clock::time_point;

// Called with the reason if a task was queued and will never run.
using Dropped = std::function<void(const Status&)>;

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(int id, int device) : id_(id), device_(device) {}

  int id() const { return id_; }
  int device() const { return device_; }

  // See emu::launch. If it fails, the task did not run or failed, and `dropped` is not called.
  Status launch(const char* name, Task task, Dropped dropped);

  // Waits for the queue, for good if the timeout is negative. The stream's failure, or a timeout.
  Status synchronize(int32_t timeout_ms);

  // The stream's failure; `done` says if the queue is empty.
  Status query(bool& done);

  // Waits for the queue and ends the worker. Nothing can be launched any more.
  void close();

  // Drops the queue and asks the running task to stop. Nothing can be launched any more.
  void abort();

  // After abort: whether the running task ended before the deadline. Otherwise it is left behind.
  bool wait_for_end(Deadline deadline);

  // Triggered by abort, for tasks that wait.
  std::stop_token stop_token() const { return stop_.get_token(); }

 private:
  struct Item {
    std::string name;
    Task task;
    Dropped dropped;
  };

  Status run(const Item& item);
  Status run_inline(const Item& item);
  void work();
  void delay();
  void run_first(std::unique_lock<std::mutex>& lock);
  void fail(std::unique_lock<std::mutex>& lock, const Status& failure);
  Status cannot_launch() const;
  bool idle() const { return queue_.empty() && !running_; }

  const int id_;
  const int device_;

  std::recursive_mutex turn_;  // synchronous mode: one task at a time

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool running_ = false;
  std::thread::id runner_;  // the thread of the running task
  bool closing_ = false;
  bool has_worker_ = false;
  std::optional<Status> failure_;
  std::stop_source stop_;
  std::thread worker_;
};

// The live stream behind a handle. A null handle is the default stream, whose tasks run at once: it
// gives a null stream.
Status find_stream(aclrtStream handle, std::shared_ptr<Stream>& stream);

// Its number, which no other stream gets, unlike a handle; -1 for the default stream.
inline int stream_id(const std::shared_ptr<Stream>& stream) {
  return stream == nullptr ? -1 : stream->id();
}

// The same as find_stream, and the stream must belong to the calling thread's device, as for
// everything that is launched.
Status find_own_stream(aclrtStream handle, std::shared_ptr<Stream>& stream);

// Runs `task` on the stream behind the handle, as emu::launch does.
Status launch_on(aclrtStream handle, const char* name, Task task, Dropped dropped = {});

// Aborts and forgets every stream of a device, or of all. False if a task did not stop in time.
bool abort_streams(int device);

}  // namespace emu
