// Messages over one link: each has a frame with communicator, sequence number, kind and size.
#pragma once

#include "communicator.h"

#include <deque>
#include <string>

namespace emu::hccl {

enum class Kind : uint32_t { announcement = 1, data = 2 };

class Channel {
 public:
  // token: the communicator's, in frames.
  Channel(Link& link, uint64_t token) : link_(&link), token_(token) {}

  // Queues a message; `body` stays the caller's until writing() is false.
  void post(Kind kind, const void* body, uint64_t bytes);
  // The next message goes to `body`, and must be that long.
  void expect(void* body, uint64_t bytes);
  // The next message goes to `text`, however long it is.
  void expect(std::string* text);

  bool writing() const { return !out_.empty(); }
  bool reading() const { return !expected_.empty(); }
  const Socket& socket() const { return link_->data; }

  // Moves what the socket takes or has; false when the other end is gone.
  // Throws Error when a message is not the expected one.
  bool push();
  bool pull();

 private:
  struct Frame {
    uint32_t magic = 0;
    Kind kind = Kind::data;
    uint64_t communicator = 0;
    uint64_t sequence = 0;
    uint64_t bytes = 0;
  };
  struct Outgoing {
    Frame frame;
    const char* body = nullptr;
    uint64_t done = 0;  // of frame and body together
  };
  struct Expected {
    char* body = nullptr;  // null: goes to text
    uint64_t bytes = 0;
    std::string* text = nullptr;
  };

  void accept_frame();

  Link* link_;
  uint64_t token_;
  std::deque<Outgoing> out_;
  std::deque<Expected> expected_;
  Frame frame_;
  uint64_t done_ = 0;  // of the incoming frame and body together
};

// FNV-1a: short, and the same in every process.
uint64_t digest(const std::string& text);

}  // namespace emu::hccl
