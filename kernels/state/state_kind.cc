#include "kernels/state/state_kind.h"

#include "kernels/state/variable_owner.h"

namespace troupe::state {

StateHandle::StateHandle(KernelInit& init)
    : handle_type_(init.node().output_type(0)), key_(init.ResourceKey(/*per_session=*/false)) {}

absl::Status StateHandle::Compute(KernelContext& ctx, const StateKind& kind) {
  ResourceContainers* const containers = ctx.device()->containers();
  std::lock_guard<std::mutex> lock(mu_);
  const int64_t epoch = containers->epoch();
  if (!handle_.valid() || epoch != epoch_) {
    absl::Status made;
    absl::StatusOr<std::shared_ptr<StateResource>> found =
        containers->LookUpOrCreate<StateResource>(key_.first, key_.second, [&]() -> std::shared_ptr<StateResource> {
          absl::StatusOr<std::shared_ptr<StateResource>> one = kind.Make(ctx, key_.second);
          made = one.status();
          if (!one.ok()) return nullptr;
          (*one)->LiveIn(containers);
          return *std::move(one);
        });
    TROUPE_RETURN_IF_ERROR(made);
    TROUPE_RETURN_IF_ERROR(found.status());
    TROUPE_RETURN_IF_ERROR(kind.CheckShared(**found));
    handle_ =
        MakeHandle(handle_type_, ResourceHandle(ctx.device()->name(), key_.first, key_.second, *std::move(found)));
    if (!handle_.valid()) return ResourceExhausted("no memory for a handle of '", key_.second, "'");
    epoch_ = epoch;
  }
  ctx.set_output(0, handle_);
  return absl::OkStatus();
}

namespace {

void AddTraits(OpBuilder* op, OpForms::Role role) {
  if (role != OpForms::kUses) op->Trait(OpTrait::kNoEffect);
  if (role == OpForms::kMakesElements) op->Trait(OpTrait::kElementsHandle);
}

}  // namespace

OpForms::OpForms(std::string_view with_reference, std::string_view with_resource, Role role, Define define) {
  if (!with_resource.empty()) {
    OpBuilder op(with_resource);
    define(op, "resource");
    AddTraits(&op, role);
    OpRegistrar registrar(op.Stateful());
  }
  OpBuilder op(with_reference);
  define(op, "Ref(string)");
  if (role != kUses) op.Stateful();
  AddTraits(&op, role);
  if (!with_resource.empty()) op.Doc(StrCat(with_resource, " with a handle as old graphs have it."));
  OpRegistrar registrar(op);
}

const Node* HandleNode(const InferenceContext& c, int i) {
  NodeOut from = c.node().input(i);
  for (int hops = 0; from.node != nullptr && hops < 64; ++hops) {
    const Node& n = *from.node;
    // A handle that is made of another is that of the same queue.
    const bool same_elements = n.op().Has(OpTrait::kElementsHandle) && n.num_inputs() == 1;
    if (!n.IsEnter() && !n.IsSwitch() && !same_elements && !n.op().Has(OpTrait::kForwardsInput)) break;
    from = n.input(0);
  }
  return from.node;
}

void PutNumber(ResourceState* to, const std::string& key, int64_t value) {
  to->tensors.emplace_back(key, Tensor::Scalar<int64_t>(value));
}

absl::StatusOr<int64_t> TakeNumber(const ResourceState& from, const std::string& key, int64_t least) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor t, from.Get(key, DType::kInt64, TensorShape()));
  const int64_t value = t.scalar<int64_t>();
  if (value < least) return InvalidArgument("a saved ", from.kind, " has ", key, " = ", value);
  return value;
}

void PutText(ResourceState* to, const std::string& key, std::string text) {
  to->tensors.emplace_back(key, Tensor::Scalar(std::move(text)));
}

absl::StatusOr<std::string> TakeText(const ResourceState& from, const std::string& key) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor t, from.Get(key, DType::kString, TensorShape()));
  return t.scalar<std::string>();
}

void PutTypes(ResourceState* to, const std::string& key, absl::Span<const DType> types) {
  std::vector<int64_t> numbers;
  for (const DType t : types) numbers.push_back(static_cast<int64_t>(t));
  to->tensors.emplace_back(key, Tensor::Vector<int64_t>(numbers));
}

absl::StatusOr<std::vector<DType>> TakeTypes(const ResourceState& from, const std::string& key) {
  const Tensor* const numbers = from.Find(key);
  if (numbers == nullptr || numbers->dtype() != DType::kInt64 || numbers->rank() != 1)
    return InvalidArgument("a saved ", from.kind, " has no vector '", key, "'");
  std::vector<DType> types;
  for (const int64_t t : numbers->flat<int64_t>()) {
    if (t != static_cast<int>(t) || !IsValidDType(static_cast<int>(t)))
      return InvalidArgument("a saved ", from.kind, " has the unknown dtype ", t);
    types.push_back(static_cast<DType>(t));
  }
  return types;
}

// Whether the rank is known, then the dimensions.
void PutShape(ResourceState* to, const std::string& key, const PartialTensorShape& shape) {
  std::vector<int64_t> dims = {shape.known_rank() ? 1 : 0};
  if (shape.known_rank()) dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  to->tensors.emplace_back(key, Tensor::Vector<int64_t>(dims));
}

absl::StatusOr<PartialTensorShape> TakeShape(const ResourceState& from, const std::string& key) {
  const Tensor* const dims = from.Find(key);
  if (dims == nullptr || dims->dtype() != DType::kInt64 || dims->rank() != 1 || dims->dim(0) < 1)
    return InvalidArgument("a saved ", from.kind, " has no vector '", key, "'");
  const absl::Span<const int64_t> d = dims->flat<int64_t>();
  if (d[0] == 0) return PartialTensorShape();
  return PartialTensorShape::Make(d.subspan(1));
}

}  // namespace troupe::state
