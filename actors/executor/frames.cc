// Loops: how frames and iterations begin and end.
//
// An iteration ends when none of its nodes is ready or running, no loop started from it runs, and
// nothing can come any more: for iteration 0 when every Enter has delivered, for a later one when
// the iteration before it has ended. A frame ends with its last iteration; the deadness of Exits
// that never came alive then goes to the parent.
#include "actors/executor/tokens.h"

namespace troupe {

Iteration* StepState::NewIteration(Frame* f, int64_t number) {
  const StaticFrame& s = part_->frames[f->id];
  Iteration* const it = frames_.TakeIteration(f->id);
  it->frame = f;
  it->number = number;
  it->id = ++iterations_begun_;
  it->outstanding = it->child_frames = 0;
  it->children = nullptr;
  std::memcpy(it->count_store.get(), part_->counts.data() + s.first_node, s.num_nodes * sizeof(uint32_t));
  if (f->has_turn) {
    for (size_t i = 0; i < s.in_turn.size(); ++i) {
      if (f->turns[i] == number && !(s.in_turn[i] & StaticFrame::kLoopInTurn)) --it->counts[s.in_turn[i]];
    }
  }
  f->at(number) = it;
  ++f->running;
  return it;
}

void StepState::FreeIteration(Iteration* it) {
  ClearSlots(it);
  frames_.Give(it->frame->id, it);
}

// Empties what nobody consumed. A node that ran has emptied its slots itself, one that no token
// reached has none, so counters tell which to look at.
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
  const StaticFrame& s = part_->frames[id];
  Frame* const f = frames_.TakeFrame(id);
  f->parent = it->frame;
  f->parent_iteration = it;
  f->newest = 0;
  f->running = 0;
  f->pending_enters = s.num_enters;
  f->has_turn = true;
  if (s.place != StaticFrame::kNoPlace) {
    const Frame& around = *it->frame;
    f->has_turn = around.has_turn && around.turns[s.place] >= it->number;
    f->pending_enters += !f->has_turn;
  }
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
      Propagate<true>(node, it, out, dead);
      if (nodes_[node].flow == kInTurn) PassTurn(it->frame, nodes_[node].index, it->number);
  }
}

// What `item` had to do in iteration `number` is done, or will never be: the next one may. Its
// first call for an iteration counts.
void StepState::PassTurn(Frame* f, uint32_t item, int64_t number) {
  if (!f->has_turn || f->turns[item] != number) return;
  ++f->turns[item];
  GiveTurn(f, item);
}

// To the iteration whose turn it is, if it has begun; otherwise it finds its turn when it begins.
void StepState::GiveTurn(Frame* f, uint32_t item) {
  const int64_t number = f->turns[item];
  Iteration* const it = number <= f->newest ? f->at(number) : nullptr;
  if (it == nullptr || it->number != number) return;
  const uint32_t who = part_->frames[f->id].in_turn[item];
  if (!(who & StaticFrame::kLoopInTurn)) return CountDown(it, who, &it->counts[who]);
  for (Frame* child = it->children; child != nullptr; child = child->sibling) {
    if (child->id == (who & ~StaticFrame::kLoopInTurn)) return TakeTurn(child);
  }
}

// The loop may end from here on: what waited in it for the loop before is ready, or will be.
void StepState::TakeTurn(Frame* f) {
  if (f->has_turn) return;
  f->has_turn = true;
  for (uint32_t i = 0; i < f->turns.size(); ++i) GiveTurn(f, i);
  --f->pending_enters;
  CheckIteration(f->at(0));
}

void StepState::EnterFrame(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = nodes_[node];
  Frame* f = ChildFrame(it, n.frame);
  --f->pending_enters;
  if (n.constant_enter) {
    // One that only orders others (its consumers have been folded away) keeps no memory: an update
    // of the variable whose value it is would copy that while the loop ends.
    if (n.first_edge == n.last_edge) out[0] = Tensor();
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
  // Deadness counts only when the frame ends without the Exit having come alive, which EndFrame
  // sees.
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
  // A loop's end may be that of the loop around it, as deep as loops are nested.
  while (it != nullptr) it = EndIterations(it);
}

// Returns the iteration that may end with what has ended.
Iteration* StepState::EndIterations(Iteration* it) {
  Frame* f = it->frame;
  if (f == &root_frame_) return nullptr;  // it ends with the step
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
    // While this iteration is there, those behind it do not end.
    for (uint32_t i = 0; i < f->turns.size(); ++i) PassTurn(f, i, number);
    f->at(number) = nullptr;
    --f->running;
    FreeIteration(current);
    if (!f->deferred.empty() && f->running < part_->frames[f->id].parallel_iterations) StartNextIteration(f);
  }
  return f->running == 0 && f->pending_enters == 0 ? EndFrame(f) : nullptr;
}

Iteration* StepState::EndFrame(Frame* f) {
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
  const uint32_t place = part_->frames[f->id].place;
  frames_.Give(f);
  if (place != StaticFrame::kNoPlace) PassTurn(parent->frame, place, parent->number);
  return --parent->child_frames == 0 && parent->outstanding == 0 ? parent : nullptr;
}

void StepState::FreeFrames(Frame* top) {
  for (Frame* f = top;;) {
    // Down to a loop without loops in it, and up again: loops may be nested deeper than a stack is.
    Frame* child = nullptr;
    for (Iteration*& it : f->iterations) {
      if (it == nullptr) continue;
      if (it->children != nullptr) {
        child = it->children;
        break;
      }
      if (it == &root_) continue;
      FreeIteration(it);
      it = nullptr;
    }
    if (child != nullptr) {
      f = child;
      continue;
    }
    if (f == top) return;
    Frame* const parent = f->parent;
    f->parent_iteration->children = f->sibling;
    frames_.Give(f);
    f = parent;
  }
}

}  // namespace troupe
