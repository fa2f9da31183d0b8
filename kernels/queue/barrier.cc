// Barrier, BarrierInsertMany, BarrierTakeMany, BarrierClose, BarrierReadySize,
// BarrierIncompleteSize. TensorFlow has them with references only.
#include "kernels/queue/barrier.h"

#include <algorithm>
#include <set>

#include "kernels/queue/queue_handle.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {

namespace {
constexpr char kKind[] = "Barrier";
}

void BarrierMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  auto r = std::static_pointer_cast<BarrierRequest>(request);
  answers->Reserve(takes_.size() + 1);
  absl::Status status;
  switch (r->kind) {
    case BarrierRequest::Kind::kInsert:
      status = Insert(r.get());
      break;
    case BarrierRequest::Kind::kTake:
      takes_.push_back(std::move(r));
      return Serve(answers);
    case BarrierRequest::Kind::kClose:
      status = Close(/*cancel=*/false);
      break;
    case BarrierRequest::Kind::kCloseAndCancel:
      status = Close(/*cancel=*/true);
      break;
    case BarrierRequest::Kind::kReady:
      r->number = static_cast<int64_t>(ready_.size());
      break;
    case BarrierRequest::Kind::kIncomplete:
      r->number = static_cast<int64_t>(incomplete_.size());
      break;
  }
  answers->Add(std::move(r), std::move(status));
  Serve(answers);
}

absl::Status BarrierMachine::Insert(BarrierRequest* r) {
  // First all that may be refused, so that nobody sees a part of it.
  std::set<std::string_view> named;
  for (const std::string& key : r->keys) {
    const auto it = incomplete_.find(key);
    const bool has = it != incomplete_.end() && it->second.components[r->component].valid();
    if (has || (!named.insert(key).second && spec_.types.size() > 1)) {
      return InvalidArgument("key '", CEscape(key), "' already has a value for component ", r->component, " of ",
                             spec_.What());
    }
    if (cancelled_ || (closed_ && it == incomplete_.end()))
      return Cancelled(spec_.What(), " is closed, and takes no key '", CEscape(key), "'");
  }
  bool any_new = false;
  for (size_t i = 0; i < r->keys.size(); ++i) {
    const auto [it, is_new] = incomplete_.try_emplace(r->keys[i]);
    BarrierEntry& e = it->second;
    if (is_new) {
      any_new = true;
      e.index = next_index_;
      e.key = r->keys[i];
      e.components.resize(spec_.types.size());
      e.missing = spec_.types.size();
    }
    e.components[r->component] = std::move(r->values[i]);
    if (--e.missing > 0) continue;
    const int64_t index = e.index;
    ready_.emplace(index, std::move(e));
    incomplete_.erase(it);
  }
  if (any_new) ++next_index_;
  return absl::OkStatus();
}

absl::Status BarrierMachine::Close(bool cancel) {
  if (closed_ && !cancel) return Cancelled(spec_.What(), " is already closed");
  closed_ = true;
  if (!cancel) return absl::OkStatus();
  cancelled_ = true;
  incomplete_.clear();
  return absl::OkStatus();
}

void BarrierMachine::Serve(StateAnswers* answers) {
  while (!takes_.empty()) {
    BarrierRequestPtr& r = takes_.front();
    if (!r->left()) {
      absl::Status status;
      if (!ServeTake(r.get(), &status)) return;
      answers->Add(std::move(r), std::move(status));
    }
    takes_.pop_front();
  }
}

bool BarrierMachine::ServeTake(BarrierRequest* r, absl::Status* status) {
  const auto ready = static_cast<int64_t>(ready_.size()), incomplete = static_cast<int64_t>(incomplete_.size());
  int64_t n = r->wanted;
  if (ready < n) {
    if (!closed_) return false;
    if (!r->small_batches) {
      if (ready + incomplete >= n) return false;
    } else if (incomplete > 0 && (r->wait_for_incomplete || ready == 0)) {
      return false;
    }
    if (!r->small_batches || ready == 0) {
      *status = OutOfRange(spec_.What(), " is closed and has insufficient elements (requested ", n, ", ready ", ready,
                           ", incomplete ", incomplete, ")");
      return true;
    }
    n = ready;
  }
  r->taken.reserve(static_cast<size_t>(n));
  for (; n > 0; --n) {
    r->taken.push_back(std::move(ready_.begin()->second));
    ready_.erase(ready_.begin());
  }
  return true;
}

