// The two sides of a collective. Each collective is one all-to-all, or two: parts of a buffer for
// every rank and parts from every rank, most of them empty in a broadcast, say.
#pragma once

#include "operation.h"

namespace emu::hccl {

// What a rank sends, or receives: a part of one buffer for each rank.
struct Side {
  void* buffer = nullptr;
  Parts parts;
  uint32_t dtype = kNone;
};

void all_to_all(Communicator& communicator, const Call& call, const Side& send,
                const Side& receive);

// Leaves this rank's part of every rank's buffer, reduced, in the result.
std::vector<char> reduce_own_part(Communicator& communicator, const Call& call, const Side& send);

// `count` elements shared out to the ranks.
Parts shares(uint64_t count, uint32_t ranks, uint32_t dtype);

// The first `bytes` for every rank.
Parts same_part(uint32_t ranks, uint64_t bytes);

// A part for one rank, nothing for the others.
Parts only(uint32_t rank, const Part& part, uint32_t ranks);

// Throws Error where a rank gives itself something else than it expects from itself. sent,
// expected: the arguments that say so.
void check_own(const char* sent, const char* expected, const Side& send, const Side& receive,
               uint32_t rank);

// Where an operator writes.
std::vector<faults::Region> regions(const Side& receive);

}  // namespace emu::hccl
