// One simultaneous exchange between the ranks of a communicator.
//
// Ranks first announce to each other what they call and what they will send and expect. Only when
// the announcements agree does data move, in all directions at once, as far as the sockets take
// it: no split, however uneven, can block another.
#pragma once

#include "channel.h"
#include "message.h"

namespace emu::hccl {

enum class Takes { everyone, peers_named };

class Exchange {
 public:
  // during: the operator's name, for errors.
  Exchange(Communicator& communicator, const Call& call, Takes takes, std::string during);

  // The buffers stay the caller's until run() has returned. A zero count is announced too.
  void send(uint32_t peer, const void* buffer, uint64_t bytes, uint32_t dtype);
  void receive(uint32_t peer, void* buffer, uint64_t bytes, uint32_t dtype);

  // Throws Error: ranks disagree, or a rank ended or did not answer in time.
  void run(std::chrono::seconds timeout, const char* timeout_name = "HCCL_EXEC_TIMEOUT");

 private:
  struct Peer {
    Channel channel;
    Announcement ours;
    std::string theirs;
    bool takes_part = false;
    Clock::time_point not_before{};  // of a delayed link
  };

  void announce();
  void agree();
  void transfer();
  void copy_own();
  void progress();
  Deadline next_wake() const;
  void move(uint32_t rank, short events);
  [[noreturn]] void timed_out() const;

  Communicator& communicator_;
  const std::string during_;
  std::vector<Peer> peers_;
  Deadline deadline_;
  std::chrono::seconds timeout_{0};
  const char* timeout_name_ = "";
};

}  // namespace emu::hccl
