// Kernels: how an op computes on a device.
//
// A kernel is a plain function pointer with a prepared state. The state is built once per node when
// a part is compiled (KernelInit: attrs, types, device) and is shared by every step and thread that
// runs the node, so Compute must not change it without its own lock. State that must survive
// between steps belongs into the device's containers, never into the kernel.
//
//   class ReluKernel {
//    public:
//     explicit ReluKernel(KernelInit& init);                  // init.Fail(status) refuses the node
//     absl::Status Compute(KernelContext& ctx);               // validate, allocate, compute, in this order
//   };
//   TROUPE_KERNEL("Relu").Device("CPU").Type<float>("T").Class<ReluKernel>();
//
// A kernel must not throw for bad input, and must not block: one that waits is asynchronous
// (ComputeAsync) and calls `done` exactly once, from any thread; it registers in its step's
// cancellation list, so that a step which is told to end need not wait for it. A kernel that
// seldom has to wait keeps Compute; when it must wait, Compute returns KernelContext::WaitFor.
//
// Source of the semantics: sections 2 (operations and kernels) and 5.3 (asynchronous kernels) of
// TensorFlow's white paper.
//
// Thread rule: a kernel object may be called from several threads at once, by several steps or
// iterations of a loop, so fields that its calls write need a lock or atomics. A KernelContext
// belongs to its call; in an asynchronous one it may be used on any one thread until `done`.
#ifndef TROUPE_KERNEL_H_
#define TROUPE_KERNEL_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "troupe/device.h"
#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {
class VariableSlot;
}

namespace TROUPE_EXPORT troupe {

class KernelContext;

// The description of its node that a kernel keeps: views of the properties that the node shares
// with its copies.
struct KernelNode {
  KernelNode();
  KernelNode(const Node& node, Device* device);
  KernelNode(SharedProperties properties, Device* device);
  KernelNode(const KernelNode&);
  KernelNode(KernelNode&&) noexcept;
  KernelNode& operator=(const KernelNode&);
  KernelNode& operator=(KernelNode&&) noexcept;
  ~KernelNode();

  std::string_view name, op;
  absl::Span<const DType> input_types, output_types;
  Device* device = nullptr;
  SourceLocation location;

 private:
  SharedProperties properties_;
};

// Where the tokens of a kernel that hands values to other parts go; implemented by the executor.
// `frame_iter` tells the iteration of the value (0 outside of loops); `edge` is the canonical key
// of the cut edge.
class TensorExchange {
 public:
  virtual ~TensorExchange() = default;
  virtual absl::Status Send(const std::string& edge, uint64_t frame_iter, Tensor value, bool dead) = 0;
  // Calls `done` with the value when it has come; `done` may be called at once.
  virtual void Recv(const std::string& edge, uint64_t frame_iter,
                    std::function<void(absl::Status, Tensor, bool dead)> done) = 0;
};

// What is to be called when a step is told to end: by an error in one of its parts, a deadline, a
// token, Close, or the death of an actor.
//
// Thread rule: all methods are thread safe. Callbacks are called without a lock, on the thread that
// tells the step to end. They must not block; what they throw is dropped.
class CancellationList {
 public:
  using Id = int64_t;
  // Calls `f` once if the step is told to end before Deregister or the step's end. 0: it has been
  // told already, and `f` is not called.
  Id Register(std::function<void()> f);
  // True: `f` was not called, and never will be. False: it was called, and has returned unless this
  // is called by `f` itself; or the step is over.
  bool Deregister(Id id);
  // Calls what is registered.
  void Cancel();
  // Forgets what is registered, and that the step was told to end: another one begins.
  void Clear();
  // Whether there is anything to clear.
  bool used() const { return used_.load(std::memory_order_relaxed); }

