// What the ways of making a communicator share.
#pragma once

#include "communicator.h"

#include <cstdint>
#include <string>
#include <vector>

namespace emu::hccl {

// Joins and enrols. config may be null; `exec_timeout` and the name come from it where it says so.
Status make_communicator(const std::string& id, uint32_t size, uint32_t rank,
                         const HcclCommConfig* config, HcclComm* comm);

// One line of a rank table.
struct RankDevice {
  uint32_t rank = 0;
  int device = -1;
};

// Reads a rank table; throws Error naming the file and what is wrong with it. Sorted by rank.
std::vector<RankDevice> read_rank_table(const char* path);

}  // namespace emu::hccl
