#include "kernels/queue/queue.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "kernels/common/elements.h"
#include "kernels/common/strided_copy.h"
#include "kernels/state/state_kind.h"

namespace troupe::queue {
namespace {

std::map<std::string, QueueKind::Maker, std::less<>>& Kinds() {
  static auto* const kinds = new std::map<std::string, QueueKind::Maker, std::less<>>;
  return *kinds;
}

std::string Types(absl::Span<const DType> types) {
  std::string text;
  for (const DType t : types) StrAppend(&text, text.empty() ? "" : ", ", Name(t));
  return StrCat("(", text, ")");
}
std::string Shapes(absl::Span<const PartialTensorShape> shapes) {
  if (shapes.empty()) return "(any)";
  std::string text;
  for (const PartialTensorShape& s : shapes) StrAppend(&text, text.empty() ? "" : ", ", s.DebugString());
  return StrCat("(", text, ")");
}

// A copy of fewer is not worth asking the compute threads.
constexpr size_t kFewBytes = size_t{1} << 15;

int64_t BytesOf(const Element& e) {
  size_t bytes = 0;
  for (const Tensor& t : e) {
    bytes += t.bytes();
    if (t.dtype() != DType::kString) continue;
    for (const std::string& s : t.flat<std::string>()) bytes += s.size();
  }
  return static_cast<int64_t>(bytes);
}

// `n` of these, `bytes` in all. Without threads: elements are small, and a machine has none.
void Copy(DType t, void* dst, const void* src, int64_t n, size_t bytes) {
  if (IsPlainBytes(t)) {
    std::memcpy(dst, src, bytes);
  } else {
    std::copy_n(static_cast<const std::string*>(src), n, static_cast<std::string*>(dst));
  }
}

Tensor Numbers(const std::vector<int64_t>& values) { return Tensor::Vector<int64_t>(values); }

}  // namespace

absl::Status QueueSpec::CheckTypes(absl::Span<const DType> components) const {
  if (absl::MakeConstSpan(types) == components) return absl::OkStatus();
  return InvalidArgument(What(), " has components of types ", Types(types), ", not ", Types(components));
}

absl::Status QueueSpec::CheckElement(absl::Span<const Tensor> components, bool many) const {
  if (components.size() != types.size()) {
    return InvalidArgument("wrong number of components for ", What(), ": expected ", types.size(), ", got ",
                           components.size());
  }
  for (size_t c = 0; c < types.size(); ++c) {
    const Tensor& t = components[c];
    if (t.dtype() != types[c]) {
      return InvalidArgument("type mismatch in component ", c, " of ", What(), ": expected ", Name(types[c]), ", got ",
                             Name(t.dtype()));
    }
    if (many && t.rank() == 0)
      return InvalidArgument("component ", c, " for ", What(), " is a scalar, but must have a dimension of elements");
    if (many && t.dim(0) != components[0].dim(0)) {
      return InvalidArgument("all components for ", What(), " must have the same size in dimension 0: component 0 has ",
                             components[0].dim(0), ", component ", c, " has ", t.dim(0));
    }
    if (!has_shapes()) continue;
    TensorShape shape = t.shape();
    if (many) shape.RemoveDim(0);
    if (!shapes[c].IsCompatibleWith(shape)) {
      return InvalidArgument("shape mismatch in component ", c, " of ", What(), ": expected ", shapes[c].DebugString(),
                             ", got ", shape.DebugString(), many ? " for each element" : "");
    }
  }
  return absl::OkStatus();
}

absl::Status QueueSpec::CheckShared(const QueueSpec& other) const {
  const auto differs = [&](std::string_view what, const auto& has, const auto& asked) {
    return InvalidArgument("shared queue '", name, "' has ", what, " ", has, ", but the node asks for ", asked);
  };
  if (kind != other.kind) return differs("type", kind, other.kind);
  if (std::max<int64_t>(capacity, -1) != std::max<int64_t>(other.capacity, -1))
    return differs("capacity", capacity, other.capacity);
  if (capacity_bytes != other.capacity_bytes) return differs("_capacity_bytes", capacity_bytes, other.capacity_bytes);
  if (types != other.types) return differs("component types", Types(types), Types(other.types));
  if (shapes != other.shapes) return differs("component shapes", Shapes(shapes), Shapes(other.shapes));
  if (min_after_dequeue != other.min_after_dequeue)
    return differs("min_after_dequeue", min_after_dequeue, other.min_after_dequeue);
  // Without a seed any queue will do.
  if ((other.seed != 0 || other.seed2 != 0) && (seed != other.seed || seed2 != other.seed2))
    return differs("seeds", StrCat(seed, ", ", seed2), StrCat(other.seed, ", ", other.seed2));
  return absl::OkStatus();
}

absl::Status QueueSpec::Check() const {
  if (types.empty()) return InvalidArgument("a queue needs at least one component");
  if (has_shapes() && shapes.size() != types.size()) {
    return InvalidArgument("a queue of ", types.size(), " components has shapes for ", shapes.size());
  }
  for (const DType t : types) {
    if (t == DType::kInvalid || IsRef(t) || t == DType::kResource || t == DType::kVariant)
      return InvalidArgument("a queue cannot hold elements of type ", Name(t));
  }
  if (capacity_bytes < 0) return InvalidArgument("_capacity_bytes is negative");
  return absl::OkStatus();
}

void QueueMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  auto r = std::static_pointer_cast<QueueRequest>(request);
  // What follows needs no memory for its answers.
  answers->Reserve(enqueues_.size() + dequeues_.size() + 1);
  switch (r->kind) {
    case QueueRequest::Kind::kSize:
      r->number = Count();
      return answers->Add(std::move(r), absl::OkStatus());
    case QueueRequest::Kind::kIsClosed:
      r->number = closed_;
      return answers->Add(std::move(r), absl::OkStatus());
    case QueueRequest::Kind::kCloseAndCancel:
      cancelled_ |= !closed_;
      closed_ = true;
      for (QueueRequestPtr& e : enqueues_) {
        answers->Add(std::move(e), Cancelled("the enqueue was cancelled: ", spec_.What(), " was closed"));
      }
      enqueues_.clear();
      answers->Add(std::move(r), absl::OkStatus());
      break;
    case QueueRequest::Kind::kEnqueue:
    case QueueRequest::Kind::kClose:
      enqueues_.push_back(std::move(r));
      break;
    case QueueRequest::Kind::kDequeue:
    case QueueRequest::Kind::kDequeueUpTo:
      dequeues_.push_back(std::move(r));
      break;
  }
  Flush(answers);
}

