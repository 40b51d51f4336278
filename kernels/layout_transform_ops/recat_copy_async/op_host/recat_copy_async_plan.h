// The tiling plan of RecatCopyAsync: pure C++, no CANN header, no value of dims.
#ifndef RECAT_COPY_ASYNC_PLAN_H
#define RECAT_COPY_ASYNC_PLAN_H
#include <cstdint>

namespace recat {

// Tiling keys. A copy changes no bit; a conversion scales, casts or both.
constexpr uint64_t kCopyKey = 1;
constexpr uint64_t kConvertKey = 2;

struct PlanInput {
  int64_t batchSize;  // B >= 0
  int64_t rowElems;   // S = sum of dims >= 0
  int64_t rankNum;    // R >= 0
  int64_t inSize;     // bytes of an element: 2 or 4
  int64_t outSize;
  bool convert;    // a scale or a cast: the vector unit sees every element
  int64_t cores;   // vector cores of the chip
  int64_t ubSize;  // bytes of a core's unified buffer
};

struct Plan {
  int64_t rowUnit;      // rows: blocks of rows begin at multiples of it
  int64_t rowBlocks;    // the batch is cut into so many
  int64_t coreNum;      // cores to launch, 1 or more: a launch of none is refused
  int64_t tileElems;    // of each buffer of the vector path
  int64_t directElems;  // of each buffer of the direct path, 0 where every tile converts
};

constexpr int64_t kLine = 512;                      // bytes of a line of global memory
constexpr int64_t kMinUbSize = 160 * 1024;          // a tile holds 16 lanes of the widest narrow rank
constexpr int64_t kChunkSize = 2048 * 4;            // float32 intermediate between 16-bit dtypes
constexpr int64_t kMaxTileSize = 255 * 512;         // 255 repeats, and fewer than 4095 blocks
constexpr int64_t kMinBytesPerCore = 16 * 1024;     // a core for less is not worth its start
constexpr int64_t kMostRowUnit = 32;                // stores of many widths begin on a line then
constexpr int64_t kMinRowsPerBlock = 64;            // blocks of fewer rows make short stores

inline int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// Whether the largest of `parts` parts of `count` is at most 1 + permille / 1000 of their mean.
inline bool Even(int64_t count, int64_t parts, int64_t permille) {
  const int64_t missing = count % parts == 0 ? 0 : parts - count % parts;
  return missing <= count / 1000 * permille + count % 1000 * permille / 1000;
}

// One block of rows a core where that is even. Else fewer blocks, that cores share by columns.
inline void SplitRows(int64_t batch, int64_t cores, Plan& plan) {
  plan.rowUnit = 1;
  plan.rowBlocks = 1;
  if (Even(batch, cores, 10)) {
    plan.rowBlocks = cores;
    for (int64_t unit = kMostRowUnit; unit > 1; unit /= 2) {
      if (batch % unit == 0 && Even(batch / unit, cores, 10)) {
        plan.rowUnit = unit;
        return;
      }
    }
    return;
  }
  const int64_t most = batch / kMinRowsPerBlock;
  for (int64_t blocks = most < cores ? most : cores; blocks > 1; --blocks) {
    if (Even(batch, blocks, 5)) {
      plan.rowBlocks = blocks;
      return;
    }
  }
}

// nullptr and a plan, or what is wrong.
inline const char* MakePlan(const PlanInput& in, Plan& plan) {
  if (in.batchSize < 0 || in.rowElems < 0 || in.rankNum < 0) {
    return "a size is negative";
  }
  if ((in.inSize != 2 && in.inSize != 4) || (in.outSize != 2 && in.outSize != 4)) {
    return "an element is neither 2 nor 4 bytes";
  }
  if (!in.convert && in.inSize != in.outSize) {
    return "a copy without a cast has two dtypes";
  }
  if (in.cores < 1 || in.cores > 65535) {
    return "the number of cores is not in 1..65535";
  }
  if (in.ubSize < kMinUbSize) {
    return "the unified buffer is smaller than 160 KiB";
  }
  if (in.rowElems > 0 && in.batchSize > INT64_MAX / 8 / in.rowElems) {
    return "the size in bytes exceeds int64";
  }
  const int64_t larger = in.inSize > in.outSize ? in.inSize : in.outSize;
  const int64_t bytes = in.batchSize * in.rowElems * larger;
  const int64_t wanted = CeilDiv(bytes, kMinBytesPerCore);
  plan.coreNum = wanted < 1 ? 1 : (wanted < in.cores ? wanted : in.cores);
  SplitRows(in.batchSize, plan.coreNum, plan);

  const int64_t elemsPerLine = kLine / 2;
  int64_t direct = 0;
  int64_t tile = 0;
  if (in.convert) {  // two buffers in, two out, one converted
    tile = (in.ubSize - kChunkSize) / (2 * in.inSize + 3 * in.outSize);
  } else {  // two buffers direct, two in, two out
    direct = in.ubSize / 8;
    direct = (direct < kMaxTileSize ? direct : kMaxTileSize) / in.inSize;
    direct = direct / elemsPerLine * elemsPerLine;
    tile = (in.ubSize - 2 * direct * in.inSize) / (4 * in.inSize);
  }
  const int64_t most = kMaxTileSize / larger;
  tile = (tile < most ? tile : most) / elemsPerLine * elemsPerLine;
  plan.tileElems = tile;
  plan.directElems = direct;
  return nullptr;
}

}  // namespace recat
#endif
