// Memory for what steps copy while a save is being written, made ready before they ask for it.
//
// A step that changes a variable while a save holds its value works on a copy. The first save
// beside steps tells which values that were: those that nobody but the save has at its end. For the
// next one as much memory is made ready (graph/core/warm_memory.h) on a thread of its own.
//
//   nothing   Expect, and some values were copied      1 a thread makes memory ready       making
//   making    Expect                                   2 nothing else                      making
//   making    the thread is done                       3 the memory is kept for the save   ready
//   making    the last save under way ends             4 what is made will not be kept     late
//   late      the thread is done                       5 the memory goes                   nothing
//   ready     the last save under way ends             6 the memory goes                   nothing
//   any       a save ends, and not the last one        7 nothing else                      as before
//
// Thread rule: all methods may be called from any thread.
//
// Tests of the edges, tests/checkpoint/save_memory_test.cc:
//   1, 3, 6  edges_1_3_and_6_the_second_save_finds_the_memory_that_the_first_one_needed
//   2        edge_2_memory_is_made_ready_once
//   4, 5     edges_4_and_5_who_comes_late_keeps_nothing
//   7        edge_7_the_memory_is_kept_until_the_last_save_has_ended
#ifndef TROUPE_ACTORS_TRAIN_SAVE_MEMORY_H_
#define TROUPE_ACTORS_TRAIN_SAVE_MEMORY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/core/warm_memory.h"
#include "troupe/state_snapshot.h"

namespace troupe::train {

class SaveMemory {
 public:
  // The values of variables in a snapshot, just taken, that a step would copy to change. Those of
  // other processes are copies already.
  static std::vector<const Tensor*> Shared(const StateSnapshot& snapshot);
  // A save is under way, whether or not it comes to be written: Begin, and End when the last copy
  // of the share is destroyed. Throws std::bad_alloc.
  static std::shared_ptr<void> Share(const std::shared_ptr<SaveMemory>& of);
  void Begin();
  // A save beside steps has written its values: learns which of them were copied meanwhile, if any.
  void Learn(const std::vector<const Tensor*>& shared);
  // A save is near.
  static void Expect(const std::shared_ptr<SaveMemory>& of) {
    Expect(of, [](const std::vector<size_t>& sizes) { return std::make_unique<WarmMemory>(sizes); });
  }
  // Likewise, for tests: what makes the memory.
  using Make = std::function<std::unique_ptr<WarmMemory>(const std::vector<size_t>&)>;
  static void Expect(const std::shared_ptr<SaveMemory>& of, Make make);
  void End();

 private:
  enum class State { kNothing, kMaking, kLate, kReady };
  void Made(std::unique_ptr<WarmMemory> memory);

  std::mutex mu_;  // guards:
  State state_ = State::kNothing;
  int under_way_ = 0;
  std::vector<size_t> sizes_;  // bytes of what was copied beside the last save
  std::unique_ptr<WarmMemory> memory_;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SAVE_MEMORY_H_
