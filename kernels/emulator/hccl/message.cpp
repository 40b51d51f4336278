#include "message.h"

#include "error.h"
#include "names.h"

#include <algorithm>
#include <cstring>

namespace emu::hccl {
namespace {

struct WireHeader {
  Call call;
  uint64_t sends = 0;
  uint64_t receives = 0;
};

struct WireTransfer {
  uint64_t bytes = 0;
  uint64_t dtype = 0;
};

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string describe(const std::vector<Transfer>& transfers, size_t index) {
  if (index >= transfers.size()) return "nothing";
  const Transfer& transfer = transfers[index];
  return dtype_name(transfer.dtype) + " with " + std::to_string(transfer.bytes) + " bytes";
}

// What `sender` sends against what `receiver` expects.
std::optional<std::string> compare(uint32_t sender, const Announcement& sent, uint32_t receiver,
                                   const Announcement& expected) {
  const auto& sends = sent.sends;
  const auto& receives = expected.receives;
  for (size_t index = 0; index < std::max(sends.size(), receives.size()); ++index) {
    if (index < sends.size() && index < receives.size() &&
        sends[index].bytes == receives[index].bytes && sends[index].dtype == receives[index].dtype) {
      continue;
    }
    return rank_name(sender) + " called " + operator_name(sent.call.op) + " " +
           describe(sends, index) + " for " + rank_name(receiver) + ", " + rank_name(receiver) +
           " expected " + describe(receives, index) + " from it";
  }
  return std::nullopt;
}

}  // namespace

std::string describe(const Call& call) {
  if (call.op == HCCL_CMD_SEND) return "Send or Recv";
  std::string text = operator_name(call.op);
  if (call.reduce != kNone) text += " " + reduce_name(call.reduce);
  if (call.dtype != kNone) text += " " + dtype_name(call.dtype);
  if (call.root != kNone) text += " (root " + std::to_string(call.root) + ")";
  if (call.bytes != kByRank) text += " with " + std::to_string(call.bytes) + " bytes";
  return text;
}

std::string Announcement::encode() const {
  std::string bytes;
  append(bytes, WireHeader{call, sends.size(), receives.size()});
  for (const auto* transfers : {&sends, &receives}) {
    for (const Transfer& transfer : *transfers) {
      append(bytes, WireTransfer{transfer.bytes, transfer.dtype});
    }
  }
  return bytes;
}

Announcement Announcement::decode(const std::string& bytes) {
  WireHeader header;
  if (bytes.size() < sizeof header) throw Error(HCCL_E_INTERNAL, "an announcement is too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint64_t count = (bytes.size() - sizeof header) / sizeof(WireTransfer);
  if (header.sends > count || header.receives != count - header.sends) {
    throw Error(HCCL_E_INTERNAL, "an announcement has the wrong length");
  }
  Announcement result;
  result.call = header.call;
  for (uint64_t index = 0; index < count; ++index) {
    WireTransfer wire;
    std::memcpy(&wire, bytes.data() + sizeof header + index * sizeof wire, sizeof wire);
    auto& list = index < header.sends ? result.sends : result.receives;
    list.push_back({nullptr, wire.bytes, static_cast<uint32_t>(wire.dtype)});
  }
  return result;
}

std::optional<std::string> disagreement(uint32_t rank, const Announcement& ours, uint32_t peer,
                                        const Announcement& theirs) {
  if (peer < rank) return disagreement(peer, theirs, rank, ours);
  if (ours.call != theirs.call) {
    return rank_name(rank) + " called " + describe(ours.call) + ", " + rank_name(peer) +
           " called " + describe(theirs.call);
  }
  if (auto text = compare(rank, ours, peer, theirs)) return text;
  return compare(peer, theirs, rank, ours);
}

}  // namespace emu::hccl
