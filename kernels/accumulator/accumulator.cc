#include "kernels/accumulator/accumulator.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::accumulator {
namespace {

// Calls `f` with the type of the elements.
template <class F>
void Visit(DType type, F&& f) {
  switch (type) {
    case DType::kHalf:
      return f.template operator()<Half>();
    case DType::kBfloat16:
      return f.template operator()<BFloat16>();
    case DType::kDouble:
      return f.template operator()<double>();
    default:
      return f.template operator()<float>();
  }
}

// to[0, n) += from[0, n).
void AddTo(DType type, void* to, const void* from, int64_t n) {
  Visit(type, [&]<class T>() {
    T* const a = static_cast<T*>(to);
    const T* const b = static_cast<const T*>(from);
    for (int64_t i = 0; i < n; ++i) a[i] = a[i] + b[i];
  });
}

void DivideBy(DType type, void* values, int64_t divisor, int64_t n) {
  Visit(type, [&]<class T>() {
    T* const a = static_cast<T*>(values);
    const T d = T(static_cast<float>(divisor));
    for (int64_t i = 0; i < n; ++i) a[i] = a[i] / d;
  });
}

absl::StatusOr<Tensor> CopyOf(const Tensor& t) {
  Tensor copy(t.dtype(), t.shape());
  if (!copy.valid()) return ResourceExhausted("no memory for a gradient of shape ", t.shape().DebugString());
  if (t.bytes() > 0) std::memcpy(copy.raw(), t.raw(), t.bytes());
  return copy;
}

absl::StatusOr<Tensor> Rows(const Tensor& values, int64_t n) {
  TensorShape shape = values.shape();
  shape.set_dim(0, n);
  Tensor rows(values.dtype(), shape);
  if (!rows.valid()) return ResourceExhausted("no memory for ", n, " rows of a gradient");
  return rows;
}

char* At(Tensor* t, int64_t row, int64_t each) {
  return static_cast<char*>(t->raw()) + row * each * static_cast<int64_t>(SizeOf(t->dtype()));
}
const char* At(const Tensor& t, int64_t row, int64_t each) {
  return static_cast<const char*>(t.raw()) + row * each * static_cast<int64_t>(SizeOf(t.dtype()));
}

}  // namespace

absl::Status AccumulatorSpec::Check() const {
  const bool floating =
      dtype == DType::kHalf || dtype == DType::kBfloat16 || dtype == DType::kFloat || dtype == DType::kDouble;
  if (!floating) return InvalidArgument("a ", kind, " accumulates floating point numbers, not ", Name(dtype));
  if (sparse() && shape.known_rank() && shape.rank() < 1)
    return InvalidArgument("a ", kind, " has rows, so its shape cannot be a scalar's");
  return absl::OkStatus();
}

absl::Status AccumulatorSpec::CheckShared(const AccumulatorSpec& other) const {
  const auto differs = [&](std::string_view what, const auto& has, const auto& asked) {
    return InvalidArgument("shared accumulator '", name, "' has ", what, " ", has, ", but the node asks for ", asked);
  };
  if (kind != other.kind) return differs("type", kind, other.kind);
  if (dtype != other.dtype) return differs("elements of", Name(dtype), Name(other.dtype));
  if (!(shape == other.shape)) return differs("shape", shape.DebugString(), other.shape.DebugString());
  if (mean != other.mean) return differs("reduction_type", mean ? "MEAN" : "SUM", other.mean ? "MEAN" : "SUM");
  return absl::OkStatus();
}

void AccumulatorMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  auto r = std::static_pointer_cast<AccumulatorRequest>(request);
  answers->Reserve(takes_.size() + 1);
  absl::Status status;
  switch (r->kind) {
    case AccumulatorRequest::Kind::kApply:
      if (r->step >= step_) status = spec_.sparse() ? ApplyRows(*r) : Apply(*r);
      break;
    case AccumulatorRequest::Kind::kTake:
      takes_.push_back(std::move(r));
      return Serve(answers);
    case AccumulatorRequest::Kind::kCount:
      r->count = count_;
      break;
    case AccumulatorRequest::Kind::kSetStep:
      step_ = r->step;
      break;
  }
  answers->Add(std::move(r), std::move(status));
  Serve(answers);
}

