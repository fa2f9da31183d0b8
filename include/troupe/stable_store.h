// A container of objects whose addresses stay stable while more objects are added.
//
// Problem: a graph of half a million nodes hands out pointers to its nodes. A std::deque keeps
// pointers valid, too, but allocates a block for each object of more than half a kilobyte; the
// blocks and their map cost more time than the work on the nodes.
//
// Contract: addresses are stable until the object is popped; objects lie in chunks that double in
// size up to kMaxChunk. Thread rule: one writer or many readers, as for a vector.
#ifndef TROUPE_STABLE_STORE_H_
#define TROUPE_STABLE_STORE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

template <class T>
class StableStore {
 public:
  StableStore() = default;
  StableStore(const StableStore&) = delete;
  StableStore& operator=(const StableStore&) = delete;
  ~StableStore() {
    while (!chunks_.empty()) {
      Chunk& c = chunks_.back();
      while (c.used > 0) std::destroy_at(At(c, --c.used));
      chunks_.pop_back();
    }
  }

  // A new object, with T's default values.
  T& Add() {
    if (chunks_.empty() || chunks_.back().used == chunks_.back().capacity) Grow();
    Chunk& c = chunks_.back();
    T* made = new (c.bytes.get() + c.used * sizeof(T)) T();
    ++c.used;
    ++size_;
    return *made;
  }
  // Takes the newest object away. REQUIRES: size() > 0.
  void Pop() {
    if (chunks_.back().used == 0) chunks_.pop_back();  // of an Add that threw
    Chunk& c = chunks_.back();
    std::destroy_at(At(c, --c.used));
    --size_;
    if (c.used == 0) chunks_.pop_back();
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kFirstChunk = 8, kMaxChunk = 256;
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    size_t used = 0, capacity = 0;
  };
  static T* At(Chunk& c, size_t i) { return std::launder(reinterpret_cast<T*>(c.bytes.get() + i * sizeof(T))); }
  void Grow() {
    const size_t capacity = chunks_.empty() ? kFirstChunk : std::min(kMaxChunk, chunks_.back().capacity * 2);
    chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[capacity * sizeof(T)]), 0, capacity});
  }

  std::vector<Chunk> chunks_;
  size_t size_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_STABLE_STORE_H_
