// A step whose master is another process, as far as its parts stand on one task of this one.
//
// It runs on the compute threads, or in the network's if it is short (threads/loop_turns.h). Its
// parts' tensors go to the parts' processes directly; what the parts tell the step goes to the
// master. Its deadline, token and Close reach it as the master's abort_step. In this process it has
// another number, that of its set of executors.
//
// Edges 2, 6 and 7 of remote_steps.h. Thread rule: Start on the thread that made it; the rest from
// the step's turns.
#ifndef TROUPE_ACTORS_STEP_REMOTE_STEP_H_
#define TROUPE_ACTORS_STEP_REMOTE_STEP_H_

#include <caf/all.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/step/local_transport.h"
#include "actors/step/remote_steps.h"
#include "actors/step/step.h"

namespace troupe {

class RemoteStep : public Step, public RemoteLink, public std::enable_shared_from_this<RemoteStep> {
 public:
  RemoteStep(std::shared_ptr<RemoteSteps> steps, std::shared_ptr<Runtime> runtime, std::shared_ptr<RemoteGraph> graph,
             run_parts&& message, caf::actor master)
      : steps_(std::move(steps)),
        runtime_(std::move(runtime)),
        graph_(std::move(graph)),
        asked_(std::move(message)),
        master_(std::move(master)) {}

  // Leases a set of executors, and begins. Throws std::bad_alloc.
  void Begin();
  // Starts the parts; the step may be over on return.
  void Launch() noexcept;
  ExecutorSet* set() const { return set_; }
  const RemoteGraph& graph() const { return *graph_; }
  std::shared_ptr<const RemoteGraph> shared_graph() const { return graph_; }
  uint64_t master() const { return asked_.master; }
  int64_t step() const { return asked_.step; }
  bool checks_numerics() const { return asked_.checks_numerics; }
  // In this process.
  int64_t own_step() const { return own_step_; }
  // Whether it has a part at the place of an actor.
  bool Concerns(const actor_failed& failure) const;

  // Step.
  void PartDone() override;
  void Over() override;
  bool partial() const override { return asked_.partial; }
  void ResultCame(uint32_t index, Tensor value) override;
  void PartFailed(uint32_t part, const absl::Status& status) override;

  // RemoteLink.
  absl::Status ToPart(PartAddress to, part_message&& message) override;
  // Its master tells the others; what is on its way to them, or comes, is nobody's.
  void Abort(uint32_t, int64_t, const absl::Status&) noexcept override;
  // Its master asks them.
  std::vector<Part> Parts() const override { return {}; }
  bool Report(PartAddress from, stall_report& report) override;

 private:
  std::string Statistics() const;
  void ToMaster(PartAddress from, step_message&& message) noexcept;
  absl::Status ToTask(const std::string& name, part_letter&& letter) const;
  FreightOut::Owner owner() const { return {asked_.master, asked_.step, graph_->number}; }

  const std::shared_ptr<RemoteSteps> steps_;
  std::shared_ptr<Runtime> runtime_;  // while it runs
  const std::shared_ptr<RemoteGraph> graph_;
  run_parts asked_;
  const caf::actor master_;
  std::shared_ptr<RemoteStep> me_;  // while it runs
  ExecutorSet* set_ = nullptr;      // likewise
  int64_t own_step_ = 0;
  int64_t came_nanos_ = 0;  // of a step with statistics: when its message came
  std::vector<Tensor> arguments_;
};

// Whether the parts of a graph at its task send something to those of another task, or get
// something from them.
bool HasEdgesWith(const RemoteGraph& graph, const std::string& task);

// The answer to run_parts. What cannot be sent is an error that can.
void AnswerMaster(Runtime::Impl* runtime, const caf::actor& master, parts_done&& answer) noexcept;

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_REMOTE_STEP_H_
