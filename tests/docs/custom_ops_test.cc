// The code of docs/guide/custom_ops.md.
#include <cstdlib>

#include <dlfcn.h>

#include "tests/docs/pages.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

// [pair_sum]
absl::Status PairSumShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRank(0, 1));  // input 0 is a vector, or an error
  const int64_t n = x.dim(0);                                       // -1: not known yet
  if (n == 0) return InvalidArgument("x is empty");
  c.set_output(0, PartialTensorShape({n < 0 ? -1 : n - 1}));
  return absl::OkStatus();
}

TROUPE_OP("PairSum")
    .Input("x: float")
    .Output("y: float")
    .Shape(PairSumShape)
    .Gradient([](GradientContext& g) {
      // Each dy[i] belongs to x[i] and to x[i + 1].
      const NodeOut behind = g.Const(Tensor::Of<int32_t>({0, 1}, {1, 2}));
      const NodeOut before = g.Const(Tensor::Of<int32_t>({1, 0}, {1, 2}));
      g.Set(0, g.Op("Add", {g.Op("Pad", {g.Grad(0), behind}), g.Op("Pad", {g.Grad(0), before})}));
      return g.status();
    })
    .Doc("x[i] + x[i + 1] for each i but the last.");

absl::Status PairSum(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  if (x.rank() != 1 || x.dim(0) == 0) return InvalidArgument("x is no vector, or empty: ", x.TypeAndShape());
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, {x.dim(0) - 1}));
  const absl::Span<const float> from = x.flat<float>();
  const absl::Span<float> to = y->flat<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i] + from[i + 1];
  return absl::OkStatus();
}
TROUPE_KERNEL("PairSum").Device("CPU").Function<PairSum>();
// [/pair_sum]

BOOST_AUTO_TEST_CASE(an_op_with_a_shape_of_its_own) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output y = EmitOp(root, "PairSum", {x}).output(0);
  const Output slope = Gradients(root, {y}, {x})[0];
  const Output known = EmitOp(root, "PairSum", {Const(root, {1.0f, 2.0f, 3.0f})}).output(0);
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(y.shape().DebugString() == "[?]");
  BOOST_TEST(known.shape().DebugString() == "[2]");
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({{x, Tensor::Vector<float>({1, 2, 3})}}, {y, slope}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].DebugString() == "float32 [2] [3 5]");
  BOOST_TEST(out[1].DebugString() == "float32 [3] [1 2 1]");
  s = session->Run({{x, Tensor(DType::kFloat, {0})}}, {y}, {}, &out);
  BOOST_TEST(absl::IsInvalidArgument(s), s);

  const Scope wrong = Scope::NewRootScope();
  EmitOp(wrong, "PairSum", {Const(wrong, {{1.0f}})});
  BOOST_TEST(absl::IsInvalidArgument(wrong.status()), wrong.status());
}

BOOST_AUTO_TEST_CASE(a_library_is_loaded) {
  const std::string path = TROUPE_SCALED_TANH;
  {
    const Scope root = Scope::NewRootScope();
    EmitOp(root, "ScaledTanh", {Const(root, 1.0f)});
    BOOST_TEST(!root.ok());  // not loaded yet
  }
  // [load]
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) std::cerr << dlerror() << "\n";
  for (const std::string& error : RegistrationErrors()) std::cerr << error << "\n";

  Scope root = Scope::NewRootScope();
  Output x = Const(root, {0.0f, 1.0f});
  Output y = EmitOp(root.WithOpName("y"), "ScaledTanh", {x}, {{"scale", 2.0f}}).output(0);
  Output slope = Gradients(root, {y}, {x})[0];
  // [/load]
  BOOST_REQUIRE(library != nullptr);
  BOOST_TEST(RegistrationErrors().empty());
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({}, {y, slope}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(std::abs(out[0].flat<float>()[1] - 2 * std::tanh(1.0f)) < 1e-6f);
  BOOST_TEST(std::abs(out[1].flat<float>()[1] - 2 * (1 - std::tanh(1.0f) * std::tanh(1.0f))) < 1e-6f);
  BOOST_TEST(out[1].flat<float>()[0] == 2);
}

}  // namespace
}  // namespace troupe
