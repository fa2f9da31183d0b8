// One part in one step: counters, frames, tokens. This is the logic of the executor actor, without
// CAF.
//
// Nodes become ready by tokens (values, control edges, deadness): a token decrements the counter of
// its consumer, which is ready at zero. Tokens come from the step's own nodes as they finish, in
// the turn (tokens.h); from finished jobs, asynchronous kernels and other parts, as arrivals; and,
// in the one-message-per-token mode, through Deliver. Drain runs the ready nodes: cheap ones at
// once; a node whose measured cost is high waits until the cheap ones are done, and goes to a
// compute thread when another such node is ready, too, so that branches overlap.
//
//   idle     Begin            1 copy counters, ready the roots                           running
//   running  Drain            2 run ready nodes, deliver their tokens to each other      running, or done when nothing is left and nothing is out
//   running  arrival (job, asynchronous kernel, tensor of another part)
//                             3 deliver its tokens                                       running
//   running, idle  arrival of an older step
//                             4 drop and count it                                        as before
//   running, idle  arrival of the next step, whose Begin is on its way
//                             8 keep it for Begin                                        as before
//   running  kernel fails, Abort; before a kernel: the step was told to end
//                             5 forget what is ready, cancel waiting receives, give up
//                               what nodes wait for                                      aborting
//   aborting arrival          6 drop                                                     aborting, done when nothing is out
//   done     Finish           7 give values back                                         idle
//   running  a kernel or a read of a reference must wait (KernelContext::WaitFor)
//                             9 keep the node, its inputs where they are                 running
//   running  arrival: the wait is over
//                            10 run the node                                             running
//
// Thread rule: one thread at a time, the one that has the executor's turn, except for the methods
// that say "from any thread".
//
// Tests of the edges, tests/actors/executor_test.cc:
//   1, 2, 7  edges_1_and_2_and_7_a_run_from_begin_to_finish
//   2        edge_2_a_turn_ends_when_its_budget_is_spent
//   3, 4     edges_3_and_4_a_tensor_comes_before_or_after_its_recv_and_late_ones_are_dropped
//   5, 6     edges_5_and_6_an_aborted_step_forgets_and_drops
//   8        edge_8_what_comes_before_its_step_begins_is_kept
// and tests/actors/variables_in_steps_test.cc:
//   9, 10    edges_9_and_10_a_node_that_must_wait_for_a_variable_blocks_no_thread
//   5        edge_5_a_step_that_ends_gives_up_what_its_nodes_wait_for
#ifndef TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_
#define TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/executor/arrival.h"
#include "actors/executor/compiled_part.h"
#include "actors/executor/frame.h"
#include "actors/executor/mailroom.h"
#include "actors/executor/pending_wait.h"
#include "actors/wire/step_report.h"

namespace troupe {

class MemoryTally;
class StepState;

// A token on its way to a consumer, in the mode in which every token is a message.
struct Token {
  Iteration* iteration = nullptr;
  OutEdge edge{};
  Tensor value;
  bool dead = false;
};

// The services that the step needs from the actor around it.
class StepHost {
 public:
  virtual ~StepHost() = default;
  // Arranges that TakeArrivals is called in the executor's turn. From any thread.
  virtual void RingDoorbell() = 0;
  // The edges between this part and the others of its step.
  virtual const EdgeTable& edges() const = 0;
  // Sends a tensor to the part that receives its edge, and a grant to the part that sends it. In
  // the executor's turn.
  virtual absl::Status SendToPart(part_message message) = 0;
  // A share of everything that must live as long as a kernel runs outside of the turn.
  virtual std::shared_ptr<void> KeepAlive() = 0;
  // The part ends early, with this error: the rest of the step is to end as well. Called before the
  // part's kernels have ended; most often in the executor's turn.
  virtual void PartFails(const absl::Status&) {}
  // A result is there (only in a partial run).
  virtual void ResultReady(uint32_t index, Tensor value) = 0;
  // The answer to a question. In the executor's turn.
  virtual void Answer(stall_report) {}
  // Brings `token` back through Deliver by a message of its own (only in the one-message-per-token
  // mode).
  virtual void PostToken(Token token) = 0;
};

class StepState : public TensorExchange {
 public:
  StepState(std::shared_ptr<const CompiledPart> part, StepHost* host);
  ~StepState() override;
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  const CompiledPart& part() const { return *part_; }
  const std::shared_ptr<const CompiledPart>& shared_part() const { return part_; }
  bool idle() const { return !active_; }
  // Nanoseconds by the device's clock.
  int64_t Now() const { return part_->device->env()->NowNanos(); }
  // Kernels of this step are timed: all, or the costly ones.
  bool timed() const { return clock_ != Clock::kOff; }