void BarrierMachine::GiveBack(BarrierRequest* r) {
  for (; !r->taken.empty(); r->taken.pop_back()) {
    const int64_t index = r->taken.back().index;
    ready_.emplace_hint(ready_.lower_bound(index), index, std::move(r->taken.back()));
  }
}

void BarrierMachine::Withdraw(const StateRequestPtr& request, StateAnswers* answers) {
  answers->Reserve(takes_.size());
  const auto it = std::find(takes_.begin(), takes_.end(), request);
  if (it != takes_.end()) takes_.erase(it);
  GiveBack(static_cast<BarrierRequest*>(request.get()));
  Serve(answers);
}

void BarrierMachine::AbortWaiting(const absl::Status& why, StateAnswers* answers) {
  answers->Reserve(takes_.size());
  for (BarrierRequestPtr& r : takes_) answers->Add(std::move(r), why);
  takes_.clear();
}

void BarrierMachine::Visit(const std::function<void(const Tensor&)>& visit) const {
  const auto all = [&](const auto& entries) {
    for (const auto& [key, e] : entries) {
      for (const Tensor& t : e.components) {
        if (t.valid()) visit(t);
      }
    }
  };
  all(incomplete_);
  all(ready_);
}

std::string BarrierMachine::HowMuch() const {
  return StrCat(ready_.size(), " elements ready, ", incomplete_.size(), " incomplete", closed_ ? ", closed" : "",
                takes_.empty() ? "" : StrCat(", ", takes_.size(), " takes wait"));
}

// An entry i has "key_i", "index_i" and those of its components that have come as "i_c".
absl::StatusOr<ResourceState> BarrierMachine::Save() const {
  ResourceState state;
  state.kind = kKind;
  state::PutTypes(&state, "types", spec_.types);
  state::PutNumber(&state, "has_shapes", spec_.has_shapes() ? 1 : 0);
  for (size_t c = 0; c < spec_.shapes.size(); ++c) state::PutShape(&state, StrCat("shape_", c), spec_.shapes[c]);
  state::PutNumber(&state, "closed", closed_ ? 1 : 0);
  state::PutNumber(&state, "cancelled", cancelled_ ? 1 : 0);
  state::PutNumber(&state, "next_index", next_index_);
  state::PutNumber(&state, "count", static_cast<int64_t>(ready_.size() + incomplete_.size()));
  int64_t i = 0;
  const auto put = [&](const auto& entries) {
    for (const auto& [at, e] : entries) {
      state::PutText(&state, StrCat("key_", i), e.key);
      state::PutNumber(&state, StrCat("index_", i), e.index);
      for (size_t c = 0; c < e.components.size(); ++c) {
        if (e.components[c].valid()) state.tensors.emplace_back(StrCat(i, "_", c), e.components[c]);
      }
      ++i;
    }
  };
  put(ready_);
  put(incomplete_);
  return state;
}

absl::StatusOr<std::shared_ptr<Barrier>> Barrier::Make(QueueSpec spec) {
  TROUPE_RETURN_IF_ERROR(spec.Check());
  TROUPE_RETURN_IF_ERROR(AllDefined(spec));
  if (spec.capacity >= 0) return InvalidArgument("a ", kKind, " has no capacity, but is asked for ", spec.capacity);
  return std::shared_ptr<Barrier>(new Barrier(std::make_shared<BarrierMachine>(std::move(spec))));
}