 private:
  std::mutex mu_;
  std::map<Id, std::function<void()>> entries_;
  Id last_ = 0;
  bool cancelled_ = false, calling_ = false;
  const void* caller_ = nullptr;  // which thread calls them
  std::atomic<Id> running_{0};    // whose callback runs; set under mu_
  std::atomic<bool> used_{false};
};

// One step as its kernels see it. Shared by all parts of the step in this process.
struct StepContext {
  int64_t step_id = 0;
  std::atomic<bool> cancelled{false};
  // Tells the step's kernels to end: sets `cancelled`, then calls what is registered.
  void Cancel() {
    cancelled.store(true, std::memory_order_relaxed);
    cancellations.Cancel();
  }
  CancellationList cancellations;
  // State that lives as long as the step: stacks, tensor arrays, temporary variables. Empty until
  // used.
  ResourceContainers resources;
};

// A place in a queue (of a variable, say) that a kernel waits for. Destroying the object gives up
// the place.
class KernelWait {
 public:
  virtual ~KernelWait() = default;
  // Calls `go_on` once, when the kernel may be run again: on any thread, perhaps before this
  // returns. REQUIRES: called once.
  virtual void Await(std::function<void()> go_on) = 0;
  // What it is, for reports: "variable 'v'".
  virtual std::string What() const = 0;
};

// Says to which session the entries belong that a kernel makes in its device's containers.
struct SessionScope {
  SessionScope(std::string session, bool shares = true)  // NOLINT: a plain id is a scope
      : id(std::move(session)), share_variables(shares) {}
  std::string id;
  // Variables without a container or shared name of their own are those of every session of the
  // runtime; otherwise of this session alone.
  bool share_variables;
};

class KernelInit {
 public:
  KernelInit(const Node& node, Device* device, SessionScope session);
  ~KernelInit();
  const Node& node() const { return node_; }
  Device* device() const { return device_; }
  // The attr; after an error a default value, and the node is refused with that error.
  template <class T>
  T Attr(std::string_view name);  // T as for GetAttr
  DType input_type(int i) const { return BaseType(node_.input_type(i)); }
  DType output_type(int i) const { return BaseType(node_.output_type(i)); }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  // (container, name) of the node's state from its attrs "container" and "shared_name" where it has
  // them: the shared name, or the node's name. `per_session`: the state dies with the session and
  // other sessions do not see it (random streams); otherwise it is shared like a variable.
  std::pair<std::string, std::string> ResourceKey(bool per_session);
  const std::string& session() const { return session_.id; }
  void Fail(const absl::Status& s);
  const absl::Status& status() const { return status_; }

 private:
  const Node& node_;
  Device* device_;
  SessionScope session_;
  absl::Status status_;
};

class KernelContext {
 public:
  KernelContext(const KernelNode* node, Tensor* inputs, Tensor* outputs, StepContext* step, TensorExchange* exchange)
      : node_(node), inputs_(inputs), outputs_(outputs), step_(step), exchange_(exchange) {}

  // Makes this the context of another node of the same step.
  void Rebind(const KernelNode* node, Tensor* inputs, void* state) {
    node_ = node;
    inputs_ = inputs;
    state_ = state;
  }

  const KernelNode& node() const { return *node_; }
  Device* device() const { return node_->device; }
  Allocator* allocator() const { return node_->device->allocator(); }
  ComputeThreads* threads() const { return node_->device->threads(); }
  StepContext* step() const { return step_; }
  TensorExchange* exchange() const { return exchange_; }
  // The step was told to end. A kernel that computes for long without ParallelFor, which looks by
  // itself, asks now and then, and returns CANCELLED.
  bool cancelled() const { return step_->cancelled.load(std::memory_order_relaxed); }

  int num_inputs() const { return static_cast<int>(node_->input_types.size()); }
  int num_outputs() const { return static_cast<int>(node_->output_types.size()); }
  const Tensor& input(int i) const { return inputs_[i]; }
  // False for an input that is not there: the dead side of a Merge.
  bool has_input(int i) const { return inputs_[i].valid(); }
  // The input itself, leaving nothing behind: its buffer may then be unique.
  Tensor TakeInput(int i) { return std::move(inputs_[i]); }
  // The variable that reference input i names. Never null in a validated graph.
  VariableSlot* ref(int i) const;
  // The variable (or other object) behind resource input i; INVALID_ARGUMENT when the handle is
  // unbound or names something else.
  template <class T>
  absl::StatusOr<T*> resource(int i) const {
    const ResourceHandle& h = *static_cast<const ResourceHandle*>(inputs_[i].raw());
    if (T* t = h.As<T>()) return t;
    return WrongHandle(i, h);
  }
  DType output_type(int i) const { return BaseType(node_->output_types[i]); }

