// One part in one step: counters, frames, tokens. What an executor actor does when a message comes, without any actor.
//
// Tokens (values, control, deadness) are its only input. They arrive as the arguments of the step, from finished jobs, from other parts, or
// from its own nodes; whatever the source, a token goes through Deliver, which counts its consumer down and makes it ready at zero. Ready nodes
// run in Drain: cheap ones at once; one whose measured cost is high waits until the cheap ones are done, and goes to a compute thread
// when another such node is ready too, so that branches overlap.
//
//   idle     Begin            1 copy counters, ready the roots                           running
//   running  Drain            2 run ready nodes, deliver their tokens to each other      running, or done when nothing is left and nothing is out
//   running  arrival (job, asynchronous kernel, tensor of another part)
//                             3 deliver its tokens                                       running
//   running  arrival of an older step
//                             4 drop and count it                                        running
//   running  kernel fails, Abort
//                             5 forget what is ready, cancel waiting receives            aborting
//   aborting arrival          6 drop                                                     aborting, done when nothing is out
//   done     Finish           7 give values back                                         idle
//
// Thread rule: everything but PostArrival belongs to one thread at a time, the one that has the executor's turn.
#ifndef TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_
#define TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "troupe/actors/executor/compiled_part.h"

namespace troupe {

class StepState;
struct Frame;

// One iteration of one frame.
struct Iteration {
  Frame* frame = nullptr;
  int64_t number = 0;
  uint64_t tag = 0;              // the same for this iteration in every part of the step
  uint32_t outstanding = 0;      // nodes that are ready or running
  uint32_t child_frames = 0;     // loops started from here that still run
  uint32_t* counts = nullptr;    // by node number of the part (shifted so that the frame's first node is at its place)
  Tensor* slots = nullptr;       // by slot number of the part (shifted likewise)
  Frame* children = nullptr;     // list by Frame::sibling
  std::unique_ptr<uint32_t[]> count_store;
  std::unique_ptr<Tensor[]> slot_store;
};

// One execution of a loop.
struct Frame {
  uint32_t id = 0;  // in CompiledPart::frames
  Frame* parent = nullptr;
  Iteration* parent_iteration = nullptr;
  Frame* sibling = nullptr;
  uint64_t tag = 0;
  int64_t newest = 0;            // number of the latest iteration
  uint32_t running = 0;          // iterations alive
  uint32_t pending_enters = 0;
  std::vector<Iteration*> iterations;  // by number modulo their count; null when gone
  struct Value {
    uint32_t node;
    bool dead;
    Tensor value;
  };
  std::vector<Value> deferred;     // NextIteration tokens for iteration newest + 1, which may not start yet
  std::vector<Value> invariants;   // of constant Enters: delivered to every iteration
  std::vector<uint32_t> dead_exits;

  Iteration*& at(int64_t number) { return iterations[static_cast<size_t>(number) % iterations.size()]; }
};

// What a part says when it is asked what its step waits for.
struct StepReport {
  std::vector<std::string> lines;
  int64_t nodes_run = 0;  // since the executor began to live
};

// What comes from outside of the executor's turn.
struct Arrival {
  Arrival* next = nullptr;
  int64_t step_id = 0;
  enum class Kind : uint8_t { kNodeDone, kTensor, kAbort, kReport, kArgument } kind = Kind::kNodeDone;
  uint32_t node = 0;
  Iteration* iteration = nullptr;
  absl::Status status;
  std::vector<Tensor> outputs;   // of the node; or the one tensor
  bool dead = false;
  std::string key;               // of the tensor
  uint64_t tag = 0;
  uint64_t nanos = 0;
  std::function<void(StepReport)> report;  // answered with what the step waits for
};

// A token on its way to a consumer, in the mode in which every token is a message of its own.
struct Token {
  Iteration* iteration = nullptr;
  OutEdge edge{};
  Tensor value;
  bool dead = false;
};

// One run of one node, for RunMetadata.
struct NodeTiming {
  uint32_t node;
  uint32_t thread;  // 0 = the executor's turn, 1 = a job
  int64_t start_nanos, end_nanos;
};

// What the step needs of the actor around it.
class StepHost {
 public:
  virtual ~StepHost() = default;
  // Sees to it that TakeArrivals is called in the executor's turn. From any thread.
  virtual void RingDoorbell() = 0;
  // Hands a tensor to the part that receives `key`. In the executor's turn. NOT_FOUND when no part does.
  virtual absl::Status SendToPart(const std::string& key, uint64_t tag, Tensor value, bool dead) = 0;
  // Whatever must live as long as a kernel runs outside of the turn.
  virtual std::shared_ptr<void> KeepAlive() = 0;
  // A result is in its place (only in a partial run).
  virtual void ResultReady(uint32_t index) = 0;
  // Brings `token` back through Deliver by a message of its own (only in the one-message-per-token mode).
  virtual void PostToken(Token token) = 0;
};

struct StepInput {
  std::shared_ptr<StepContext> context;
  const Tensor* arguments = nullptr;  // by index; read only
  Tensor* results = nullptr;          // by index; each is written by one part
  bool partial = false;               // arguments come one by one, results are told one by one
  bool token_messages = false;        // every token is a message (a debugging mode)
  std::vector<NodeTiming>* timings = nullptr;
};

class StepState : public TensorExchange {
 public:
  StepState(std::shared_ptr<const CompiledPart> part, StepHost* host);
  ~StepState() override;
  StepState(const StepState&) = delete;
  StepState& operator=(const StepState&) = delete;

