#include "troupe/train/sync_replicas.h"

#include <algorithm>
#include <memory>

#include "graph/api/scope_state.h"
#include "graph/core/hash_map.h"
#include "graph/train/build.h"
#include "graph/train/gradient_places.h"
#include "graph/train/joined.h"
#include "troupe/slices_mark.h"
#include "troupe/const.h"
#include "troupe/graph.h"
#include "troupe/group.h"
#include "troupe/queues.h"

namespace troupe::train {
namespace {

// Of the queue of notices: a worker has one under way, and a few when it begins anew.
constexpr int64_t kNoticesOfWorker = 16;
// Tensors of at most so many bytes together go as one.
constexpr int64_t kJoined = int64_t{64} << 10;

absl::Status Check(const SyncReplicasOptions& o) {
  if (o.parts < 0 || o.parts > SyncReplicasOptions::kMostParts || (o.parts > 0 && o.take != 0)) {
    return InvalidArgument("SyncReplicas cannot be built for ", o.parts, " parts of which ", o.take,
                           " are taken: there are at most ", SyncReplicasOptions::kMostParts, ", and all are taken");
  }
  if (o.workers < 1 || o.worker < 0 || o.worker >= o.workers || o.take < 0 || o.take > o.workers) {
    return InvalidArgument("SyncReplicas cannot be built for worker ", o.worker, " of ", o.workers, ", of which ",
                           o.take, " are taken");
  }
  return absl::OkStatus();
}

// The tensors by which a worker reads a variable of known shape, whatever comes before them; none
// for a variable that is a reference, and none that somebody beside it reads.
std::vector<std::string> ReadsOf(const Variable& v) {
  std::vector<std::string> reads;
  if (!v.is_resource() || !v.variable_shape().IsFullyDefined()) return reads;
  const std::string& device = v.handle().node()->requested_device();
  for (const Edge* e : v.handle().node()->out_edges()) {
    if (e->IsControl() || e->dst->op().name != "ReadVariableOp") continue;
    // One that waits for something may be meant to read what that has written.
    const auto &in = e->dst->in_edges(), &out = e->dst->out_edges();
    const bool waits =
        std::any_of(in.begin(), in.end(), [](const Edge* i) { return i->IsControl() && i->src->IsOp(); });
    const bool wanted = std::any_of(out.begin(), out.end(), [](const Edge* o) { return !o->IsControl(); });
    const bool beside = std::any_of(out.begin(), out.end(), [&](const Edge* o) {
      return o->dst->IsOp() && !device.empty() && o->dst->requested_device() == device;
    });
    if (wanted && !waits && !beside) reads.push_back(StrCat(e->dst->name(), ":0"));
  }
  return reads;
}

// The mean of the gradients of one variable, or of those that `taken`, a vector of bools, names.
class Mean {
 public:
  Mean(const Scope& here, const Output& taken, int count) : here_(here), taken_(taken), count_(count) {}

  Output Of(const GradientPlaces::Gradients& gradients, const Variable& variable) const {
    if (gradients.dense.empty()) return OfSlices(gradients, variable);
    return OverAll(SumOfDense(gradients.dense), variable);
  }

