#include "kernels/elementwise/add_loops.h"

#include <algorithm>
#include <complex>

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

}  // namespace

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

}  // namespace troupe::math