void AccumulatorMachine::Serve(StateAnswers* answers) {
  while (!takes_.empty()) {
    AccumulatorRequestPtr& r = takes_.front();
    if (!r->left()) {
      if (count_ < r->required) return;
      absl::Status status = spec_.sparse() ? TakeRows(r.get()) : Take(r.get());
      if (status.ok()) {
        count_ = 0;
        ++step_;
        shape_ = spec_.shape;
      }
      answers->Add(std::move(r), std::move(status));
    }
    takes_.pop_front();
  }
}

absl::Status AccumulatorMachine::Apply(const AccumulatorRequest& r) {
  const TensorShape& shape = r.values.shape();
  if (!shape_.IsCompatibleWith(shape)) {
    return InvalidArgument("the gradient for ", spec_.What(), " has shape ", shape.DebugString(), ", not ",
                           shape_.DebugString());
  }
  if (count_ == 0) {
    TROUPE_ASSIGN_OR_RETURN(sum_, CopyOf(r.values));
  } else {
    AddTo(spec_.dtype, sum_.raw(), r.values.raw(), sum_.num_elements());
  }
  shape_ = PartialTensorShape(shape);
  ++count_;
  return absl::OkStatus();
}

absl::Status AccumulatorMachine::ApplyRows(const AccumulatorRequest& r) {
  const auto wrong = [&](const auto&... what) {
    return InvalidArgument("the gradient for ", spec_.What(), " has ", what...);
  };
  const int64_t n = r.indices.num_elements();
  if (r.values.rank() < 1 || r.values.dim(0) != n)
    return wrong(n, " indices, and values of shape ", r.values.shape().DebugString());
  PartialTensorShape whole = PartialTensorShape{-1};
  for (int d = 1; d < r.values.rank(); ++d) whole.AddDim(r.values.dim(d));
  for (const PartialTensorShape* const other : std::initializer_list<const PartialTensorShape*>{&shape_, &r.shape}) {
    absl::StatusOr<PartialTensorShape> merged = whole.MergeWith(*other);
    if (!merged.ok()) return wrong("shape ", whole.DebugString(), ", which is not ", other->DebugString());
    whole = *std::move(merged);
  }
  const int64_t each = n == 0 ? 0 : r.values.num_elements() / n;
  const int64_t* const indices = r.indices.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < 0 || (whole.dim(0) >= 0 && indices[i] >= whole.dim(0)))
      return wrong("index ", indices[i], " in place ", i, ", but shape ", whole.DebugString());
  }
  // First all that may fail, so that nobody sees a part of it: places for the rows that are new.
  std::map<int64_t, Row> fresh;
  for (int64_t i = 0; i < n; ++i) {
    if (rows_.contains(indices[i]) || fresh.contains(indices[i])) continue;
    TROUPE_ASSIGN_OR_RETURN(Tensor zeros, Rows(r.values, 1));
    std::memset(zeros.raw(), 0, zeros.bytes());
    fresh[indices[i]].sum = std::move(zeros);
  }
  rows_.merge(fresh);
  std::vector<int64_t> seen(indices, indices + n);
  for (int64_t i = 0; i < n; ++i) AddTo(spec_.dtype, rows_[indices[i]].sum.raw(), At(r.values, i, each), each);
  // A row that a gradient names twice is its sum, and counts once.
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (const int64_t i : seen) ++rows_[i].gradients;
  shape_ = PartialTensorShape{spec_.shape.known_rank() ? spec_.shape.dim(0) : -1};
  for (int d = 1; d < r.values.rank(); ++d) shape_.AddDim(r.values.dim(d));
  ++count_;
  return absl::OkStatus();
}