  void set_output(int i, Tensor t) { outputs_[i] = std::move(t); }
  Tensor* output(int i) { return &outputs_[i]; }
  // A new output of the node's type. RESOURCE_EXHAUSTED names shape and bytes.
  absl::StatusOr<Tensor*> AllocateOutput(int i, const TensorShape& shape);
  // A scratch tensor.
  absl::StatusOr<Tensor> AllocateTemp(DType dtype, const TensorShape& shape);
  // Output `o` in the buffer of the first input of `candidates` that is uniquely owned and has the
  // output's type and number of bytes; a new one otherwise.
  absl::StatusOr<Tensor*> ForwardOrAllocate(std::initializer_list<int> candidates, int o, const TensorShape& shape);

  // Control flow: an output that is left without a value is dead. Merge reads which input came.
  uint64_t frame_iter() const { return frame_iter_; }
  void set_frame_iter(uint64_t f) { frame_iter_ = f; }
  bool is_dead() const { return dead_; }  // only ops that hand deadness on (Send) are run dead
  void set_dead(bool d) { dead_ = d; }
  // A Recv's output is dead.
  void set_output_dead() { output_dead_ = true; }
  bool output_dead() const { return output_dead_; }

  void* state() const { return state_; }
  void set_state(void* s) { state_ = s; }

  // For a kernel that nearly always computes at once, but cannot now. Compute returns what this
  // returns, and has neither changed its inputs nor set outputs. No thread waits: when the wait is
  // over, Compute is called again, and must begin with TakeWait.
  absl::Status WaitFor(std::unique_ptr<KernelWait> wait);
  // Null unless Compute has returned to wait, or is called again after that.
  KernelWait* wait() const { return wait_.get(); }
  std::unique_ptr<KernelWait> TakeWait() { return std::move(wait_); }
  void set_wait(std::unique_ptr<KernelWait> wait) { wait_ = std::move(wait); }

 private:
  static absl::Status WrongHandle(int input, const ResourceHandle& handle);

  const KernelNode* node_;
  Tensor* inputs_;
  Tensor* outputs_;
  StepContext* step_;
  TensorExchange* exchange_;
  void* state_ = nullptr;
  uint64_t frame_iter_ = 0;
  bool dead_ = false, output_dead_ = false;
  std::unique_ptr<KernelWait> wait_;
};

using ComputeFn = absl::Status (*)(KernelContext&);
using DoneFn = std::function<void(absl::Status)>;
using AsyncComputeFn = void (*)(KernelContext&, DoneFn);

// A static guess of what one run costs, until it is measured.
enum class Cost : uint8_t {
  kTrivial,   // tens of nanoseconds whatever the shapes: never timed, never a job
  kMeasured,  // depends on the shapes: timed now and then
};

struct PreparedKernel {
  ComputeFn compute = nullptr;
  AsyncComputeFn compute_async = nullptr;  // set instead of compute
  std::shared_ptr<void> state;
  Cost cost = Cost::kMeasured;
  bool library = false;  // of KernelOrigin::kLibrary
};
using KernelFactory = absl::StatusOr<PreparedKernel> (*)(KernelInit&);

// The author of a kernel. The library's own kernels are known to return as soon as they have
// computed; users' kernels are not, so a step that must be answered in time does not run them on
// the caller's thread.
enum class KernelOrigin : uint8_t { kLibrary, kUser };
#ifdef TROUPE_LIBRARY_KERNELS
#define TROUPE_KERNEL_ORIGIN ::troupe::KernelOrigin::kLibrary
#else
#define TROUPE_KERNEL_ORIGIN ::troupe::KernelOrigin::kUser
#endif

struct KernelDef {
  std::string op, device_type, label;  // type "*": of devices for whose type no kernel of the op fits
  struct Constraint {
    std::string attr;
    std::vector<DType> types;
  };
  std::vector<Constraint> constraints;
  std::vector<std::string> host_memory;  // args that stay in host memory
  int priority = 0;
  KernelOrigin origin = KernelOrigin::kUser;
  KernelFactory factory = nullptr;
};

namespace internal {
// `state`, which `destroy` deletes, and what runs on it, as a kernel; the error of `init` when its
// construction failed.
absl::StatusOr<PreparedKernel> FinishKernel(const KernelInit& init, void* state, void (*destroy)(void*),
                                            ComputeFn compute, AsyncComputeFn compute_async, Cost cost);
absl::StatusOr<PreparedKernel> FunctionKernel(ComputeFn compute, Cost cost);

template <class K>
absl::StatusOr<PreparedKernel> MakeKernel(KernelInit& init) {
  ComputeFn compute = nullptr;
  AsyncComputeFn compute_async = nullptr;
  Cost cost = Cost::kMeasured;
  if constexpr (requires(K & x, KernelContext & c, DoneFn d) { x.ComputeAsync(c, d); }) {
    compute_async = [](KernelContext& c, DoneFn d) { static_cast<K*>(c.state())->ComputeAsync(c, std::move(d)); };
  } else {
    compute = [](KernelContext& c) { return static_cast<K*>(c.state())->Compute(c); };
  }
  if constexpr (requires { K::kCost; }) cost = K::kCost;
  return FinishKernel(
      init, new K(init), [](void* k) { delete static_cast<K*>(k); }, compute, compute_async, cost);
}
template <ComputeFn F, Cost C>
absl::StatusOr<PreparedKernel> MakeFunctionKernel(KernelInit&) {
  return FunctionKernel(F, C);
}
}  // namespace internal

// Little is inline: every op file has a chain of these calls.
class KernelBuilder {
 public:
  explicit KernelBuilder(std::string_view op, KernelOrigin origin = KernelOrigin::kUser);
  ~KernelBuilder();
  KernelBuilder& Device(std::string_view type);
  KernelBuilder& Types(std::string_view attr, absl::Span<const DType> types);
  template <class... T>
  KernelBuilder& Type(std::string_view attr) {
    return Types(attr, {kDTypeOf<T>...});
  }
  KernelBuilder& HostMemory(std::string_view arg);
  KernelBuilder& Label(std::string_view label);
  KernelBuilder& Priority(int p);
  // The last call: how the kernel is made.
  template <class K>
  KernelBuilder& Class() {
    return Factory(&internal::MakeKernel<K>);
  }
  template <ComputeFn F, Cost C = Cost::kMeasured>
  KernelBuilder& Function() {
    return Factory(&internal::MakeFunctionKernel<F, C>);
  }
  KernelBuilder& Factory(KernelFactory f);
  const KernelDef& def() const { return def_; }

