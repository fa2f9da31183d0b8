// Loops: how frames and iterations begin and end.
//
// An iteration ends when none of its nodes is ready or running, no loop started from it runs, and nothing can come any more: for iteration
// 0 when every Enter has delivered, for a later one when the iteration before it has ended. A frame ends with its last iteration; the
// deadness of Exits that never came alive then goes to the parent.
#include "troupe/actors/executor/step_state.h"

namespace troupe {
namespace {

// A mix of two numbers that is the same in every process.
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15ull ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2));
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93ull;
  return h ^ (h >> 32);
}

}  // namespace

Iteration* StepState::NewIteration(Frame* f, int64_t number) {
  const StaticFrame& s = part_->frames[f->id];
  auto& pool = free_iterations_[f->id];
  Iteration* it;
  if (pool.empty()) {
    it = new Iteration;
    it->count_store = std::make_unique<uint32_t[]>(s.num_nodes);
    it->slot_store = std::make_unique<Tensor[]>(s.num_slots);
    it->counts = it->count_store.get() - s.first_node;
    it->slots = it->slot_store.get() - s.first_slot;
  } else {
    it = pool.back().release();
    pool.pop_back();
  }
  it->frame = f;
  it->number = number;
  it->tag = Mix(f->tag, static_cast<uint64_t>(number) + 1);
  it->outstanding = it->child_frames = 0;
  it->children = nullptr;
  std::memcpy(it->count_store.get(), part_->counts.data() + s.first_node, s.num_nodes * sizeof(uint32_t));
  f->at(number) = it;
  ++f->running;
  return it;
}

void StepState::FreeIteration(Iteration* it) {
  const StaticFrame& s = part_->frames[it->frame->id];
  for (uint32_t i = 0; i < s.num_slots; ++i) {
    if (it->slot_store[i].valid()) it->slot_store[i] = Tensor();
  }
  free_iterations_[it->frame->id].emplace_back(it);
}

Frame* StepState::ChildFrame(Iteration* it, uint32_t id) {
  for (Frame* f = it->children; f != nullptr; f = f->sibling) {
    if (f->id == id) return f;
  }
  Frame* f;
  if (free_frames_.empty()) {
    f = new Frame;
  } else {
    f = free_frames_.back().release();
    free_frames_.pop_back();
  }
  const StaticFrame& s = part_->frames[id];
  f->id = id;
  f->parent = it->frame;
  f->parent_iteration = it;
  f->tag = Mix(it->tag, s.name_hash);
  f->newest = 0;
  f->running = 0;
  f->pending_enters = s.num_enters;
  // One more than may run: the one that ends is looked at while its successor starts.
  f->iterations.assign(s.parallel_iterations + 1, nullptr);
  f->sibling = it->children;
  it->children = f;
  ++it->child_frames;
  NewIteration(f, 0);
  return f;
}

void StepState::EnterFrame(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = part_->nodes[node];
  Frame* f = ChildFrame(it, n.frame);
  --f->pending_enters;
  if (n.constant_enter) {
    f->invariants.push_back({node, dead, out[0]});
    for (int64_t i = 0; i <= f->newest; ++i) {
      Iteration* to = f->newest - i < static_cast<int64_t>(f->iterations.size()) ? f->at(i) : nullptr;
      if (to == nullptr || to->number != i) continue;
      Tensor copy = f->invariants.back().value;
      Propagate<true>(node, to, &copy, dead);
    }
    out[0] = Tensor();
  } else {
    Propagate<true>(node, f->at(0), out, dead);
  }
  CheckIteration(f->at(0));
}

void StepState::NextIteration(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  if (dead) return;  // the loop ends here
  Frame* f = it->frame;
  if (it->number == f->newest) {
    if (f->running >= part_->frames[f->id].parallel_iterations) {
      f->deferred.push_back({node, false, std::move(out[0])});
      return;
    }
    StartNextIteration(f);
  }
  Propagate<true>(node, f->at(it->number + 1), out, false);
}

void StepState::StartNextIteration(Frame* f) {
  // Exits that were dead in an iteration that was not the last mean nothing.
  f->dead_exits.clear();
  Iteration* it = NewIteration(f, ++f->newest);
  std::vector<Frame::Value> deferred;
  deferred.swap(f->deferred);
  for (Frame::Value& v : deferred) Propagate<true>(v.node, it, &v.value, v.dead);
  for (size_t i = 0; i < f->invariants.size(); ++i) {
    Tensor copy = f->invariants[i].value;
    Propagate<true>(f->invariants[i].node, it, &copy, f->invariants[i].dead);
  }
}

void StepState::NodeLeaves(Iteration* it) {
  if (--it->outstanding == 0) CheckIteration(it);
}

void StepState::CheckIteration(Iteration* it) {
  if (it == nullptr) return;
  Frame* f = it->frame;
  if (f == &root_frame_) return;  // it ends with the step
  for (int64_t number = it->number; number <= f->newest; ++number) {
    Iteration* current = f->at(number);
    if (current == nullptr || current->number != number || current->outstanding != 0 || current->child_frames != 0) break;
    if (number == 0) {
      if (f->pending_enters != 0) break;
    } else {
      const Iteration* previous = f->at(number - 1);
      if (previous != nullptr && previous->number == number - 1) break;
    }
    f->at(number) = nullptr;
    --f->running;
    FreeIteration(current);
    if (!f->deferred.empty() && f->running < part_->frames[f->id].parallel_iterations) StartNextIteration(f);
  }
  if (f->running == 0 && f->pending_enters == 0) EndFrame(f);
}

void StepState::EndFrame(Frame* f) {
  Iteration* parent = f->parent_iteration;
  for (const uint32_t exit : f->dead_exits) {
    Tensor none;
    Propagate<true>(exit, parent, &none, true);
  }
  for (Frame** p = &parent->children; *p != nullptr; p = &(*p)->sibling) {
    if (*p == f) {
      *p = f->sibling;
      break;
    }
  }
  f->deferred.clear();
  f->invariants.clear();
  f->dead_exits.clear();
  free_frames_.emplace_back(f);
  if (--parent->child_frames == 0 && parent->outstanding == 0) CheckIteration(parent);
}

void StepState::FreeFrames(Frame* f) {
  for (Iteration*& it : f->iterations) {
    if (it == nullptr) continue;
    while (it->children != nullptr) {
      Frame* child = it->children;
      it->children = child->sibling;
      FreeFrames(child);
      child->deferred.clear();
      child->invariants.clear();
      child->dead_exits.clear();
      free_frames_.emplace_back(child);
    }
    if (it != &root_) {
      FreeIteration(it);
      it = nullptr;
    }
  }
}

}  // namespace troupe