absl::Status AccumulatorMachine::Take(AccumulatorRequest* r) {
  if (spec_.mean) DivideBy(spec_.dtype, sum_.raw(), count_, sum_.num_elements());
  r->values = std::exchange(sum_, Tensor());
  return absl::OkStatus();
}

absl::Status AccumulatorMachine::TakeRows(AccumulatorRequest* r) {
  const auto n = static_cast<int64_t>(rows_.size());
  TensorShape shape({n});
  for (int d = 1; d < shape_.rank(); ++d) shape.AddDim(std::max<int64_t>(0, shape_.dim(d)));
  Tensor values(spec_.dtype, shape), indices(DType::kInt64, {n});
  if (!values.valid() || !indices.valid()) return ResourceExhausted("no memory for ", n, " rows of ", spec_.What());
  int64_t i = 0;
  for (auto& [index, row] : rows_) {
    const int64_t each = row.sum.num_elements();
    if (spec_.mean) DivideBy(spec_.dtype, row.sum.raw(), row.gradients, each);
    std::memcpy(At(&values, i, each), row.sum.raw(), row.sum.bytes());
    indices.data<int64_t>()[i++] = index;
  }
  r->values = std::move(values);
  r->indices = std::move(indices);
  r->shape = shape_;
  rows_.clear();
  return absl::OkStatus();
}

void AccumulatorMachine::Withdraw(const StateRequestPtr& request, StateAnswers* answers) {
  answers->Reserve(takes_.size());
  const auto it = std::find(takes_.begin(), takes_.end(), request);
  if (it != takes_.end()) takes_.erase(it);
  Serve(answers);
}

void AccumulatorMachine::AbortWaiting(const absl::Status& why, StateAnswers* answers) {
  answers->Reserve(takes_.size());
  for (AccumulatorRequestPtr& r : takes_) answers->Add(std::move(r), why);
  takes_.clear();
}

void AccumulatorMachine::Visit(const std::function<void(const Tensor&)>& visit) const {
  if (sum_.valid()) visit(sum_);
  for (const auto& [index, row] : rows_) visit(row.sum);
}

std::string AccumulatorMachine::HowMuch() const {
  return StrCat(count_, " gradients at step ", step_,
                takes_.empty() ? "" : StrCat(", ", takes_.size(), " takes wait for ", takes_.front()->required));
}

absl::StatusOr<ResourceState> AccumulatorMachine::Save() const {
  ResourceState state;
  state.kind = spec_.kind;
  state::PutTypes(&state, "type", {spec_.dtype});
  state::PutShape(&state, "shape", spec_.shape);
  state::PutNumber(&state, "mean", spec_.mean ? 1 : 0);
  state::PutNumber(&state, "step", step_);
  state::PutNumber(&state, "count", count_);
  if (!spec_.sparse()) {
    if (count_ > 0) {
      TROUPE_ASSIGN_OR_RETURN(Tensor sum, CopyOf(sum_));
      state.tensors.emplace_back("sum", std::move(sum));
    }
    return state;
  }
  if (count_ == 0) return state;
  const auto n = static_cast<int64_t>(rows_.size());
  TensorShape shape({n});
  for (int d = 1; d < shape_.rank(); ++d) shape.AddDim(shape_.dim(d));
  Tensor sums(spec_.dtype, shape), indices(DType::kInt64, {n}), gradients(DType::kInt64, {n});
  if (!sums.valid() || !indices.valid() || !gradients.valid())
    return ResourceExhausted("no memory to save ", spec_.What());
  int64_t i = 0;
  for (const auto& [index, row] : rows_) {
    std::memcpy(At(&sums, i, row.sum.num_elements()), row.sum.raw(), row.sum.bytes());
    indices.data<int64_t>()[i] = index;
    gradients.data<int64_t>()[i++] = row.gradients;
  }
  state.tensors.emplace_back("sum", std::move(sums));
  state.tensors.emplace_back("indices", std::move(indices));
  state.tensors.emplace_back("gradients", std::move(gradients));
  return state;
}