 private:
  Output OverAll(const Output& sum, const Variable& variable) const {
    return Build(here_, "RealDiv", {sum, Const(here_, count_, variable.variable_dtype())});
  }
  Output IsTaken(size_t worker) const { return Build(here_, "GatherV2", {taken_, static_cast<int>(worker), 0}); }
  // In their order, so that equal gradients give equal bits whoever was first.
  Output SumOfDense(const std::vector<Output>& dense) const {
    Output sum;
    for (size_t w = 0; w < dense.size(); ++w) {
      Output one = dense[w];
      if (taken_.valid()) {
        const Output in = IsTaken(w);
        one = Build(here_, "Select", {in, one, Build(here_, "ZerosLike", {one})});
      }
      sum = sum.valid() ? Build(here_, "AddV2", {sum, one}) : one;
    }
    return sum;
  }
  // The slices of those who are taken, behind each other.
  Output OfSlices(const GradientPlaces::Gradients& gradients, const Variable& variable) const {
    std::vector<Input> indices, values;
    for (size_t w = 0; w < gradients.indices.size(); ++w) {
      Output i = gradients.indices[w], v = gradients.values[w];
      if (taken_.valid()) {
        const Output in = CastTo(here_, IsTaken(w), DType::kInt64);
        const Output rows = Build(here_, "Mul", {Build(here_, "Size", {i}, {{"out_type", DType::kInt64}}), in});
        const Output all = Build(here_, "Range", {int64_t{0}, rows, int64_t{1}});
        i = Build(here_, "GatherV2", {i, all, 0});
        v = Build(here_, "GatherV2", {v, all, 0});
      }
      indices.emplace_back(i);
      values.emplace_back(v);
    }
    const Input axis(0);
    const auto joined = [&](const std::vector<Input>& parts) {
      return parts.size() == 1 ? Output(Build(here_, "Identity", {parts[0]}))
                               : EmitLists(here_, "ConcatV2", {InputList(parts), InputList({axis})}).output(0);
    };
    IndexedSlices slices;
    slices.indices = joined(indices);
    slices.values = OverAll(joined(values), variable);
    slices.dense_shape = variable.is_resource()
                             ? Build(here_, "VariableShape", {variable.handle()}, {{"out_type", DType::kInt64}})
                             : Build(here_, "Shape", {variable}, {{"out_type", DType::kInt64}});
    return FromSlices(here_, slices);
  }

  const Scope& here_;
  const Output& taken_;
  const int count_;
};

}  // namespace

// Adds the nodes, and fills in what SyncReplicas shows of them.
class SyncReplicas::Builder {
 public:
  explicit Builder(SyncReplicas* to) : to_(*to), options_(to->options_), global_step_(to->global_step_) {}
  void Build(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& used);

 private:
  using Places = std::vector<std::unique_ptr<GradientPlaces>>;
  void MakeQueues(const Scope& top);
  void BuildWorker(const Scope& s, const std::vector<GradAndVar>& grads);
  void BuildValues(const Scope& worker, const std::vector<GradAndVar>& grads);
  std::vector<Output> Sent(const Scope& worker, const std::vector<GradAndVar>& grads) const;
  void BuildChief(const Scope& s, Optimizer& optimizer);

