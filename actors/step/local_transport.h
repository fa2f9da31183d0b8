// Delivery among the parts of a step in this process, and the one place that knows how a message
// travels: by reference, or through its bytes (SessionOptions.wire_messages).
//
// By reference a part works in the memory of the step (its context, arguments and results), and a
// message costs no more than a call and the arrival that it becomes. Through bytes each part has
// memory and a context of its own, as it would have in another process; resource handles are bound
// where they arrive. The contexts stand here, since who ends a step ends them, too.
//
// Thread rule: Prepare on the thread that has leased the executors; the rest from any thread.
// Reports of parts may arrive when the set has gone; nothing else does.
#ifndef TROUPE_ACTORS_STEP_LOCAL_TRANSPORT_H_
#define TROUPE_ACTORS_STEP_LOCAL_TRANSPORT_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/executor/executor_actor.h"
#include "actors/watch/stall_report.h"
#include "actors/wire/part_messages.h"

namespace troupe {

class Runtime;

// What the parts of a step tell it.
class StepListener {
 public:
  // The part is done. Its error counts unless another was told before. `message` is the callee's.
  // Called once a part and step.
  virtual void PartDone(uint32_t part, part_done& message) = 0;
  // It is not done, and the whole step is to end. The first error counts.
  virtual void PartFails(uint32_t part, const absl::Status& status) = 0;
  virtual void ResultCame(uint32_t index, Tensor value) = 0;

 protected:
  ~StepListener() = default;
};

// The way to the parts of a step that other processes run, and to the step itself if its master is
// another one. From any thread.
class RemoteLink {
 public:
  virtual ~RemoteLink() = default;
  virtual absl::Status ToPart(PartAddress to, part_message&& message) = 0;
  // Tells all other processes that run parts of the step, except the one that has part `but`.
  virtual void Abort(uint32_t but, int64_t step, const absl::Status& status) noexcept = 0;
  // The parts that other processes run, in the order of their numbers, and whether they are over.
  struct Part {
    PartAddress address;
    std::string device;
    bool over = false;
  };
  virtual std::vector<Part> Parts() const = 0;
  // Takes the answer to a question that another process has asked. False: it was asked here.
  virtual bool Report(PartAddress from, stall_report& report) = 0;
};

class LocalTransport : public PartTransport {
 public:
  // All that is given here outlives the last message, except for reports. `runtime` binds handles.
  // A message on an edge of `edges` that bears an incarnation that is over is refused.
  // The executors are those of the parts from number `first` on.
  LocalTransport(caf::actor_system* system, bool through_bytes, const Runtime* runtime, const EdgeTable* edges,
                 const std::vector<std::shared_ptr<Executor>>* executors, StepListener* step, uint32_t first = 0);

  absl::Status Prepare(PartAddress part, run_step&& message) override;
  absl::Status Deliver(PartAddress to, part_message message) override;
  void ToStep(PartAddress from, step_message&& message) noexcept override;
  // Delivers abort_step to every part but one (none: kAll), also where there is no memory for it.
  static constexpr uint32_t kAll = ~0u;
  void AbortParts(uint32_t but, int64_t step_id, const absl::Status& status) noexcept;
  // Where parts have contexts of their own, those of the step that runs.
  void AddContexts(std::vector<const void*>* contexts) const;
  // Parts that have no executor here are behind `link`; null: there are none.
  void LinkTo(std::shared_ptr<RemoteLink> link);
  std::vector<RemoteLink::Part> RemoteParts() const;
  // A resource handle that has come from elsewhere gets its object, if that lives here.
  void Bind(Tensor* value) const;
  // The questions that reports answer.
  OpenQuestions& questions() { return questions_; }

 private:
  std::shared_ptr<RemoteLink> link() const;
  void Hear(PartAddress from, step_message& message);
  // Of a part with a context of its own: ends the kernels of this step.
  void CancelOwn(uint32_t part, int64_t step_id) const;
  void ForgetOwn(uint32_t part);

  caf::actor_system& system_;
  const bool through_bytes_;
  const Runtime* const runtime_;
  const EdgeTable& edges_;
  const std::vector<std::shared_ptr<Executor>>& executors_;
  StepListener& step_;
  const uint32_t first_;
  OpenQuestions questions_;
  mutable std::mutex mu_;  // guards contexts_ and link_
  std::shared_ptr<RemoteLink> link_;
  std::vector<std::shared_ptr<StepContext>> contexts_;  // by part from the first; empty by reference
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_LOCAL_TRANSPORT_H_
