#include <complex>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce_grad.h"
#include "kernels/reduce/reduction.h"

namespace troupe {
namespace {

struct ProdOp {
  template <class Acc>
  static Acc Identity() {
    return Acc(1);
  }
  template <class Acc, class T>
  static Acc Load(T x) {
    return static_cast<Acc>(x);
  }
  template <class Acc>
  static Acc Combine(Acc a, Acc b) {
    return a * b;
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return static_cast<T>(a);
  }
};

const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    math::AddReducers<ProdOp, double, float, double>(&t, 1);
    math::AddReducers<ProdOp, uint64_t, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t,
                                                                                                                  0.8f);
    math::AddReducers<ProdOp, std::complex<double>, std::complex<float>, std::complex<double>>(&t, 2);
    return t;
  }();
  return table;
}

}  // namespace

const OpRegistrar prod =
    math::ReductionOp("Prod")
        .Gradient([](GradientContext& g) -> absl::Status {
          // The product of all other elements: along each axis the product before times the product
          // behind, times that of the axes folded so far.
          std::vector<int64_t> axes;
          if (!math::StaticAxes(g, &axes)) {
            return Unimplemented("the gradient of Prod needs constant reduction_indices and an input of known rank");
          }
          const auto scan = [&g](const math::Value& x, int64_t axis, bool reverse) -> math::Value {
            const NodeOut at = g.Const(Tensor::Scalar(static_cast<int32_t>(axis)));
            return {&g, g.Op("Cumprod", {x.out, at}, {{"exclusive", true}, {"reverse", reverse}})};
          };
          math::Value rest = math::Conj(math::In(g, 0)), others = math::Number(rest, 1);
          for (int64_t axis : axes) {
            others = others * (scan(rest, axis, false) * scan(rest, axis, true));
            const NodeOut at = g.Const(Tensor::Scalar(static_cast<int32_t>(axis)));
            rest = {&g, g.Op("Prod", {rest.out, at}, {{"keep_dims", true}})};
          }
          return math::SetUnary(g, math::KeepDims(g, math::Grad(g)) * others);
        })
        .Doc("The product over the axes in reduction_indices; 1 where there is nothing to multiply.");

TROUPE_KERNEL("Prod")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<Table>);

}  // namespace troupe