  const CompiledPart& part() const { return *part_; }
  bool idle() const { return !active_; }

  void Begin(const StepInput& input);
  // Runs ready nodes, at most `budget` of them. True when the step is not done and ready nodes are left.
  bool Drain(int64_t budget);
  void Deliver(Token token);
  // Takes what PostArrival left. One call per doorbell.
  void TakeArrivals();
  // Stops the step with this error (the first one counts).
  void Abort(const absl::Status& status);
  bool done() const { return active_ && QueuesEmpty() && in_flight_ == 0; }
  // The first error. REQUIRES: done().
  absl::Status Finish();

  // From any thread; takes ownership. True when the doorbell must be rung, which the caller does.
  bool PostArrival(Arrival* arrival);

  // What the step waits for, one line each: nodes with some but not all inputs, asynchronous nodes that run, receives without a tensor.
  std::vector<std::string> Waiting(size_t limit) const;
  int64_t nodes_run() const { return nodes_run_; }
  int64_t late_arrivals() const { return late_arrivals_; }

  // TensorExchange, for kernels.
  absl::Status Send(const std::string& key, uint64_t tag, Tensor value, bool dead) override;
  void Recv(const std::string& key, uint64_t tag, std::function<void(absl::Status, Tensor, bool)> done) override;

 private:
  struct Ready {
    uint32_t node;
    bool dead;
    Iteration* iteration;
  };
  struct AsyncCall;
  using RecvDone = std::function<void(absl::Status, Tensor, bool)>;
  struct Mail {
    bool arrived = false, dead = false;
    Tensor value;
    RecvDone waiting;
  };

  template <bool kFlow>
  void DrainLoop(int64_t budget);
  template <bool kFlow>
  void RunNode(uint32_t node, Iteration* it, bool dead, bool heavy);
  template <bool kFlow>
  void Propagate(uint32_t node, Iteration* it, Tensor* out, bool dead);
  template <bool kFlow>
  void DeliverTo(Iteration* it, const OutEdge& e, Tensor* value, bool dead);
  template <bool kFlow>
  void FinishNode(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void RunAsync(uint32_t node, Iteration* it, bool dead);
  void RunAsJob(uint32_t node, Iteration* it);
  absl::Status ReadReferences(const CompiledNode& n, Tensor* in);
  void Push(uint32_t node, Iteration* it, bool dead) {
    ++it->outstanding;
    queue_.push_back({node, dead, it});
  }
  bool QueuesEmpty() const { return flat_head_ == flat_tail_ && head_ == queue_.size() && heavy_.empty() && tokens_out_ == 0; }
  void ClearQueues();
  void HandleArrival(std::unique_ptr<Arrival> a);
  void Fail(uint32_t node, const absl::Status& status);
  void CancelReceives();

  // Frames (frames.cc).
  Iteration* NewIteration(Frame* f, int64_t number);
  void FreeIteration(Iteration* it);
  Frame* ChildFrame(Iteration* it, uint32_t frame);
  void StartNextIteration(Frame* f);
  void EnterFrame(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void NextIteration(uint32_t node, Iteration* it, Tensor* out, bool dead);
  void NodeLeaves(Iteration* it);     // a node of the iteration is finished
  void CheckIteration(Iteration* it); // ends it, and what ends with it, when nothing is left to do
  void EndFrame(Frame* f);
  void FreeFrames(Frame* f);

  const std::shared_ptr<const CompiledPart> part_;
  StepHost* const host_;
  StepInput input_;
  bool active_ = false, aborting_ = false, timing_ = false;
  absl::Status status_;
  uint32_t current_ = 0;  // node whose kernel runs, for what it may throw
  int64_t in_flight_ = 0;  // jobs, asynchronous kernels
  int64_t tokens_out_ = 0;  // tokens on their way as messages
  int64_t nodes_run_ = 0, late_arrivals_ = 0, steps_ = 0;

  Frame root_frame_;
  Iteration root_;
  // Ready nodes. Without control flow every node becomes ready once: a plain array. With it, iterations come and go: a queue.
  std::vector<uint32_t> flat_;
  size_t flat_head_ = 0, flat_tail_ = 0;
  std::vector<Ready> queue_;
  size_t head_ = 0;
  std::vector<Ready> heavy_;
  std::vector<Tensor> out_;           // outputs of the node that runs
  std::vector<Tensor> constants_;     // the part's constants under reference counts of this executor's own
  std::vector<std::vector<std::unique_ptr<Iteration>>> free_iterations_;  // by frame
  std::vector<std::unique_ptr<Frame>> free_frames_;
  std::vector<AsyncCall*> calls_;     // asynchronous kernels that run
  absl::flat_hash_map<std::pair<std::string, uint64_t>, Mail> mail_;
  std::vector<std::pair<uint32_t, uint32_t>> waiting_arguments_;  // (index, node) of a partial run
  absl::flat_hash_map<uint32_t, Tensor> early_arguments_;
  std::atomic<Arrival*> arrivals_{nullptr};
  std::vector<std::unique_ptr<Arrival>> local_arrivals_;  // posted within the turn
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_STEP_STATE_H_
