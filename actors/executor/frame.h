// A loop while it runs: its frame, its iterations, and the pool that both are taken from.
//
// Each iteration has counters and slots of its own. They are made once and used again, so a loop
// that has run before needs no memory for its iterations.
//
// Thread rule: in the executor's turn, or when no thread has it.
#ifndef TROUPE_ACTORS_EXECUTOR_FRAME_H_
#define TROUPE_ACTORS_EXECUTOR_FRAME_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/executor/compiled_part.h"
#include "actors/wire/part_messages.h"

namespace troupe {

struct Frame;

// One iteration of one frame.
struct Iteration {
  Frame* frame = nullptr;
  int64_t number = 0;
  uint64_t id = 0;             // no other iteration of the step has it in this part; 0: outside of loops
  uint32_t outstanding = 0;    // nodes that are ready or running
  uint32_t child_frames = 0;   // loops started from here that still run
  uint32_t* counts = nullptr;  // by node number of the part (shifted so that the frame's first node is at its place)
  Tensor* slots = nullptr;     // by slot number of the part (shifted likewise)
  Frame* children = nullptr;   // list by Frame::sibling
  std::unique_ptr<uint32_t[]> count_store;
  std::unique_ptr<Tensor[]> slot_store;
};

// One execution of a loop.
struct Frame {
  uint32_t id = 0;  // in CompiledPart::frames
  Frame* parent = nullptr;
  Iteration* parent_iteration = nullptr;
  Frame* sibling = nullptr;
  int64_t newest = 0;                  // number of the latest iteration
  uint32_t running = 0;                // iterations alive
  uint32_t pending_enters = 0;         // and one more while the frame waits for its turn
  bool has_turn = false;               // of those that StaticFrame::in_turn names; `turns` means nothing before
  std::vector<int64_t> turns;          // by place in StaticFrame::in_turn: the iteration whose turn it is
  std::vector<Iteration*> iterations;  // by number modulo their count; null when gone
  struct Value {
    uint32_t node;
    bool dead;
    Tensor value;
  };
  std::vector<Value> deferred;    // NextIteration tokens for iteration newest + 1, which may not start yet
  std::vector<Value> invariants;  // of constant Enters: loaned to every iteration
  std::vector<bool> exit_alive;   // by Exit: it has given its value to the parent

  Iteration*& at(int64_t number) { return iterations[static_cast<size_t>(number) % iterations.size()]; }
};

// What tells the iteration from all others of the step, in every part.
IterationPath PathOf(const Iteration& iteration);

// Makes an iteration's counters and slots for frame `frame` of `part`.
void MakeStores(const CompiledPart& part, uint32_t frame, Iteration* iteration);

class FramePool {
 public:
  // Constants are put where they are used, for good, when an iteration is made. Both outlive this.
  FramePool(const CompiledPart& part, const std::vector<Tensor>& constants);
  ~FramePool() { Clear(); }
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  // One whose slots are empty, except for constants. Its counters are as they were left. Throws
  // std::bad_alloc.
  Iteration* TakeIteration(uint32_t frame) {
    auto& pool = iterations_[frame];
    if (pool.empty()) [[unlikely]]
      MakeIteration(frame);
    Iteration* const it = pool.back().release();
    pool.pop_back();
    return it;
  }
  // Needs no memory. REQUIRES: its slots are empty.
  void Give(uint32_t frame, Iteration* iteration) noexcept { iterations_[frame].emplace_back(iteration); }
  // One for a run of frame `id`, its lists as they are when a loop begins. Throws std::bad_alloc.
  Frame* TakeFrame(uint32_t id);
  // Needs no memory.
  void Give(Frame* frame) noexcept;

  // Lets everything go that lies here. REQUIRES: the constants are still there.
  void Clear() noexcept;
  // Also for the iteration outside of loops, which is not the pool's.
  void PinConstants(uint32_t frame, Iteration* iteration) const;
  void Unpin(uint32_t frame, Iteration* iteration) const;

 private:
  void MakeIteration(uint32_t frame);

  const CompiledPart& part_;
  const std::vector<Tensor>& constants_;
  std::vector<std::vector<std::unique_ptr<Iteration>>> iterations_;  // by frame
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<size_t> iterations_made_;  // by frame; both lists have room for as many
  size_t frames_made_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_FRAME_H_
