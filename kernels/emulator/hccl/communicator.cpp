#include "communicator.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace emu::hccl {
namespace {

constexpr char kFailed = 'F';
constexpr char kDestroyed = 'D';

}  // namespace

Communicator::Communicator(Identity identity)
    : identity_(std::move(identity)),
      links_(identity_.size),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Communicator::require_usable() const {
  std::lock_guard lock(state_);
  if (failure_ == HCCL_SUCCESS) return;
  throw Error(failure_, "communicator " + identity_.name + " failed before: " + reason_);
}

HcclResult Communicator::failure() const {
  std::lock_guard lock(state_);
  return failure_;
}

std::string Communicator::failure_reason() const {
  std::lock_guard lock(state_);
  return reason_;
}

void Communicator::perform(const std::function<void()>& body) {
  std::lock_guard lock(running_);
  require_usable();
  try {
    body();
  } catch (const Error& error) {
    fail(error);
    throw;
  }
}

void Communicator::wait(std::vector<pollfd>& fds, Deadline deadline, const std::string& during) {
  const size_t own = fds.size();
  fds.push_back({wake_.fd(), POLLIN, 0});
  for (const Link& link : links_) fds.push_back({link.control.fd(), POLLIN, 0});  // -1 is skipped
  const int ready = ::poll(fds.data(), fds.size(), deadline.poll_timeout());
  if (ready < 0 && errno != EINTR) throw Error(HCCL_E_SYSCALL, "poll failed during " + during);
  const std::vector<pollfd> watched(fds.begin() + own, fds.end());
  fds.resize(own);
  if (ready <= 0) {
    for (pollfd& fd : fds) fd.revents = 0;
    return;
  }
  if (watched[0].revents != 0) {
    throw Error(HCCL_E_UNAVAIL, "rank " + std::to_string(rank()) +
                                    " destroyed the communicator during " + during);
  }
  // What came before a rank's failure still counts: an operator that can end does.
  for (const pollfd& fd : fds) {
    if (fd.revents != 0) return;
  }
  for (uint32_t peer = 0; peer < size(); ++peer) {
    if (watched[1 + peer].revents != 0) heed(peer);
  }
}

void Communicator::heed(uint32_t peer) {
  Link& link = links_[peer];
  if (!link.control.open()) return;
  std::array<char, 1 << 14> text;
  const Moved moved = receive_some(link.control, text.data(), text.size());
  if (moved.bytes > 0 && text[0] == kFailed) {
    throw Error(HCCL_E_REMOTE, std::string(text.data() + 1, moved.bytes - 1));
  }
  // An end without a failure is none as long as no operator needs that rank.
  link.destroyed = moved.bytes > 0 && text[0] == kDestroyed;
  if (moved.bytes > 0 || moved.gone) link.control.close();
}

void Communicator::lost(uint32_t peer, const std::string& during) {
  heed(peer);
  const std::string who = "rank " + std::to_string(peer);
  throw Error(HCCL_E_REMOTE, links_[peer].destroyed
                                 ? who + " destroyed the communicator before " + during
                                 : who + " ended: its connection closed during " + during);
}

void Communicator::fail(const Error& error) {
  {
    std::lock_guard lock(state_);
    failure_ = error.result;
    reason_ = error.what();
  }
  tell_all(kFailed, error.what());
  close_links();
}

void Communicator::tell_all(char kind, const std::string& text) {
  const std::string message = kind + text;
  for (const Link& link : links_) {
    if (link.control.open()) send_some(link.control, message.data(), message.size());
  }
}

void Communicator::close_links() {
  for (Link& link : links_) {
    link.control.close();
    link.data.close();
  }
}

void Communicator::destroy() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.fd(), &one, sizeof one);
  std::lock_guard running(running_);  // whatever ran has seen the wake-up
  if (failure() == HCCL_SUCCESS) {
    tell_all(kDestroyed, "");
    close_links();
    std::lock_guard lock(state_);
    failure_ = HCCL_E_UNAVAIL;
    reason_ = "it was destroyed";
  }
}

void Communicator::abandon() {
  close_links();
  wake_.close();
}

}  // namespace emu::hccl
