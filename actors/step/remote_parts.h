// The parts of a step that other processes run, as its master's set of executors sees them: one
// message to the worker of each task, and one answer.
//
//   state (of one task)  event                                 action                                            next
//   free      Launch, the task is there                     1 run_parts to its worker                         owed
//   free      Launch, the task is not there, or cannot be sent its arguments
//                                                           2 the step fails with the reason; a worker that is
//                                                             there drops what others send it for the step    free
//   owed      parts_done of this step                       3 keep results, or the error; the task counts as done  free
//   owed      the task went                                 4 the step is aborted; the task counts as done;
//                                                             abort_step if its process is there again        free
//   owed      the step has failed, or was told to end       5 abort_step to its worker                        owed
//   owed      part_failed of one of its parts               6 as an error of a part here                      owed
//   free      parts_done, part_failed: late, or twice       7 dropped                                         free
//   owed      this process's port has died                  8 as 4, and abort_step to its worker              free
//
// While a task is owed, the step is not over, and its set is not leased to another one; but its
// call is answered 50 ms after it was told to end (executor_set.h).
//
// Thread rule: Prepare and Launch on the thread that has leased the set, the rest from any thread.
//
// Tests of the edges, tests/remote/steps_test.cc:
//   1, 3     edges_1_and_3_a_step_runs_on_two_processes
//   2        edge_2_a_task_that_is_not_there_fails_the_step
//   4        edge_4_a_task_that_goes_in_mid_step_ends_it
//   5        edges_5_and_6_an_error_anywhere_ends_all_parts
//   6        edges_5_and_6_an_error_anywhere_ends_all_parts
//   7        edge_7_answers_that_come_late_or_twice_are_dropped
//   8        edge_8_a_step_ends_with_the_port_of_its_master
#ifndef TROUPE_ACTORS_STEP_REMOTE_PARTS_H_
#define TROUPE_ACTORS_STEP_REMOTE_PARTS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "actors/signature/remote_plan.h"
#include "actors/step/local_transport.h"
#include "actors/wire/remote_messages.h"

namespace troupe {

struct NumericsCheck;

class RemoteParts : public RemoteLink {
 public:
  explicit RemoteParts(std::shared_ptr<const RemotePlan> plan);
  const RemotePlan& plan() const { return *plan_; }
  // Of tasks.
  size_t size() const { return plan_->tasks.size(); }

  // Makes the messages that begin the step. Throws std::bad_alloc.
  void Prepare(int64_t step, const std::vector<Tensor>& arguments, bool partial, bool timed,
               const NumericsCheck* numerics);
  // Sends them. The first error; `*missed`: so many tasks have not been reached, and owe nothing.
  absl::Status Launch(bool cancelled, int* missed);
  // True once for each task that has been reached: whoever gets it counts the task as done.
  bool TakeOwed(size_t task, int64_t step) { return owed_[task].compare_exchange_strong(step, 0); }
  bool Owes(size_t task, int64_t step) const { return owed_[task].load() == step; }
  // Of a step with statistics: when the task was sent its message.
  int64_t sent_nanos(size_t task) const { return sent_nanos_[task]; }
  // The index of a task with this number; size() when there is none.
  size_t Find(uint32_t number) const;
  bool Takes(size_t task, uint32_t argument) const;
  // Tells those that have been reached whether the step's updates are taken back. Once the step is
  // over.
  void Settle(int64_t step, bool undo) noexcept;
  void SendAbort(size_t task, int64_t step, const absl::Status& status) noexcept;
  // The same as soon as the task has a worker again, if it is in the same process still.
  void AbortWhenThere(size_t task, int64_t step, const absl::Status& status) noexcept;

  // RemoteLink.
  absl::Status ToPart(PartAddress to, part_message&& message) override;
  void Abort(uint32_t but, int64_t step, const absl::Status& status) noexcept override;
  std::vector<Part> Parts() const override;
  bool Report(PartAddress, stall_report&) override { return false; }

 private:
  absl::Status Send(const RemotePlan::Task& task, part_letter&& letter) const;

  const std::shared_ptr<const RemotePlan> plan_;
  std::vector<run_parts> messages_;
  std::vector<std::atomic<int64_t>> owed_;  // by task: the step; 0: nothing
  std::vector<int64_t> sent_nanos_;         // by task
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_REMOTE_PARTS_H_
