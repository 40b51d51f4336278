// Fault knobs of the collectives (../README.md).
#pragma once

#include "communicator.h"

namespace emu::hccl::faults {

// Memory that an operator writes.
struct Region {
  void* at = nullptr;
  uint64_t bytes = 0;
};

// drop_rank=R@N: ends the process that is rank R of its first communicator, at its N-th collective
// since the knob took this value.
void note_rank(uint32_t rank);  // of a new communicator
void drop_rank();               // a collective begins

// collective_zeros=NAME: zeros in what the operator wrote, where more than two ranks take part.
void corrupt(const Communicator& communicator, uint32_t op, const std::vector<Region>& written);

// delay_link=A-B@MICROSECONDS: how long messages between these two ranks are held back.
std::chrono::microseconds link_delay(uint32_t rank, uint32_t peer);

}  // namespace emu::hccl::faults
