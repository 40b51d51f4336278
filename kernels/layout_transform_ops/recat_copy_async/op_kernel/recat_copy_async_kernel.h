// RecatCopyAsync on one core: rows [B, S] to rank-major flat [B * S], or back (inverse).
// README.md draws the layouts and says why the tiles are what they are.
#ifndef RECAT_COPY_ASYNC_KERNEL_H
#define RECAT_COPY_ASYNC_KERNEL_H
#include "recat_copy_async_group.h"

namespace RecatCopyAsync {

#if defined(__NPU_ARCH__) && (__NPU_ARCH__ == 3510)
constexpr int64_t DIRECT_BYTES = 512;
#else
constexpr int64_t DIRECT_BYTES = 1024;
#endif
// Rows of all ranks before the next rows: the lines that neighbours share are still in L2. Short rows
// go on until so many tiles would be full.
constexpr int64_t ROWS_AT_A_TIME = 1024;
constexpr int64_t TILES_AT_A_TIME = 4;
constexpr int64_t ROW_STEP = 128;

struct Problem {
  int64_t batchSize;    // B
  int64_t rowElems;     // S
  int64_t rankNum;      // R
  int64_t rowUnit;      // rows: blocks of rows begin at multiples of it
  int64_t rowBlocks;    // the batch is cut into so many
  int64_t coreNum;      // cores that share them
  int64_t tileElems;    // of each buffer of the vector path
  int64_t directElems;  // of each buffer of the direct path
  bool inverse;
  float scale;
};

// CONVERT: with a scale or a cast. Without, TIn and TOut are one unsigned type and no bit changes.
template <typename TIn, typename TOut, bool CONVERT>
class Kernel {
 public:
  __aicore__ inline void Init(
      GM_ADDR in, GM_ADDR dims, GM_ADDR cumsum, GM_ADDR out, const Problem& problem,
      AscendC::TPipe* pipe) {
    p_ = problem;
    const int64_t total = p_.batchSize * p_.rowElems;
    in_.SetGlobalBuffer(reinterpret_cast<__gm__ TIn*>(in), total);
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ TOut*>(out), total);
    dims_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(dims), p_.rankNum);
    cumsum_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(cumsum), p_.rankNum);
    const int64_t rowSize = p_.inverse ? sizeof(TOut) : sizeof(TIn);
    const int64_t flatSize = p_.inverse ? sizeof(TIn) : sizeof(TOut);
    room_ = {p_.tileElems, ALIGN, GROUP_BYTES / rowSize, LANE_BYTES / flatSize};
    pipe->InitBuffer(inQueue_, BUFFERS, static_cast<uint32_t>(p_.tileElems * sizeof(TIn)));
    pipe->InitBuffer(outQueue_, BUFFERS, static_cast<uint32_t>(p_.tileElems * sizeof(TOut)));
    if constexpr (CONVERT) {
      pipe->InitBuffer(converted_, static_cast<uint32_t>(p_.tileElems * sizeof(TOut)));
      if constexpr (!IsFloat<TIn>::value && !IsFloat<TOut>::value) {
        pipe->InitBuffer(chunk_, static_cast<uint32_t>(CHUNK_ELEMS * sizeof(float)));
      }
    } else {
      pipe->InitBuffer(
          directQueue_, BUFFERS, static_cast<uint32_t>(p_.directElems * sizeof(TIn)));
    }
  }

  __aicore__ inline void Process() {
    const int64_t core = AscendC::GetBlockIdx();
    if (p_.batchSize <= 0 || p_.rowElems <= 0 || p_.rankNum <= 0 || core >= p_.coreNum) {
      return;
    }
    const Border begin = Snapped(core);
    const Border end = Snapped(core + 1);
    for (int64_t block = begin.block; block < p_.rowBlocks && block <= end.block; ++block) {
      const int64_t left = block == begin.block ? begin.column : 0;
      const int64_t right = block == end.block ? end.column : p_.rowElems;
      const int64_t row = PartBegin(p_.batchSize, p_.rowUnit, p_.rowBlocks, block);
      const int64_t end = PartBegin(p_.batchSize, p_.rowUnit, p_.rowBlocks, block + 1);
      if (left < right && row < end) {
        Block(row, end - row, left, right);
      }
    }
  }

 private:
  static constexpr int64_t BUFFERS = 2;
  static constexpr int64_t SMALLER = sizeof(TIn) < sizeof(TOut) ? sizeof(TIn) : sizeof(TOut);
  static constexpr int64_t ALIGN = UB_BLOCK / SMALLER;  // elements that fill blocks in both dtypes
  static constexpr int64_t NUMBERS = sizeof(TOut) / sizeof(uint16_t);  // 16-bit, in an element

  struct Rank {
    int64_t dim;
    int64_t column;
  };

  // False: an empty rank, or a bad split that must not reach a DMA.
  __aicore__ inline bool ReadRank(int64_t t, Rank& rank) {
    rank.dim = dims_.GetValue(t);
    rank.column = cumsum_.GetValue(t);
    return rank.dim > 0 && rank.column >= 0 && rank.dim <= p_.rowElems &&
           rank.column <= p_.rowElems - rank.dim;
  }

  // The last t with cumsum[t] <= column. An empty rank begins where the next one does: never it.
  __aicore__ inline int64_t FindRank(int64_t column) {
    int64_t low = 0;
    int64_t high = p_.rankNum;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      if (cumsum_.GetValue(middle) <= column) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Wide enough to go straight from load to store: whole lines are read, and the vector unit rests.
  __aicore__ inline bool IsDirect(int64_t dim) const {
    if (dim == p_.rowElems) {
      return true;
    }
    const int64_t bytes = dim * static_cast<int64_t>(p_.inverse ? sizeof(TOut) : sizeof(TIn));
    const bool packs = dim % ALIGN == 0 || (COMPACT && !p_.inverse);
    return bytes >= (packs ? GM_LINE : DIRECT_BYTES);
  }

  // Borders avoid cutting narrow ranks. Both neighbours of a border compute the same.
  __aicore__ inline Border Snapped(int64_t core) {
    const Border border = BorderOf(core, p_.coreNum, p_.rowBlocks, p_.rowElems);
    Rank rank;
    if (border.column == 0 || !ReadRank(FindRank(border.column), rank)) {
      return border;
    }
    const int64_t within = border.column - rank.column;
    if (within < 0 || within >= rank.dim) {
      return border;
    }
    if (IsDirect(rank.dim)) {
      return {border.block, rank.column + Min(RoundUp(within, ALIGN), rank.dim)};
    }
    return {border.block, rank.column + (2 * within < rank.dim ? 0 : rank.dim)};
  }

  // Columns [left, right) of `rows` rows from `row` on, not too many rows at a time.
  __aicore__ inline void Block(int64_t row, int64_t rows, int64_t left, int64_t right) {
    const int64_t most = Max(ROWS_AT_A_TIME, TILES_AT_A_TIME * p_.tileElems / p_.rowElems);
    const int64_t parts = PartsOf(rows, ROW_STEP, most);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = PartBegin(rows, ROW_STEP, parts, i);
      Rows(row + begin, PartBegin(rows, ROW_STEP, parts, i + 1) - begin, left, right);
    }
  }

  __aicore__ inline void Rows(int64_t row, int64_t rows, int64_t left, int64_t right) {
    int64_t t = FindRank(left);
    while (t < p_.rankNum) {
      Rank rank;
      if (!ReadRank(t, rank)) {
        ++t;
        continue;
      }
      if (rank.column >= right) {
        return;
      }
      if (IsDirect(rank.dim)) {
        const int64_t begin = Max(left - rank.column, 0);
        Direct(rank, begin, Min(right - rank.column, rank.dim), row, rows);
        ++t;
        continue;
      }
      t = Collect(t, rank, right);
      if (rank.column >= left && group_.Column() + group_.Width() <= right) {
        Grouped(row, rows);
      }
    }
  }

  // Narrow ranks from t on, one beside the other, into group_. Returns the first one left out.
  __aicore__ inline int64_t Collect(int64_t t, Rank rank, int64_t right) {
    group_.Begin(rank.column);
    while (group_.Add(rank.dim, room_)) {
      const int64_t next = rank.column + rank.dim;
      bool good = false;
      do {
        ++t;
        if (t == p_.rankNum) {
          return t;
        }
        good = ReadRank(t, rank);
      } while (rank.dim == 0);
      if (!good || rank.column != next || rank.column >= right || IsDirect(rank.dim)) {
        return t;
      }
    }
    return t;
  }

  // ---- direct path: columns [begin, end) of a rank

  __aicore__ inline void Direct(
      const Rank& rank, int64_t begin, int64_t end, int64_t row, int64_t rows) {
    const int64_t room = CONVERT ? p_.tileElems : p_.directElems;
    const int64_t line = GM_LINE / SMALLER;
    const int64_t even = CeilDiv(end - begin, CeilDiv(end - begin, room));
    const int64_t most = Min(RoundUp(even, line), room);
    for (int64_t column = begin; column < end; column += most) {
      DirectColumns(rank, column, Min(most, end - column), row, rows, room);
    }
  }

  __aicore__ inline void DirectColumns(
      const Rank& rank, int64_t column, int64_t width, int64_t row, int64_t rows, int64_t room) {
    const int64_t inPitch = p_.inverse ? rank.dim : p_.rowElems;
    const int64_t outPitch = p_.inverse ? p_.rowElems : rank.dim;
    const bool packed = width % ALIGN == 0 ||
                        (outPitch == width && (COMPACT || inPitch == width));
    const int64_t ubPitch = packed ? width : RoundUp(width, ALIGN);
    const int64_t most = room / ubPitch;
    const int64_t unit = TileUnit(most);
    const int64_t parts = PartsOf(rows, unit, most);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = PartBegin(rows, unit, parts, i);
      const int64_t n = PartBegin(rows, unit, parts, i + 1) - begin;
      const int64_t inRows = (row + begin) * p_.rowElems + rank.column + column;
      const int64_t inFlat = p_.batchSize * rank.column + (row + begin) * rank.dim + column;
      DirectTile(
          p_.inverse ? inFlat : inRows, {n, width, inPitch, ubPitch},
          p_.inverse ? inRows : inFlat, {n, width, outPitch, ubPitch});
    }
  }

  __aicore__ inline void DirectTile(
      int64_t from, const Pieces& load, int64_t to, const Pieces& store) {
    if constexpr (CONVERT) {
      AscendC::LocalTensor<TIn> loaded = inQueue_.template AllocTensor<TIn>();
      Load<TIn>(loaded, in_, from, load);
      inQueue_.EnQue(loaded);
      loaded = inQueue_.template DeQue<TIn>();
      AscendC::LocalTensor<TOut> result = outQueue_.template AllocTensor<TOut>();
      ConvertTile(result, loaded, load.count * load.ubPitch);
      outQueue_.EnQue(result);
      inQueue_.FreeTensor(loaded);
      result = outQueue_.template DeQue<TOut>();
      Store<TOut>(out_, to, result, store);
      outQueue_.FreeTensor(result);
    } else {
      AscendC::LocalTensor<TIn> loaded = directQueue_.template AllocTensor<TIn>();
      Load<TIn>(loaded, in_, from, load);
      directQueue_.EnQue(loaded);
      loaded = directQueue_.template DeQue<TIn>();
      Store<TIn>(out_, to, loaded, store);
      directQueue_.FreeTensor(loaded);
    }
  }

  __aicore__ inline void ConvertTile(
      const AscendC::LocalTensor<TOut>& to, const AscendC::LocalTensor<TIn>& from, int64_t count) {
    AscendC::LocalTensor<float> chunk;
    if constexpr (!IsFloat<TIn>::value && !IsFloat<TOut>::value) {
      chunk = chunk_.template Get<float>();
    }
    Convert<TIn, TOut>(to, from, chunk, p_.scale, count);
  }

  // ---- grouped path: all ranks of group_

  __aicore__ inline void Grouped(int64_t row, int64_t rows) {
    const int64_t most = group_.PlanRows(rows, room_);
    const int64_t unit = group_.Blocks() ? TileUnit(most) : most;
    const int64_t parts = PartsOf(rows, unit, most);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = PartBegin(rows, unit, parts, i);
      GroupedTile(row + begin, PartBegin(rows, unit, parts, i + 1) - begin);
    }
  }

  __aicore__ inline void GroupedTile(int64_t row, int64_t rows) {
    const Pieces whole = {rows, group_.Width(), p_.rowElems, group_.Pitch(ALIGN)};
    const int64_t at = row * p_.rowElems + group_.Column();
    AscendC::LocalTensor<TIn> loaded = inQueue_.template AllocTensor<TIn>();
    if (p_.inverse) {
      MoveFlat<true>(loaded, row, rows);
    } else {
      Load<TIn>(loaded, in_, at, whole);
    }
    inQueue_.EnQue(loaded);
    loaded = inQueue_.template DeQue<TIn>();
    AscendC::LocalTensor<TOut> result = outQueue_.template AllocTensor<TOut>();
    if constexpr (CONVERT) {
      AscendC::LocalTensor<TOut> converted = converted_.template Get<TOut>();
      ConvertTile(converted, loaded, p_.inverse ? FlatElems(rows) : rows * group_.Pitch(ALIGN));
      Rearrange(result, converted, rows);
    } else {
      Rearrange(result, loaded, rows);
    }
    outQueue_.EnQue(result);
    inQueue_.FreeTensor(loaded);
    result = outQueue_.template DeQue<TOut>();
    if (p_.inverse) {
      Store<TOut>(out_, at, result, whole);
    } else {
      MoveFlat<false>(result, row, rows);
    }
    outQueue_.FreeTensor(result);
  }

  // Elements that a rank's part of a tile takes in UB, in flat order.
  __aicore__ inline int64_t FlatElems(int64_t dim, int64_t rows) const {
    return group_.Blocks() ? rows * dim : LANES * LaneElems(dim);
  }
  __aicore__ inline int64_t LaneElems(int64_t dim) const {
    return RoundUp(group_.LaneRows() * dim, ALIGN);
  }
  __aicore__ inline int64_t FlatElems(int64_t rows) const {
    int64_t elems = 0;
    for (int64_t i = 0; i < group_.Count(); ++i) {
      elems += FlatElems(group_.Dim(i), rows);
    }
    return elems;
  }

  // Between the flat side in global memory and UB. Equal ranks go together.
  template <bool LOAD, typename T>
  __aicore__ inline void MoveFlat(
      const AscendC::LocalTensor<T>& ub, int64_t row, int64_t rows) {
    int64_t at = 0;
    for (int64_t i = 0; i < group_.Count();) {
      const int64_t dim = group_.Dim(i);
      const int64_t elems = FlatElems(dim, rows);
      const int64_t rank = p_.batchSize * (group_.Column() + group_.Offset(i)) + row * dim;
      const int64_t lane = group_.LaneRows() * dim;
      if (group_.Blocks() || lane % ALIGN == 0) {
        const int64_t run = group_.Run(i);
        MovePieces<LOAD>(rank, ub[at], {run, rows * dim, p_.batchSize * dim, elems});
        i += run;
        at += run * elems;
        continue;
      }
      const int64_t lanes = rows / group_.LaneRows();
      const int64_t rest = rows * dim - lanes * lane;
      if (lanes > 0) {
        MovePieces<LOAD>(rank, ub[at], {lanes, lane, lane, LaneElems(dim)});
      }
      if (rest > 0) {
        MovePieces<LOAD>(
            rank + lanes * lane, ub[at + lanes * LaneElems(dim)], {1, rest, rest, rest});
      }
      ++i;
      at += elems;
    }
  }

  template <bool LOAD, typename T>
  __aicore__ inline void MovePieces(
      int64_t offset, const AscendC::LocalTensor<T>& ub, const Pieces& pieces) {
    if constexpr (LOAD) {
      Load<T>(ub, in_, offset, pieces);
    } else {
      Store<T>(out_, offset, ub, pieces);
    }
  }

  // Rows to flat order or back, within UB. Uses up `from`.
  __aicore__ inline void Rearrange(
      const AscendC::LocalTensor<TOut>& to, const AscendC::LocalTensor<TOut>& from, int64_t rows) {
    if (group_.Blocks()) {
      MoveColumns(to, from, rows, UB_BLOCK / static_cast<int64_t>(sizeof(TOut)), 1);
      VectorBarrier();
      return;
    }
    const AscendC::LocalTensor<uint16_t> numbers = from.template ReinterpretCast<uint16_t>();
    const AscendC::LocalTensor<uint16_t> blocks = to.template ReinterpretCast<uint16_t>();
    const int64_t rowLane = group_.LaneRows() * group_.Pitch(ALIGN) * NUMBERS;
    if (p_.inverse) {
      TurnRanks(blocks, numbers);
    } else {
      LanesToBlocks(blocks, numbers, rowLane);
    }
    VectorBarrier();
    MoveColumns(numbers, blocks, group_.LaneRows(), 1, NUMBERS);
    VectorBarrier();
    if (p_.inverse) {
      BlocksToLanes(blocks, numbers, rowLane);
    } else {
      TurnRanks(blocks, numbers);
    }
    VectorBarrier();
  }

  // Each rank's part, from lanes to blocks on the way to rows, back on the way to flat.
  __aicore__ inline void TurnRanks(
      const AscendC::LocalTensor<uint16_t>& to, const AscendC::LocalTensor<uint16_t>& from) {
    int64_t at = 0;
    for (int64_t i = 0; i < group_.Count(); ++i) {
      const int64_t lane = LaneElems(group_.Dim(i)) * NUMBERS;
      if (p_.inverse) {
        LanesToBlocks(to[at], from[at], lane);
      } else {
        BlocksToLanes(to[at], from[at], lane);
      }
      at += LANES * lane;
    }
  }

  // Block copies between `rows` rows of the group and its ranks' parts. A block is `elems` elements,
  // or an element `blocks` blocks.
  template <typename T>
  __aicore__ inline void MoveColumns(
      const AscendC::LocalTensor<T>& to, const AscendC::LocalTensor<T>& from, int64_t rows,
      int64_t elems, int64_t blocks) {
    const int64_t block = UB_BLOCK / static_cast<int64_t>(sizeof(T));  // of the tensors' elements
    const int64_t pitch = group_.Pitch(ALIGN) * blocks / elems;
    int64_t at = 0;
    for (int64_t i = 0; i < group_.Count(); ++i) {
      const int64_t len = group_.Dim(i) * blocks / elems;
      const int64_t column = group_.Offset(i) * blocks / elems * block;
      if (p_.inverse) {
        CopyBlocks(to[column], pitch, from[at], len, rows, len);
      } else {
        CopyBlocks(to[at], len, from[column], pitch, rows, len);
      }
      at += FlatElems(group_.Dim(i), rows) * static_cast<int64_t>(sizeof(TOut) / sizeof(T));
    }
  }

  AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
  AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> directQueue_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> converted_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> chunk_;
  AscendC::GlobalTensor<TIn> in_;
  AscendC::GlobalTensor<TOut> out_;
  AscendC::GlobalTensor<int64_t> dims_;
  AscendC::GlobalTensor<int64_t> cumsum_;
  Group group_;
  Room room_ = {0, 0, 0, 0};
  Problem p_ = {};
};

// What a copy moves: the dtype does not matter, its size does.
template <int SIZE>
struct Payload {
  using Type = uint32_t;
};
template <>
struct Payload<2> {
  using Type = uint16_t;
};

template <typename TIn, typename TOut, bool CONVERT>
__aicore__ inline void Run(
    GM_ADDR in, GM_ADDR dims, GM_ADDR cumsum, GM_ADDR out, const Problem& problem) {
  AscendC::TPipe pipe;
  Kernel<TIn, TOut, CONVERT> kernel;
  kernel.Init(in, dims, cumsum, out, problem, &pipe);
  kernel.Process();
}

}  // namespace RecatCopyAsync
#endif
