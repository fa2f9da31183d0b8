// ListDiff: what is in one vector and not in another, and where.
#include "graph/core/hash_map.h"
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ListDiffShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, PartialTensorShape{-1});
  c.set_output(1, PartialTensorShape{-1});
  return absl::OkStatus();
}

template <class T>
std::vector<int64_t> Rest(const Tensor& x, const Tensor& y) {
  // Numbers are keyed by their value as double (or exactly, when they are integers), so that -0
  // finds 0.
  using Key = std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, std::string>, T, double>;
  HashSet<Key> drop;
  for (const T& v : y.flat<T>()) {
    const auto key = static_cast<Key>(v);
    if (key == key) drop.insert(key);  // a NaN is in no set, and equals none of x
  }
  std::vector<int64_t> keep;
  const auto all = x.flat<T>();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!drop.contains(static_cast<Key>(all[i]))) keep.push_back(static_cast<int64_t>(i));
  }
  return keep;
}

absl::Status ComputeListDiff(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &y = ctx.input(1);
  if (x.rank() != 1 || y.rank() != 1) {
    return InvalidArgument("x and y must be vectors, got shapes ", x.shape().DebugString(), " and ",
                           y.shape().DebugString());
  }
  std::vector<int64_t> keep;
  if (x.dtype() == DType::kString) {
    keep = Rest<std::string>(x, y);
  } else {
    VisitNumeric(x.dtype(), false, [&]<class T>() {
      if constexpr (kDTypeOf<T> != DType::kComplex64 && kDTypeOf<T> != DType::kComplex128 &&
                    kDTypeOf<T> != DType::kBool)
        keep = Rest<T>(x, y);
      return true;
    });
  }
  const TensorShape shape({static_cast<int64_t>(keep.size())});
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  TROUPE_ASSIGN_OR_RETURN(Tensor * idx, ctx.AllocateOutput(1, shape));
  VisitElement(x.dtype(), false, [&]<class E>() {
    for (size_t i = 0; i < keep.size(); ++i) static_cast<E*>(out->raw())[i] = static_cast<const E*>(x.raw())[keep[i]];
    return true;
  });
  return WriteInts(keep, idx);
}

TROUPE_OP("ListDiff")
    .Input("x: T")
    .Input("y: T")
    .Output("out: T")
    .Output("idx: out_idx")
    .Attr("T: type")
    .Attr("out_idx: {int32, int64} = DT_INT32")
    .Shape(ListDiffShape)
    .NotDifferentiable("which elements are equal is not differentiable")
    .Doc(
        "The elements of the vector `x` that are not in `y`, in their order and as often as they come, and their "
        "indices in `x`.");
TROUPE_KERNEL("ListDiff")
    .Device("CPU")
    .Types("T",
           {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16, DType::kInt32,
            DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64, DType::kString})
    .Function<ComputeListDiff>();

}  // namespace
}  // namespace troupe::array
