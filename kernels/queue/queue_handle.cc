#include "kernels/queue/queue_handle.h"

#include <algorithm>

#include "kernels/common/int_args.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {

OpBuilder& DefineQueue(OpBuilder& op, std::string_view handle, std::string_view types, std::string_view shapes,
                       std::initializer_list<std::string_view> own) {
  op.Output(StrCat("handle: ", handle))
      .Attr(StrCat("component_types: list(type) ", types))
      .Attr(StrCat("shapes: list(shape) ", shapes))
      .Attr("capacity: int = -1");
  for (const std::string_view attr : own) op.Attr(attr);
  return op.Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Shape(shape_fn::Scalar)
      .NotDifferentiable("its value is a handle");
}

QueueSpec SpecOf(KernelInit& init, std::string kind) {
  QueueSpec spec;
  spec.kind = std::move(kind);
  spec.name = init.ResourceKey(/*per_session=*/false).second;
  spec.types = init.Attr<std::vector<DType>>("component_types");
  spec.shapes = init.Attr<std::vector<PartialTensorShape>>("shapes");
  spec.capacity = init.Attr<int64_t>("capacity");
  if (init.node().attrs().Has("_capacity_bytes")) spec.capacity_bytes = init.Attr<int64_t>("_capacity_bytes");
  return spec;
}

absl::Status AllDefined(const QueueSpec& spec) {
  for (const PartialTensorShape& s : spec.shapes) {
    if (!s.IsFullyDefined())
      return InvalidArgument("shape ", s.DebugString(), " of a component of a ", spec.kind, " is not fully defined");
  }
  return absl::OkStatus();
}

QueueNode::QueueNode(KernelInit& init, QueueSpec spec, const absl::Status& check) : spec_(std::move(spec)) {
  init.Fail(spec_.Check());
  init.Fail(check);
}

absl::StatusOr<std::shared_ptr<StateResource>> QueueNode::Make(const KernelContext& ctx, const std::string&) const {
  QueueSpec mine = spec_;
  const bool seeded = mine.seed != 0 || mine.seed2 != 0;
  mine.stream[0] = seeded ? static_cast<uint64_t>(mine.seed) : ctx.device()->env()->Unforeseeable();
  mine.stream[1] = seeded ? static_cast<uint64_t>(mine.seed2) : ctx.device()->env()->Unforeseeable();
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<QueueMachine> machine, MakeMachine(std::move(mine)));
  return std::make_shared<Queue>(std::move(machine));
}

absl::Status QueueNode::CheckShared(const StateResource& there) const {
  const auto* const queue = dynamic_cast<const Queue*>(&there);
  if (queue != nullptr) return queue->spec().CheckShared(spec_);
  return InvalidArgument("'", spec_.name, "' is ", there.DebugString(), ", but the node asks for a ", spec_.kind);
}

absl::StatusOr<Queue*> QueueOf(const KernelContext& ctx) { return ctx.resource<Queue>(0); }

namespace {

// The shapes that the node of the queue gives to its components; none when it is not known here. A
// queue whose elements have one component more than its attr names begins them with a priority.
std::vector<PartialTensorShape> ComponentShapes(const InferenceContext& c) {
  const Node* const queue = state::HandleNode(c, 0);
  if (queue == nullptr || !queue->attrs().Has("shapes")) return {};
  absl::StatusOr<std::vector<PartialTensorShape>> shapes = queue->Attr<std::vector<PartialTensorShape>>("shapes");
  if (!shapes.ok()) return {};
  const absl::StatusOr<std::vector<DType>> types = queue->Attr<std::vector<DType>>("component_types");
  if (types.ok() && static_cast<int>(types->size()) + 1 == c.num_outputs())
    shapes->insert(shapes->begin(), TensorShape());
  if (static_cast<int>(shapes->size()) != c.num_outputs()) return {};
  return *std::move(shapes);
}

}  // namespace

template <Rows rows>
absl::Status DequeueShape(InferenceContext& c) {
  const std::vector<PartialTensorShape> shapes = ComponentShapes(c);
  int64_t n = -1;
  if (rows != Rows::kOne) {
    TROUPE_ASSIGN_OR_RETURN(const array::KnownInt known, array::ConstantScalar(c, 1, "n"));
    if (known.known && known.value < 0) return InvalidArgument("n must be at least 0, got ", known.value);
    if (known.known && rows == Rows::kExactly) n = known.value;
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (shapes.empty() || !shapes[static_cast<size_t>(i)].known_rank()) {
      c.set_output(i, PartialTensorShape());
      continue;
    }
    const PartialTensorShape& one = shapes[static_cast<size_t>(i)];
    PartialTensorShape shape = rows == Rows::kOne ? PartialTensorShape(TensorShape()) : PartialTensorShape({n});
    for (int d = 0; d < one.rank(); ++d) shape.AddDim(one.dim(d));
    c.set_output(i, std::move(shape));
  }
  return absl::OkStatus();
}
template absl::Status DequeueShape<Rows::kOne>(InferenceContext& c);
template absl::Status DequeueShape<Rows::kExactly>(InferenceContext& c);
template absl::Status DequeueShape<Rows::kUpTo>(InferenceContext& c);

}  // namespace troupe::queue
