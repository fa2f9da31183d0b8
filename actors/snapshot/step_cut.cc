#include "actors/snapshot/step_cut.h"

#include <algorithm>
#include <chrono>
#include <future>

namespace troupe {

int StepCut::Look(std::vector<Step>* resting) const {
  struct Asked {
    Step step;
    std::shared_ptr<StepQuestion> question;
    std::future<void> answered;
    const QueueUse* use;
  };
  int busy = 0;
  std::vector<Asked> asked;
  const Signatures signatures = living_();
  for (const auto& s : signatures) {
    if (!gate_->Holds(s->Level())) continue;
    s->Leased([&](ExecutorSet* set, bool running) {
      if (!running || !s->queues.CanRest()) {
        ++busy;
        return;
      }
      auto promise = std::make_shared<std::promise<void>>();
      Asked& a = asked.emplace_back();
      // The nodes are counted before it is asked: what runs afterwards shows in the next round.
      a = {{set, set->step_id(), set->nodes_run(), {}},
           std::make_shared<StepQuestion>(set->executors()),
           promise->get_future(),
           &s->queues};
      if (!a.question->Ask(&set->transport(),
                           [promise](const std::shared_ptr<StepQuestion>&) { promise->set_value(); }))
        promise->set_value();
    });
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  resting->clear();
  for (Asked& a : asked) {
    if (a.answered.wait_until(limit) == std::future_status::ready) a.step.waits = a.question->OnlyWaits();
    if (a.use->RestsAt(a.step.waits)) {
      resting->push_back(std::move(a.step));
    } else {
      ++busy;
    }
  }
  std::sort(resting->begin(), resting->end());
  return busy;
}

void StepCut::Order(const Signatures& signatures) {
  std::vector<const QueueUse*> uses;
  for (const auto& s : signatures) uses.push_back(&s->queues);
  const std::vector<int> order = QueueUse::Order(uses);
  last_ = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    last_ = std::max(last_, order[i]);
    if (uses[i]->Ordered()) signatures[i]->SetLevel(order[i]);
  }
}

int StepCut::Busy() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (held_ > 1 && now - since_ > patience_) {
    patience_ = patience_ * 3 / 2;
    gate_->Reopen();
    held_ = 0;
    open_until_ = now + patience_ / 4;
  }
  if (held_ == 0) {
    // Those that waited at the gate need a while to begin: shut at once, it would hold them again.
    if (now < open_until_) return 1;
    Order(living_());
    held_ = 1;
    gate_->ShutBelow(held_);
  }
  for (;;) {
    std::vector<Step> resting, again;
    int busy = Look(&resting);
    if (busy > 0) return busy;
    if (held_ != StepGate::kAllLevels) {
      held_ = held_ <= last_ ? held_ + 1 : StepGate::kAllLevels;
      gate_->ShutBelow(held_);
      since_ = now;
      continue;
    }
    if (resting.empty()) return 0;
    busy = Look(&again);
    if (busy > 0) return busy;
    if (resting == again) return 0;
  }
}

}  // namespace troupe