  void Begin(const StepInput& input);
  // Runs ready nodes, at most `budget` of them. True when the step is not done and ready nodes are
  // left.
  bool Drain(int64_t budget);
  void Deliver(Token token);
  // Takes the posted arrivals. One call for each doorbell.
  void TakeArrivals();
  // Stops the step with this error (the first one counts).
  void Abort(const absl::Status& status);
  bool done() const { return active_ && NothingReady() && tokens_out_ == 0 && in_flight_ == 0; }
  // Whether the step has jobs on compute threads. From any thread.
  bool has_jobs() const { return jobs_.load(std::memory_order_relaxed) > 0; }
  // Whether the part of step `step_id` has been aborted. From any thread.
  bool Aborted(int64_t step_id) const { return aborted_step_.load(std::memory_order_relaxed) == step_id; }
  // The first error. `input` gets what Begin was given. REQUIRES: done().
  absl::Status Finish(StepInput* input = nullptr);

  // From any thread; takes ownership. True when the doorbell must be rung, which the caller does.
  bool PostArrival(Arrival* arrival);

  // Reports what the step waits for. In the executor's turn, or when no thread has it.
  StepReport Report() const;
  // The nodes that hold most of the device's memory, without what variables and other resources of
  // the device hold. When Report may be called.
  std::vector<MemoryHolder> Holders() const;
  // Called when a turn ends before the step does. The step counts as waiting from now on, if nodes
  // have run since the last call.
  void Rest();
  // From any thread: nodes run since the executor began to live, and the last node whose kernel was
  // called in the turn.
  int64_t nodes_run() const { return nodes_run_.load(std::memory_order_relaxed); }
  uint32_t last_called() const { return current_.load(std::memory_order_relaxed); }
  // The sum of the times of this step's jobs. In the turn, or when no thread has it.
  int64_t job_nanos() const { return job_nanos_; }
  int64_t late_arrivals() const { return late_arrivals_; }
  // Bytes of the tensors that other parts have sent to this one, in all steps.
  int64_t received_bytes() const { return received_bytes_; }

  // TensorExchange, for kernels.
  // For a node's own iteration only, while its kernel is called: INVALID_ARGUMENT otherwise.
  // NOT_FOUND where no part receives the edge.
  absl::Status Send(const std::string& edge, uint64_t frame_iter, Tensor value, bool dead) override;
  // `done` must not be called by another thread.
  void Recv(const std::string& edge, uint64_t frame_iter,
            std::function<void(absl::Status, Tensor, bool)> done) override;

 private:
  struct Ready {
    uint32_t node;
    bool dead;
    Iteration* iteration;
  };
  // First in, first out, so that the iterations of a loop advance together. Grows, never shrinks.
  struct ReadyQueue {
    std::unique_ptr<Ready[]> ring;
    uint32_t mask = 0, head = 0, tail = 0;  // capacity - 1; head and tail wrap around
    bool empty() const { return head == tail; }
    void Push(uint32_t node, bool dead, Iteration* it) {
      if (ring == nullptr || tail - head > mask) [[unlikely]]
        Grow();
      ring[tail++ & mask] = {node, dead, it};
    }
    void Grow();
  };
  friend struct AsyncCall;
  class Answer;
  class Reporter;
  struct WaitingArgument {
    uint32_t node;
    int64_t since;
  };
  class GoOn;
  // Running (step_state.cc; what is rare of it in step_ends.cc).
  template <bool kFlow>
  void DrainLoop(int64_t budget);
  int64_t RunOrdering(int64_t limit);
  template <bool kFlow>
  void RunNode(uint32_t node, Iteration* it, bool dead, bool heavy);
  template <bool kFlow>
  void RunHeavy(uint32_t node, Iteration* it);
  Ready TakeHeavy();
  template <bool kFlow>
  bool RunWatched(uint32_t node, Iteration* it, bool heavy);
  template <bool kFlow>
  bool PrepareForward(uint32_t node, Iteration* it, Tensor* in, bool dead);
  template <bool kFlow>
  void RunSource(uint32_t node, Iteration* it);
  bool TakeResult(uint32_t node, Iteration* it, Tensor* in, bool dead);
  // The kernel that ran in the turn did not return OK: it failed, or must wait.
  void KernelFailed(uint32_t node, Iteration* it, const absl::Status& status);
  // Tests whether the step was told to end, and aborts it if so: no node runs after that, not even
  // a ready one.
  bool CutOff() {
    if (!input_.context->cancelled.load(std::memory_order_relaxed)) [[likely]]
      return false;
    AbortCancelled();
    return true;
  }
  void AbortCancelled();
  void Sync();
  void Forsake(const absl::Status& status);
  void RunDead(uint32_t node, Iteration* it);
  const Tensor* TakeArgument(uint32_t node);
  // The owner of the value that is loaned to a slot.
  const Tensor& OwnerOf(uint32_t slot) const {
    const uint32_t owner = part_->owners[slot];
    if (!(owner & kLoanedArgument)) return constants_[owner];
    return Argument(owner & ~kLoanedArgument);
  }
  const Tensor& Argument(uint32_t index) const {
    return input_.partial ? held_arguments_[index] : input_.arguments[index];
  }
  void ConsumeInputs(const CompiledNode& n, Tensor* in);
  void ForgetInputs(const CompiledNode& n, Tensor* in);
  bool ReadReferences(uint32_t node, Iteration* it, bool dead = false);
  void RecordInstant(uint32_t node);
  // Checks that the outputs that a kernel has set fit its node: INTERNAL when they do not.
  absl::Status CheckOutputs(uint32_t node, const Tensor* out, bool dead) const;