  SyncReplicas& to_;
  const SyncReplicasOptions& options_;
  const Variable& global_step_;
  Places places_;  // by gradient
  Queue notices_;
  std::vector<Queue> tokens_;  // by worker
};

SyncReplicas::SyncReplicas(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& grads,
                           const Output& loss, const Variable& global_step, const SyncReplicasOptions& options)
    : options_(options), global_step_(global_step), loss_(loss) {
  if (!at.ok()) return;
  std::vector<GradAndVar> used;
  for (const GradAndVar& g : grads) {
    if (g.grad.valid()) used.push_back(g);
  }
  absl::Status wrong = Check(options);
  if (used.empty()) wrong.Update(InvalidArgument("SyncReplicas was given no gradients"));
  if (!global_step.handle().valid() || !loss.valid())
    wrong.Update(InvalidArgument("SyncReplicas needs a loss and a global step"));
  if (const PartialTensorShape shape = loss.valid() ? at->ShapeOf(loss) : PartialTensorShape();
      shape.known_rank() && shape.rank() != 0) {
    wrong.Update(InvalidArgument("SyncReplicas needs a loss that is a scalar, and '", loss.name(), "' is ",
                                 shape.DebugString()));
  }
  if (wrong.ok()) {
    Builder(this).Build(at, optimizer, used);
  } else {
    at.Fail(wrong);
  }
}

void SyncReplicas::Builder::Build(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& used) {
  const Scope top = Scope(internal::TopLevel(*at->state())).WithLocation(at.location());
  MakeQueues(top);
  std::vector<Operation> made;
  for (const GradAndVar& g : used) {
    places_.push_back(MakeGradientPlaces(top, options_.name, g, options_.workers, options_.parts));
    if (!at.ok()) return;
    for (const Operation& op : places_.back()->initializers()) made.push_back(op);
  }
  const Scope s = at.Sub(options_.name);
  to_.make_places_ = Group(s.WithOpName("make_places"), made);
  BuildWorker(s, used);
  BuildChief(s, optimizer);
}

void SyncReplicas::Builder::MakeQueues(const Scope& top) {
  const Scope beside = top.ColocateWith(global_step_.handle());
  QueueOptions options;
  const auto queue = [&](const std::string& name, const std::vector<DType>& types) {
    options.shared_name = StrCat(options_.name, "/", name);
    return Queue::Fifo(beside.WithOpName(options.shared_name), types, options);
  };
  options.capacity = kNoticesOfWorker * options_.workers;
  options.shapes = {{4}, TensorShape()};
  notices_ = queue("notices", {DType::kInt64, DType::kFloat});
  options.capacity = -1;  // the chief hands one out for each answer
  options.shapes = {{kTokenWords}};
  for (int w = 0; w < options_.workers; ++w) tokens_.push_back(queue(StrCat("tokens/", w), {DType::kInt64}));
}

void SyncReplicas::Builder::BuildWorker(const Scope& s, const std::vector<GradAndVar>& grads) {
  if (!s.ok()) return;
  const Scope worker = s.NewSubScope("worker");
  to_.notice_ = train::Build(worker.WithOpName("notice"), "Placeholder", {},
                             {{"dtype", DType::kInt64}, {"shape", PartialTensorShape({4})}});
  const Scope beside = worker.ColocateWith(global_step_.handle());
  to_.say_ = notices_.Enqueue(beside.WithOpName("say"), {to_.notice_, Const(worker, 0.0f)});
  to_.token_ = tokens_[static_cast<size_t>(options_.worker)].Dequeue(beside.WithOpName("token")).at(0);
  BuildValues(worker, grads);
  const Output loss = CastTo(worker, to_.loss_, DType::kFloat);
  Output number;
  if (to_.elastic()) number = train::Build(worker.WithOpName("number"), "GatherV2", {to_.notice_, 3, 0});
  std::vector<std::vector<Operation>> put(static_cast<size_t>(std::max(1, options_.parts)));
  const std::vector<Output> sent = Sent(worker, grads);
  for (size_t i = 0; i < grads.size() && worker.ok(); ++i) {
    const std::vector<Operation> its = places_[i]->Put(worker, sent[i], options_.worker, number);
    for (size_t part = 0; part < its.size(); ++part) put[part].push_back(its[part]);
  }
  for (const std::vector<Operation>& all : put) {
    to_.sends_.push_back(notices_.Enqueue(beside.WithOpName("send").WithControlDependencies(all), {to_.notice_, loss}));
  }
}

// Nobody updates variables between the token and the gradient that it asks for.
void SyncReplicas::Builder::BuildValues(const Scope& worker, const std::vector<GradAndVar>& grads) {
  if (!worker.ok()) return;
  const auto bytes = [](const Variable& v) {
    return v.variable_shape().num_elements() * static_cast<int64_t>(SizeOf(v.variable_dtype()));
  };
  std::vector<std::pair<const Variable*, std::vector<std::string>>> read;
  int64_t all = 0;
  HashSet<const Node*> met;
  for (const GradAndVar& g : grads) {
    if (!met.insert(g.var.handle().node()).second) continue;
    // Of one that is updated by rows, rows are read.
    std::vector<std::string> reads = IsSlices(g.grad.out()) ? std::vector<std::string>() : ReadsOf(g.var);
    if (reads.empty()) continue;
    all += bytes(g.var);
    read.emplace_back(&g.var, std::move(reads));
  }
  const Scope after = worker.WithControlDependencies(Operation(to_.token_));
  JoinedByDevice values(kJoined);
  std::vector<const Variable*> variables;
  int64_t taken = 0;
  for (auto& [variable, reads] : read) {
    if (all > kAllWithToken && (bytes(*variable) > kLargestWithToken || taken + bytes(*variable) > kAllWithToken))
      continue;
    taken += bytes(*variable);
    values.Add(variable->handle().node()->requested_device(), variable->Read(after.ColocateWith(variable->handle())),
               variable->variable_shape());
    variables.push_back(variable);
    to_.values_with_token_.push_back({std::move(reads), {}});
  }
  if (!worker.ok()) return;
  const std::vector<Output> come =
      values.Send([&](size_t i) { return after.ColocateWith(variables[i]->handle()); }, [&](size_t) { return worker; });
  for (size_t i = 0; i < come.size(); ++i)
    to_.values_with_token_[i].value = train::Build(worker.WithOpName("value_with_token"), "Identity", {come[i]});
}

// Dense gradients of a few KB go to a server together.
std::vector<Output> SyncReplicas::Builder::Sent(const Scope& worker, const std::vector<GradAndVar>& grads) const {
  std::vector<Output> sent(grads.size());
  JoinedByDevice dense(kJoined);
  std::vector<size_t> of;
  for (size_t i = 0; i < grads.size(); ++i) {
    const Variable& v = grads[i].var;
    sent[i] = grads[i].grad;
    // One of another shape is refused where it is put.
    if (IsSlices(sent[i].out()) || !v.variable_shape().IsFullyDefined()) continue;
    if (const PartialTensorShape shape = worker.ShapeOf(sent[i]);
        !shape.IsFullyDefined() || shape.dims() != v.variable_shape().dims())
      continue;
    sent[i] = CastTo(worker, sent[i], v.variable_dtype());
    dense.Add(v.handle().node()->requested_device(), sent[i], v.variable_shape());
    of.push_back(i);
  }
  if (!worker.ok()) return sent;
  const std::vector<Output> come = dense.Send([&](size_t) { return worker; },
                                              [&](size_t k) { return worker.ColocateWith(grads[of[k]].var.handle()); });
  for (size_t k = 0; k < come.size(); ++k) sent[of[k]] = come[k];
  return sent;
}

void SyncReplicas::Builder::BuildChief(const Scope& s, Optimizer& optimizer) {
  if (!s.ok()) return;
  const Scope chief = s.NewSubScope("chief");
  const Scope beside = chief.ColocateWith(global_step_.handle());
  const OutputList heard = notices_.Dequeue(beside.WithOpName("heard"));
  to_.heard_ = heard.at(0);
  to_.heard_loss_ = heard.at(1);
  const auto fed = [&](const std::string& name, DType dtype, const PartialTensorShape& shape) {
    return train::Build(chief.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  };
  for (int w = 0; w < options_.workers; ++w)
    to_.hands_.push_back(fed(StrCat("tokens_", w), DType::kInt64, PartialTensorShape({-1, kTokenWords})));
  std::vector<Output> number_of;
  if (to_.elastic()) {
    to_.numbers_ = fed("numbers", DType::kInt64, PartialTensorShape({options_.parts}));
    for (int p = 0; p < options_.parts; ++p)
      number_of.push_back(train::Build(chief.WithOpName("number"), "GatherV2", {to_.numbers_, p, 0}));
  } else if (to_.take() < options_.workers) {
    to_.taken_ = fed("taken", DType::kBool, PartialTensorShape({options_.workers}));
  }
  std::vector<GradAndVar> means;
  for (const std::unique_ptr<GradientPlaces>& p : places_) {
    const Scope here = chief.ColocateWith(p->variable().handle());
    const GradientPlaces::Gradients taken = p->Take(here, number_of);
    if (!here.ok()) return;
    means.push_back({Mean(here, to_.taken_, to_.take()).Of(taken, p->variable()), p->variable()});
  }
  const Operation applied = optimizer.ApplyGradients(chief, means, global_step_);
  if (!s.ok()) return;
  // Now that the optimizer's slots are there.
  to_.state_ = ServerState(chief, global_step_, {.live_replicas = options_.live_replicas});
  if (!s.ok()) return;
  to_.update_ = to_.state_.KeepAfter(chief, applied);
  const auto hand = [&](const Scope& at) {
    std::vector<Operation> handed;
    for (size_t w = 0; w < to_.hands_.size(); ++w)
      handed.push_back(tokens_[w].EnqueueMany(at.ColocateWith(global_step_.handle()), {to_.hands_[w]}));
    return handed;
  };
  to_.hand_out_ = Group(chief.WithOpName("hand_out"), hand(chief));
  to_.update_and_hand_out_ =
      Group(chief.WithOpName("update_and_hand_out"), hand(chief.WithControlDependencies(to_.update_)));
}

}  // namespace troupe::train
