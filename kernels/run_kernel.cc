#include "kernels/run_kernel.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include "graph/core/guarded.h"

namespace troupe {

Device* EvaluationDevice(int threads) {
  static auto* mu = new std::mutex;
  static auto* devices = new std::map<int, std::unique_ptr<Device>>;
  std::lock_guard<std::mutex> lock(*mu);
  std::unique_ptr<Device>& d = (*devices)[threads];
  if (d == nullptr) {
    d = std::make_unique<Device>("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", 1, Allocator::Cpu(),
                                 std::make_shared<ComputeThreads>(threads), std::make_shared<ResourceContainers>());
  }
  return d.get();
}

namespace {

// Waits for the first answer.
class AnswerWait {
 public:
  void Answer(absl::Status s) {
    std::lock_guard<std::mutex> lock(mu_);
    if (done_) return;
    status_ = std::move(s);
    done_ = true;
    come_.notify_one();
  }
  absl::Status Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    come_.wait(lock, [this] { return done_; });
    return status_;
  }

 private:
  std::mutex mu_;
  std::condition_variable come_;
  bool done_ = false;
  absl::Status status_;
};

bool Fits(const PartialTensorShape& known, const Tensor& t) {
  if (!known.known_rank()) return true;
  bool fits = known.rank() == t.rank();
  for (int d = 0; fits && d < known.rank(); ++d) fits = known.dim(d) < 0 || known.dim(d) == t.dim(d);
  return fits;
}

}  // namespace

absl::Status KernelException() {
  try {
    throw;
  } catch (const LoopCancelled& e) {
    return absl::CancelledError(e.what());
  } catch (...) {
    return ThrownStatus("the kernel");
  }
}

absl::Status CheckKernelOutputs(const KernelNode& node, const Tensor* outputs,
                                absl::Span<const PartialTensorShape> shapes) {
  for (size_t i = 0; i < node.output_types.size(); ++i) {
    const Tensor& t = outputs[i];
    if (!t.valid()) {
      const OpDef* op = OpRegistry::Global().Find(node.op);
      if (op != nullptr && op->control_flow == ControlFlow::kSwitch) continue;
      return Internal("the kernel did not set output ", i);
    }
    if (t.dtype() != node.output_types[i]) {
      return Internal("the kernel set output ", i, " to ", t.TypeAndShape(), ", but the node's output is ",
                      Name(node.output_types[i]));
    }
    if (i < shapes.size() && !Fits(shapes[i], t)) {
      return Internal("the kernel set output ", i, " to ", t.TypeAndShape(), ", but the node's output has shape ",
                      shapes[i].DebugString());
    }
  }
  return absl::OkStatus();
}

KernelNode DescribeNode(const Node& node, Device* device) { return KernelNode(node, device); }

bool KernelWaits(KernelContext& ctx, const KernelWait* had, absl::Status* status) {
  if (ctx.wait() == nullptr) return false;
  if (IsWait(*status)) return true;
  if (status->ok() && ctx.wait() != had) {
    *status = Internal("the kernel called WaitFor and returned OK; it must return what WaitFor returns");
  }
  ctx.TakeWait().reset();
  return false;
}