void QueueMachine::Flush(StateAnswers* answers) {
  for (bool changed = true; changed;) {
    changed = ServeEnqueues(answers);
    changed = ServeDequeues(answers) || changed;
  }
}

int64_t QueueMachine::Room() const {
  return spec_.capacity < 0 ? std::numeric_limits<int64_t>::max() : spec_.capacity - Count();
}
bool QueueMachine::HasBytesFor(const Element& element) const {
  return spec_.capacity_bytes == 0 || Count() == 0 || bytes_ + BytesOf(element) <= spec_.capacity_bytes;
}

void QueueMachine::PutIn(Element&& element) {
  const int64_t bytes = spec_.capacity_bytes > 0 ? BytesOf(element) : 0;
  Put(std::move(element));
  bytes_ += bytes;
}

bool QueueMachine::ServeEnqueues(StateAnswers* answers) {
  bool progress = false;
  while (!enqueues_.empty()) {
    QueueRequestPtr& r = enqueues_.front();
    if (r->left()) {
      enqueues_.pop_front();
      continue;
    }
    absl::Status status;
    if (r->kind == QueueRequest::Kind::kClose) {
      if (closed_) status = Cancelled("queue '", spec_.name, "' is already closed");
      closed_ = true;
    } else if (closed_) {
      status = Cancelled(spec_.What(), " is closed");
    } else {
      for (int64_t room = Room(); room > 0 && r->done < r->elements.size(); --room, ++r->done) {
        if (!HasBytesFor(r->elements[r->done])) break;
        PutIn(std::move(r->elements[r->done]));
        progress = true;
      }
      if (r->done < r->elements.size()) return progress;
    }
    progress = true;
    answers->Add(std::move(r), std::move(status));
    enqueues_.pop_front();
  }
  return progress;
}

bool QueueMachine::ServeDequeues(StateAnswers* answers) {
  bool progress = false;
  while (!dequeues_.empty()) {
    if (dequeues_.front()->left()) {
      GiveBack(dequeues_.front().get());
      dequeues_.pop_front();
      progress = true;
      continue;
    }
    const Progress p = Serve(dequeues_.front(), answers);
    progress = progress || p != Progress::kNone;
    if (p != Progress::kAnswered) return progress;
    dequeues_.pop_front();
  }
  return progress;
}

