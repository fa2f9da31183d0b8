// AssignAdd, AssignSub and their VariableOp forms: add a whole tensor to a variable, or subtract
// it.
#include <string_view>

#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/kernel.h"

namespace troupe::state {
namespace {

enum class DenseOp { kAdd, kSub };

using DenseFn = void (*)(void* var, const void* delta, int64_t n);

// Overflow of signed integers wraps, as everywhere.
template <class T>
auto Bits(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(v);
  } else {
    return v;
  }
}

template <class T>
void Add(void* var, const void* delta, int64_t n) {
  T* __restrict__ v = static_cast<T*>(var);
  const T* __restrict__ d = static_cast<const T*>(delta);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(Bits(v[i]) + Bits(d[i]));
}
template <class T>
void Sub(void* var, const void* delta, int64_t n) {
  T* __restrict__ v = static_cast<T*>(var);
  const T* __restrict__ d = static_cast<const T*>(delta);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(Bits(v[i]) - Bits(d[i]));
}

DenseFn Find(DType dtype, DenseOp op) {
  return VisitNumeric<DenseFn>(dtype, nullptr, [op]<class T>() -> DenseFn {
    if constexpr (std::is_same_v<T, bool>) {
      return nullptr;
    } else {
      return op == DenseOp::kAdd ? &Add<T> : &Sub<T>;
    }
  });
}

// slot += delta or slot -= delta, element by element, in place when no snapshot is out.
// INVALID_ARGUMENT when the shapes differ, UNIMPLEMENTED for types without arithmetic.
absl::Status UpdateDense(KernelContext& ctx, VariableSlot* slot, const Tensor& delta, DenseOp op) {
  const DenseFn fn = Find(slot->dtype(), op);
  if (fn == nullptr) return Unimplemented("there is no arithmetic on ", Name(slot->dtype()));
  VariableUpdate update(ctx);
  TROUPE_RETURN_IF_ERROR(update.Begin(slot));
  TROUPE_RETURN_IF_ERROR(update.CheckReadable());
  Tensor& value = update.value();
  if (!value.SameShape(delta)) {
    return InvalidArgument("variable '", slot->name(), "' has shape ", value.shape().DebugString(), ", the update has ",
                           delta.shape().DebugString(), ": shapes must be equal");
  }
  TROUPE_RETURN_IF_ERROR(update.WriteInPieces());
  const size_t size = SizeOf(value.dtype());
  char* const v = static_cast<char*>(value.raw());
  const char* const d = static_cast<const char*>(delta.raw());
  ctx.threads()->ParallelFor(value.num_elements(), 0.1 * static_cast<double>(size), [&](int64_t begin, int64_t end) {
    update.InPieces(begin, end, [&](int64_t b, int64_t e) { fn(v + b * size, d + b * size, e - b); });
  });
  return update.Commit();
}

// The kernel of an op with inputs (variable, delta), which passes a reference on.
template <DenseOp kOp>
absl::Status ComputeDenseUpdate(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.input(1).dtype()));
  TROUPE_RETURN_IF_ERROR(UpdateDense(ctx, slot, ctx.input(1), kOp));
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

// `what` it does: "Adds `value` to the variable".
OpBuilder RefOp(std::string_view name, std::string_view what) {
  return OpBuilder(name)
      .Input("ref: Ref(T)")
      .Input("value: T")
      .Output("output_ref: Ref(T)")
      .Attr("T: numbertype")
      .Attr("use_locking: bool = false")
      .Shape(shape_fn::MergeAll)
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(what, " and passes its reference on."));
}
OpBuilder HandleOp(std::string_view name, std::string_view what) {
  return OpBuilder(name)
      .Input("resource: resource")
      .Input("value: dtype")
      .Attr("dtype: type")
      .Stateful()
      .Shape([](InferenceContext& c) { return ValueFitsHandle(c, 1); })
      .NotDifferentiable("an update is not a value")
      .Doc(StrCat(what, "."));
}

constexpr char kAdds[] = "Adds `value` to the variable", kSubtracts[] = "Subtracts `value` from the variable";

const OpRegistrar add = RefOp("AssignAdd", kAdds);
const OpRegistrar add_variable = HandleOp("AssignAddVariableOp", kAdds);
TROUPE_KERNEL("AssignAdd").Device("CPU").Function<ComputeDenseUpdate<DenseOp::kAdd>>();
TROUPE_KERNEL("AssignAddVariableOp").Device("CPU").Function<ComputeDenseUpdate<DenseOp::kAdd>>();

const OpRegistrar sub = RefOp("AssignSub", kSubtracts);
const OpRegistrar sub_variable = HandleOp("AssignSubVariableOp", kSubtracts);
TROUPE_KERNEL("AssignSub").Device("CPU").Function<ComputeDenseUpdate<DenseOp::kSub>>();
TROUPE_KERNEL("AssignSubVariableOp").Device("CPU").Function<ComputeDenseUpdate<DenseOp::kSub>>();

}  // namespace
}  // namespace troupe::state