absl::Status Barrier::TakePlaceOf(const Resource& other) {
  const auto* const before = dynamic_cast<const Barrier*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  return before->spec().CheckShared(spec_);
}

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedBarrier(const std::string& name, const ResourceState& state) {
  QueueSpec spec;
  spec.kind = kKind;
  spec.name = name;
  TROUPE_ASSIGN_OR_RETURN(spec.types, state::TakeTypes(state, "types"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t has_shapes, state::TakeNumber(state, "has_shapes", 0));
  for (size_t c = 0; has_shapes != 0 && c < spec.types.size(); ++c) {
    TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, state::TakeShape(state, StrCat("shape_", c)));
    spec.shapes.push_back(std::move(shape));
  }
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Barrier> barrier, Barrier::Make(std::move(spec)));
  auto& m = static_cast<BarrierMachine&>(*barrier->machine());
  TROUPE_ASSIGN_OR_RETURN(const int64_t closed, state::TakeNumber(state, "closed", 0));
  TROUPE_ASSIGN_OR_RETURN(const int64_t cancelled, state::TakeNumber(state, "cancelled", 0));
  m.closed_ = closed != 0;
  m.cancelled_ = cancelled != 0;
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  TROUPE_ASSIGN_OR_RETURN(m.next_index_, state::TakeNumber(state, "next_index", kLeast));
  TROUPE_ASSIGN_OR_RETURN(const int64_t count, state::TakeNumber(state, "count", 0));
  for (int64_t i = 0; i < count; ++i) {
    BarrierEntry e;
    TROUPE_ASSIGN_OR_RETURN(e.key, state::TakeText(state, StrCat("key_", i)));
    TROUPE_ASSIGN_OR_RETURN(e.index, state::TakeNumber(state, StrCat("index_", i), kLeast));
    e.components.resize(m.spec_.types.size());
    for (size_t c = 0; c < m.spec_.types.size(); ++c) {
      const Tensor* const t = state.Find(StrCat(i, "_", c));
      if (t == nullptr) {
        ++e.missing;
        continue;
      }
      if (t->dtype() != m.spec_.types[c] || (m.spec_.has_shapes() && !m.spec_.shapes[c].IsCompatibleWith(t->shape()))) {
        return InvalidArgument("component ", c, " of key '", CEscape(e.key), "' is saved as ", t->TypeAndShape());
      }
      e.components[c] = *t;
    }
    const int64_t index = e.index;
    const std::string key = e.key;
    if (e.missing == 0) {
      m.ready_.emplace(index, std::move(e));
    } else {
      m.incomplete_.emplace(key, std::move(e));
    }
  }
  return barrier;
}

namespace {

const ResourceKind saved(kKind, MakeSavedBarrier);

class BarrierOf : public state::StateKind {
 public:
  explicit BarrierOf(KernelInit& init) : spec_(SpecOf(init, kKind)) { init.Fail(Barrier::Make(spec_).status()); }
  absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext&, const std::string&) const override {
    return Barrier::Make(spec_);
  }
  absl::Status CheckShared(const StateResource& there) const override {
    const auto* const barrier = dynamic_cast<const Barrier*>(&there);
    if (barrier != nullptr) return barrier->spec().CheckShared(spec_);
    return InvalidArgument("'", spec_.name, "' is ", there.DebugString(), ", but the node asks for a ", kKind);
  }

 private:
  const QueueSpec spec_;
};

template <class F>
absl::StatusOr<BarrierRequestPtr> Ask(KernelContext& ctx, BarrierRequest::Kind kind, F&& fill) {
  return state::AskAs<Barrier, BarrierRequest>(ctx, [&](const Barrier& barrier, BarrierRequest* r) {
    r->kind = kind;
    return fill(barrier.spec(), r);
  });
}

