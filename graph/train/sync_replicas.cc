#include "troupe/train/sync_replicas.h"

#include "graph/api/scope_state.h"
#include "graph/train/build.h"
#include "graph/train/set.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {
namespace {

// Of the queue of notices: a worker has one under way, and a few when it begins anew.
constexpr int64_t kNoticesOfWorker = 16;

absl::Status Check(const SyncReplicasOptions& o) {
  if (o.workers < 1 || o.worker < 0 || o.worker >= o.workers || o.take < 0 || o.take > o.workers) {
    return InvalidArgument("SyncReplicas cannot be built for worker ", o.worker, " of ", o.workers, ", of which ",
                           o.take, " are taken");
  }
  return absl::OkStatus();
}

}  // namespace

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
  if (wrong.ok()) {
    Build(at, optimizer, used);
  } else {
    at.Fail(wrong);
  }
}

void SyncReplicas::Build(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& used) {
  const Scope top = Scope(internal::TopLevel(*at->state())).WithLocation(at.location());
  MakeQueues(top);
  std::vector<Places> places;
  std::vector<Operation> made;
  for (const GradAndVar& g : used) {
    places.push_back(MakePlaces(top, g));
    if (!at.ok()) return;
    const Places& p = places.back();
    for (const auto* list : {&p.dense, &p.indices, &p.values}) {
      for (const Variable& v : *list) made.push_back(v.initializer());
    }
  }
  const Scope s = at.Sub(options_.name);
  make_places_ = Group(s.WithOpName("make_places"), made);
  BuildWorker(s, used, places);
  BuildChief(s, optimizer, places);
}

void SyncReplicas::MakeQueues(const Scope& top) {
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
  options.shapes = {{2}};
  for (int w = 0; w < options_.workers; ++w) tokens_.push_back(queue(StrCat("tokens/", w), {DType::kInt64}));
}

SyncReplicas::Places SyncReplicas::MakePlaces(const Scope& top, const GradAndVar& grad) const {
  Places places;
  places.variable = grad.var;
  const Scope beside = top.ColocateWith(grad.var.handle());
  const DType dtype = grad.var.variable_dtype();
  VariableOptions options{.trainable = false, .collections = {}};
  const auto make = [&](const std::string& name, DType type, const std::vector<int64_t>& dims,
                        const PartialTensorShape& shape) {
    options.name = StrCat(options_.name, "/", grad.var.variable_name(), "/", name);
    options.shape = shape;
    const Scope below = beside.NewSubScope(StrCat(options.name, "/Initializer"));
    const Output zeros =
        train::Build(below.WithOpName("zeros"), "Fill",
                     {Const(below, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims)))), Const(below, 0, type)},
                     {{"index_type", DType::kInt64}});
    return Variable(beside, zeros, options);
  };
  const PartialTensorShape& shape = grad.var.variable_shape();
  const std::optional<IndexedSlices> slices = SlicesOf(beside, grad.grad);
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  const bool known = slices ? shape.rank() > 0 : shape.IsFullyDefined();
  for (size_t i = 1; slices && i < dims.size(); ++i) {
    if (dims[i] < 0) beside.UpdateStatus(InvalidArgument("the rows of '", grad.var.variable_name(), "' have no shape"));
  }
  if (!known) {
    beside.UpdateStatus(InvalidArgument("SyncReplicas has no place for the gradient of '", grad.var.variable_name(),
                                        "': its shape is ", shape.DebugString()));
  }
  for (int w = 0; w < options_.workers && beside.ok(); ++w) {
    if (!slices) {
      places.dense.push_back(make(StrCat(w), dtype, dims, shape));
      continue;
    }
    std::vector<int64_t> rows = dims, any = dims;
    rows[0] = 0;
    any[0] = -1;
    places.indices.push_back(make(StrCat(w, "/indices"), slices->indices.dtype(), {0}, PartialTensorShape({-1})));
    places.values.push_back(make(StrCat(w, "/values"), dtype, rows, PartialTensorShape(any)));
  }
  return places;
}

// The gradient of this worker into its place.
Operation SyncReplicas::Put(const Scope& s, const GradAndVar& grad, const Places& places) const {
  const Scope here = s.ColocateWith(places.variable.handle());
  const DType dtype = places.variable.variable_dtype();
  const auto me = static_cast<size_t>(options_.worker);
  if (!places.dense.empty()) return SetTo(here, places.dense[me], CastTo(s, grad.grad, dtype));
  const std::optional<IndexedSlices> slices = SlicesOf(s, grad.grad);
  return Group(here, {SetTo(here, places.indices[me], slices->indices),
                      SetTo(here, places.values[me], CastTo(s, slices->values, dtype))});
}

