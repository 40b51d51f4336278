#include "socket.h"

#include "error.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace emu::hccl {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// A leading zero byte makes the name abstract: it leaves no file, and goes with its process.
Address abstract_address(const std::string& name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.name.sun_path) {
    throw Error(HCCL_E_INTERNAL, "socket name " + name + " is too long");
  }
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return address;
}

Socket stream_socket() {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) {
    throw Error(HCCL_E_SYSCALL, std::string("socket: ") + std::strerror(errno));
  }
  return socket;
}

Moved moved(ssize_t result) {
  if (result >= 0) return {static_cast<size_t>(result), false};
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  return {0, !later};
}

}  // namespace

Deadline Deadline::after(std::chrono::seconds seconds) {
  Deadline deadline;
  if (seconds.count() > 0) deadline.at_ = Clock::now() + seconds;
  return deadline;
}

int Deadline::poll_timeout() const {
  if (!at_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*at_ - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
}

Deadline Deadline::capped(Clock::time_point at) const {
  Deadline result;
  result.at_ = at_ ? std::min(*at_, at) : at;
  return result;
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket listen_at(const std::string& name, int backlog) {
  Socket socket = stream_socket();
  const Address address = abstract_address(name);
  if (::bind(socket.fd(), address.get(), address.length) != 0 ||
      ::listen(socket.fd(), backlog) != 0) {
    const char* reason = errno == EADDRINUSE ? "another process is setting up the same rank"
                                             : std::strerror(errno);
    throw Error(HCCL_E_TCP_CONNECT, reason);
  }
  return socket;
}

Socket connect_to(const std::string& name) {
  Socket socket = stream_socket();
  const Address address = abstract_address(name);
  if (::connect(socket.fd(), address.get(), address.length) == 0) return socket;
  if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
    throw Error(HCCL_E_TCP_CONNECT, std::string("connect: ") + std::strerror(errno));
  }
  return {};
}

Socket accept_from(const Socket& listener) {
  return Socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

Moved send_some(const Socket& socket, const void* from, size_t bytes) {
  return moved(::send(socket.fd(), from, bytes, MSG_NOSIGNAL));
}

Moved receive_some(const Socket& socket, void* to, size_t bytes) {
  const ssize_t result = ::recv(socket.fd(), to, bytes, 0);
  if (result == 0 && bytes > 0) return {0, true};
  return moved(result);
}

}  // namespace emu::hccl
