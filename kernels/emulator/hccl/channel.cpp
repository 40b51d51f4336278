#include "channel.h"

namespace emu::hccl {
namespace {

constexpr uint32_t kMagic = 0x484c4343;
constexpr uint64_t kLongestText = 1 << 24;  // an announcement is far shorter

}  // namespace

uint64_t digest(const std::string& text) {
  uint64_t value = 0xcbf29ce484222325;
  for (unsigned char letter : text) value = (value ^ letter) * 0x100000001b3;
  return value;
}

void Channel::post(Kind kind, const void* body, uint64_t bytes) {
  const Frame frame{kMagic, kind, token_, link_->sent++, bytes};
  out_.push_back({frame, static_cast<const char*>(body), 0});
}

void Channel::expect(void* body, uint64_t bytes) {
  expected_.push_back({static_cast<char*>(body), bytes, nullptr});
}

void Channel::expect(std::string* text) { expected_.push_back({nullptr, 0, text}); }

bool Channel::push() {
  while (writing()) {
    Outgoing& message = out_.front();
    const uint64_t whole = sizeof message.frame + message.frame.bytes;
    const bool in_frame = message.done < sizeof message.frame;
    const char* from = in_frame ? reinterpret_cast<const char*>(&message.frame) + message.done
                                : message.body + (message.done - sizeof message.frame);
    const uint64_t bytes = (in_frame ? sizeof message.frame : whole) - message.done;
    const Moved moved = send_some(link_->data, from, bytes);
    if (moved.gone) return false;
    if (moved.bytes == 0) return true;
    message.done += moved.bytes;
    if (message.done == whole) out_.pop_front();
  }
  return true;
}

bool Channel::pull() {
  while (reading()) {
    const bool in_frame = done_ < sizeof frame_;
    char* to = reinterpret_cast<char*>(&frame_) + done_;
    uint64_t bytes = sizeof frame_ - done_;
    if (!in_frame) {
      Expected& message = expected_.front();
      char* body = message.text != nullptr ? message.text->data() : message.body;
      to = body + (done_ - sizeof frame_);
      bytes = sizeof frame_ + frame_.bytes - done_;
    }
    const Moved moved = receive_some(link_->data, to, bytes);
    if (moved.gone) return false;
    if (moved.bytes == 0) return true;
    done_ += moved.bytes;
    if (in_frame && done_ == sizeof frame_) accept_frame();
    if (done_ >= sizeof frame_ && done_ == sizeof frame_ + frame_.bytes) {
      expected_.pop_front();
      done_ = 0;
    }
  }
  return true;
}

void Channel::accept_frame() {
  Expected& message = expected_.front();
  const Kind kind = message.text != nullptr ? Kind::announcement : Kind::data;
  const bool fits =
      message.text != nullptr ? frame_.bytes <= kLongestText : frame_.bytes == message.bytes;
  if (frame_.magic != kMagic || frame_.communicator != token_ || frame_.kind != kind || !fits ||
      frame_.sequence != link_->received++) {
    throw Error(HCCL_E_INTERNAL, "a message is not the one that was due");
  }
  if (message.text != nullptr) message.text->resize(frame_.bytes);
}

}  // namespace emu::hccl
