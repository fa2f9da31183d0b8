// A conditional accumulator: gradients of several steps, until there are enough of them.
//
// The rules are TensorFlow's. Each gradient tells the global step at which it was computed; one
// that is older than the accumulator's step is dropped. A take waits until enough gradients are
// there, gets their mean (or sum), empties the accumulator and makes its step greater by one. So
// synchronous replicas never apply a gradient twice, and slow ones do not delay the next step.
//
//   request            1st in line, and      action
//   apply              step is too old       1 drop the gradient; answer OK
//   apply              (at once)             2 add it; answer
//   take n             n gradients           3 answer with their mean; empty, step + 1
//   take n             fewer                 4 wait in the line
//   set step, count    (at once)             5 answer
//
// A sparse accumulator has rows by index. Its mean divides each row by the number of gradients that
// had this row.
//
// A take that was answered when its step had gone is lost with its mean: the step has moved on, so
// the gradients would be too old in any case. One that waits leaves the line.
//
// Thread rule: as for StateMachine.
//
// Tests of the rows, tests/queue/accumulator_test.cc:
//   1, 2, 3  rows_1_to_3_enough_gradients_have_a_mean
//   4        row_4_a_take_waits_in_line
//   5        row_5_the_step_can_be_set
#ifndef TROUPE_KERNELS_ACCUMULATOR_ACCUMULATOR_H_
#define TROUPE_KERNELS_ACCUMULATOR_ACCUMULATOR_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/state/state_kind.h"

namespace troupe::accumulator {

struct AccumulatorSpec {
  std::string kind;  // "ConditionalAccumulator", "SparseConditionalAccumulator"
  std::string name;
  DType dtype = DType::kFloat;
  PartialTensorShape shape;
  bool mean = true;  // else the sum

  std::string What() const { return StrCat(kind, " '", name, "'"); }
  bool sparse() const { return kind == "SparseConditionalAccumulator"; }
  absl::Status Check() const;
  absl::Status CheckShared(const AccumulatorSpec& other) const;
};

struct AccumulatorRequest : StateRequest {
  enum class Kind : uint8_t { kApply, kTake, kCount, kSetStep };
  Kind kind = Kind::kCount;
  int64_t step = 0;      // of kApply and kSetStep
  int64_t required = 1;  // of kTake
  int64_t count = 0;     // the answer of kCount
  // A gradient that is applied, or the answer of kTake; of a sparse one with the indices of its
  // rows and its whole shape, which may be unknown.
  Tensor values, indices;
  PartialTensorShape shape;
};
using AccumulatorRequestPtr = std::shared_ptr<AccumulatorRequest>;

class AccumulatorMachine : public StateMachine {
 public:
  explicit AccumulatorMachine(AccumulatorSpec spec) : spec_(std::move(spec)), shape_(spec_.shape) {}
  const AccumulatorSpec& spec() const { return spec_; }

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override;
  void Withdraw(const StateRequestPtr& request, StateAnswers* answers) override;
  void AbortWaiting(const absl::Status& why, StateAnswers* answers) override;
  absl::StatusOr<ResourceState> Save() const override;
  void Visit(const std::function<void(const Tensor&)>& visit) const override;
  std::string What() const override { return spec_.What(); }
  std::string HowMuch() const override;

 private:
  friend absl::StatusOr<std::shared_ptr<Resource>> MakeSavedAccumulator(const std::string&, const ResourceState&);
  struct Row {
    Tensor sum;
    int64_t gradients = 0;
  };
  absl::Status Apply(const AccumulatorRequest& r);
  absl::Status ApplyRows(const AccumulatorRequest& r);
  absl::Status Take(AccumulatorRequest* r);
  absl::Status TakeRows(AccumulatorRequest* r);
  void Serve(StateAnswers* answers);

  const AccumulatorSpec spec_;
  std::deque<AccumulatorRequestPtr> takes_;
  int64_t step_ = 0, count_ = 0;
  Tensor sum_;                   // of a dense one
  std::map<int64_t, Row> rows_;  // of a sparse one
  PartialTensorShape shape_;     // of what is accumulated, as far as it is known
};

// An accumulator in its container.
class Accumulator : public StateResource {
 public:
  static absl::StatusOr<std::shared_ptr<Accumulator>> Make(AccumulatorSpec spec);
  const AccumulatorSpec& spec() const { return spec_; }
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  explicit Accumulator(std::shared_ptr<AccumulatorMachine> machine) : StateResource(machine), spec_(machine->spec()) {}
  const AccumulatorSpec& spec_;
};

// A ResourceMaker for both kinds.
absl::StatusOr<std::shared_ptr<Resource>> MakeSavedAccumulator(const std::string& name, const ResourceState& state);

class AccumulatorKind : public state::StateKind {
 public:
  AccumulatorKind(KernelInit& init, std::string kind);
  absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext& ctx, const std::string& name) const override;
  absl::Status CheckShared(const StateResource& there) const override;

 private:
  AccumulatorSpec spec_;
};

}  // namespace troupe::accumulator

#endif  // TROUPE_KERNELS_ACCUMULATOR_ACCUMULATOR_H_
