// One rank's end of a communicator: its links to the other ranks, and whether it still works.
//
// Two connections join each pair of ranks. Operators run over `data`. `control` carries one message
// in a communicator's life, why this end fails or that it is destroyed, and carries it before
// `data` closes: whoever finds `data` closed finds the reason on `control`, or the process ended.
#pragma once

#include "error.h"
#include "socket.h"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace emu::hccl {

struct Identity {
  std::string id;    // the same on all ranks, and no other communicator's
  std::string name;  // what HcclGetCommName answers
  uint32_t rank = 0;
  uint32_t size = 1;
  int device = -1;
  int host = 0;
  std::chrono::seconds connect_timeout{120};
  std::chrono::seconds exec_timeout{1836};  // 0: never
};

struct Link {
  Socket data;
  Socket control;
  bool destroyed = false;  // the other end said so
  uint64_t sent = 0;       // messages, for their sequence numbers
  uint64_t received = 0;
};

class Communicator {
 public:
  explicit Communicator(Identity identity);

  const Identity& identity() const { return identity_; }
  uint32_t rank() const { return identity_.rank; }
  uint32_t size() const { return identity_.size; }
  Link& link(uint32_t peer) { return links_[peer]; }

  // Throws what failed first, if anything did.
  void require_usable() const;
  HcclResult failure() const;
  std::string failure_reason() const;

  // Runs `body` alone on the links. An Error in it fails the communicator for good and tells the
  // other ranks, and goes on to the caller.
  void perform(const std::function<void()>& body);

  // poll() for operators and set-up, whose name is `during`. Throws Error when a rank reports that
  // it failed, or this end is destroyed meanwhile. revents are 0 when the deadline passed.
  void wait(std::vector<pollfd>& fds, Deadline deadline, const std::string& during);

  // Ends an operator that found the link to `peer` closed.
  [[noreturn]] void lost(uint32_t peer, const std::string& during);

  // Stops an operator that runs, and tells the other ranks.
  void destroy();

  // In a forked child: closes its copies of the links, or the other ranks would not see this
  // process end.
  void abandon();

 private:
  void fail(const Error& error);
  void tell_all(char kind, const std::string& text);
  void heed(uint32_t peer);
  void close_links();

  const Identity identity_;
  std::vector<Link> links_;
  Socket wake_;  // an eventfd, readable once destroyed
  std::mutex running_;
  mutable std::mutex state_;
  HcclResult failure_ = HCCL_SUCCESS;
  std::string reason_;
};

// Handles. `find` throws Error for a handle that is null or not a live communicator's.
HcclComm enroll(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> find(HcclComm handle);
std::shared_ptr<Communicator> withdraw(HcclComm handle);

// Joins the other ranks of `identity`; returns when all are there and agree.
std::shared_ptr<Communicator> set_up(Identity identity);

}  // namespace emu::hccl