absl::StatusOr<std::shared_ptr<Accumulator>> Accumulator::Make(AccumulatorSpec spec) {
  TROUPE_RETURN_IF_ERROR(spec.Check());
  return std::shared_ptr<Accumulator>(new Accumulator(std::make_shared<AccumulatorMachine>(std::move(spec))));
}

absl::Status Accumulator::TakePlaceOf(const Resource& other) {
  const auto* const before = dynamic_cast<const Accumulator*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  return before->spec().CheckShared(spec_);
}

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedAccumulator(const std::string& name, const ResourceState& state) {
  AccumulatorSpec spec;
  spec.kind = state.kind;
  spec.name = name;
  TROUPE_ASSIGN_OR_RETURN(const std::vector<DType> types, state::TakeTypes(state, "type"));
  if (types.size() != 1) return InvalidArgument("a saved ", state.kind, " has ", types.size(), " types");
  spec.dtype = types[0];
  TROUPE_ASSIGN_OR_RETURN(spec.shape, state::TakeShape(state, "shape"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t mean, state::TakeNumber(state, "mean", 0));
  spec.mean = mean != 0;
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Accumulator> made, Accumulator::Make(std::move(spec)));
  auto& m = static_cast<AccumulatorMachine&>(*made->machine());
  TROUPE_ASSIGN_OR_RETURN(m.step_, state::TakeNumber(state, "step", std::numeric_limits<int64_t>::min()));
  TROUPE_ASSIGN_OR_RETURN(const int64_t count, state::TakeNumber(state, "count", 0));
  if (count == 0) return made;
  const Tensor* const sum = state.Find("sum");
  if (sum == nullptr || sum->dtype() != m.spec_.dtype || (m.spec_.sparse() && sum->rank() < 1))
    return InvalidArgument("a saved ", state.kind, " of ", count, " gradients has no 'sum'");
  AccumulatorRequest all;
  all.values = *sum;
  if (!m.spec_.sparse()) {
    TROUPE_RETURN_IF_ERROR(m.Apply(all));
  } else {
    const TensorShape n({sum->dim(0)});
    TROUPE_ASSIGN_OR_RETURN(all.indices, state.Get("indices", DType::kInt64, n));
    TROUPE_ASSIGN_OR_RETURN(const Tensor gradients, state.Get("gradients", DType::kInt64, n));
    TROUPE_RETURN_IF_ERROR(m.ApplyRows(all));
    for (int64_t i = 0; i < sum->dim(0); ++i) {
      const int64_t g = gradients.data<int64_t>()[i];
      if (g < 1 || g > count) return InvalidArgument("a saved ", state.kind, " has a row of ", g, " gradients");
      m.rows_[all.indices.data<int64_t>()[i]].gradients = g;
    }
  }
  m.count_ = count;
  return made;
}

AccumulatorKind::AccumulatorKind(KernelInit& init, std::string kind) {
  spec_.kind = std::move(kind);
  spec_.name = init.ResourceKey(/*per_session=*/false).second;
  spec_.dtype = init.Attr<DType>("dtype");
  spec_.shape = init.Attr<PartialTensorShape>("shape");
  spec_.mean = init.Attr<std::string>("reduction_type") == "MEAN";
  init.Fail(spec_.Check());
}

absl::StatusOr<std::shared_ptr<StateResource>> AccumulatorKind::Make(const KernelContext&, const std::string&) const {
  return Accumulator::Make(spec_);
}

absl::Status AccumulatorKind::CheckShared(const StateResource& there) const {
  const auto* const accumulator = dynamic_cast<const Accumulator*>(&there);
  if (accumulator != nullptr) return accumulator->spec().CheckShared(spec_);
  return InvalidArgument("'", spec_.name, "' is ", there.DebugString(), ", but the node asks for a ", spec_.kind);
}

}  // namespace troupe::accumulator
