// What ranks tell each other about an operator before data moves, and in words when they disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace emu::hccl {

inline constexpr uint32_t kNone = 0xffffffff;  // an operator without a root, or a reduction
inline constexpr uint64_t kByRank = ~uint64_t{0};  // bytes that may differ between ranks

// What all ranks of an operator must have in common.
struct Call {
  uint32_t op = 0;          // HcclCMDType; HCCL_CMD_SEND also for what receives
  uint32_t dtype = kNone;   // HcclDataType
  uint32_t reduce = kNone;  // HcclReduceOp
  uint32_t root = kNone;
  uint64_t bytes = kByRank;  // of the buffer that `count` describes
  bool operator==(const Call&) const = default;
};

// "AllReduce sum float32 with 24 bytes"
std::string describe(const Call& call);

// Part of a buffer that goes to another rank, or comes from one.
struct Transfer {
  void* buffer = nullptr;
  uint64_t bytes = 0;
  uint32_t dtype = 0;
};

// A rank's view of an operator, towards one other rank.
struct Announcement {
  Call call;
  std::vector<Transfer> sends;  // buffer is null in a received one
  std::vector<Transfer> receives;

  std::string encode() const;
  // Throws Error where `bytes` is no announcement.
  static Announcement decode(const std::string& bytes);
};

// In words what two ranks disagree about, if they do; the same words on both.
std::optional<std::string> disagreement(uint32_t rank, const Announcement& ours, uint32_t peer,
                                        const Announcement& theirs);

}  // namespace emu::hccl