QueueMachine::Progress QueueMachine::Serve(const QueueRequestPtr& r, StateAnswers* answers) {
  const auto missing = [&] { return r->wanted - static_cast<int64_t>(r->elements.size()); };
  if (closed_ && Count() < missing()) {
    GiveBack(r.get());
    const int64_t left = Count();
    if (r->kind == QueueRequest::Kind::kDequeueUpTo && left > 0) {
      r->wanted = left;
    } else {
      answers->Add(r, OutOfRange(spec_.What(), " is closed and has insufficient elements (requested ", r->wanted,
                                 ", current size ", left, ")"));
      return Progress::kAnswered;
    }
  }
  const int64_t available = std::min(Count() - (closed_ ? 0 : HeldBack()), missing());
  const Progress progress = available > 0 ? Progress::kSome : Progress::kNone;
  if (available > 0) {
    const size_t before = r->elements.size();
    r->elements.reserve(before + static_cast<size_t>(available));
    Take(available, &r->elements);
    for (size_t i = before; spec_.capacity_bytes > 0 && i < r->elements.size(); ++i) bytes_ -= BytesOf(r->elements[i]);
  }
  if (missing() > 0) return progress;
  answers->Add(r, absl::OkStatus());
  return Progress::kAnswered;
}

void QueueMachine::GiveBack(QueueRequest* r) {
  while (!r->elements.empty()) {
    const int64_t bytes = spec_.capacity_bytes > 0 ? BytesOf(r->elements.back()) : 0;
    PutBack(std::move(r->elements.back()));
    bytes_ += bytes;
    r->elements.pop_back();
  }
}

void QueueMachine::Withdraw(const StateRequestPtr& request, StateAnswers* answers) {
  answers->Reserve(enqueues_.size() + dequeues_.size());
  auto& r = static_cast<QueueRequest&>(*request);
  for (Line* line : {&enqueues_, &dequeues_}) {
    const auto it = std::find(line->begin(), line->end(), request);
    if (it != line->end()) line->erase(it);
  }
  if (r.kind == QueueRequest::Kind::kDequeue || r.kind == QueueRequest::Kind::kDequeueUpTo) GiveBack(&r);
  Flush(answers);
}

void QueueMachine::AbortWaiting(const absl::Status& why, StateAnswers* answers) {
  answers->Reserve(enqueues_.size() + dequeues_.size());
  // The last to take gives back first, so that the elements are in their order again.
  for (auto it = dequeues_.rbegin(); it != dequeues_.rend(); ++it) GiveBack(it->get());
  for (Line* line : {&enqueues_, &dequeues_}) {
    for (QueueRequestPtr& r : *line) {
      if (!r->restored) answers->Add(std::move(r), why);
    }
    std::erase(*line, nullptr);
  }
}

void QueueMachine::Visit(const std::function<void(const Tensor&)>& visit) const {
  const auto visit_all = [&](const Element& e) {
    for (const Tensor& t : e) visit(t);
  };
  VisitElements(visit_all);
  for (const Line* line : {&enqueues_, &dequeues_}) {
    for (const QueueRequestPtr& r : *line) std::for_each(r->elements.begin(), r->elements.end(), visit_all);
  }
}

std::string QueueMachine::HowMuch() const {
  return StrCat(Count(), " elements", closed_ ? ", closed" : "",
                enqueues_.empty() ? "" : StrCat(", ", enqueues_.size(), " enqueues wait"),
                dequeues_.empty() ? "" : StrCat(", ", dequeues_.size(), " dequeues wait"));
}

