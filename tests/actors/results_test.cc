// What a step returns is the caller's own, also when a constant, a variable, a feed or another
// fetch holds the same bytes.
#include <future>
#include <numeric>

#include "tests/actors/graphs.h"

namespace troupe {
namespace results_test {

struct Model {
  Model() {
    x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output c = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}}), sum = ops::Add(root, x, c);
    w = Variable(root.WithOpName("w"), {5.0f, 6.0f});
    r = Variable(root.WithOpName("r"), {7.0f, 8.0f}, {.use_resource = false});
    init = GlobalVariablesInitializer(root);
    const OutputList rows = ops::Unpack(root, c, 2, {.axis = 0});
    fetches = {c,
               ops::Identity(root, c),
               ops::Reshape(root, c, {4}),
               rows[1],
               w,
               ops::Reshape(root, w, {2, 1}),
               r,
               x,
               ops::Identity(root, x),
               sum,
               sum,
               ops::Slice(root, sum, {0, 0}, {1, 2})};
    session = NewSession(root);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
  Scope root = Scope::NewRootScope();
  Output x;
  Variable w, r;
  Operation init;
  OutputList fetches;
  std::unique_ptr<Session> session;
};

// Runs twice, writing to all that the first run gave before the second one.
template <class RunF>
void CheckOwn(const RunF& run) {
  const Tensor fed = Tensor::Of<float>({1, 1, 1, 1}, TensorShape({2, 2}));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(run(fed, &out));
  std::vector<std::string> texts;
  for (const Tensor& t : out) texts.push_back(t.DebugString());
  for (size_t i = 0; i < out.size(); ++i) {
    for (float& v : out[i].flat<float>()) v = 100.0f;
    for (size_t k = i + 1; k < out.size(); ++k) BOOST_TEST(out[k].DebugString() == texts[k]);
  }
  BOOST_TEST(fed.DebugString() == "float32 [2,2] [1 1 1 1]");
  std::vector<Tensor> again;
  TROUPE_REQUIRE_OK(run(fed, &again));
  BOOST_REQUIRE(again.size() == texts.size());
  for (size_t i = 0; i < again.size(); ++i) BOOST_TEST(again[i].DebugString() == texts[i], "fetch " << i);
}

BOOST_FIXTURE_TEST_SUITE(results, Model)

BOOST_AUTO_TEST_CASE(what_run_returns_is_the_callers_own) {
  CheckOwn([&](const Tensor& fed, std::vector<Tensor>* out) { return session->Run({{x, fed}}, fetches, {}, out); });
}

BOOST_AUTO_TEST_CASE(what_a_callable_returns_is_the_callers_own) {
  const Callable call = *session->Prepare({x}, fetches, {});
  CheckOwn([&](const Tensor& fed, std::vector<Tensor>* out) { return call.Run({fed}, out); });
}

BOOST_AUTO_TEST_CASE(what_a_callback_is_given_is_its_own) {
  CheckOwn([&](const Tensor& fed, std::vector<Tensor>* out) {
    std::promise<absl::Status> done;
    session->RunAsync({{x, fed}}, fetches, {}, [&](absl::Status s, std::vector<Tensor> values) {
      *out = std::move(values);
      done.set_value(std::move(s));
    });
    return done.get_future().get();
  });
}

BOOST_AUTO_TEST_CASE(what_a_partial_run_returns_is_the_callers_own) {
  fetches.erase(fetches.begin() + 10);  // a partial run takes a fetch once
  CheckOwn([&](const Tensor& fed, std::vector<Tensor>* out) -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const std::string handle, session->PartialRunSetup({x}, fetches, {}));
    return session->PartialRun(handle, {{x, fed}}, fetches, out);
  });
}

BOOST_AUTO_TEST_CASE(strings_are_copied_too) {
  const Output words = Const(root.WithOpName("words"), {"north", "a word that needs memory of its own"});
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  Tensor got = RunOne(*session, {}, words);
  got.flat<std::string>()[1] = "south";
  BOOST_TEST(RunOne(*session, {}, words).flat<std::string>()[1] == "a word that needs memory of its own");
}

BOOST_AUTO_TEST_SUITE_END()

// 6 of 8 MB: there is no room for a copy.
BOOST_AUTO_TEST_CASE(a_result_is_copied_only_when_somebody_else_holds_it) {
  constexpr int64_t kElements = 1500000;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), big = ops::Fill(root, Const(root, {kElements}), x);
  const Output column = ops::Reshape(root, big, {kElements, int64_t{1}});
  const Variable w(root.WithOpName("w"), big, {.shape = {kElements}});
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 1, .memory_limit = 8 << 20}).value();
  const auto session = NewSession(root, options);
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    out.clear();
    TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(2.0f)}}, {column}, {}, &out));
    BOOST_TEST(out[0].BufferUnique());
  }
  out.clear();
  TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(2.0f)}}, {}, {w.initializer()}, nullptr));
  const absl::Status s = session->Run({}, {w}, {}, &out);
  BOOST_TEST((s.code() == absl::StatusCode::kResourceExhausted), s);
  BOOST_TEST(s.message() == "no memory for a copy of fetch 'w/Read:0', float32 [1500000]");
  BOOST_TEST(out.empty());
}

}  // namespace results_test
}  // namespace troupe