class InsertKernel {
 public:
  explicit InsertKernel(KernelInit& init) : component_(init.Attr<int64_t>("component_index")) {}
  absl::Status Compute(KernelContext& ctx) {
    return Ask(ctx, BarrierRequest::Kind::kInsert,
               [&](const QueueSpec& spec, BarrierRequest* r) -> absl::Status {
                 const Tensor &keys = ctx.input(1), &values = ctx.input(2);
                 if (component_ < 0 || component_ >= static_cast<int64_t>(spec.types.size())) {
                   return InvalidArgument("component_index ", component_, " is out of range: ", spec.What(), " has ",
                                          spec.types.size(), " components");
                 }
                 r->component = static_cast<size_t>(component_);
                 if (values.dtype() != spec.types[r->component]) {
                   return InvalidArgument("component ", component_, " of ", spec.What(), " is of type ",
                                          Name(spec.types[r->component]), ", not ", Name(values.dtype()));
                 }
                 if (keys.rank() != 1 || values.rank() < 1 || values.dim(0) != keys.dim(0)) {
                   return InvalidArgument("there must be a value for each key, but the keys have shape ",
                                          keys.shape().DebugString(), ", the values ", values.shape().DebugString());
                 }
                 TensorShape each = values.shape();
                 each.RemoveDim(0);
                 if (spec.has_shapes() && !spec.shapes[r->component].IsCompatibleWith(each)) {
                   return InvalidArgument("component ", component_, " of ", spec.What(), " has shape ",
                                          spec.shapes[r->component].DebugString(), ", not ", each.DebugString());
                 }
                 r->keys.assign(keys.flat<std::string>().begin(), keys.flat<std::string>().end());
                 for (int64_t i = 0; i < keys.dim(0); ++i) {
                   TROUPE_ASSIGN_OR_RETURN(Element row, Row({&values, 1}, i));
                   r->values.push_back(std::move(row[0]));
                 }
                 return absl::OkStatus();
               })
        .status();
  }

 private:
  const int64_t component_;
};

class TakeKernel {
 public:
  explicit TakeKernel(KernelInit& init)
      : small_batches_(init.Attr<bool>("allow_small_batch")), wait_(init.Attr<bool>("wait_for_incomplete")) {
    if (init.Attr<int64_t>("timeout_ms") != -1)
      init.Fail(InvalidArgument("timeout_ms is not supported: give the call a deadline"));
  }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(
        const BarrierRequestPtr r,
        Ask(ctx, BarrierRequest::Kind::kTake, [&](const QueueSpec& spec, BarrierRequest* q) -> absl::Status {
          TROUPE_RETURN_IF_ERROR(spec.CheckTypes(absl::MakeConstSpan(ctx.node().output_types).subspan(2)));
          if (ctx.input(1).rank() != 0) {
            return InvalidArgument("num_elements must be a scalar, but has shape ", ctx.input(1).shape().DebugString());
          }
          q->wanted = ctx.input(1).scalar<int32_t>();
          q->small_batches = small_batches_;
          q->wait_for_incomplete = wait_;
          if (q->wanted < 0) return InvalidArgument("num_elements must be at least 0, got ", q->wanted);
          return absl::OkStatus();
        }));
    const auto n = static_cast<int64_t>(r->taken.size());
    TROUPE_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(0, TensorShape({n})));
    TROUPE_ASSIGN_OR_RETURN(Tensor * keys, ctx.AllocateOutput(1, TensorShape({n})));
    std::vector<Element> elements;
    for (int64_t i = 0; i < n; ++i) {
      BarrierEntry& e = r->taken[static_cast<size_t>(i)];
      indices->data<int64_t>()[i] = e.index;
      keys->data<std::string>()[i] = std::move(e.key);
      elements.push_back(std::move(e.components));
    }
    TROUPE_ASSIGN_OR_RETURN(const Barrier* const barrier, ctx.resource<Barrier>(0));
    const QueueSpec& spec = barrier->spec();
    for (size_t c = 0; c < spec.types.size(); ++c) {
      for (const Element& e : elements) {
        if (e[c].SameShape(elements[0][c])) continue;
        return InvalidArgument("elements of ", spec.What(),
                               " that are taken together differ in the shape of component ", c, ": ",
                               elements[0][c].shape().DebugString(), " and ", e[c].shape().DebugString());
      }
      TROUPE_ASSIGN_OR_RETURN(
          Tensor all, Stack(ctx, elements, c, spec.types[c],
                            spec.has_shapes() ? spec.shapes[c] : PartialTensorShape(TensorShape()), /*padded=*/false));
      ctx.set_output(static_cast<int>(c) + 2, std::move(all));
    }
    return absl::OkStatus();
  }

 private:
  const bool small_batches_, wait_;
};

class CloseKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit CloseKernel(KernelInit& init)
      : kind_(init.Attr<bool>("cancel_pending_enqueues") ? BarrierRequest::Kind::kCloseAndCancel
                                                         : BarrierRequest::Kind::kClose) {}
  absl::Status Compute(KernelContext& ctx) {
    return Ask(ctx, kind_, [](const QueueSpec&, BarrierRequest*) { return absl::OkStatus(); }).status();
  }

 private:
  const BarrierRequest::Kind kind_;
};

