#include "troupe/kernel.h"

#include <algorithm>
#include <mutex>

#include "graph/core/guarded.h"
#include "graph/core/hash_map.h"
#include "kernels/device/session_containers.h"

namespace troupe {

KernelNode::KernelNode() = default;
KernelNode::KernelNode(const Node& node, Device* d) : KernelNode(node.properties(), d) {}
KernelNode::KernelNode(SharedProperties properties, Device* d)
    : name(properties->name),
      op(properties->op->name),
      input_types(properties->input_types),
      output_types(properties->output_types),
      device(d),
      location(properties->location),
      properties_(std::move(properties)) {}
KernelNode::KernelNode(const KernelNode&) = default;
KernelNode::KernelNode(KernelNode&&) noexcept = default;
KernelNode& KernelNode::operator=(const KernelNode&) = default;
KernelNode& KernelNode::operator=(KernelNode&&) noexcept = default;
KernelNode::~KernelNode() = default;

KernelInit::KernelInit(const Node& node, Device* device, SessionScope session)
    : node_(node), device_(device), session_(std::move(session)) {}
KernelInit::~KernelInit() = default;

namespace {
// Its address tells threads apart.
thread_local const char this_thread = 0;
}  // namespace

CancellationList::Id CancellationList::Register(std::function<void()> f) {
  std::lock_guard<std::mutex> lock(mu_);
  if (cancelled_) return 0;
  used_.store(true, std::memory_order_relaxed);
  entries_.emplace(++last_, std::move(f));
  return last_;
}

bool CancellationList::Deregister(Id id) {
  {
    std::unique_lock<std::mutex> lock(mu_);
    if (auto entry = entries_.extract(id)) {
      lock.unlock();  // it may have a share in anything
      return true;
    }
    if (caller_ == &this_thread) return false;
  }
  if (id != 0) running_.wait(id);
  return false;
}

void CancellationList::Cancel() {
  std::unique_lock<std::mutex> lock(mu_);
  cancelled_ = true;
  used_.store(true, std::memory_order_relaxed);
  if (calling_) return;
  calling_ = true;
  caller_ = &this_thread;
  while (!entries_.empty()) {
    auto entry = entries_.extract(entries_.begin());
    running_.store(entry.key());
    lock.unlock();
    Guarded("a callback of a step's cancellation", [&] { entry.mapped()(); }).IgnoreError();
    entry.mapped() = nullptr;
    running_.store(0);
    running_.notify_all();
    lock.lock();
  }
  calling_ = false;
  caller_ = nullptr;
}

void CancellationList::Clear() {
  std::map<Id, std::function<void()>> entries;
  std::lock_guard<std::mutex> lock(mu_);
  entries.swap(entries_);
  cancelled_ = false;
  used_.store(false, std::memory_order_relaxed);
}

// Told from a kernel's own errors by its text.
static constexpr absl::string_view kWaits = "the kernel waits";

absl::Status KernelContext::WaitFor(std::unique_ptr<KernelWait> wait) {
  wait_ = std::move(wait);
  return absl::Status(absl::StatusCode::kUnavailable, kWaits);
}

bool IsWait(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable && status.message() == kWaits;
}

void KernelInit::Fail(const absl::Status& s) {
  if (status_.ok()) status_ = s;
}

template <class T>
T KernelInit::Attr(std::string_view name) {
  absl::StatusOr<T> v = node_.Attr<T>(name);
  if (v.ok()) return *std::move(v);
  Fail(v.status());
  return T{};
}
#define TROUPE_INSTANTIATE(...) template __VA_ARGS__ KernelInit::Attr(std::string_view);
TROUPE_INSTANTIATE(int32_t)
TROUPE_FOR_ATTR_TYPES(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

std::pair<std::string, std::string> KernelInit::ResourceKey(bool per_session) {
  std::string container, name;
  if (node_.attrs().Has("container")) container = Attr<std::string>("container");
  if (node_.attrs().Has("shared_name")) name = Attr<std::string>("shared_name");
  if (!container.empty() && container.front() == '/' && container != OwnVariables(session_.id)) {
    Fail(InvalidArgument("container '", container, "' is no name for a container: it begins with '/'"));
  }
  // A variable's own name as its shared name is what builders write for one that is to be found by
  // its name. It asks for nothing.
  const bool named = !container.empty() || (!name.empty() && name != node_.name());
  if (name.empty()) name = node_.name();
  if (per_session) return {OwnState(session_.id), container.empty() ? std::move(name) : StrCat(container, "/", name)};
  if (!named && !session_.share_variables) container = OwnVariables(session_.id);
  return {std::move(container), std::move(name)};
}

absl::Status KernelContext::WrongHandle(int input, const ResourceHandle& handle) {
  return InvalidArgument("input ", input, " is a handle of '", handle.name(), "', which is ",
                         handle.object() ? handle.object()->DebugString() : std::string("not bound to anything"));
}

absl::StatusOr<Tensor*> KernelContext::AllocateOutput(int i, const TensorShape& shape) {
  Tensor t(allocator(), output_type(i), shape);
  if (!t.valid()) {
    return ResourceExhausted("no memory for output ", i, " of type ", Name(output_type(i)), " and shape ",
                             shape.DebugString(), " from allocator ", allocator()->name());
  }
  outputs_[i] = std::move(t);
  return &outputs_[i];
}

absl::StatusOr<Tensor> KernelContext::AllocateTemp(DType dtype, const TensorShape& shape) {
  Tensor t(allocator(), dtype, shape);
  if (!t.valid()) {
    return ResourceExhausted("no memory for a temporary of type ", Name(dtype), " and shape ", shape.DebugString(),
                             " from allocator ", allocator()->name());
  }
  return t;
}

absl::StatusOr<Tensor*> KernelContext::ForwardOrAllocate(std::initializer_list<int> candidates, int o,
                                                         const TensorShape& shape) {
  const DType type = output_type(o);
  const int64_t n = shape.num_elements();
  for (int i : candidates) {
    Tensor& in = inputs_[i];
    if (in.dtype() != type || !in.BufferUnique() || in.num_elements() != n) continue;
    // The same input may be wired twice; then the buffer is not unique and we do not come here.
    outputs_[o] = in.HasShape(shape) ? std::move(in) : std::move(in).ReshapedMove(shape);
    return &outputs_[o];
  }
  return AllocateOutput(o, shape);
}

namespace internal {

absl::StatusOr<PreparedKernel> FinishKernel(const KernelInit& init, void* state, void (*destroy)(void*),
                                            ComputeFn compute, AsyncComputeFn compute_async, Cost cost) {
  PreparedKernel p;
  p.state = std::shared_ptr<void>(state, destroy);
  if (!init.status().ok()) return init.status();
  p.compute = compute;
  p.compute_async = compute_async;
  p.cost = cost;
  return p;
}

absl::StatusOr<PreparedKernel> FunctionKernel(ComputeFn compute, Cost cost) {
  PreparedKernel p;
  p.compute = compute;
  p.cost = cost;
  return p;
}

}  // namespace internal

KernelBuilder::KernelBuilder(std::string_view op, KernelOrigin origin) {
  def_.op = op;
  def_.origin = origin;
}
KernelBuilder::~KernelBuilder() = default;
KernelBuilder& KernelBuilder::Device(std::string_view type) {
  def_.device_type = type;
  return *this;
}
KernelBuilder& KernelBuilder::Types(std::string_view attr, absl::Span<const DType> types) {
  def_.constraints.push_back({std::string(attr), std::vector<DType>(types.begin(), types.end())});
  return *this;
}
KernelBuilder& KernelBuilder::HostMemory(std::string_view arg) {
  def_.host_memory.emplace_back(arg);
  return *this;
}
KernelBuilder& KernelBuilder::Label(std::string_view label) {
  def_.label = label;
  return *this;
}
KernelBuilder& KernelBuilder::Priority(int p) {
  def_.priority = p;
  return *this;
}
KernelBuilder& KernelBuilder::Factory(KernelFactory f) {
  def_.factory = f;
  return *this;
}
KernelRegistrar::KernelRegistrar(const KernelBuilder& b) { KernelRegistry::Global().Register(b.def()); }

struct KernelRegistry::Impl {
  mutable std::mutex mu;
  HashMap<std::string, std::vector<std::unique_ptr<KernelDef>>> kernels;  // by op
};

KernelRegistry::KernelRegistry() : impl_(std::make_unique<Impl>()) {}

KernelRegistry& KernelRegistry::Global() {
  static KernelRegistry* registry = new KernelRegistry;
  return *registry;
}

void KernelRegistry::Register(KernelDef def) {
  std::lock_guard<std::mutex> lock(impl_->mu);
  auto& of_op = impl_->kernels[def.op];
  of_op.push_back(std::make_unique<KernelDef>(std::move(def)));
}

namespace {

bool Fits(const KernelDef& k, const Node& node) {
  for (const KernelDef::Constraint& c : k.constraints) {
    const AttrValue* v = node.attrs().Find(c.attr);
    if (v == nullptr) return false;
    const auto allowed = [&](DType t) {
      return std::find(c.types.begin(), c.types.end(), BaseType(t)) != c.types.end();
    };
    if (const DType* t = v->As<DType>()) {
      if (!allowed(*t)) return false;
    } else if (const auto* list = v->As<std::vector<DType>>()) {
      if (!std::all_of(list->begin(), list->end(), allowed)) return false;
    } else {
      return false;
    }
  }
  return true;
}

// The label that the node asks for; "" for most.
std::string_view LabelOf(const Node& node) {
  const AttrValue* v = node.attrs().Find("_kernel");
  const std::string* label = v == nullptr ? nullptr : v->As<std::string>();
  return label == nullptr ? std::string_view() : *label;
}

// For devices of every type.
constexpr std::string_view kAnyDevice = "*";

// Of the kernels of an op: the one that fits with the highest priority, of several the first; null
// when none does. One for every type of device is taken when none is for this type.
template <class Kernels>
const KernelDef* Best(const Kernels& kernels, std::string_view device_type, const Node& node) {
  const std::string_view label = LabelOf(node);
  const KernelDef *best = nullptr, *best_for_any = nullptr;
  for (const auto& k : kernels) {
    if (k->device_type != device_type && k->device_type != kAnyDevice) continue;
    const KernelDef*& so_far = k->device_type == device_type ? best : best_for_any;
    if ((so_far != nullptr && k->priority <= so_far->priority) || k->label != label) continue;
    if (Fits(*k, node)) so_far = &*k;
  }
  return best != nullptr ? best : best_for_any;
}

std::string Describe(const KernelDef& k) {
  std::string s = k.device_type;
  if (!k.label.empty()) StrAppend(&s, " label ", k.label);
  for (const KernelDef::Constraint& c : k.constraints) {
    std::vector<std::string_view> names;
    for (DType t : c.types) names.push_back(Name(t));
    StrAppend(&s, " ", c.attr, " in {", StrJoin(names, ","), "}");
  }
  return s;
}

}  // namespace

absl::StatusOr<const KernelDef*> KernelRegistry::Find(const Node& node, std::string_view device_type) const {
  std::lock_guard<std::mutex> lock(impl_->mu);
  const auto of_op = impl_->kernels.find(node.op().name);
  if (of_op == impl_->kernels.end()) return NotFound("op '", node.op().name, "' has no kernel at all");
  if (const KernelDef* best = Best(of_op->second, device_type, node)) return best;
  const std::string_view label = LabelOf(node);
  std::vector<std::string> have;
  for (const auto& k : of_op->second) have.push_back(Describe(*k));
  std::string attrs;
  for (const AttrDef& a : node.op().attrs) {
    if (a.kind != "type" && a.kind != "list(type)") continue;
    if (const AttrValue* v = node.attrs().Find(a.name))
      StrAppend(&attrs, attrs.empty() ? "" : ", ", a.name, "=", v->DebugString());
  }
  return NotFound("op '", node.op().name, "' has no ", device_type, " kernel for ",
                  attrs.empty() ? "these attrs" : attrs, label.empty() ? "" : StrCat(" with label '", label, "'"),
                  "; registered: ", StrJoin(have, "; "));
}

std::vector<const KernelDef*> KernelRegistry::List(std::string_view op) const {
  std::lock_guard<std::mutex> lock(impl_->mu);
  std::vector<const KernelDef*> list;
  if (!op.empty()) {
    const auto of_op = impl_->kernels.find(std::string(op));
    if (of_op == impl_->kernels.end()) return list;
    for (const auto& k : of_op->second) list.push_back(k.get());
    return list;
  }
  for (const auto& [name, of_op] : impl_->kernels) {
    for (const auto& k : of_op) list.push_back(k.get());
  }
  std::stable_sort(list.begin(), list.end(), [](const KernelDef* a, const KernelDef* b) { return a->op < b->op; });
  return list;
}

struct KernelFinder::Impl {
  // The kernels of an op that may be taken, so that the first one which fits is Best's: those for
  // the device's type first, and of these the highest priority first.
  static std::vector<const KernelDef*> Candidates(const std::string& op, const std::string& device_type) {
    std::vector<const KernelDef*> list = KernelRegistry::Global().List(op);
    std::erase_if(list,
                  [&](const KernelDef* k) { return k->device_type != device_type && k->device_type != kAnyDevice; });
    std::stable_sort(list.begin(), list.end(), [&](const KernelDef* a, const KernelDef* b) {
      const bool of_type = a->device_type == device_type;
      return of_type != (b->device_type == device_type) ? of_type : a->priority > b->priority;
    });
    return list;
  }

  std::string device_type;
  // By op. An op's definition lives as long as the graphs that have it.
  HashMap<const OpDef*, std::vector<const KernelDef*>> of_op;
};

KernelFinder::KernelFinder(std::string_view device_type) : impl_(std::make_unique<Impl>()) {
  impl_->device_type = device_type;
}
KernelFinder::~KernelFinder() = default;
const std::string& KernelFinder::device_type() const { return impl_->device_type; }

const KernelDef* KernelFinder::Find(const Node& node) {
  const auto [it, is_new] = impl_->of_op.try_emplace(&node.op());
  if (is_new) it->second = Impl::Candidates(node.op().name, impl_->device_type);
  const std::string_view label = LabelOf(node);
  for (const KernelDef* const k : it->second) {
    if (k->label == label && Fits(*k, node)) return k;
  }
  return nullptr;
}

namespace {

absl::StatusOr<PreparedKernel> Build(const KernelDef& def, const Node& node, Device* device,
                                     const SessionScope& session) {
  KernelInit init(node, device, session);
  absl::StatusOr<PreparedKernel> kernel = Guarded("the kernel's constructor", [&] { return def.factory(init); });
  if (!kernel.ok()) return node.At(kernel.status());
  kernel->library = def.origin == KernelOrigin::kLibrary;
  return kernel;
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareKernel(const Node& node, Device* device, const SessionScope& session) {
  absl::StatusOr<const KernelDef*> def = KernelRegistry::Global().Find(node, device->type());
  if (!def.ok()) return node.At(def.status());
  return Build(**def, node, device, session);
}

absl::StatusOr<PreparedKernel> PrepareKernel(const Node& node, Device* device, const SessionScope& session,
                                             KernelFinder* finder) {
  const KernelDef* def = finder->Find(node);
  if (def == nullptr) return PrepareKernel(node, device, session);
  return Build(*def, node, device, session);
}

}  // namespace troupe
