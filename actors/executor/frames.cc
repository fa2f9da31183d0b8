// Loops: how frames and iterations begin and end.
//
// An iteration ends when none of its nodes is ready or running, no loop started from it runs, and nothing can come any more: for iteration
// 0 when every Enter has delivered, for a later one when the iteration before it has ended. A frame ends with its last iteration; the
// deadness of Exits that never came alive then goes to the parent.
#include "troupe/actors/executor/tokens.h"

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
    it->frame = f;
    PinConstants(it);
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
  ClearSlots(it);
  free_iterations_[it->frame->id].emplace_back(it);
}

// Empties what nobody consumed. A node that ran has emptied its slots itself, one that no token reached has none, so counters tell which to look at.
void StepState::ClearSlots(Iteration* it) {
  const StaticFrame& s = part_->frames[it->frame->id];
  if (aborting_) {
    for (uint32_t i = 0; i < s.num_nodes; ++i) {
      const CompiledNode& n = nodes_[s.first_node + i];
      ForgetInputs(n, it->slots + n.first_slot);
    }
    return;
  }
  const uint32_t* now = it->count_store.get();
  const uint32_t* before = part_->counts.data() + s.first_node;
  for (uint32_t i = 0; i < s.num_nodes; ++i) {
    if (now[i] == 0 || now[i] == before[i]) continue;
    const CompiledNode& n = nodes_[s.first_node + i];
    ForgetInputs(n, it->slots + n.first_slot);
  }
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
  f->exit_alive.assign(s.exits.size(), false);
  // One more than may run: the one that ends is looked at while its successor starts.
  f->iterations.assign(s.parallel_iterations + 1, nullptr);
  f->sibling = it->children;
  it->children = f;
  ++it->child_frames;
  NewIteration(f, 0);
  return f;
}

void StepState::FinishFlow(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  switch (nodes_[node].flow) {
    case ControlFlow::kEnter:
      return EnterFrame(node, it, out, dead);
    case ControlFlow::kExit:
      return ExitFrame(node, it, out, dead);
    case ControlFlow::kNextIteration:
      return NextIteration(node, it, out, dead);
    default:
      return Propagate<true>(node, it, out, dead);
  }
}

void StepState::EnterFrame(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = nodes_[node];
  Frame* f = ChildFrame(it, n.frame);
  --f->pending_enters;
  if (n.constant_enter) {
    f->invariants.push_back({node, dead, std::move(out[0])});
    for (int64_t i = 0; i <= f->newest; ++i) {
      Iteration* to = f->newest - i < static_cast<int64_t>(f->iterations.size()) ? f->at(i) : nullptr;
      if (to == nullptr || to->number != i) continue;
      Tensor copy = f->invariants.back().value;
      Propagate<true>(node, to, &copy, dead);
    }
  } else {
    Propagate<true>(node, f->at(0), out, dead);
  }
  CheckIteration(f->at(0));
}

void StepState::ExitFrame(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  // Deadness counts only when the frame ends without the Exit having come alive, which EndFrame sees.
  if (dead) return;
  Frame* f = it->frame;
  std::vector<bool>::reference alive = f->exit_alive[nodes_[node].index];
  if (alive) return bits::Consume(&out[0]);
  alive = true;
  Propagate<true>(node, f->parent_iteration, out, false);
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
  Iteration* it = NewIteration(f, ++f->newest);
  if (!f->deferred.empty()) {
    std::vector<Frame::Value> deferred;
    deferred.swap(f->deferred);
    for (Frame::Value& v : deferred) Propagate<true>(v.node, it, &v.value, v.dead);
    // Its memory is kept for the next time.
    deferred.clear();
    if (f->deferred.empty()) f->deferred.swap(deferred);
  }
  for (size_t i = 0; i < f->invariants.size(); ++i) {
    Frame::Value& v = f->invariants[i];
    Tensor copy = v.value;
    Propagate<true>(v.node, it, &copy, v.dead);
  }
}

void StepState::CheckIteration(Iteration* it) {
  if (it == nullptr) return;
  Frame* f = it->frame;
  if (f == &root_frame_) return;  // it ends with the step
  for (int64_t number = it->number; number <= f->newest; ++number) {
    Iteration* current = f->at(number);
    if (current == nullptr || current->number != number || current->outstanding != 0 || current->child_frames != 0)
      break;
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
  const std::vector<uint32_t>& exits = part_->frames[f->id].exits;
  for (size_t i = 0; i < exits.size(); ++i) {
    Tensor none;
    if (!f->exit_alive[i]) Propagate<true>(exits[i], parent, &none, true);
  }
  for (Frame** p = &parent->children; *p != nullptr; p = &(*p)->sibling) {
    if (*p == f) {
      *p = f->sibling;
      break;
    }
  }
  f->deferred.clear();
  f->invariants.clear();
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
      free_frames_.emplace_back(child);
    }
    if (it != &root_) {
      FreeIteration(it);
      it = nullptr;
    }
  }
}

}  // namespace troupe
