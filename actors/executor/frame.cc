#include "actors/executor/frame.h"

#include <algorithm>

#include "actors/executor/tensor_bits.h"

namespace troupe {
namespace {

// Doubles, so that asking for one more each time stays linear.
template <class T>
void Reserve(std::vector<T>* list, size_t n) {
  if (list->capacity() < n) list->reserve(std::max(n, 2 * list->capacity()));
}

}  // namespace

IterationPath PathOf(const Iteration& iteration) {
  IterationPath path;
  for (const Iteration* it = &iteration; it->frame->parent_iteration != nullptr; it = it->frame->parent_iteration)
    path.numbers.push_back(it->number);
  std::reverse(path.numbers.begin(), path.numbers.end());
  return path;
}

void MakeStores(const CompiledPart& part, uint32_t frame, Iteration* iteration) {
  const StaticFrame& s = part.frames[frame];
  iteration->count_store = std::make_unique<uint32_t[]>(s.num_nodes);
  iteration->slot_store = std::make_unique<Tensor[]>(s.num_slots);
  iteration->counts = iteration->count_store.get() - s.first_node;
  iteration->slots = iteration->slot_store.get() - s.first_slot;
}

FramePool::FramePool(const CompiledPart& part, const std::vector<Tensor>& constants)
    : part_(part), constants_(constants), iterations_(part.frames.size()), iterations_made_(part.frames.size()) {}

void FramePool::Clear() noexcept {
  for (uint32_t f = 0; f < iterations_.size(); ++f) {
    for (const auto& it : iterations_[f]) Unpin(f, it.get());
    iterations_[f].clear();
  }
}

void FramePool::MakeIteration(uint32_t frame) {
  auto fresh = std::make_unique<Iteration>();
  MakeStores(part_, frame, fresh.get());
  // Room for all there are, so that giving one back needs no memory.
  auto& pool = iterations_[frame];
  Reserve(&pool, ++iterations_made_[frame]);
  PinConstants(frame, fresh.get());
  pool.push_back(std::move(fresh));
}

Frame* FramePool::TakeFrame(uint32_t id) {
  if (frames_.empty()) {
    auto fresh = std::make_unique<Frame>();
    Reserve(&frames_, ++frames_made_);
    frames_.push_back(std::move(fresh));
  }
  const StaticFrame& s = part_.frames[id];
  Frame* const f = frames_.back().get();
  f->exit_alive.assign(s.exits.size(), false);
  // One more than may run: the one that ends is looked at while its successor starts.
  f->iterations.assign(s.parallel_iterations + 1, nullptr);
  f->turns.assign(s.in_turn.size(), 0);
  (void)frames_.back().release();  // the caller has it
  frames_.pop_back();
  f->id = id;
  return f;
}

void FramePool::Give(Frame* frame) noexcept {
  frame->deferred.clear();
  frame->invariants.clear();
  frames_.emplace_back(frame);
}

void FramePool::PinConstants(uint32_t frame, Iteration* iteration) const {
  for (const auto& [slot, constant] : part_.frames[frame].pinned)
    bits::CopyBits(constants_[constant], &iteration->slots[slot]);
}

void FramePool::Unpin(uint32_t frame, Iteration* iteration) const {
  for (const auto& [slot, constant] : part_.frames[frame].pinned) bits::GiveBack(&iteration->slots[slot]);
}

}  // namespace troupe
