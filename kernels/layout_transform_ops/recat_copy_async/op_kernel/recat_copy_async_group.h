// Neighbouring narrow ranks that go through UB in one tile.
#ifndef RECAT_COPY_ASYNC_GROUP_H
#define RECAT_COPY_ASYNC_GROUP_H
#include "recat_copy_async_vector.h"

namespace RecatCopyAsync {

constexpr int64_t MAX_GROUP_RANKS = 64;
constexpr int64_t GROUP_BYTES = 512;   // of a row: wider loads would make shorter stores
constexpr int64_t LANE_BYTES = 1024;  // a store of so many is long enough
constexpr int64_t MIN_LANE_ROWS = 4;

// What one tile of the vector path may hold. `align`: elements that fill a block in the input's and
// in the output's dtype.
struct Room {
  int64_t elems;
  int64_t align;
  int64_t widest;  // elements of a row
  int64_t longLane;  // elements
};

class Group {
 public:
  __aicore__ inline void Begin(int64_t column) {
    column_ = column;
    width_ = 0;
    count_ = 0;
    blocks_ = true;
    dense_ = true;
    laneStep_ = MIN_LANE_ROWS;
  }

  // The rank right of those in the group joins it, or the answer is no. The first one always joins.
  __aicore__ inline bool Add(int64_t dim, const Room& room) {
    const int64_t width = width_ + dim;
    const bool blocks = blocks_ && dim % room.align == 0;
    const int64_t step = Max(laneStep_, LaneStep(dim, room));
    const bool dense = dense_ && step * dim % room.align == 0;
    if (count_ > 0) {
      const bool fits = blocks || MostLaneRows(width, count_ + 1, dense, room) >= step;
      if (count_ == MAX_GROUP_RANKS || width > room.widest || !fits) {
        return false;
      }
    }
    dim_[count_] = static_cast<int32_t>(dim);
    offset_[count_] = static_cast<int32_t>(width_);
    ++count_;
    width_ = width;
    blocks_ = blocks;
    dense_ = dense;
    laneStep_ = step;
    return true;
  }

  // The most rows of a tile, of `rows` to do. Sets the rows of a lane where lanes are needed.
  __aicore__ inline int64_t PlanRows(int64_t rows, const Room& room) {
    if (blocks_) {
      return room.elems / width_;
    }
    int64_t most = MostLaneRows(width_, count_, dense_, room);
    const int64_t step = most < laneStep_ ? 1 : laneStep_;
    most = RoundDown(most, step);
    const int64_t even = CeilDiv(rows, PartsOf(rows, 1, LANES * most));
    laneRows_ = RoundUp(CeilDiv(even, LANES), step);
    return LANES * laneRows_;
  }

  // How many ranks from the i-th on have its width.
  __aicore__ inline int64_t Run(int64_t i) const {
    int64_t end = i + 1;
    while (end < count_ && dim_[end] == dim_[i]) {
      ++end;
    }
    return end - i;
  }

  __aicore__ inline int64_t Column() const { return column_; }
  __aicore__ inline int64_t Width() const { return width_; }
  __aicore__ inline int64_t Count() const { return count_; }
  __aicore__ inline int64_t Dim(int64_t i) const { return dim_[i]; }
  __aicore__ inline int64_t Offset(int64_t i) const { return offset_[i]; }
  __aicore__ inline bool Blocks() const { return blocks_; }  // every rank begins on a block
  __aicore__ inline int64_t LaneRows() const { return laneRows_; }
  __aicore__ inline int64_t Pitch(int64_t align) const { return RoundUp(width_, align); }

 private:
  // Rows a lane of such a rank has a multiple of, so that lanes follow each other without a gap in
  // UB: one store takes them all. Or lanes are long, and each a piece of a store.
  __aicore__ inline int64_t LaneStep(int64_t dim, const Room& room) const {
    int64_t rows = MIN_LANE_ROWS;
    while (rows * dim % room.align != 0 && rows * dim < room.longLane) {
      rows *= 2;
    }
    return rows;
  }

  // Rows of a lane that fit: the group's rows, and its ranks' parts, each padded if not dense.
  __aicore__ inline int64_t MostLaneRows(
      int64_t width, int64_t count, bool dense, const Room& room) const {
    const int64_t lane = room.elems / LANES;
    const int64_t rows = lane / RoundUp(width, room.align);
    return dense ? rows : Min(rows, (lane - count * (room.align - 1)) / width);
  }

  int64_t column_ = 0;
  int64_t width_ = 0;
  int64_t count_ = 0;
  int64_t laneRows_ = 0;
  int64_t laneStep_ = MIN_LANE_ROWS;
  bool blocks_ = true;
  bool dense_ = true;  // with a multiple of laneStep_ rows a lane, each rank's lanes fill blocks
  int32_t dim_[MAX_GROUP_RANKS];
  int32_t offset_[MAX_GROUP_RANKS];
};

}  // namespace RecatCopyAsync
#endif
