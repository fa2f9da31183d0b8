// The op that docs/add_an_op.md adds.
#include <boost/test/unit_test.hpp>

// [op]
// HalfSquare: half of the square, element by element.
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("HalfSquare")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("Mul", {g.Grad(0), g.Input(0)}));
      return g.status();
    })
    .Doc("x * x / 2, element by element.");

template <class T>
absl::Status Compute(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.shape()));
  const T* from = x.data<T>();
  T* to = y->data<T>();
  ctx.threads()->ParallelFor(x.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[i] * from[i] / 2;
  });
  return absl::OkStatus();
}

TROUPE_KERNEL("HalfSquare").Device("CPU").Type<float>("T").Function<Compute<float>>();
TROUPE_KERNEL("HalfSquare").Device("CPU").Type<double>("T").Function<Compute<double>>();

}  // namespace
}  // namespace troupe
// [/op]

#include "troupe/emit.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(TheOpOfTheGuideRunsAndHasAGradient) {
  // [use]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1})});
  Output y = EmitOp(root.WithOpName("y"), "HalfSquare", {x}).output(0);
  Output slope = Gradients(root, {y}, {x})[0];
  // [/use]
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(y.shape().DebugString() == x.shape().DebugString());
  auto session = Session::Create({.runtime_options = {.threads = 2}});
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  BOOST_REQUIRE((*session)->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  const absl::Status s = (*session)->Run({{"x", Tensor::Vector<float>({1, -2, 3})}}, {"y", slope.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [3] [0.5 2 4.5]");
  BOOST_TEST(out[1].DebugString() == "float32 [3] [1 -2 3]");
}

}  // namespace
}  // namespace troupe
