// Delivery of tokens to their consumers within a turn. For the executor's own files.
//
// A value is moved along the last edge of its output and shared along the others. The references
// for all of these are taken at once, before the first delivery, so a value with many readers costs
// at most one atomic operation. Constants and arguments are loaned, without references
// (tensor_bits.h).
//
// Source of the semantics: white paper, section 4.4. Thread rule: in the executor's turn only.
#ifndef TROUPE_ACTORS_EXECUTOR_TOKENS_H_
#define TROUPE_ACTORS_EXECUTOR_TOKENS_H_

#include "actors/executor/step_state.h"
#include "actors/executor/tensor_bits.h"

namespace troupe {

// Makes a node of a part with control flow ready when nothing is missing. `count` has just been
// counted down.
__attribute__((always_inline)) inline void StepState::CountDown(Iteration* it, uint32_t dst, uint32_t* count) {
  if ((--*count & ~kDeadInput) != 0) return;
  Push(dst, it, (*count & kDeadInput) && nodes_[dst].flow != ControlFlow::kControlTrigger);
}

__attribute__((always_inline)) inline void StepState::MergeIfReady(Iteration* it, uint32_t dst, uint32_t* count) {
  const bool ready = (*count & kMergeControlMask) == 0 && ((*count & kMergeLive) || (*count & kMergeDataMask) == 0);
  if (!ready || (*count & kMergeFired)) return;
  *count |= kMergeFired;
  Push(dst, it, !(*count & kMergeLive));
}

// `last`: the value is e's own from here on. Otherwise its reference for this edge has been taken.
template <bool kFlow>
__attribute__((always_inline)) inline void StepState::DeliverValue(Iteration* it, const OutEdge& e, Tensor& value,
                                                                   bool last) {
  uint32_t* count = &it->counts[e.dst];
  if (kFlow && e.consumer == Consumer::kMerge) {
    if (*count & kMergeLive) {
      // A second live input of a Merge is dropped.
      Tensor second;
      last ? bits::Move(&value, &second) : bits::CopyBits(value, &second);
      return;
    }
    *count |= kMergeLive;
    last ? bits::Move(&value, &it->slots[e.slot]) : bits::CopyBits(value, &it->slots[e.slot]);
    return MergeIfReady(it, e.dst, count);
  }
  if (last) {
    bits::Move(&value, &it->slots[e.slot]);
  } else {
    bits::CopyBits(value, &it->slots[e.slot]);
  }
  if constexpr (kFlow) {
    CountDown(it, e.dst, count);
  } else {
    if (--*count == 0) stack_[stack_size_++] = e.dst;
  }
}

template <bool kFlow>
__attribute__((always_inline)) inline void StepState::DeliverLoaned(Iteration* it, const OutEdge& e,
                                                                    const Tensor& value) {
  uint32_t* count = &it->counts[e.dst];
  bits::CopyBits(value, &it->slots[e.slot]);
  if constexpr (kFlow) {
    CountDown(it, e.dst, count);
  } else {
    if (--*count == 0) stack_[stack_size_++] = e.dst;
  }
}

// A value that never comes. Only in parts with control flow.
inline void StepState::DeliverDead(Iteration* it, uint32_t dst, Consumer consumer) {
  if (consumer == Consumer::kIgnoresDead) return;
  uint32_t* count = &it->counts[dst];
  if (consumer == Consumer::kMerge) {
    *count -= kMergeDataUnit;
    return MergeIfReady(it, dst, count);
  }
  *count |= kDeadInput;
  CountDown(it, dst, count);
}

template <bool kFlow>
__attribute__((always_inline)) inline void StepState::DeliverControl(Iteration* it, uint32_t edge, bool dead) {
  if constexpr (!kFlow) {
    // Without a branch: which consumer becomes ready is not to be guessed. The place behind the top
    // is always there.
    stack_[stack_size_] = edge;
    stack_size_ += --it->counts[edge] == 0;
  } else {
    const uint32_t dst = edge & ~kControlToMerge;
    uint32_t* count = &it->counts[dst];
    if (edge & kControlToMerge) {
      *count -= kMergeControlUnit;
      return MergeIfReady(it, dst, count);
    }
    if (dead) *count |= kDeadInput;
    CountDown(it, dst, count);
  }
}

// Gives a node's outputs, which are empty afterwards, to their consumers in iteration `it`.
template <bool kFlow>
__attribute__((always_inline)) inline void StepState::Propagate(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = nodes_[node];
  if (input_.token_messages) [[unlikely]]
    return PostTokens<kFlow>(node, it, out, dead);
  for (const OutEdge *e = edges_ + n.first_edge, *end = edges_ + n.last_edge; e != end; ++e) {
    Tensor& value = out[e->output];
    if (kFlow && (dead || !value.valid())) {
      DeliverDead(it, e->dst, e->consumer);
      continue;
    }
    if (e->shares != 0) bits::Share(value, e->shares);
    DeliverValue<kFlow>(it, *e, value, e->last);
  }
  for (const uint32_t *c = controls_ + n.first_control, *end = controls_ + n.last_control; c != end; ++c) {
    DeliverControl<kFlow>(it, *c, dead);
  }
  if (n.unused_outputs) {
    for (int i = 0; i < n.num_outputs; ++i) bits::Consume(&out[i]);
  }
}

// The same for a node whose output is a constant or argument. A consumer to which it is pinned has
// a control edge instead.
template <bool kFlow>
inline void StepState::PropagateLoaned(uint32_t node, Iteration* it, const Tensor& value) {
  const CompiledNode& n = nodes_[node];
  if (input_.token_messages) [[unlikely]] {
    Tensor copy = value;
    return PostTokens<kFlow>(node, it, &copy, false);
  }
  for (const OutEdge *e = edges_ + n.first_edge, *end = edges_ + n.last_edge; e != end; ++e) {
    if (e->loaned) {
      DeliverLoaned<kFlow>(it, *e, value);
    } else {
      Tensor copy = value;
      DeliverValue<kFlow>(it, *e, copy, true);
    }
  }
  for (const uint32_t *c = controls_ + n.first_control, *end = controls_ + n.last_control; c != end; ++c) {
    DeliverControl<kFlow>(it, *c, false);
  }
}

template <bool kFlow>
inline void StepState::FinishLoaned(uint32_t node, Iteration* it, const Tensor& value) {
  PropagateLoaned<kFlow>(node, it, value);
  if constexpr (kFlow) NodeLeaves(it);
}

// Gives a node's outputs to where its op's kind of control flow sends them.
template <bool kFlow>
__attribute__((always_inline)) inline void StepState::FinishNode(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  if constexpr (!kFlow) {
    Propagate<false>(node, it, out, false);
  } else {
    if (nodes_[node].flow == ControlFlow::kNone) [[likely]] {
      Propagate<true>(node, it, out, dead);
    } else {
      FinishFlow(node, it, out, dead);
    }
    NodeLeaves(it);
  }
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_TOKENS_H_
