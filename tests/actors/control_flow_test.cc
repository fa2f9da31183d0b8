// Conditionals and loops, each in both modes: tokens within a turn, and every token a message.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace control_flow_test {

namespace data = boost::unit_test::data;

struct Modes {
  explicit Modes(bool messages) { options.token_messages = messages; }
  SessionOptions options;
};

int RunInt(Session& session, const Output& feed, int value, const Output& fetch) {
  return RunOne(session, {{feed.name(), Tensor::Scalar<int32_t>(value)}}, fetch).scalar<int32_t>();
}

BOOST_DATA_TEST_CASE(switch_merge_takes_the_branch, data::make({false, true}), messages) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), p = ops::Placeholder(root, DType::kBool);
  const auto s = ops::Switch(root, x, p);
  const Output no = ops::Neg(root, s.output_false), yes = ops::Square(root, s.output_true);
  const auto m = ops::Merge(root, OutputList{no, yes});
  auto session = NewSession(root, Modes(messages).options);
  for (const bool taken : {true, false, true}) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({{x.name(), Tensor::Scalar(3.0f)}, {p.name(), Tensor::Scalar(taken)}},
                                   {m.output.name(), m.value_index.name()}, {}, &out));
    BOOST_TEST(out[0].scalar<float>() == (taken ? 9.0f : -3.0f));
    BOOST_TEST(out[1].scalar<int32_t>() == (taken ? 1 : 0));
    // A fetch on the branch that was not taken has no value.
    const absl::Status dead = session->Run({{x.name(), Tensor::Scalar(3.0f)}, {p.name(), Tensor::Scalar(taken)}},
                                           {(taken ? no : yes).name()}, {}, &out);
    BOOST_TEST(dead.code() == absl::StatusCode::kInvalidArgument);
  }
}

BOOST_DATA_TEST_CASE(while_sums_up, data::make({false, true}) * data::make({1, 2, 10, 32}), messages, parallel) {
  Scope root = Scope::NewRootScope();
  const Output n = ops::Placeholder(root, DType::kInt32);
  const auto result = While(
      root, {Const(root, 0), Const(root, 0)},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [](const Scope& s, const OutputList& v) {
        return OutputList{ops::Add(s, v[0], 1), ops::Add(s, v[1], v[0])};
      },
      {.parallel_iterations = parallel});
  auto session = NewSession(root, Modes(messages).options);
  for (const int trips : {0, 1, 2, 7, 100}) {
    const Tensor sum = RunOne(*session, {{n.name(), Tensor::Scalar<int32_t>(trips)}}, result[1]);
    BOOST_TEST(sum.scalar<int32_t>() == trips * (trips - 1) / 2);
  }
}

