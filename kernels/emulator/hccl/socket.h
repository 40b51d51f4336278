// Unix stream sockets under abstract names, and deadlines.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace emu::hccl {

using Clock = std::chrono::steady_clock;

// A point in time, or never.
class Deadline {
 public:
  // 0 seconds: never, as HCCL_EXEC_TIMEOUT=0 says.
  static Deadline after(std::chrono::seconds seconds);
  bool passed() const { return at_ && Clock::now() >= *at_; }
  // For poll(): milliseconds left, rounded up; -1 for never.
  int poll_timeout() const;
  // The earlier of this and `at`.
  Deadline capped(Clock::time_point at) const;

 private:
  std::optional<Clock::time_point> at_;
};

// An owned file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// Listens at an abstract name; throws Error when the name is taken.
Socket listen_at(const std::string& name, int backlog);

// One attempt; not open when nobody listens there.
Socket connect_to(const std::string& name);

// One connection that is waiting; not open when there is none.
Socket accept_from(const Socket& listener);

// What recv() and send() did: bytes moved, or no room or data now, or the other side is gone.
struct Moved {
  size_t bytes = 0;
  bool gone = false;
};
Moved send_some(const Socket& socket, const void* from, size_t bytes);
Moved receive_some(const Socket& socket, void* to, size_t bytes);

}  // namespace emu::hccl
