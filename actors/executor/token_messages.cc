// The mode in which every token is a message of its own: by the same counters and slots, one
// delivery at a time.
#include "actors/executor/tokens.h"
#include "actors/executor/turn.h"

namespace troupe {

template <bool kFlow>
void StepState::PostTokens(uint32_t node, Iteration* it, Tensor* out, bool dead) {
  const CompiledNode& n = nodes_[node];
  const auto post = [&](Token t) {
    t.iteration = it;
    host_->PostToken(std::move(t));
    ++tokens_out_;
    if (kFlow) ++it->outstanding;
  };
  for (uint32_t i = n.first_edge; i < n.last_edge; ++i) {
    Token t;
    t.edge = edges_[i];
    t.value = out[t.edge.output];
    t.dead = dead || (kFlow && !t.value.valid());
    post(std::move(t));
  }
  for (uint32_t i = n.first_control; i < n.last_control; ++i) {
    Token t;
    t.edge.dst = controls_[i];
    t.edge.slot = -1;
    t.dead = dead;
    post(std::move(t));
  }
  for (int i = 0; i < n.num_outputs; ++i) bits::Consume(&out[i]);
}

template void StepState::PostTokens<false>(uint32_t, Iteration*, Tensor*, bool);
template void StepState::PostTokens<true>(uint32_t, Iteration*, Tensor*, bool);

void StepState::Deliver(Token token) {
  Turn turn(this);
  --tokens_out_;
  if (aborting_) return;
  try {
    Place(std::move(token));
  } catch (...) {
    Abort(StepException());
  }
}

void StepState::Place(Token token) {
  Iteration* it = token.iteration;
  const OutEdge& e = token.edge;
  if (!part_->has_control_flow) {
    if (e.slot < 0) {
      DeliverControl<false>(it, e.dst, false);
    } else if (e.loaned) {
      DeliverLoaned<false>(it, e, OwnerOf(static_cast<uint32_t>(e.slot)));
    } else {
      DeliverValue<false>(it, e, token.value, true);
    }
    return;
  }
  if (e.slot < 0) {
    DeliverControl<true>(it, e.dst, token.dead);
  } else if (token.dead) {
    DeliverDead(it, e.dst, e.consumer);
  } else if (e.loaned) {
    DeliverLoaned<true>(it, e, OwnerOf(static_cast<uint32_t>(e.slot)));
  } else {
    DeliverValue<true>(it, e, token.value, true);
  }
  NodeLeaves(it);
}

}  // namespace troupe
