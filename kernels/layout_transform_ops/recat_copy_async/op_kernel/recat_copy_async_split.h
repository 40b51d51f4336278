// Which rows and columns a core works on, before borders are snapped to ranks. Arithmetic only, so
// that the host's tests compile it too.
#ifndef RECAT_COPY_ASYNC_SPLIT_H
#define RECAT_COPY_ASYNC_SPLIT_H
#include <cstdint>

#ifndef __aicore__
#define __aicore__
#endif

namespace RecatCopyAsync {

// The batch is cut into row blocks. Where a core's share begins: a block, and a column in it.
struct Border {
  int64_t block;
  int64_t column;
};

__aicore__ inline int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ inline int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }
__aicore__ inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
__aicore__ inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
__aicore__ inline int64_t RoundDown(int64_t a, int64_t b) { return a / b * b; }

// First row of part `index` of `parts` of `rows`. Parts begin at multiples of `unit` and differ by a
// unit at most. No product exceeds `rows`.
__aicore__ inline int64_t PartBegin(int64_t rows, int64_t unit, int64_t parts, int64_t index) {
  const int64_t units = CeilDiv(rows, unit);
  return Min(rows, (units / parts * index + Min(index, units % parts)) * unit);
}

// Core `core` of `cores` begins after core / cores of all blocks, each as long as its `rowElems`
// columns. Core `cores` is the end of the last one.
__aicore__ inline Border BorderOf(int64_t core, int64_t cores, int64_t blocks, int64_t rowElems) {
  const int64_t position = core * blocks;
  const int64_t part = position % cores;
  return {position / cores, rowElems / cores * part + rowElems % cores * part / cores};
}

// Parts that `rows` need at `most` rows each.
__aicore__ inline int64_t PartsOf(int64_t rows, int64_t unit, int64_t most) {
  return CeilDiv(CeilDiv(rows, unit), most / unit);
}

// Tiles begin at multiples of 8 rows, for stores that begin on a line, unless that makes them small.
__aicore__ inline int64_t TileUnit(int64_t most) { return most >= 64 ? 8 : 1; }

}  // namespace RecatCopyAsync
#endif