absl::StatusOr<ResourceState> QueueMachine::Save() const {
  ResourceState state;
  state.kind = spec_.kind;
  const auto add = [&](std::string key, Tensor t) { state.tensors.emplace_back(std::move(key), std::move(t)); };
  state::PutTypes(&state, "types", spec_.types);
  add("numbers", Numbers({spec_.capacity, spec_.capacity_bytes, spec_.min_after_dequeue, spec_.seed, spec_.seed2,
                          closed_ && !cancelled_ ? 1 : 0, spec_.has_shapes() ? 1 : 0}));
  for (size_t c = 0; c < spec_.shapes.size(); ++c) state::PutShape(&state, StrCat("shape_", c), spec_.shapes[c]);
  // What a dequeue has taken, and may give back, comes first.
  std::vector<const Element*> elements;
  for (const QueueRequestPtr& r : dequeues_) {
    for (const Element& e : r->elements) elements.push_back(&e);
  }
  VisitElements([&](const Element& e) { elements.push_back(&e); });
  add("count", Tensor::Scalar(static_cast<int64_t>(elements.size())));
  std::vector<int64_t> line;
  for (const QueueRequestPtr& r : enqueues_) {
    if (r->left()) continue;
    if (r->kind == QueueRequest::Kind::kClose) {
      line.push_back(-1);
      continue;
    }
    for (size_t i = r->done; i < r->elements.size(); ++i) elements.push_back(&r->elements[i]);
    line.push_back(static_cast<int64_t>(r->elements.size() - r->done));
  }
  if (!line.empty()) add("line", Numbers(line));
  for (size_t c = 0; c < spec_.types.size(); ++c) {
    const bool equal = std::all_of(elements.begin(), elements.end(),
                                   [&](const Element* e) { return (*e)[c].SameShape((*elements[0])[c]); });
    if (!equal) {
      for (size_t i = 0; i < elements.size(); ++i) add(StrCat(c, "_", i), (*elements[i])[c]);
      continue;
    }
    if (elements.empty()) continue;
    TensorShape shape = (*elements[0])[c].shape();
    const int64_t each = shape.num_elements();
    shape.InsertDim(0, static_cast<int64_t>(elements.size()));
    Tensor packed(spec_.types[c], shape);
    if (!packed.valid()) return ResourceExhausted("no memory to save ", spec_.What());
    for (size_t i = 0; i < elements.size(); ++i) {
      Copy(packed.dtype(), array::ElementAt(packed.dtype(), packed.raw(), each * static_cast<int64_t>(i)),
           (*elements[i])[c].raw(), each, (*elements[i])[c].bytes());
    }
    add(StrCat("component_", c), std::move(packed));
  }
  SaveMore(&state);
  return state;
}

absl::Status QueueMachine::RestoreElements(const ResourceState& state) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor count, state.Get("count", DType::kInt64, TensorShape()));
  const int64_t held = count.scalar<int64_t>();
  absl::Span<const int64_t> line;
  if (const Tensor* const saved = state.Find("line"); saved != nullptr) {
    if (saved->dtype() != DType::kInt64 || saved->rank() != 1)
      return InvalidArgument("the line of ", spec_.What(), " is saved as ", saved->TypeAndShape());
    line = saved->flat<int64_t>();
  }
  int64_t n = held;
  for (const int64_t each : line) {
    if (each < -1 || each > std::numeric_limits<int64_t>::max() - std::max<int64_t>(n, 0))
      return InvalidArgument("the line of ", spec_.What(), " has an entry of ", each, " elements");
    n += std::max<int64_t>(each, 0);
  }
  std::deque<Element> waiting;
  for (int64_t i = 0; i < n; ++i) {
    Element e;
    for (size_t c = 0; c < spec_.types.size(); ++c) {
      const Tensor* packed = state.Find(StrCat("component_", c));
      if (packed != nullptr) {
        if (packed->rank() < 1 || packed->dim(0) != n)
          return InvalidArgument("component ", c, " of ", spec_.What(), " is saved as ", packed->TypeAndShape());
        TROUPE_ASSIGN_OR_RETURN(Element row, Row({packed, 1}, i));
        e.push_back(std::move(row[0]));
        continue;
      }
      const Tensor* one = state.Find(StrCat(c, "_", i));
      if (one == nullptr)
        return InvalidArgument("component ", c, " of element ", i, " of ", spec_.What(), " is missing");
      e.push_back(*one);
    }
    TROUPE_RETURN_IF_ERROR(spec_.CheckElement(e, /*many=*/false));
    if (i < held) {
      PutIn(std::move(e));
    } else {
      waiting.push_back(std::move(e));
    }
  }
  TROUPE_RETURN_IF_ERROR(RestoreLine(line, std::move(waiting)));
  return RestoreMore(state);
}

absl::Status QueueMachine::RestoreLine(absl::Span<const int64_t> line, std::deque<Element> elements) {
  for (const int64_t each : line) {
    auto r = std::make_shared<QueueRequest>(each < 0 ? QueueRequest::Kind::kClose : QueueRequest::Kind::kEnqueue);
    r->restored = true;
    for (int64_t i = 0; i < each; ++i) {
      if (elements.empty()) return InvalidArgument("the line of ", spec_.What(), " has more enqueues than elements");
      r->elements.push_back(std::move(elements.front()));
      elements.pop_front();
    }
    enqueues_.push_back(std::move(r));
  }
  return absl::OkStatus();
}

QueueKind::QueueKind(std::string_view kind, Maker make) { Kinds().emplace(kind, make); }