template <BarrierRequest::Kind kind>
struct SizeKernel {
  static constexpr Cost kCost = Cost::kTrivial;
  explicit SizeKernel(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const BarrierRequestPtr r,
                            Ask(ctx, kind, [](const QueueSpec&, BarrierRequest*) { return absl::OkStatus(); }));
    ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(r->number)));
    return absl::OkStatus();
  }
};

absl::Status TakeShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  c.set_output(0, PartialTensorShape{-1});
  c.set_output(1, PartialTensorShape{-1});
  for (int i = 2; i < c.num_outputs(); ++i) c.set_output(i, PartialTensorShape());
  return absl::OkStatus();
}

TROUPE_OP("Barrier")
    .Output("handle: Ref(string)")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .Attr("capacity: int = -1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .Trait(OpTrait::kElementsHandle)
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("its value is a handle")
    .Doc(
        "A handle of a barrier: elements with keys, whose components are inserted one by one, and which are taken "
        "when they are whole.");
TROUPE_OP("BarrierInsertMany")
    .Input("handle: Ref(string)")
    .Input("keys: string")
    .Input("values: T")
    .Attr("T: type")
    .Attr("component_index: int")
    .Shape([](InferenceContext& c) { return c.WithRank(1, 1).status(); })
    .Trait(OpTrait::kPutsElements)
    .Trait(OpTrait::kNeverWaits)
    .NotDifferentiable("it has no outputs")
    .Doc(
        "Gives the elements `keys` their component `component_index`, from the rows of `values`. A key that is not "
        "there is new. Others see all of them or none.");
TROUPE_OP("BarrierTakeMany")
    .Input("handle: Ref(string)")
    .Input("num_elements: int32")
    .Output("indices: int64")
    .Output("keys: string")
    .Output("values: component_types")
    .Attr("component_types: list(type) >= 1")
    .Attr("allow_small_batch: bool = false")
    .Attr("wait_for_incomplete: bool = false")
    .Attr("timeout_ms: int = -1")
    .Shape(TakeShape)
    .NotDifferentiable("what is in a barrier was computed by another step")
    .Doc(
        "Waits for `num_elements` whole elements and takes them, the first to come first. With `allow_small_batch` a "
        "closed barrier gives fewer; with `wait_for_incomplete`, too, not before no element is incomplete.");
TROUPE_OP("BarrierClose")
    .Input("handle: Ref(string)")
    .Attr("cancel_pending_enqueues: bool = false")
    .Shape(shape_fn::NoOutputs)
    .Trait(OpTrait::kPutsElements)
    .Trait(OpTrait::kNeverWaits)
    .NotDifferentiable("it has no outputs")
    .Doc("No new keys may come. With `cancel_pending_enqueues` elements that are not whole are dropped.");

OpBuilder SizeOp(std::string_view name) {
  return OpBuilder(name)
      .Input("handle: Ref(string)")
      .Output("size: int32")
      .Shape(shape_fn::Scalar)
      .Trait(OpTrait::kNeverWaits)
      .Trait(OpTrait::kNoEffect)
      .NotDifferentiable("it counts");
}
const OpRegistrar ready_size = SizeOp("BarrierReadySize").Doc("How many elements are whole.");
const OpRegistrar incomplete_size = SizeOp("BarrierIncompleteSize").Doc("How many elements are not whole.");

TROUPE_KERNEL("Barrier").Device("CPU").Class<state::HandleOf<BarrierOf>>();
TROUPE_KERNEL("BarrierInsertMany").Device("CPU").Class<InsertKernel>();
TROUPE_KERNEL("BarrierTakeMany").Device("CPU").Class<TakeKernel>();
TROUPE_KERNEL("BarrierClose").Device("CPU").Class<CloseKernel>();
TROUPE_KERNEL("BarrierReadySize").Device("CPU").Class<SizeKernel<BarrierRequest::Kind::kReady>>();
TROUPE_KERNEL("BarrierIncompleteSize").Device("CPU").Class<SizeKernel<BarrierRequest::Kind::kIncomplete>>();

}  // namespace
}  // namespace troupe::queue
