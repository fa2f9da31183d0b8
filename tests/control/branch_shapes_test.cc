// A node of a branch that needs only the shape of a value from outside.
#include <boost/test/unit_test.hpp>

#include "troupe/troupe.h"

namespace troupe {
namespace branch_shapes_test {

// Its shape is known while the graph is built, so that nothing of it need be computed; the node
// must still wait for the branch.
BOOST_AUTO_TEST_CASE(a_known_shape_does_not_make_a_branch_run) {
  const Scope s = Scope::NewRootScope();
  const Output p = ops::Placeholder(s.WithOpName("p"), DType::kBool, {.shape = TensorShape()});
  const Output x = ops::Placeholder(s.WithOpName("x"), DType::kFloat, {.shape = TensorShape({4})});
  const Variable count(s.WithOpName("count"), 0.0f);
  const Operation init = GlobalVariablesInitializer(s);
  const Output y = Cond(
      s, p,
      [&](const Scope& in) {
        const Output size = ops::Cast(in, ops::Size(in, x), DType::kFloat);
        return count.AssignAdd(in, size);
      },
      [&](const Scope& in) { return ops::Identity(in, 0.0f); });
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*s.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  const Tensor four = Tensor::Vector<float>({1, 2, 3, 4});
  for (const bool taken : {false, true, false}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{p, Tensor::Scalar(taken)}, {x, four}}, {y}, {}, &out);
    BOOST_REQUIRE_MESSAGE(status.ok(), status);
    BOOST_TEST(out[0].scalar<float>() == (taken ? 4.0f : 0.0f));
  }
  BOOST_TEST(session->Get(count)->scalar<float>() == 4.0f);
}

}  // namespace branch_shapes_test
}  // namespace troupe
