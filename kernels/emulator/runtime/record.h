// One aclrtRecordEvent.
#pragma once

#include "stream.h"

namespace emu {

// Done once its stream gets there, or once it is known that it never will.
class Record {
 public:
  using Clock = std::chrono::steady_clock;

  // The first call counts.
  void finish(Status status) {
    std::lock_guard lock(mutex_);
    if (done_) return;
    done_ = true;
    status_ = std::move(status);
    time_ = Clock::now();
    changed_.notify_all();
  }

  Status wait(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, stop, [&] { return done_; });
    return done_ ? status_ : error(ACL_ERROR_RT_STREAM_ABORT, "the waiting stream was destroyed");
  }

  bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }

  // Why it never will happen; ok before it is done.
  Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

  Clock::time_point time() const {
    std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool done_ = false;
  Status status_;
  Clock::time_point time_;
};

}  // namespace emu
