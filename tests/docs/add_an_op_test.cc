// The op that docs/add_an_op.md adds, and its test.
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

// [test]
#include <boost/test/unit_test.hpp>

#include "tests/autodiff/numeric.h"
#include "troupe/evaluate.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(half_square_of_every_type) {
  auto floats = EvaluateOp("HalfSquare", {Tensor::Vector<float>({1, -2, 3})});
  BOOST_REQUIRE_MESSAGE(floats.ok(), floats.status());
  BOOST_TEST((*floats)[0].DebugString() == "float32 [3] [0.5 2 4.5]");
  auto doubles = EvaluateOp("HalfSquare", {Tensor::Scalar(3.0)});
  BOOST_REQUIRE_MESSAGE(doubles.ok(), doubles.status());
  BOOST_TEST((*doubles)[0].DebugString() == "float64 [] [4.5]");
  auto none = EvaluateOp("HalfSquare", {Tensor(DType::kFloat, {0, 2})});
  BOOST_REQUIRE_MESSAGE(none.ok(), none.status());
  BOOST_TEST((*none)[0].TypeAndShape() == "float32 [0,2]");
}

BOOST_AUTO_TEST_CASE(half_square_refuses_integers) {
  const auto integers = EvaluateOp("HalfSquare", {Tensor::Scalar(1)});
  BOOST_TEST(absl::IsInvalidArgument(integers.status()), integers.status());
}

BOOST_AUTO_TEST_CASE(half_square_has_a_gradient) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kDouble, {.shape = {-1}});
  Output y = EmitOp(root.WithOpName("y"), "HalfSquare", {x}).output(0);
  BOOST_TEST(y.shape().DebugString() == "[?]");
  testing::CheckGradients(root, y, {x}, {{"x", Tensor::Vector<double>({1, -2, 3})}});  // against differences
}

}  // namespace
}  // namespace troupe
// [/test]