absl::StatusOr<std::shared_ptr<QueueMachine>> MakeMachine(QueueSpec spec) {
  TROUPE_RETURN_IF_ERROR(spec.Check());
  const auto it = Kinds().find(spec.kind);
  if (it == Kinds().end()) return Unimplemented("there is no queue of the kind '", spec.kind, "'");
  return it->second(std::move(spec));
}

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedQueue(const std::string& name, const ResourceState& state) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor numbers, state.Get("numbers", DType::kInt64, TensorShape({7})));
  const int64_t* n = numbers.data<int64_t>();
  QueueSpec spec;
  spec.kind = state.kind;
  spec.name = name;
  spec.capacity = n[0], spec.capacity_bytes = n[1], spec.min_after_dequeue = n[2], spec.seed = n[3], spec.seed2 = n[4];
  TROUPE_ASSIGN_OR_RETURN(spec.types, state::TakeTypes(state, "types"));
  for (size_t c = 0; n[6] != 0 && c < spec.types.size(); ++c) {
    TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, state::TakeShape(state, StrCat("shape_", c)));
    spec.shapes.push_back(std::move(shape));
  }
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<QueueMachine> machine, MakeMachine(std::move(spec)));
  TROUPE_RETURN_IF_ERROR(machine->RestoreElements(state));
  machine->closed_ = n[5] != 0;
  return std::make_shared<Queue>(std::move(machine));
}

absl::Status Queue::TakePlaceOf(const Resource& other) {
  const auto* before = dynamic_cast<const Queue*>(&other);
  if (before == nullptr) return Resource::TakePlaceOf(other);
  return before->spec().CheckShared(spec_);
}

RowCutter::RowCutter(absl::Span<const Tensor> components) {
  for (const Tensor& t : components) {
    Component c = {&t, t.shape(), 0, 0};
    c.shape.RemoveDim(0);
    c.each = c.shape.num_elements();
    c.bytes = static_cast<size_t>(c.each) * SizeOf(t.dtype());
    components_.push_back(std::move(c));
  }
}

absl::Status RowCutter::Cut(int64_t i, Element* to) const {
  for (const Component& c : components_) {
    const DType type = c.all->dtype();
    Tensor& one = to->emplace_back(type, c.shape);
    if (!one.valid()) return ResourceExhausted("no memory for an element of shape ", c.shape.DebugString());
    Copy(type, one.raw(), static_cast<const char*>(c.all->raw()) + static_cast<size_t>(i) * c.bytes, c.each, c.bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<Element> Row(absl::Span<const Tensor> components, int64_t i) {
  Element row;
  TROUPE_RETURN_IF_ERROR(RowCutter(components).Cut(i, &row));
  return row;
}

absl::StatusOr<Tensor> Stack(KernelContext& ctx, absl::Span<const Element> elements, size_t c, DType type,
                             const PartialTensorShape& known, bool padded) {
  TensorShape shape;
  if (elements.empty()) {
    for (int d = 0; d < known.rank(); ++d) shape.AddDim(std::max<int64_t>(0, known.dim(d)));
  } else {
    shape = elements[0][c].shape();
  }
  bool fill = false;
  for (const Element& e : elements) {
    for (int d = 0; padded && d < shape.rank(); ++d) {
      fill = fill || e[c].dim(d) != shape.dim(d);
      shape.set_dim(d, std::max(shape.dim(d), e[c].dim(d)));
    }
  }
  const int64_t each = shape.num_elements();
  TensorShape whole = shape;
  whole.InsertDim(0, static_cast<int64_t>(elements.size()));
  TROUPE_ASSIGN_OR_RETURN(const TensorShape checked, TensorShape::Make(whole.dims()));
  TROUPE_ASSIGN_OR_RETURN(Tensor all, ctx.AllocateTemp(type, checked));
  if (fill) array::ZeroElements(ctx.threads(), type, all.raw(), all.num_elements());
  const size_t bytes = static_cast<size_t>(each) * SizeOf(type);
  auto* to = static_cast<char*>(all.raw());
  for (size_t i = 0; i < elements.size(); ++i, to += bytes) {
    const Tensor& one = elements[i][c];
    if (!fill) {
      bytes < kFewBytes ? Copy(type, to, one.raw(), each, bytes)
                        : array::CopyElements(ctx.threads(), type, to, one.raw(), each);
      continue;
    }
    const array::Strides dst = array::DenseStrides(shape.dims()), src = array::DenseStrides(one.shape().dims());
    array::StridedCopy copy;
    for (int d = 0; d < one.rank(); ++d) {
      copy.Add(one.dim(d), dst[static_cast<size_t>(d)], src[static_cast<size_t>(d)]);
    }
    copy.Run(ctx.threads(), type, to, one.raw());
  }
  return all;
}

}  // namespace troupe::queue