 private:
  KernelDef def_;
};

class KernelRegistry {
 public:
  static KernelRegistry& Global();
  void Register(KernelDef def);
  // The kernel for this node on devices of this type (its attr "_kernel" asks for a label).
  // NOT_FOUND with the list of what is registered for the op when none fits.
  absl::StatusOr<const KernelDef*> Find(const Node& node, std::string_view device_type) const;
  std::vector<const KernelDef*> List(std::string_view op = {}) const;  // "" = all, sorted by op

  struct TROUPE_HIDDEN Impl;

 private:
  KernelRegistry();
  std::unique_ptr<Impl> impl_;
};

// Finds kernels for many nodes: what is registered for an op is looked up once, so kernels that are
// registered meanwhile are not seen. Thread rule: for one thread.
class KernelFinder {
 public:
  explicit KernelFinder(std::string_view device_type);
  ~KernelFinder();
  // Null when none fits; KernelRegistry::Find says why.
  const KernelDef* Find(const Node& node);
  const std::string& device_type() const;

 private:
  struct TROUPE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

struct KernelRegistrar {
  KernelRegistrar(const KernelBuilder& b);  // NOLINT: the macro assigns
};
#define TROUPE_KERNEL(op)                                                                              \
  [[maybe_unused]] static const ::troupe::KernelRegistrar TROUPE_CONCAT(troupe_kernel_, __COUNTER__) = \
      ::troupe::KernelBuilder(op, TROUPE_KERNEL_ORIGIN)

// Finds and builds the kernel of a node on a device. Errors carry the node's address.
absl::StatusOr<PreparedKernel> PrepareKernel(const Node& node, Device* device, const SessionScope& session);
// As above for many nodes. `finder`: of the device's type.
absl::StatusOr<PreparedKernel> PrepareKernel(const Node& node, Device* device, const SessionScope& session,
                                             KernelFinder* finder);

}  // namespace troupe

#endif  // TROUPE_KERNEL_H_
