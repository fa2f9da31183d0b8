// Denormal numbers are flushed to zero wherever a step computes, and the caller's own arithmetic is left as it was.
#include <boost/test/unit_test.hpp>
#include <future>

#include "actors/graphs.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(DenormalsAreZeroInEveryKindOfStep) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat),
               y = ops::Placeholder(root.WithOpName("y"), DType::kFloat);
  const Output half = ops::Mul(root.WithOpName("half"), x, y);
  auto session = NewSession(root);
  Tensor smallest(DType::kFloat, TensorShape({64}));
  for (int i = 0; i < 64; ++i) smallest.data<float>()[i] = 1.5e-38f;  // normal; half of it is not
  const Feeds feeds = {{"x", smallest}, {"y", Tensor::Scalar(0.5f)}};
  for (int i = 0; i < 20; ++i) {
    BOOST_TEST(RunOne(*session, feeds, half).data<float>()[i] == 0.0f);
    volatile float mine = 1.5e-38f;
    BOOST_TEST(mine * 0.5f > 0.0f);
    std::promise<float> answer;
    session->RunAsync(feeds, {half.name()}, {}, [&](absl::Status s, std::vector<Tensor> out) {
      answer.set_value(s.ok() ? out[0].data<float>()[i] : -1.0f);
    });
    BOOST_TEST(answer.get_future().get() == 0.0f);
  }
}

}  // namespace
}  // namespace troupe