void SyncReplicas::BuildWorker(const Scope& s, const std::vector<GradAndVar>& grads,
                               const std::vector<Places>& places) {
  if (!s.ok()) return;
  const Scope worker = s.NewSubScope("worker");
  notice_ = train::Build(worker.WithOpName("notice"), "Placeholder", {},
                         {{"dtype", DType::kInt64}, {"shape", PartialTensorShape({4})}});
  const Scope beside = worker.ColocateWith(global_step_.handle());
  say_ = notices_.Enqueue(beside.WithOpName("say"), {notice_, Const(worker, 0.0f)});
  token_ = tokens_[static_cast<size_t>(options_.worker)].Dequeue(beside.WithOpName("token")).at(0);
  std::vector<Operation> put;
  for (size_t i = 0; i < grads.size(); ++i) put.push_back(Put(worker, grads[i], places[i]));
  const Output loss = CastTo(worker, loss_, DType::kFloat);
  send_ = notices_.Enqueue(beside.WithOpName("send").WithControlDependencies(put), {notice_, loss});
}

Output SyncReplicas::SumOfDense(const Scope& here, const Places& places) const {
  Output sum;
  for (size_t w = 0; w < places.dense.size(); ++w) {
    Output one = places.dense[w].Read(here);
    if (taken_.valid()) {
      const Output in = train::Build(here, "GatherV2", {taken_, static_cast<int>(w), 0});
      one = train::Build(here, "Select", {in, one, train::Build(here, "ZerosLike", {one})});
    }
    sum = sum.valid() ? train::Build(here, "AddV2", {sum, one}) : one;
  }
  return sum;
}

// The slices of those who are taken, behind each other.
Output SyncReplicas::SumOfSlices(const Scope& here, const Places& places) const {
  std::vector<Input> indices, values;
  for (size_t w = 0; w < places.indices.size(); ++w) {
    Output i = places.indices[w].Read(here), v = places.values[w].Read(here);
    if (taken_.valid()) {
      const Output in = CastTo(here, train::Build(here, "GatherV2", {taken_, static_cast<int>(w), 0}), DType::kInt64);
      const Output rows =
          train::Build(here, "Mul", {train::Build(here, "Size", {i}, {{"out_type", DType::kInt64}}), in});
      const Output all = train::Build(here, "Range", {int64_t{0}, rows, int64_t{1}});
      i = train::Build(here, "GatherV2", {i, all, 0});
      v = train::Build(here, "GatherV2", {v, all, 0});
    }
    indices.emplace_back(i);
    values.emplace_back(v);
  }
  IndexedSlices slices;
  const Input zero(0);
  const auto joined = [&](const std::vector<Input>& parts) {
    return parts.size() == 1 ? Output(train::Build(here, "Identity", {parts[0]}))
                             : EmitLists(here, "ConcatV2", {InputList(parts), InputList({zero})}).output(0);
  };
  slices.indices = joined(indices);
  slices.values =
      train::Build(here, "RealDiv", {joined(values), Const(here, take(), places.variable.variable_dtype())});
  slices.dense_shape =
      places.variable.is_resource()
          ? train::Build(here, "VariableShape", {places.variable.handle()}, {{"out_type", DType::kInt64}})
          : train::Build(here, "Shape", {places.variable}, {{"out_type", DType::kInt64}});
  return FromSlices(here, slices);
}

Output SyncReplicas::MeanOf(const Scope& s, const Places& places) const {
  const Scope here = s.ColocateWith(places.variable.handle());
  if (places.dense.empty()) return SumOfSlices(here, places);
  const Output sum = SumOfDense(here, places);
  return train::Build(here, "RealDiv", {sum, Const(here, take(), places.variable.variable_dtype())});
}

void SyncReplicas::BuildChief(const Scope& s, Optimizer& optimizer, const std::vector<Places>& places) {
  if (!s.ok()) return;
  const Scope chief = s.NewSubScope("chief");
  const Scope beside = chief.ColocateWith(global_step_.handle());
  const OutputList heard = notices_.Dequeue(beside.WithOpName("heard"));
  heard_ = heard.at(0);
  heard_loss_ = heard.at(1);
  const auto fed = [&](const std::string& name, DType dtype, const PartialTensorShape& shape) {
    return train::Build(chief.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  };
  for (int w = 0; w < options_.workers; ++w)
    hands_.push_back(fed(StrCat("tokens_", w), DType::kInt64, PartialTensorShape({-1, 2})));
  if (take() < options_.workers) taken_ = fed("taken", DType::kBool, PartialTensorShape({options_.workers}));
  std::vector<GradAndVar> means;
  for (const Places& p : places) means.push_back({MeanOf(chief, p), p.variable});
  const Operation applied = optimizer.ApplyGradients(chief, means, global_step_);
  if (!s.ok()) return;
  // Now that the optimizer's slots are there.
  state_ = ServerState(chief, global_step_, /*undo=*/true);
  if (!s.ok()) return;
  update_ = state_.KeepAfter(chief, applied);
  const auto hand = [&](const Scope& at) {
    std::vector<Operation> handed;
    for (size_t w = 0; w < hands_.size(); ++w)
      handed.push_back(tokens_[w].EnqueueMany(at.ColocateWith(global_step_.handle()), {hands_[w]}));
    return handed;
  };
  hand_out_ = Group(chief.WithOpName("hand_out"), hand(chief));
  update_and_hand_out_ = Group(chief.WithOpName("update_and_hand_out"), hand(chief.WithControlDependencies(update_)));
}

}  // namespace troupe::train
