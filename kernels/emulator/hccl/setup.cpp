#include "setup.h"

#include "faults.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <random>
#include <set>
#include <sstream>

namespace emu::hccl {
namespace {

constexpr const char* kRootInfoPrefix = "emulated-hccl-root-";

// What HcclCommConfigInit writes to the reserved bytes of a config.
struct ConfigHeader {
  size_t size;
  uint32_t magic;
  uint32_t version;
};

std::chrono::seconds seconds_from(const char* variable, long fallback) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::chrono::seconds(fallback);
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || errno != 0 || value < 0 || value > 0x7fffffff) {
    throw Error(HCCL_E_PARA, std::string(variable) + "=" + text +
                                 ", expected seconds from 0 to 2147483647");
  }
  return std::chrono::seconds(value);
}

// An older caller's config is shorter: a field counts only where it lies within `size`.
void apply(const HcclCommConfig& config, Identity& identity) {
  ConfigHeader header;
  std::memcpy(&header, config.reserved, sizeof header);
  if (header.magic != HCCL_COMM_CONFIG_MAGIC_WORD) {
    throw Error(HCCL_E_PARA, "config was not prepared by HcclCommConfigInit");
  }
  const auto has = [&](size_t end) { return header.size >= end; };
  if (has(offsetof(HcclCommConfig, hcclUdi)) && config.hcclCommName[0] != '\0') {
    if (std::memchr(config.hcclCommName, '\0', COMM_NAME_MAX_LENGTH) == nullptr) {
      throw Error(HCCL_E_PARA, "hcclCommName has no end within " +
                                   std::to_string(COMM_NAME_MAX_LENGTH) + " bytes");
    }
    identity.name = config.hcclCommName;
  }
  if (has(offsetof(HcclCommConfig, hcclAlgo)) &&
      config.hcclExecTimeOut != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET) {
    if (config.hcclExecTimeOut < 0) throw Error(HCCL_E_PARA, "hcclExecTimeOut is negative");
    identity.exec_timeout = std::chrono::seconds(config.hcclExecTimeOut);
  }
}

std::string root_id(const HcclRootInfo* info) {
  if (info == nullptr) throw Error(HCCL_E_PTR, "rootInfo is null");
  const std::string id(info->internal, strnlen(info->internal, sizeof info->internal));
  if (id.rfind(kRootInfoPrefix, 0) != 0) {
    throw Error(HCCL_E_PARA, "rootInfo is not from HcclGetRootInfo");
  }
  return id;
}

HcclResult root_info(const char* function, HcclRootInfo* info) {
  return call(function, [&]() -> Status {
    if (info == nullptr) throw Error(HCCL_E_PTR, "rootInfo is null");
    static std::random_device random;  // another job's, on this host, must not be the same
    std::ostringstream id;
    id << kRootInfoPrefix << std::hex << std::setfill('0') << std::setw(8) << random()
       << std::setw(8) << random();
    std::memset(info->internal, 0, sizeof info->internal);
    std::memcpy(info->internal, id.str().data(), id.str().size());
    return {};
  });
}

// rank_ids[i] of the parent is rank i of the new communicator.
std::string sub_communicator_id(const Communicator& parent, uint32_t size, const uint32_t* rank_ids,
                                uint64_t sub_id, uint32_t sub_rank) {
  std::ostringstream id;
  id << parent.identity().id << "/" << std::hex << sub_id;
  std::set<uint32_t> seen;
  for (uint32_t rank = 0; rank < size; ++rank) {
    if (rank_ids[rank] >= parent.size() || !seen.insert(rank_ids[rank]).second) {
      throw Error(HCCL_E_PARA, "rankIds[" + std::to_string(rank) + "] is " +
                                   std::to_string(rank_ids[rank]) +
                                   ", expected distinct ranks below " +
                                   std::to_string(parent.size()));
    }
    id << "," << rank_ids[rank];
  }
  if (sub_rank >= size || rank_ids[sub_rank] != parent.rank()) {
    throw Error(HCCL_E_PARA, "subCommRankId is " + std::to_string(sub_rank) +
                                 ", which is not the place of rank " +
                                 std::to_string(parent.rank()) + " in rankIds");
  }
  return id.str();
}

}  // namespace

