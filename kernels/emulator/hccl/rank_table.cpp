#include "setup.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace emu::hccl {
namespace {

constexpr size_t kLargestTable = 1 << 20;

int field(const std::string& entry, const char* name, const std::string& path) {
  const std::regex pattern(std::string("\"") + name + "\"\\s*:\\s*\"?(\\d{1,6})\"?");
  std::smatch match;
  if (!std::regex_search(entry, match, pattern)) {
    throw Error(HCCL_E_PARA, "rank table " + path + ": no " + name + " in " + entry);
  }
  return std::stoi(match[1]);
}

}  // namespace

// Of the format only the device entries matter on one host: objects without an object inside.
std::vector<RankDevice> read_rank_table(const char* path) {
  if (path == nullptr) throw Error(HCCL_E_PTR, "clusterInfo is null");
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) {
    throw Error(HCCL_E_OPEN_FILE_FAILURE, std::string("rank table ") + path + " is not readable");
  }
  const std::string text = content.str();
  if (text.size() > kLargestTable) {
    throw Error(HCCL_E_PARA, std::string("rank table ") + path + " is larger than 1 MiB");
  }
  const std::regex entry(R"(\{[^{}]*"rank_id"[^{}]*\})");
  std::vector<RankDevice> table;
  for (std::sregex_iterator match(text.begin(), text.end(), entry), end; match != end; ++match) {
    const std::string found = match->str();
    table.push_back({static_cast<uint32_t>(field(found, "rank_id", path)),
                     field(found, "device_id", path)});
  }
  std::sort(table.begin(), table.end(),
            [](const RankDevice& a, const RankDevice& b) { return a.rank < b.rank; });
  for (size_t rank = 0; rank < table.size(); ++rank) {
    if (table[rank].rank == rank) continue;
    throw Error(HCCL_E_PARA, std::string("rank table ") + path + ": rank " + std::to_string(rank) +
                                 " is missing or doubled");
  }
  if (table.empty()) throw Error(HCCL_E_PARA, std::string("rank table ") + path + " has no rank");
  return table;
}

}  // namespace emu::hccl
