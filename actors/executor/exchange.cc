// Tensors that pass between parts: those that have not come yet, and those that wait for their
// receiver (mailroom.h).
#include <algorithm>

#include "actors/executor/async_call.h"
#include "kernels/run_kernel.h"

namespace troupe {

const Iteration* StepState::Caller(uint64_t frame_iter) const {
  const Iteration* const it = asking_ != nullptr ? asking_->iteration : running_;
  return it->id == frame_iter ? it : nullptr;
}

absl::Status StepState::Send(const std::string& edge, uint64_t frame_iter, Tensor value, bool dead) {
  const EdgeTable& edges = host_->edges();
  const int64_t found = edges.Find(edge);
  if (found < 0) return NotFound("no part of the step receives '", edge, "'");
  const Iteration* const it = Caller(frame_iter);
  if (it == nullptr) return InvalidArgument("'", edge, "' is sent for another iteration than the node's own");
  const auto number = static_cast<uint32_t>(found);
  Mailroom::Place place{number, PathOf(*it)};
  // What is dead has no bytes to hold back.
  if (!dead && edges[number].granted && !mailroom_.TakeGrant(place)) {
    TROUPE_RETURN_IF_ERROR(mailroom_.Hold(place, std::move(value), NowNanos()));
    ++in_flight_;
    return absl::OkStatus();
  }
  return host_->SendToPart(tensor_to_part{last_step_, number, std::move(place.iteration), dead, std::move(value)});
}

void StepState::Recv(const std::string& edge, uint64_t frame_iter,
                     std::function<void(absl::Status, Tensor, bool)> done) {
  if (!active_ || aborting_) return done(absl::CancelledError("the step ended"), Tensor(), false);
  const Iteration* const it = Caller(frame_iter);
  if (it == nullptr) {
    return done(InvalidArgument("'", edge, "' is received for another iteration than the node's own"), Tensor(), false);
  }
  const EdgeTable& edges = host_->edges();
  const int64_t found = edges.Find(edge);
  Mailroom::Waiter waiter{std::move(done), asking_ != nullptr ? asking_->node : current_.load(), it};
  if (found < 0) return mailroom_.AskInVain(std::move(waiter));
  Mailroom::Place place{static_cast<uint32_t>(found), PathOf(*it)};
  if (std::optional<Mailroom::Mail> mail = mailroom_.Take(place))
    return waiter.done(absl::OkStatus(), std::move(mail->value), mail->dead);
  if (absl::Status s = mailroom_.Ask(place, std::move(waiter)); !s.ok()) return waiter.done(s, Tensor(), false);
  if (edges[place.edge].granted)
    host_->SendToPart(grant{last_step_, place.edge, std::move(place.iteration)}).IgnoreError();
}

void StepState::Handle(tensor_to_part& m) {
  if (aborting_) return;
  if (m.value.valid()) received_bytes_ += static_cast<int64_t>(m.value.bytes());
  Mailroom::Mail mail{std::move(m.value), m.dead};
  absl::StatusOr<std::optional<Mailroom::Waiter>> waiter = mailroom_.Came({m.edge, std::move(m.iteration)}, &mail);
  if (!waiter.ok()) return Abort(waiter.status());
  if (!waiter->has_value()) return;
  try {
    (*waiter)->done(absl::OkStatus(), std::move(mail.value), mail.dead);
  } catch (...) {
    Fail((*waiter)->node, KernelException());
  }
}

void StepState::Handle(grant& m) {
  if (aborting_) return;
  Mailroom::Place place{m.edge, std::move(m.iteration)};
  absl::StatusOr<std::optional<Tensor>> held = mailroom_.Granted(place);
  if (!held.ok()) return Abort(held.status());
  if (!held->has_value()) return;
  --in_flight_;
  const absl::Status sent =
      host_->SendToPart(tensor_to_part{last_step_, place.edge, std::move(place.iteration), false, *std::move(*held)});
  if (!sent.ok()) Abort(sent);
}

void StepState::TakeEarlyArrivals() {
  if (refused_.first == last_step_ && !refused_.second.ok()) Abort(std::exchange(refused_.second, absl::OkStatus()));
  ArrivalList early;
  mailroom_.TakeEarly(&early);
  while (std::unique_ptr<Arrival> a = early.Pop()) HandleArrival(std::move(a));
}

// The step is aborting: who asks for more is refused at once.
void StepState::CancelReceives() {
  const auto cancel = [](const Mailroom::Waiter& w) {
    try {
      w.done(absl::CancelledError("the step ended"), Tensor(), false);
    } catch (...) {
      // The step has its error. What the kernel threw away with its `done` answers by itself.
    }
  };
  const Mailroom::Waiters waiters = mailroom_.TakeWaiters();
  for (const auto& [place, w] : waiters.asked) cancel(w);
  for (const Mailroom::Waiter& w : waiters.in_vain) cancel(w);
}

}  // namespace troupe
