// Where memory runs out, the error says who holds it: nodes of the step, what its loops keep, and
// variables.
#include "tests/actors/graphs.h"
#include "troupe/functional.h"
#include "troupe/gradients.h"

namespace troupe {
namespace memory_holders_test {

BOOST_AUTO_TEST_SUITE(memory_holders)

constexpr int64_t kMiB = 1 << 20;

struct Limited {
  explicit Limited(int64_t bytes) { options.runtime = Runtime::Start({.threads = 1, .memory_limit = bytes}).value(); }
  std::string ErrorOf(const Scope& root, const Output& fetch, const Names& first = {}) {
    auto session = NewSession(root, options);
    if (!first.empty()) TROUPE_REQUIRE_OK(session->Run({}, {}, first, nullptr));
    std::vector<Tensor> out;
    const absl::Status s = session->Run({}, {fetch.name()}, {}, &out);
    BOOST_TEST((s.code() == absl::StatusCode::kResourceExhausted), s);
    return s.ToString();
  }
  SessionOptions options;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Numbers that folding does not compute; `n` is how many MiB they are.
Output Numbers(const Scope& root, const std::string& name, int n) {
  return ops::RandomUniform(root.WithOpName(name), Const(root, {n * int(kMiB / 4) - 16}), DType::kFloat);
}

BOOST_AUTO_TEST_CASE(the_largest_of_several_tensors_comes_first) {
  const Scope root = Scope::NewRootScope();
  // All three are there when the last node runs.
  const Output small = Numbers(root, "small", 1), big = Numbers(root, "big", 6), middle = Numbers(root, "middle", 3);
  const Scope late = root.WithControlDependencies({Operation(small), Operation(big), Operation(middle)});
  const Output more = Numbers(late, "more", 4);
  const Scope last = root.WithControlDependencies(more);
  const Output y = ops::AddN(root.WithOpName("y"), {ops::Sum(last, small, {0}), ops::Sum(last, big, {0}),
                                                    ops::Sum(last, middle, {0}), ops::Sum(last, more, {0})});
  const std::string error = Limited(13 * kMiB).ErrorOf(root, y);
  BOOST_TEST(Has(error, "no memory"), error);
  BOOST_TEST(Has(error, "'more'"), error);
  const size_t at = error.find("held by node 'big' (RandomUniform) (6.0 MiB in 1 tensor)");
  BOOST_TEST(at != std::string::npos, error);
  BOOST_TEST(Has(error, "of at most 13.0 MiB"), error);
}

// A loop whose variable grows by a MiB in each iteration, and one that stacks its values in a
// tensor array.
BOOST_AUTO_TEST_CASE(a_loop_that_accumulates_is_named) {
  {
    const Scope root = Scope::NewRootScope();
    const OutputList grown = While(
        root, {Const(root, 0), ops::Fill(root, Const(root, {int(kMiB / 4)}), 0.0f)},
        [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 100); },
        [](const Scope& s, const OutputList& v) -> OutputList {
          const Output one_more = ops::Fill(s, ops::Const(s, {int(kMiB / 4)}), ops::Cast(s, v[0], DType::kFloat));
          return {ops::Add(s, v[0], 1), ops::ConcatV2(s.WithOpName("grow"), {v[1], one_more}, 0)};
        },
        {.parallel_iterations = 1, .shape_invariants = {PartialTensorShape(TensorShape()), PartialTensorShape({-1})}});
    const std::string error = Limited(30 * kMiB).ErrorOf(root, ops::Sum(root, grown[1], {0}));
    BOOST_TEST(Has(error, "held by node 'while/grow' (ConcatV2)"), error);
  }
  {
    const Scope root = Scope::NewRootScope();
    const Output rows = ops::Range(root, 0.0f, 100.0f, 1.0f), x = Numbers(root, "x", 1);
    const Output sums =
        Scan(root, rows, x, [](const Scope& s, const Output& sum, const Output& row) { return ops::Add(s, sum, row); });
    const std::string error = Limited(30 * kMiB).ErrorOf(root, ops::Sum(root, sums, {0, 1}));
    BOOST_TEST(Has(error, "held by TensorArray '"), error);
  }
  {
    const Scope root = Scope::NewRootScope();
    const Output x = Numbers(root, "x", 1);
    const OutputList ends = While(
        root, {Const(root, 0), x}, [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 100); },
        [](const Scope& s, const OutputList& v) -> OutputList {
          return {ops::Add(s, v[0], 1), ops::Tanh(s, v[1])};
        });
    // It keeps a value of each iteration.
    const Output slope = Gradients(root, {ops::Sum(root, ends[1], {0})}, {x})[0];
    const std::string error = Limited(30 * kMiB).ErrorOf(root, ops::Sum(root, slope, {0}));
    BOOST_TEST(Has(error, "held by stack '"), error);
  }
}

BOOST_AUTO_TEST_CASE(a_big_variable_is_named) {
  const Scope root = Scope::NewRootScope();
  const Variable big(root.WithOpName("embedding"), Numbers(root, "first", 7)), small(root.WithOpName("bias"), 1.0f);
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  const Output y = ops::Add(root, ops::Sum(root, Numbers(root, "more", 4), {0}), small.Read(root));
  const std::string error = Limited(10 * kMiB).ErrorOf(root, y, {init.name()});
  BOOST_TEST(Has(error, "'more'"), error);
  BOOST_TEST(Has(error, "held by variable 'embedding'"), error);
  BOOST_TEST(Has(error, "(7.0 MiB in 1 tensor)"), error);
}

// Results that the program keeps are nobody's here; the rest is told as such.
BOOST_AUTO_TEST_CASE(what_the_program_keeps_is_told_as_the_rest) {
  const Scope root = Scope::NewRootScope();
  const Output a = Numbers(root, "a", 3), b = ops::Neg(root.WithOpName("b"), a),
               c = ops::Square(root.WithOpName("c"), b);
  Limited limited(10 * kMiB);
  auto session = NewSession(root, limited.options);
  std::vector<Tensor> kept, out;
  TROUPE_REQUIRE_OK(session->Run({}, {a.name()}, {}, &kept));
  TROUPE_REQUIRE_OK(session->Run({}, {a.name()}, {}, &out));
  kept.push_back(out[0]);
  out.clear();
  const absl::Status s = session->Run({}, {b.name(), c.name(), a.name()}, {}, &out);
  BOOST_TEST((s.code() == absl::StatusCode::kResourceExhausted), s);
  BOOST_TEST(Has(s.ToString(), "node 'a' (RandomUniform) (3.0 MiB in 1 tensor)"), s);
  BOOST_TEST(Has(s.ToString(), "and others (6.0 MiB)"), s);
  // Other errors are as they were.
  kept.clear();
  TROUPE_REQUIRE_OK(session->Run({}, {a.name()}, {}, &out));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memory_holders_test
}  // namespace troupe
