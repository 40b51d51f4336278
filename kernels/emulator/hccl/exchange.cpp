#include "exchange.h"

#include "faults.h"

#include <cstring>

namespace emu::hccl {

Exchange::Exchange(Communicator& communicator, const Call& call, Takes takes, std::string during)
    : communicator_(communicator), during_(std::move(during)) {
  const uint64_t token = digest(communicator.identity().id);
  for (uint32_t rank = 0; rank < communicator.size(); ++rank) {
    Peer peer{Channel(communicator.link(rank), token), {call, {}, {}}, {}, false, {}};
    peer.takes_part = takes == Takes::everyone && rank != communicator.rank();
    peers_.push_back(std::move(peer));
  }
}

void Exchange::send(uint32_t rank, const void* buffer, uint64_t bytes, uint32_t dtype) {
  peers_[rank].ours.sends.push_back({const_cast<void*>(buffer), bytes, dtype});
  peers_[rank].takes_part = rank != communicator_.rank();
}

void Exchange::receive(uint32_t rank, void* buffer, uint64_t bytes, uint32_t dtype) {
  peers_[rank].ours.receives.push_back({buffer, bytes, dtype});
  peers_[rank].takes_part = rank != communicator_.rank();
}

void Exchange::run(std::chrono::seconds timeout, const char* timeout_name) {
  timeout_ = timeout;
  timeout_name_ = timeout_name;
  deadline_ = Deadline::after(timeout);
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].not_before = Clock::now() + faults::link_delay(communicator_.rank(), rank);
  }
  announce();
  agree();
  transfer();
}

void Exchange::announce() {
  std::vector<std::string> texts(peers_.size());
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.takes_part) continue;
    texts[rank] = peer.ours.encode();
    peer.channel.post(Kind::announcement, texts[rank].data(), texts[rank].size());
    peer.channel.expect(&peer.theirs);
  }
  progress();
}

void Exchange::agree() {
  const uint32_t me = communicator_.rank();
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    // This rank's messages to itself are held to the same rule.
    if (!peer.takes_part && rank != me) continue;
    Announcement theirs = rank == me ? peer.ours : Announcement::decode(peer.theirs);
    if (auto text = disagreement(me, peer.ours, rank, theirs)) throw Error(HCCL_E_PARA, *text);
  }
}

void Exchange::transfer() {
  for (Peer& peer : peers_) {
    if (!peer.takes_part) continue;
    for (const Transfer& part : peer.ours.sends) {
      if (part.bytes > 0) peer.channel.post(Kind::data, part.buffer, part.bytes);
    }
    for (const Transfer& part : peer.ours.receives) {
      if (part.bytes > 0) peer.channel.expect(part.buffer, part.bytes);
    }
  }
  copy_own();
  progress();
}

void Exchange::copy_own() {
  const Announcement& own = peers_[communicator_.rank()].ours;
  for (size_t index = 0; index < own.sends.size(); ++index) {
    const Transfer& from = own.sends[index];
    if (from.bytes > 0) std::memmove(own.receives[index].buffer, from.buffer, from.bytes);
  }
}

void Exchange::progress() {
  std::vector<pollfd> fds(peers_.size());
  for (;;) {
    bool pending = false;
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      const Peer& peer = peers_[rank];
      const bool may_write = peer.channel.writing() && Clock::now() >= peer.not_before;
      const short events = (may_write ? POLLOUT : 0) | (peer.channel.reading() ? POLLIN : 0);
      fds[rank] = {events != 0 ? peer.channel.socket().fd() : -1, events, 0};
      pending = pending || peer.channel.writing() || peer.channel.reading();
    }
    if (!pending) return;
    if (deadline_.passed()) timed_out();
    communicator_.wait(fds, next_wake(), during_);
    for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
      if (fds[rank].revents != 0) move(rank, fds[rank].revents);
    }
  }
}

Deadline Exchange::next_wake() const {
  Deadline wake = deadline_;
  for (const Peer& peer : peers_) {
    if (peer.channel.writing() && peer.not_before > Clock::now()) {
      wake = wake.capped(peer.not_before);
    }
  }
  return wake;
}

void Exchange::move(uint32_t rank, short events) {
  Channel& channel = peers_[rank].channel;
  const bool readable = (events & (POLLIN | POLLHUP | POLLERR)) != 0;
  // What a rank sent before it ended is read first.
  if (readable && channel.reading() && !channel.pull()) communicator_.lost(rank, during_);
  if ((events & POLLOUT) != 0 && !channel.push()) communicator_.lost(rank, during_);
  if ((events & (POLLHUP | POLLERR)) != 0 && !channel.reading() && channel.writing()) {
    communicator_.lost(rank, during_);
  }
}

void Exchange::timed_out() const {
  std::string ranks;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const Channel& channel = peers_[rank].channel;
    if (!channel.writing() && !channel.reading()) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  throw Error(HCCL_E_TIMEOUT, "rank " + ranks + " did not answer " + during_ + " within " +
                                  std::to_string(timeout_.count()) + " s (" + timeout_name_ + ")");
}

}  // namespace emu::hccl