// The last round of a loop ends at its condition, so the body's nodes have no value in it: they did
// run.
BOOST_DATA_TEST_CASE(a_fetch_inside_of_a_loop_says_why_it_has_no_value, data::make({false, true}), messages) {
  Scope root = Scope::NewRootScope();
  Output inner;
  const Output left = While(
      root, Const(root, 0), [](const Scope& s, const Output& v) { return ops::Less(s, v, 3); },
      [&](const Scope& s, const Output& v) { return inner = ops::Add(s, v, 1); });
  auto session = NewSession(root, Modes(messages).options);
  std::vector<Tensor> out;
  const absl::Status dead = session->Run({}, {inner.name()}, {}, &out);
  BOOST_TEST(dead.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(std::string(dead.message()).find("or inside of a loop") != std::string::npos, dead);
  BOOST_TEST(RunOne(*session, {}, left).scalar<int32_t>() == 3);
}

BOOST_DATA_TEST_CASE(nested_loops_and_a_branch_inside, data::make({false, true}), messages) {
  // for i in 0..4: for j in 0..i: if (i + j) even: total += i * j else total -= 1
  Scope root = Scope::NewRootScope();
  const Output n = ops::Placeholder(root, DType::kInt32);
  const auto outer = While(
      root, {Const(root, 0), Const(root, 0)},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [](const Scope& s, const OutputList& v) {
        const Output i = v[0];
        const auto inner = While(
            s, {Const(s, 0), v[1]}, [&](const Scope& c, const OutputList& w) { return ops::LessEqual(c, w[0], i); },
            [&](const Scope& b, const OutputList& w) {
              const Output even = ops::Equal(b, ops::FloorMod(b, ops::Add(b, i, w[0]), 2), 0);
              const auto total = Cond(
                  b, even, [&](const Scope& t) { return OutputList{ops::Add(t, w[1], ops::Mul(t, i, w[0]))}; },
                  [&](const Scope& f) { return OutputList{ops::Sub(f, w[1], 1)}; });
              return OutputList{ops::Add(b, w[0], 1), total[0]};
            });
        return OutputList{ops::Add(s, i, 1), inner[1]};
      });
  auto session = NewSession(root, Modes(messages).options);
  for (const int trips : {0, 1, 5, 9}) {
    int want = 0;
    for (int i = 0; i < trips; ++i) {
      for (int j = 0; j <= i; ++j) want += (i + j) % 2 == 0 ? i * j : -1;
    }
    BOOST_TEST(RunInt(*session, n, trips, outer[1]) == want);
  }
}

BOOST_DATA_TEST_CASE(a_loop_on_two_devices, data::make({false, true}), messages) {
  Scope root = Scope::NewRootScope();
  const Output n = ops::Placeholder(root, DType::kInt32);
  const auto result = While(
      root, {Const(root, 0), Const(root, 1)},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [](const Scope& s, const OutputList& v) {
        const Output twice = ops::Mul(s.WithDevice("/cpu:1"), v[1], 2);
        return OutputList{ops::Add(s, v[0], 1), ops::Sub(s, twice, 1)};
      });
  SessionOptions options = Modes(messages).options;
  options.runtime_options.cpu_devices = 2;
  options.fold_constants = false;
  auto session = NewSession(root, options);
  for (const int trips : {0, 1, 5, 40}) {
    BOOST_TEST(RunInt(*session, n, trips, result[1]) == 1);
  }
}

// Each value that crosses says which iterations of both loops it belongs to; many are under way.
BOOST_DATA_TEST_CASE(nested_loops_on_two_devices, data::make({false, true}), messages) {
  Scope root = Scope::NewRootScope();
  const Output n = ops::Placeholder(root, DType::kInt32);
  const auto outer = While(
      root, {Const(root, 0), Const(root, 0)},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n); },
      [&](const Scope& s, const OutputList& v) {
        const Output i = v[0];
        const auto inner = While(
            s, {Const(s, 0), Const(s, 0)}, [&](const Scope& c, const OutputList& w) { return ops::Less(c, w[0], n); },
            [&](const Scope& b, const OutputList& w) {
              const Scope there = b.WithDevice("/cpu:1");
              const Output tens = ops::Mul(there, i, 10);
              return OutputList{ops::Add(b, w[0], 1), ops::Sub(b, ops::Add(there, tens, w[0]), w[1])};
            });
        return OutputList{ops::Add(s, i, 1), ops::Add(s, v[1], ops::Mul(s.WithDevice("/cpu:1"), inner[1], i))};
      });
  for (const bool wire : {false, true}) {
    SessionOptions options = Modes(messages).options;
    options.runtime_options.cpu_devices = 2;
    options.fold_constants = false;
    options.wire_messages = wire;
    auto session = NewSession(root, options);
    for (const int trips : {0, 1, 4, 17}) {
      int want = 0;
      for (int i = 0; i < trips; ++i) {
        int total = 0;
        for (int j = 0; j < trips; ++j) total = i * 10 + j - total;
        want += total * i;
      }
      BOOST_TEST(RunInt(*session, n, trips, outer[1]) == want);
    }
  }
}

BOOST_DATA_TEST_CASE(a_tree_of_4096_adds, data::make({false, true}), messages) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  OutputList level(4096, x);
  while (level.size() > 1) {
    OutputList next;
    for (size_t i = 0; i < level.size(); i += 2) next.push_back(ops::Add(root, level[i], level[i + 1]));
    level = std::move(next);
  }
  SessionOptions options = Modes(messages).options;
  options.merge_common_subexpressions = false;
  auto session = NewSession(root, options);
  BOOST_TEST(RunOne(*session, {{x.name(), Tensor::Scalar(1.0f)}}, level[0]).scalar<float>() == 4096.0f);
}

}  // namespace control_flow_test
}  // namespace troupe
