#include "troupe/queues.h"

#include <algorithm>

#include "troupe/emit.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

Output Make(const ScopeAt& at, const char* op, const std::vector<DType>& types, const QueueOptions& options,
            AttrMap more = {}) {
  more.Set("component_types", types);
  more.Set("shapes", options.shapes);
  more.Set("capacity", options.capacity);
  if (!options.container.empty()) more.Set("container", options.container);
  if (!options.shared_name.empty()) more.Set("shared_name", options.shared_name);
  if (options.capacity_bytes != 0) more.Set("_capacity_bytes", options.capacity_bytes);
  return EmitOp(at, op, {}, std::move(more)).output(0);
}

OutputList Outputs(const Operation& op) {
  OutputList list;
  for (int i = 0; i < op.num_outputs(); ++i) list.push_back(op.output(i));
  return list;
}

}  // namespace

Queue Queue::Fifo(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options) {
  return Queue(Make(at, "FIFOQueueV2", types, options), types);
}

Queue Queue::PaddingFifo(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options) {
  return Queue(Make(at, "PaddingFIFOQueueV2", types, options), types);
}

Queue Queue::RandomShuffle(const ScopeAt& at, const std::vector<DType>& types, int64_t min_after_dequeue,
                           const QueueOptions& options, int64_t seed, int64_t seed2) {
  AttrMap attrs;
  attrs.Set("min_after_dequeue", min_after_dequeue);
  attrs.Set("seed", seed);
  attrs.Set("seed2", seed2);
  return Queue(Make(at, "RandomShuffleQueueV2", types, options, std::move(attrs)), types);
}

Queue Queue::Priority(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options) {
  std::vector<DType> all = {DType::kInt64};
  all.insert(all.end(), types.begin(), types.end());
  return Queue(Make(at, "PriorityQueueV2", types, options), std::move(all));
}

Queue Queue::Of(const Output& handle, const std::vector<DType>& types) { return Queue(handle, types); }

std::string Queue::name() const { return handle_.valid() ? handle_.node()->name() : std::string(); }

// Ops on a reference have names of their own.
std::string Queue::Op(std::string_view op) const { return StrCat(op, IsRef(handle_.dtype()) ? "" : "V2"); }

Operation Queue::Enqueue(const ScopeAt& at, const InputList& components) const {
  AttrMap attrs;
  attrs.Set("Tcomponents", types_);
  return EmitLists(at, Op("QueueEnqueue"), {{handle_}, components}, std::move(attrs));
}

Operation Queue::EnqueueMany(const ScopeAt& at, const InputList& components) const {
  AttrMap attrs;
  attrs.Set("Tcomponents", types_);
  return EmitLists(at, Op("QueueEnqueueMany"), {{handle_}, components}, std::move(attrs));
}

OutputList Queue::Dequeue(const ScopeAt& at) const {
  AttrMap attrs;
  attrs.Set("component_types", types_);
  return Outputs(EmitOp(at, Op("QueueDequeue"), {handle_}, std::move(attrs)));
}

OutputList Queue::DequeueMany(const ScopeAt& at, const Input& n) const {
  AttrMap attrs;
  attrs.Set("component_types", types_);
  return Outputs(EmitOp(at, Op("QueueDequeueMany"), {handle_, n}, std::move(attrs)));
}

OutputList Queue::DequeueUpTo(const ScopeAt& at, const Input& n) const {
  AttrMap attrs;
  attrs.Set("component_types", types_);
  return Outputs(EmitOp(at, Op("QueueDequeueUpTo"), {handle_, n}, std::move(attrs)));
}

Operation Queue::Close(const ScopeAt& at, bool cancel_pending_enqueues) const {
  AttrMap attrs;
  attrs.Set("cancel_pending_enqueues", cancel_pending_enqueues);
  return EmitOp(at, Op("QueueClose"), {handle_}, std::move(attrs));
}

Output Queue::Size(const ScopeAt& at) const { return EmitOp(at, Op("QueueSize"), {handle_}).output(0); }
Output Queue::IsClosed(const ScopeAt& at) const { return EmitOp(at, Op("QueueIsClosed"), {handle_}).output(0); }

QueueRunner MakeQueueRunner(const ScopeAt& at, const Queue& queue, const std::vector<Operation>& enqueue_ops) {
  QueueRunner r;
  r.queue = queue.name();
  if (!at.ok()) return r;
  if (enqueue_ops.empty()) at.Fail(InvalidArgument("the runner of queue '", r.queue, "' is given nothing to run"));
  for (const Operation& op : enqueue_ops) {
    if (!op.valid()) at.Fail(InvalidArgument("the runner of queue '", r.queue, "' is given an empty Operation"));
    r.enqueue_ops.push_back(op.name());
  }
  // They wait for nothing: a runner closes the queue whatever its scope depends on.
  const Scope scope =
      at->WithLocation(at.location())
          .WithNoControlDependencies()
          .NewSubScope(
              StrCat(r.queue.substr(r.queue.rfind('/') == std::string::npos ? 0 : r.queue.rfind('/') + 1), "_runner"));
  r.close_op = queue.Close(scope.WithOpName("close")).name();
  r.cancel_op = queue.Close(scope.WithOpName("cancel"), /*cancel_pending_enqueues=*/true).name();
  return r;
}

// A line for each name, then one for each enqueue op.
void AddQueueRunner(Graph* graph, const QueueRunner& r) {
  if (graph == nullptr) return;
  std::string codes;
  for (const absl::StatusCode c : r.queue_closed) StrAppend(&codes, codes.empty() ? "" : " ", static_cast<int>(c));
  std::string text = StrCat(r.queue, "\n", r.close_op, "\n", r.cancel_op, "\n", codes);
  for (const std::string& op : r.enqueue_ops) StrAppend(&text, "\n", op);
  graph->collection(kQueueRunners).push_back(std::move(text));
}

void AddQueueRunner(const ScopeAt& at, const QueueRunner& runner) {
  if (at.ok()) AddQueueRunner(at->graph(), runner);
}

absl::StatusOr<std::vector<QueueRunner>> QueueRunnersOf(const Graph& graph) {
  std::vector<QueueRunner> runners;
  const auto it = graph.collections().find(kQueueRunners);
  if (it == graph.collections().end()) return runners;
  for (const std::string& entry : it->second) {
    const std::vector<std::string> lines = StrSplit(entry, '\n');
    if (lines.size() < 4) return DataLoss("the collection '", kQueueRunners, "' has an entry that is no runner");
    QueueRunner r;
    r.queue = lines[0], r.close_op = lines[1], r.cancel_op = lines[2];
    r.queue_closed.clear();
    for (const std::string& code : StrSplit(lines[3], ' ')) {
      if (code.empty()) continue;
      if (!std::all_of(code.begin(), code.end(), [](char c) { return c >= '0' && c <= '9'; }) || code.size() > 2)
        return DataLoss("the runner of queue '", r.queue, "' has '", code, "' for a status code");
      r.queue_closed.push_back(static_cast<absl::StatusCode>(std::stoi(code)));
    }
    r.enqueue_ops.assign(lines.begin() + 4, lines.end());
    runners.push_back(std::move(r));
  }
  return runners;
}

}  // namespace troupe
