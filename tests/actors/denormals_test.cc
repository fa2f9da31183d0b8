// The floating point environment: denormal numbers are zero, numbers are rounded to nearest and
// nothing traps wherever a step computes, and the caller's own is left as it was.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <cfenv>
#include <future>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {
namespace denormals_test {

BOOST_AUTO_TEST_CASE(denormals_are_zero_in_every_kind_of_step) {
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

struct Thirds {
  explicit Thirds(caf::actor_system* system = nullptr, int64_t lend_us = 0) {
    ops::Div(root.WithOpName("third"), x, y);
    ops::Mul(root.WithOpName("tiny"), ops::Const(root, 1e-20f), ops::Const(root, 1e-20f));
    SessionOptions options;
    options.lend_thread_us = lend_us;
    if (system != nullptr) options.runtime = StartRuntimeIn(*system, {.threads = 2}).value();
    session = NewSession(root, options);
  }
  float Run(const std::string& fetch, float a, float b) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run(Feed(a, b), {fetch}, {}, &out));
    return out.at(0).data<float>()[0];
  }
  float RunAsync(const std::string& fetch, float a, float b, const std::function<void()>& in_done = nullptr) {
    std::promise<float> answer;
    session->RunAsync(Feed(a, b), {fetch}, {}, [&](absl::Status s, std::vector<Tensor> out) {
      if (in_done) in_done();
      answer.set_value(s.ok() ? out[0].data<float>()[0] : -1.0f);
    });
    return answer.get_future().get();
  }
  static Feeds Feed(float a, float b) { return {{"x", Tensor::Scalar(a)}, {"y", Tensor::Scalar(b)}}; }
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat),
         y = ops::Placeholder(root.WithOpName("y"), DType::kFloat);
  std::unique_ptr<Session> session;
};

BOOST_AUTO_TEST_CASE(in_a_users_actor_system_denormals_are_zero_too) {
  caf::actor_system_config config;
  caf::actor_system theirs(config);
  Thirds t(&theirs);
  for (int i = 0; i < 100; ++i) {
    BOOST_TEST(t.RunAsync("third", 1e-20f, 1e+20f) == 0.0f);
    BOOST_TEST(t.Run("third", 1e-20f, 1e+20f) == 0.0f);
  }
  BOOST_TEST(t.Run("tiny", 1, 1) == 0.0f);  // folded when it was compiled
}

BOOST_AUTO_TEST_CASE(the_callers_rounding_mode_does_not_reach_kernels_and_comes_back) {
  for (const int64_t lend_us : {int64_t{0}, int64_t{1'000'000'000}}) {
    Thirds t(nullptr, lend_us);
    const float third = t.Run("third", 1, 3);
    for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
      BOOST_REQUIRE(std::fesetround(mode) == 0);
      const float blocking = t.Run("third", 1, 3);
      int there = mode;
      const std::thread::id me = std::this_thread::get_id();
      const float asynchronous = t.RunAsync("third", 1, 3, [&] {
        if (std::this_thread::get_id() == me) there = std::fegetround();
      });
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      BOOST_TEST(blocking == third);
      BOOST_TEST(asynchronous == third);
      BOOST_TEST(after == mode);
      BOOST_TEST(there == mode);
    }
  }
}

#if defined(__GLIBC__) && defined(__x86_64__)
BOOST_AUTO_TEST_CASE(a_caller_that_traps_divisions_by_zero_is_not_trapped_by_a_kernel) {
  Thirds t;
  (void)t.Run("third", 1, 2);
  std::feclearexcept(FE_ALL_EXCEPT);
  BOOST_REQUIRE(feenableexcept(FE_DIVBYZERO) != -1);
  const float quotient = t.Run("third", 1, 0);
  const int traps = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  BOOST_TEST(std::isinf(quotient));
  BOOST_TEST((traps & FE_DIVBYZERO) != 0);
}
#endif

}  // namespace denormals_test
}  // namespace troupe
