#include "troupe/train/sync_replicas.h"

#include <algorithm>

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
  options.shapes = {{kTokenWords}};
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
  if (elastic()) {
    for (int p = 0; p < options_.parts; ++p)
      places.names.push_back(StrCat(options_.name, "/", grad.var.variable_name(), "/", p));
    places.types = {dtype};
    places.shapes = {shape};
    if (slices) {
      dims[0] = -1;
      places.types = {slices->indices.dtype(), dtype};
      places.shapes = {PartialTensorShape({-1}), PartialTensorShape(dims)};
    }
    return places;
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

// Into the place of each part.
std::vector<Operation> SyncReplicas::PutParts(const Scope& s, const GradAndVar& grad, const Places& places) const {
  const Scope here = s.ColocateWith(places.variable.handle()).WithOpName("put");
  const DType dtype = places.variable.variable_dtype();
  const std::optional<IndexedSlices> slices = SlicesOf(s, grad.grad);
  std::vector<Input> values;
  if (slices) values = {slices->indices, CastTo(s, slices->values, dtype)};
  if (!slices) values = {CastTo(s, grad.grad, dtype)};
  std::vector<Operation> put;
  for (const std::string& name : places.names) {
    put.push_back(
        EmitLists(here, "_PutNumbered", {InputList({Input(number_)}), InputList(values)}, {{"shared_name", name}}));
  }
  return put;
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
  const Output loss = CastTo(worker, loss_, DType::kFloat);
  if (elastic()) number_ = train::Build(worker.WithOpName("number"), "GatherV2", {notice_, 3, 0});
  std::vector<std::vector<Operation>> put(static_cast<size_t>(std::max(1, options_.parts)));
  for (size_t i = 0; i < grads.size(); ++i) {
    const std::vector<Operation> its =
        elastic() ? PutParts(worker, grads[i], places[i]) : std::vector<Operation>{Put(worker, grads[i], places[i])};
    for (size_t part = 0; part < its.size(); ++part) put[part].push_back(its[part]);
  }
  for (const std::vector<Operation>& all : put)
    sends_.push_back(notices_.Enqueue(beside.WithOpName("send").WithControlDependencies(all), {notice_, loss}));
}

SyncReplicas::Gradients SyncReplicas::Read(const Scope& here, const Places& places) const {
  Gradients read;
  for (const Variable& v : places.dense) read.dense.push_back(v.Read(here));
  for (const Variable& v : places.indices) read.indices.push_back(v.Read(here));
  for (const Variable& v : places.values) read.values.push_back(v.Read(here));
  for (size_t p = 0; p < places.names.size(); ++p) {
    const Operation taken = EmitOp(here.WithOpName("take"), "_TakeNumbered", {number_of_[p]},
                                   {{"T", places.types}, {"shapes", places.shapes}, {"shared_name", places.names[p]}});
    if (!taken.valid()) return {};
    if (places.types.size() == 1) {
      read.dense.push_back(taken.output(0));
    } else {
      read.indices.push_back(taken.output(0));
      read.values.push_back(taken.output(1));
    }
  }
  return read;
}

Output SyncReplicas::SumOfDense(const Scope& here, const std::vector<Output>& dense) const {
  Output sum;
  for (size_t w = 0; w < dense.size(); ++w) {
    Output one = dense[w];
    if (taken_.valid()) {
      const Output in = train::Build(here, "GatherV2", {taken_, static_cast<int>(w), 0});
      one = train::Build(here, "Select", {in, one, train::Build(here, "ZerosLike", {one})});
    }
    sum = sum.valid() ? train::Build(here, "AddV2", {sum, one}) : one;
  }
  return sum;
}

// The slices of those who are taken, behind each other.
Output SyncReplicas::SumOfSlices(const Scope& here, const Gradients& gradients, const Variable& variable) const {
  std::vector<Input> indices, values;
  for (size_t w = 0; w < gradients.indices.size(); ++w) {
    Output i = gradients.indices[w], v = gradients.values[w];
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
  slices.values = train::Build(here, "RealDiv", {joined(values), Const(here, take(), variable.variable_dtype())});
  slices.dense_shape = variable.is_resource()
                           ? train::Build(here, "VariableShape", {variable.handle()}, {{"out_type", DType::kInt64}})
                           : train::Build(here, "Shape", {variable}, {{"out_type", DType::kInt64}});
  return FromSlices(here, slices);
}

Output SyncReplicas::MeanOf(const Scope& s, const Places& places) const {
  const Scope here = s.ColocateWith(places.variable.handle());
  const Gradients read = Read(here, places);
  if (!here.ok()) return {};
  if (read.dense.empty()) return SumOfSlices(here, read, places.variable);
  const Output sum = SumOfDense(here, read.dense);
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
    hands_.push_back(fed(StrCat("tokens_", w), DType::kInt64, PartialTensorShape({-1, kTokenWords})));
  if (elastic()) {
    numbers_ = fed("numbers", DType::kInt64, PartialTensorShape({options_.parts}));
    for (int p = 0; p < options_.parts; ++p)
      number_of_.push_back(train::Build(chief.WithOpName("number"), "GatherV2", {numbers_, p, 0}));
  } else if (take() < options_.workers) {
    taken_ = fed("taken", DType::kBool, PartialTensorShape({options_.workers}));
  }
  std::vector<GradAndVar> means;
  for (const Places& p : places) means.push_back({MeanOf(chief, p), p.variable});
  const Operation applied = optimizer.ApplyGradients(chief, means, global_step_);
  if (!s.ok()) return;
  // Now that the optimizer's slots are there.
  state_ = ServerState(chief, global_step_, {.live_replicas = options_.live_replicas});
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
