// Add, AddV2, Sub, Mul and SquaredDifference of two tensors, with broadcasting; AddN and
// AccumulateNV2, the sum of many tensors of one shape. Quotients are in divisions.cc.
#include <algorithm>
#include <complex>
#include <vector>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/gradient_function.h"

namespace troupe::math {
namespace {

struct AddFn {
  template <class T>
  static T Do(const T& x, const T& y) {
    return static_cast<T>(x + y);
  }
};

// Elements that are summed over all inputs at a time, so that the running sum stays in the
// first-level cache.
constexpr int64_t kBlock = 2048;

struct AddNState {
  BinaryLoop add;
  float cost;
  SmallFloatLoops small;
  DType type;
  size_t size;
};

absl::Status ComputeAddN(KernelContext& ctx) {
  const AddNState& s = *static_cast<const AddNState*>(ctx.state());
  const int count = ctx.num_inputs();
  const Tensor& first = ctx.input(0);
  for (int i = 1; i < count; ++i) {
    if (!ctx.input(i).SameShape(first)) {
      return InvalidArgument("Inputs to operation ", ctx.node().name, " of type ", ctx.node().op,
                             " must have the same size and shape.  Input 0: ", first.shape().DebugString(),
                             " != input ", i, ": ", ctx.input(i).shape().DebugString());
    }
  }
  if (count == 1) {
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }
  const int64_t n = first.num_elements();
  absl::InlinedVector<const char*, 8> in(count);
  for (int i = 0; i < count; ++i) in[i] = static_cast<const char*>(ctx.input(i).raw());
  const TensorShape shape = first.shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, shape));
  char* z = static_cast<char*>(out->raw());
  ctx.threads()->ParallelFor(n, s.cost * static_cast<double>(count), [&](int64_t begin, int64_t end) {
    float sum[kBlock], wide[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t m = std::min(kBlock, end - at);
      const size_t offset = static_cast<size_t>(at) * s.size;
      if (s.small.widen == nullptr) {
        s.add(in[0] + offset, in[1] + offset, z + offset, m);
        for (int i = 2; i < count; ++i) s.add(z + offset, in[i] + offset, z + offset, m);
      } else {
        s.small.widen(in[0] + offset, sum, m);
        for (int i = 1; i < count; ++i) {
          s.small.widen(in[i] + offset, wide, m);
          s.add(sum, wide, sum, m);
        }
        s.small.narrow(sum, z + offset, m);
      }
    }
  });
  return absl::OkStatus();
}

const BinaryTable& AddTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kAdd, true);
    AddSmallWrapping<AddFn>(&t);
    AddLoopsTo<AddFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    AddLoopsTo<AddFn, void, std::string>(&t, 50);
    return t;
  }();
  return table;
}

// AddN and AccumulateNV2: the sum of tensors of one shape.
absl::StatusOr<PreparedKernel> MakeAddN(KernelInit& init) {
  AddNState s{};
  s.type = init.output_type(0);
  s.size = SizeOf(s.type);
  s.small = SmallFloat(s.type);
  const BinaryLoops& loops = AddTable()[s.small.widen != nullptr ? DType::kFloat : s.type];
  s.add = loops.vv;
  s.cost = loops.cost;
  if (s.add == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(s.type));
  PreparedKernel k;
  k.compute = ComputeAddN;
  k.state = std::make_shared<AddNState>(s);
  return k;
}

absl::Status AddNGradient(GradientContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) g.Set(i, g.Grad(0));
  return g.status();
}

TROUPE_OP("Add")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g), Grad(g)); })
    .Doc("x + y with broadcasting; integers wrap around, strings are put one behind the other.");

TROUPE_CPU_KERNEL("Add").Factory(BinaryFactory<AddTable>);

TROUPE_OP("AddV2")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, "
        "complex128}")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g), Grad(g)); })
    .Doc("x + y with broadcasting; integers wrap around.");

TROUPE_CPU_KERNEL("AddV2").Factory(BinaryFactory<AddTable>);

TROUPE_OP("AddN")
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
        "quint16, uint16, complex128, half, uint32, uint64, variant}")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::MergeAll)
    .Gradient(AddNGradient)
    .Doc("The sum of tensors of one shape.");

TROUPE_KERNEL("AddN").Device("CPU").Types("T", kNumbers).Factory(MakeAddN);

TROUPE_OP("AccumulateNV2")
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr("T: numbertype")
    .Attr("shape: shape")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::FromShapeAttr)
    .Gradient(AddNGradient)
    .Doc("The sum of tensors of one shape, which the attr shape declares.");

TROUPE_KERNEL("AccumulateNV2").Device("CPU").Types("T", kNumbers).Factory(MakeAddN);

struct SubFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x - y);
  }
};
const BinaryTable& SubTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kSub, true);
    AddSmallWrapping<SubFn>(&t);
    AddLoopsTo<SubFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

TROUPE_OP("Sub")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, uint32, "
        "uint64}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g), -Grad(g)); })
    .Doc("x - y with broadcasting; integers wrap around.");

TROUPE_CPU_KERNEL("Sub").Factory(BinaryFactory<SubTable>);

struct MulFn {
  static uint16_t Do(uint16_t x, uint16_t y) { return static_cast<uint16_t>(uint32_t{x} * y); }
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x * y);
  }
};
const BinaryTable& MulTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kMul, true);
    AddSmallWrapping<MulFn>(&t);
    AddLoopsTo<MulFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

TROUPE_OP("Mul")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(TROUPE_T_NUMBERS)
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g) * Conj(In(g, 1)), Conj(In(g, 0)) * Grad(g)); })
    .Doc("x * y with broadcasting; integers wrap around.");

TROUPE_CPU_KERNEL("Mul").Factory(BinaryFactory<MulTable>);

struct SquaredDifferenceFn {
  template <class T>
  static T Do(T x, T y) {
    return (x - y) * std::conj(x - y);
  }
};
const BinaryTable& SquaredDifferenceTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(HotBinary::kSquaredDifference);
    AddLoopsTo<SquaredDifferenceFn, void, std::complex<float>, std::complex<double>>(&t, 2);
    return t;
  }();
  return table;
}

TROUPE_OP("SquaredDifference")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value gx = 2.0 * (Grad(g) * (In(g, 0) - In(g, 1)));
      return SetBroadcast(g, gx, -gx);
    })
    .Doc("(x - y) * conj(x - y) with broadcasting.");

TROUPE_CPU_KERNEL("SquaredDifference").Factory(BinaryFactory<SquaredDifferenceTable>);

}  // namespace
}  // namespace troupe::math
