// Brings the steps of a session to where a snapshot is a cut between them, while the gate is shut
// (step_gate.h).
//
// A pipeline is stopped from its end: first the steps that only take elements (level 0), then those
// that fill the queues, barriers and accumulators which these took from, and so on up to the source
// (QueueUse::Order). So each step finds what it waits for, until it ends, or comes to a wait at
// which it counts as done or as not begun (QueueUse::RestsAt). Steps that neither update nor fill
// are let through.
//
// A step that rests is woken by what steps of higher levels still put in, and may then wait for
// more than they have given. And steps may wait for each other in a circle (workers that train in
// step with each other, and a chief that gives them tokens), which no order stops from its end. So
// when they have not come to rest for a while, the gate is opened for a moment, and all begins
// anew; each time there is more patience, since a step may only be slow. Of a circle some try finds
// a round's end. That a step will never come to rest cannot be proven here: the program, or another
// session, may yet put in what it waits for.
//
// That a step waits for elements is no answer for good, since another may put some in. So when all
// levels are held and all steps seem to rest, they are asked once more. A step that rested both
// times, at the same nodes, and has run no node from before it was asked first until it was asked
// again, has rested in between. So at the time between the two rounds all of them did, and none was
// left that could wake another.
//
// Thread rule: belongs to the thread that takes the snapshot. Busy blocks for the steps' answers,
// 100 ms at most each time that it asks.
#ifndef TROUPE_ACTORS_SNAPSHOT_STEP_CUT_H_
#define TROUPE_ACTORS_SNAPSHOT_STEP_CUT_H_

#include <chrono>
#include <compare>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/signature/signature.h"

namespace troupe {

class StepCut {
 public:
  using Signatures = std::vector<std::shared_ptr<Signature>>;
  StepCut(StepGate* gate, std::function<Signatures()> living) : gate_(gate), living_(std::move(living)) {}
  // How many steps are under way that do not rest. 0: all are held, and the snapshot may be taken.
  int Busy();

 private:
  // A step that rests.
  struct Step {
    const ExecutorSet* set = nullptr;
    int64_t number = 0, nodes_run = 0;
    std::set<std::string> waits;  // the nodes at which it rests
    friend auto operator<=>(const Step&, const Step&) = default;
  };
  void Order(const Signatures& signatures);
  // Those that do not rest, of the levels that are held.
  int Look(std::vector<Step>* resting) const;

  StepGate* const gate_;
  const std::function<Signatures()> living_;
  int held_ = 0, last_ = 0;
  SteadyTime since_;       // nothing has gone on
  SteadyTime open_until_;  // after a reopening
  std::chrono::milliseconds patience_{100};
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SNAPSHOT_STEP_CUT_H_
