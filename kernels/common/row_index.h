// Finds the row that holds a key, among rows that are kept elsewhere.
//
// Problem: a table must find keys in constant time, and a kernel must tell different values apart,
// without a second copy of the keys. An insertion of many keys must also be all or nothing, so what
// may fail has to come first: an index that allocates for each key cannot say that.
//
// Contract: the index knows hashes and numbers of rows; whoever asks compares the keys. Memory is
// asked for by Reserve alone, which throws std::bad_alloc and then has done nothing. Linear
// probing, at most half full; an erased entry leaves no gap.
//
// Thread rule: that of the standard library's containers.
#ifndef TROUPE_KERNELS_COMMON_ROW_INDEX_H_
#define TROUPE_KERNELS_COMMON_ROW_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace troupe {

class RowIndex {
 public:
  size_t size() const { return size_; }
  // Room for so many more rows.
  void Reserve(size_t more) {
    if (2 * (size_ + more) <= slots_.size()) return;
    size_t n = slots_.empty() ? 16 : slots_.size();
    while (n < 2 * (size_ + more)) n *= 2;
    std::vector<Slot> larger(n);
    larger.swap(slots_);
    for (const Slot& s : larger) {
      if (s.row >= 0) slots_[FreePlace(s.hash)] = s;
    }
  }
  // The row with this hash for which equal(row) holds; -1 when there is none.
  template <class Equal>
  int64_t Find(size_t hash, Equal&& equal) const {
    if (slots_.empty()) return -1;
    for (size_t at = hash & Mask(); slots_[at].row >= 0; at = (at + 1) & Mask()) {
      if (slots_[at].hash == hash && equal(slots_[at].row)) return slots_[at].row;
    }
    return -1;
  }
  // REQUIRES: there is room, and the row is not there.
  void Insert(size_t hash, int64_t row) {
    slots_[FreePlace(hash)] = {hash, row};
    ++size_;
  }
  // REQUIRES of both: the row is there, with this hash.
  void Renumber(size_t hash, int64_t row, int64_t now) { slots_[PlaceOf(hash, row)].row = now; }
  void Erase(size_t hash, int64_t row) {
    size_t gap = PlaceOf(hash, row);
    // Those behind it that would not be found across the gap move into it.
    for (size_t at = (gap + 1) & Mask(); slots_[at].row >= 0; at = (at + 1) & Mask()) {
      const size_t from_home = (at - slots_[at].hash) & Mask(), from_gap = (at - gap) & Mask();
      if (from_home < from_gap) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
    --size_;
  }
  void Clear() {
    slots_.assign(slots_.size(), Slot());
    size_ = 0;
  }

 private:
  struct Slot {
    size_t hash = 0;
    int64_t row = -1;  // there is none
  };
  size_t Mask() const { return slots_.size() - 1; }
  size_t FreePlace(size_t hash) const {
    size_t at = hash & Mask();
    while (slots_[at].row >= 0) at = (at + 1) & Mask();
    return at;
  }
  size_t PlaceOf(size_t hash, int64_t row) const {
    size_t at = hash & Mask();
    while (slots_[at].row != row) at = (at + 1) & Mask();
    return at;
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  size_t size_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_ROW_INDEX_H_
