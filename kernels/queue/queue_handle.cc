#include "kernels/queue/queue_handle.h"

#include <algorithm>
#include <iterator>

#include "kernels/common/int_args.h"
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {

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

QueueHandle::QueueHandle(KernelInit& init, QueueSpec spec, absl::Status check)
    : handle_type_(init.node().output_type(0)), spec_(std::move(spec)), key_(init.ResourceKey(/*per_session=*/false)) {
  init.Fail(spec_.Check());
  init.Fail(check);
}

absl::Status QueueHandle::Compute(KernelContext& ctx) {
  ResourceContainers* const containers = ctx.device()->containers();
  std::lock_guard<std::mutex> lock(mu_);
  const int64_t epoch = containers->epoch();
  if (!handle_.valid() || epoch != epoch_) {
    QueueSpec mine = spec_;
    const bool seeded = mine.seed != 0 || mine.seed2 != 0;
    mine.stream[0] = seeded ? static_cast<uint64_t>(mine.seed) : ctx.device()->env()->Unforeseeable();
    mine.stream[1] = seeded ? static_cast<uint64_t>(mine.seed2) : ctx.device()->env()->Unforeseeable();
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<QueueMachine> machine, MakeMachine(std::move(mine)));
    TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue,
                            containers->LookUpOrCreate<Queue>(key_.first, key_.second, [&] {
                              auto made = std::make_shared<Queue>(std::move(machine));
                              made->LiveIn(containers);
                              return made;
                            }));
    TROUPE_RETURN_IF_ERROR(queue->spec().CheckShared(spec_));
    handle_ = state::MakeHandle(handle_type_,
                                ResourceHandle(ctx.device()->name(), key_.first, key_.second, std::move(queue)));
    if (!handle_.valid()) return ResourceExhausted("no memory for a handle of queue '", key_.second, "'");
    epoch_ = epoch;
  }
  ctx.set_output(0, handle_);
  return absl::OkStatus();
}

absl::StatusOr<Queue*> QueueOf(const KernelContext& ctx) { return ctx.resource<Queue>(0); }

namespace {

// The shapes that the node of the queue gives to its components; none when it is not known here.
std::vector<PartialTensorShape> ComponentShapes(const InferenceContext& c) {
  NodeOut from = c.node().input(0);
  // Into a loop or a branch.
  constexpr std::string_view kPassOn[] = {"Enter", "RefEnter", "Switch", "RefSwitch", "Identity", "RefIdentity"};
  for (int hops = 0; from.node != nullptr && hops < 64; ++hops) {
    if (std::find(std::begin(kPassOn), std::end(kPassOn), from.node->op().name) == std::end(kPassOn)) break;
    from = from.node->input(0);
  }
  if (from.node == nullptr || !from.node->attrs().Has("shapes")) return {};
  absl::StatusOr<std::vector<PartialTensorShape>> shapes = from.node->Attr<std::vector<PartialTensorShape>>("shapes");
  if (!shapes.ok()) return {};
  if (from.node->op().name.starts_with("PriorityQueue")) shapes->insert(shapes->begin(), TensorShape());
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