Status make_communicator(const std::string& id, uint32_t size, uint32_t rank,
                         const HcclCommConfig* config, HcclComm* comm) {
  if (comm == nullptr) throw Error(HCCL_E_PTR, "comm is null");
  if (rank >= size) {
    throw Error(HCCL_E_PARA, "rank is " + std::to_string(rank) + ", expected below nRanks, " +
                                 std::to_string(size));
  }
  if (size > chip().devices) {
    throw Error(HCCL_E_PARA, "nRanks is " + std::to_string(size) + ", but the emulated host has " +
                                 std::to_string(chip().devices) + " devices");
  }
  Identity identity;
  identity.id = id;
  identity.name = id.substr(0, COMM_NAME_MAX_LENGTH - 1);
  identity.rank = rank;
  identity.size = size;
  identity.device = current_device();
  if (identity.device < 0) throw Error(HCCL_E_RUNTIME, "no device is set on this thread");
  // Ranks of different numbers count as ranks of different hosts, which may use the same device.
  if (const char* host = std::getenv("NPU_EMU_HOST")) identity.host = std::atoi(host);
  identity.connect_timeout = seconds_from("HCCL_CONNECT_TIMEOUT", 120);
  identity.exec_timeout = seconds_from("HCCL_EXEC_TIMEOUT", 1836);
  if (config != nullptr) apply(*config, identity);
  trace("HcclCommInit %s rank %u of %u on device %d", identity.name.c_str(), rank, size,
        identity.device);
  faults::note_rank(rank);
  *comm = enroll(set_up(std::move(identity)));
  return {};
}

}  // namespace emu::hccl

using namespace emu::hccl;

CANN_API HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return root_info("HcclGetRootInfo", rootInfo);
}

CANN_API HcclResult HcclGetRootInfoScalable(HcclRootInfo* rootInfo) {
  return root_info("HcclGetRootInfoScalable", rootInfo);
}

CANN_API HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo,
                                         uint32_t rank, HcclComm* comm) {
  return call("HcclCommInitRootInfo", [&] {
    return make_communicator(root_id(rootInfo), nRanks, rank, nullptr, comm);
  });
}

CANN_API HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo,
                                               uint32_t rank, const HcclCommConfig* config,
                                               HcclComm* comm) {
  return call("HcclCommInitRootInfoConfig", [&] {
    if (config == nullptr) throw Error(HCCL_E_PTR, "config is null");
    return make_communicator(root_id(rootInfo), nRanks, rank, config, comm);
  });
}

CANN_API HcclResult HcclCommInitRootInfoScalable(uint32_t nRanks, uint32_t nRoot,
                                                 const HcclRootInfo* rootInfoList, uint32_t rank,
                                                 uint32_t nExtRoot, const HcclCommConfig* config,
                                                 HcclComm* comm) {
  return call("HcclCommInitRootInfoScalable", [&] {
    if (nRoot == 0) throw Error(HCCL_E_PARA, "nRoot is 0");
    return make_communicator(root_id(rootInfoList), nRanks, rank, config, comm);
  });
}

static HcclResult init_from_table(const char* function, const char* path, uint32_t rank,
                                  const HcclCommConfig* config, HcclComm* comm) {
  return call(function, [&] {
    const std::vector<RankDevice> table = read_rank_table(path);
    std::ostringstream id;  // two jobs with one table would share its devices: there are none
    id << "rank-table";
    for (const RankDevice& line : table) id << "," << line.rank << "@" << line.device;
    if (rank < table.size() && table[rank].device != emu::current_device()) {
      throw Error(HCCL_E_PARA, "the rank table has rank " + std::to_string(rank) + " on device " +
                                   std::to_string(table[rank].device) + ", but device " +
                                   std::to_string(emu::current_device()) + " is set");
    }
    return make_communicator(id.str(), static_cast<uint32_t>(table.size()), rank, config, comm);
  });
}

CANN_API HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank,
                                            HcclComm* comm) {
  return init_from_table("HcclCommInitClusterInfo", clusterInfo, rank, nullptr, comm);
}

CANN_API HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank,
                                                  HcclCommConfig* config, HcclComm* comm) {
  return init_from_table("HcclCommInitClusterInfoConfig", clusterInfo, rank, config, comm);
}

CANN_API HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds,
                                            uint64_t subCommId, uint32_t subCommRankId,
                                            HcclCommConfig* config, HcclComm* subComm) {
  return call("HcclCreateSubCommConfig", [&]() -> emu::Status {
    if (comm == nullptr || subComm == nullptr) throw Error(HCCL_E_PTR, "comm or subComm is null");
    const auto parent = find(*comm);
    if (rankIds == nullptr && rankNum == 0) {  // a rank that takes no part
      *subComm = nullptr;
      return {};
    }
    if (rankIds == nullptr) throw Error(HCCL_E_PTR, "rankIds is null");
    const std::string id = sub_communicator_id(*parent, rankNum, rankIds, subCommId, subCommRankId);
    return make_communicator(id, rankNum, subCommRankId, config, subComm);
  });
}