  // Tokens (tokens.h, token_messages.cc).
  template <bool kFlow>
  void FinishNode(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void FinishFlow(uint32_t node, Iteration* it, Tensor* out, bool dead);
  template <bool kFlow>
  void Propagate(uint32_t node, Iteration* it, Tensor* out, bool dead);
  template <bool kFlow>
  void FinishLoaned(uint32_t node, Iteration* it, const Tensor& value);
  template <bool kFlow>
  void PropagateLoaned(uint32_t node, Iteration* it, const Tensor& value);
  template <bool kFlow>
  void DeliverLoaned(Iteration* it, const OutEdge& e, const Tensor& value);
  template <bool kFlow>
  void DeliverValue(Iteration* it, const OutEdge& e, Tensor& value, bool last);
  void DeliverDead(Iteration* it, uint32_t dst, Consumer consumer);
  template <bool kFlow>
  void DeliverControl(Iteration* it, uint32_t dst, bool dead);
  void MergeIfReady(Iteration* it, uint32_t dst, uint32_t* count);
  void CountDown(Iteration* it, uint32_t dst, uint32_t* count);
  template <bool kFlow>
  void PostTokens(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void Place(Token token);
  void Push(uint32_t node, Iteration* it, bool dead) {
    ++it->outstanding;
    queue_.Push(node, dead, it);
  }
  bool NothingReady() const {
    return stack_size_ == 0 && ordering_head_ == ordering_tail_ && queue_.empty() && heavy_.empty();
  }

  // Kernels outside of the turn, and arrivals (arrivals.cc).
  void RunAsyncKernel(uint32_t node, Iteration* it, bool dead);
  void RunAsJob(uint32_t node, Iteration* it);
  AsyncCall* Call(uint32_t node, Iteration* it, bool job);
  void Forget(AsyncCall* call);
  void ForgetCalls();
  void AnsweredAgain(uint32_t node) const;
  void PostEnd(Arrival* a);
  void HandleArrival(std::unique_ptr<Arrival> a);
  void Answered(const question& q) const;
  void Handle(node_end& m);
  void Handle(wait_end& m);
  void Handle(tensor_to_part& m);
  void Handle(grant& m);
  void Handle(abort_step& m) { Abort(m.status); }
  void Handle(argument& m);
  void Handle(question&) {}  // answered before
  void FinishArrived(uint32_t node, Iteration* it, Tensor* out, bool dead);

  void CountRun(int64_t nodes) { nodes_run_.store(nodes_run() + nodes, std::memory_order_relaxed); }
  void Fail(uint32_t node, const absl::Status& status);
  // Who holds memory (memory_holders.cc).
  uint32_t MakerOf(uint32_t node) const;
  std::string HolderName(uint32_t node) const;
  void AddHolders(MemoryTally* tally) const;
  void AddHolders(const Iteration& it, MemoryTally* tally) const;
  absl::Status WithMemoryHolders(uint32_t node, const absl::Status& status) const;
  // The status of an exception that no kernel threw. REQUIRES: inside of its handler.
  static absl::Status StepException();
  // NaN and infinities (numerics.cc).
  std::string PlaceText(const Iteration* it) const;
  bool IsRecv(uint32_t node) const;
  absl::Status CheckUpdateInputs(uint32_t node, absl::Span<const Tensor> inputs) const;
  absl::Status CheckFinite(uint32_t node, const Tensor* outputs) const;
  absl::Status ComputeChecked(uint32_t node, Iteration* it);
  absl::Status CheckArrived(const node_end& end, absl::Span<const Tensor> inputs);
  absl::Status NotFinite(uint32_t node, Iteration* it, absl::Status status, absl::Span<const Tensor> inputs);
  // Nodes that wait for variables (waiting.cc).
  static std::shared_ptr<PendingWait> Hold(std::unique_ptr<KernelWait> wait, StepContext* step);
  void WaitFor(uint32_t node, Iteration* it, bool dead, int input, std::shared_ptr<PendingWait> pending);
  template <bool kFlow>
  void RunAfterWait(uint32_t node, Iteration* it, bool dead);
  void GiveUp(PendingWait& pending);
  void GiveUpWaits();
  // Tensors of other parts (exchange.cc).
  // The iteration whose kernel is called; null when `frame_iter` is another one's.
  const Iteration* Caller(uint64_t frame_iter) const;
  void TakeEarlyArrivals();
  void CancelReceives();

  // Frames (frames.cc).
  Iteration* NewIteration(Frame* f, int64_t number);
  void FreeIteration(Iteration* it);
  void ClearSlots(Iteration* it);
  Frame* ChildFrame(Iteration* it, uint32_t frame);
  void StartNextIteration(Frame* f);
  void EnterFrame(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void ExitFrame(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void NextIteration(uint32_t node, Iteration* it, Tensor* out, bool dead);
  // Stateful nodes of loops run in the order of the iterations.
  void PassTurn(Frame* f, uint32_t item, int64_t number);
  void GiveTurn(Frame* f, uint32_t item);
  void TakeTurn(Frame* f);
  void NodeLeaves(Iteration* it) {  // a node of the iteration is finished
    if (--it->outstanding == 0) CheckIteration(it);
  }
  void CheckIteration(Iteration* it);  // ends it, and what ends with it, when nothing is left to do
  Iteration* EndIterations(Iteration* it);
  Iteration* EndFrame(Frame* f);
  void FreeFrames(Frame* top);

  const std::shared_ptr<const CompiledPart> part_;
  const CompiledNode* const nodes_;
  const OutEdge* const edges_;
  const uint32_t* const controls_;
  const uint32_t* const ordering_;  // null when no node only orders others
  StepHost* const host_;
  StepInput input_;
  KernelContext kernel_context_;  // of the kernel that runs in the turn; outputs are out_
  bool active_ = false, aborting_ = false;
  enum class Clock : uint8_t { kOff, kCostly, kAll } clock_ = Clock::kOff;  // which nodes are timed in this step
  bool watch_ = false;  // a kernel may be timed, checked or put off in this step
  bool check_ = false;  // the library's kernels are checked, too
  absl::Status status_;
  std::atomic<uint32_t> current_{0};  // node whose kernel runs, for what it may throw and for reports
  std::atomic<int64_t> aborted_step_{0};
  AsyncCall* asking_ = nullptr;        // whose ComputeAsync runs
  int64_t in_flight_ = 0;              // jobs, asynchronous kernels
  std::atomic<int> jobs_{0};           // of these; written in the turn alone
  int64_t tokens_out_ = 0;             // tokens on their way as messages
  std::atomic<int64_t> nodes_run_{0};  // written in the turn alone
  int64_t job_nanos_ = 0;
  int64_t late_arrivals_ = 0, steps_ = 0;      // dropped, and begun, since the executor was made
  int64_t rested_at_ = 0, resting_since_ = 0;  // nodes run when the waiting began, and when that was

  Frame root_frame_;
  Iteration root_;
  // Ready nodes. Without control flow every node becomes ready once: a stack, so that a value is
  // used while it is warm.
  std::unique_ptr<uint32_t[]> stack_;
  size_t stack_size_ = 0;
  // Ready nodes that only order others (RunOrdering). Each enters once a step, so that it never
  // wraps around.
  std::unique_ptr<uint32_t[]> ordering_queue_;
  size_t ordering_head_ = 0, ordering_tail_ = 0;
  ReadyQueue queue_;  // with control flow
  std::vector<Ready> heavy_;
  std::vector<Tensor> out_;        // outputs of the node that runs; empty in between
  std::vector<Tensor> constants_;  // the part's constants under reference counts of this executor's own
  FramePool frames_;
  uint64_t iterations_begun_ = 0;                           // in this step
  const Iteration* running_ = &root_;                       // whose kernel runs in the turn; only with control flow
  std::list<WaitingNode> waiting_;                          // they count as running
  AsyncCall *first_call_ = nullptr, *last_call_ = nullptr;  // jobs and asynchronous kernels that run, the oldest first
  Mailroom mailroom_;                                       // values that it holds back count as running
  int64_t received_bytes_ = 0;
  int64_t last_step_ = 0;                                            // the step that runs or was the last to run
  std::pair<int64_t, absl::Status> refused_;                         // a coming step, and why it cannot run
  std::unordered_map<uint32_t, WaitingArgument> waiting_arguments_;  // of a partial run, by index
  std::vector<Tensor> held_arguments_;                               // of a partial run, by index, as they come
  std::atomic<Arrival*> arrivals_{nullptr};
  ArrivalList local_arrivals_;  // posted within the turn
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_