absl::StatusOr<std::vector<Tensor>> EvaluateKernel(const PreparedKernel& kernel, const KernelNode& node,
                                                   std::vector<Tensor> inputs, StepContext* step,
                                                   TensorExchange* exchange, StillWanted wanted) {
  std::vector<Tensor> outputs(node.output_types.size());
  KernelContext ctx(&node, inputs.data(), outputs.data(), step, exchange);
  ctx.set_state(kernel.state.get());
  const auto ended = [&] {
    return step->cancelled.load(std::memory_order_relaxed) || (wanted != nullptr && *wanted && !(*wanted)().ok());
  };
  const ComputeThreads::LoopCancellation loops([](const void* f) { return (*static_cast<decltype(&ended)>(f))(); },
                                               &ended);
  absl::Status status;
  if (kernel.compute != nullptr) {
    const KernelWait* had = nullptr;
    for (;;) {
      try {
        status = kernel.compute(ctx);
      } catch (...) {
        status = KernelException();
      }
      if (!KernelWaits(ctx, had, &status)) break;
      had = ctx.wait();
      if (wanted != nullptr) {
        status = Unimplemented("its kernel waits for others");
        break;
      }
      // This thread has nothing else to do. The step may be told to end meanwhile.
      const auto wait = std::make_shared<AnswerWait>();
      const CancellationList::Id id = step->cancellations.Register(
          [wait] { wait->Answer(absl::CancelledError("the step ended while the kernel waited")); });
      if (id == 0) wait->Answer(absl::CancelledError("the step ended"));
      ctx.wait()->Await([wait] { wait->Answer(absl::OkStatus()); });
      status = wait->Wait();
      step->cancellations.Deregister(id);
      if (!status.ok()) break;
    }
  } else {
    const auto wait = std::make_shared<AnswerWait>();
    {
      // The last copy of it answers when the kernel did not.
      const auto last = std::shared_ptr<void>(nullptr, [wait](void*) {
        wait->Answer(Internal("the kernel forgot to answer: it dropped `done` without calling it"));
      });
      try {
        kernel.compute_async(ctx, [wait, last](absl::Status s) { wait->Answer(std::move(s)); });
      } catch (...) {
        wait->Answer(KernelException());
      }
    }
    status = wait->Wait();
  }
  if (status.ok() && !ctx.output_dead()) status = CheckKernelOutputs(node, outputs.data());
  if (!status.ok()) return WithAddress(status, node.name, node.op, node.device->name(), node.location);
  return outputs;
}

absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, std::vector<Tensor> inputs,
                                                 const EvaluateOptions& options) {
  Device* device = options.device != nullptr ? options.device : EvaluationDevice(options.threads);
  if (static_cast<int>(inputs.size()) != node.num_inputs()) {
    return node.At(InvalidArgument("it takes ", node.num_inputs(), " inputs, not ", inputs.size()));
  }
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (inputs[i].valid() && inputs[i].dtype() != node.input_type(i)) {
      return node.At(InvalidArgument("input ", i, " is ", Name(inputs[i].dtype()), ", not ", Name(node.input_type(i))));
    }
  }
  TROUPE_ASSIGN_OR_RETURN(const PreparedKernel kernel, PrepareKernel(node, device, options.session));
  StepContext own;
  const KernelNode described = DescribeNode(node, device);
  return EvaluateKernel(kernel, described, std::move(inputs), options.step != nullptr ? options.step : &own,
                        options.exchange);
}

absl::StatusOr<std::vector<Tensor>> EvaluateOp(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs,
                                               std::vector<int> list_sizes, const EvaluateOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const OpDef* def, OpRegistry::Global().LookUp(op));
  size_t at = 0, list = 0;
  for (const ArgDef& arg : def->inputs) {
    size_t n = 1;
    if (arg.IsList()) {
      if (list >= list_sizes.size()) return InvalidArgument("the size of list arg '", arg.name, "' is not given");
      n = static_cast<size_t>(list_sizes[list++]);
      if (!arg.number_attr.empty()) attrs.Set(arg.number_attr, static_cast<int64_t>(n));
    }
    if (at + n > inputs.size()) return InvalidArgument("op '", op, "' needs more than ", inputs.size(), " inputs");
    std::vector<DType> types;
    for (size_t i = 0; i < n; ++i) types.push_back(BaseType(inputs[at + i].dtype()));
    at += n;
    if (!arg.type_list_attr.empty()) {
      attrs.Set(arg.type_list_attr, types);
    } else if (!arg.type_attr.empty() && n > 0 && !attrs.Has(arg.type_attr)) {
      attrs.Set(arg.type_attr, types[0]);
    }
  }
  Graph graph;
  TROUPE_ASSIGN_OR_RETURN(Node * node, graph.AddNode(StrCat("test/", op), op, std::move(attrs)));
  return EvaluateNode(*node, std::move(inputs), options);
}

}  // namespace troupe
