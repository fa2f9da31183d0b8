// Fixed seeds give fixed numbers: neither what a kernel costs, nor threads, nor the order in which
// jobs end decides what a stateful node draws or adds.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "tests/actors/graphs.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace determinism_test {

// Passes its input on, and takes longer in every other run: jobs of later iterations end before
// those of earlier ones.
std::atomic<int> uneven_runs{0};
absl::Status Uneven(KernelContext& ctx) {
  if (uneven_runs.fetch_add(1) % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(400));
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_OP("DetUneven")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .NotDifferentiable("a test's")
    .Doc("Takes its time.");
TROUPE_KERNEL("DetUneven").Device("CPU").Function<Uneven>();

Output Slow(const Scope& s, const Output& x) {
  auto n =
      NodeBuilder(s.graph(), s.UniqueNodeName("DetUneven"), "DetUneven").Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

using Series = std::vector<float>;

// What a session of its own fetches in `steps` steps, the bits of every number.
Series Fetch(const Scope& root, const Output& y, const Operation* init, SessionOptions options, int steps) {
  auto session = NewSession(root, options);
  if (init != nullptr) TROUPE_REQUIRE_OK(session->Run({}, {}, {init->name()}, nullptr));
  Series series;
  for (int i = 0; i < steps; ++i) {
    const Tensor t = RunOne(*session, {}, y);
    for (int64_t k = 0; k < t.num_elements(); ++k) series.push_back(t.data<float>()[k]);
  }
  return series;
}

// Builds with so many parallel iterations; the same series must come from all kinds of sessions.
template <class Build>
void Same(const char* what, Build build, int steps) {
  Series expected;
  for (const int parallel : {1, 10}) {
    for (const int threads : {1, 2, 4}) {
      for (const bool messages : {false, true}) {
        Scope root = Scope::NewRootScope();
        std::optional<Operation> init;
        const Output y = build(root, parallel, &init);
        SessionOptions options{.token_messages = messages};
        options.runtime_options.threads = threads;
        const Series got = Fetch(root, y, init ? &*init : nullptr, options, steps);
        if (expected.empty()) expected = got;
        BOOST_TEST((got.size() == expected.size() &&
                    std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0),
                   what << " with " << parallel << " parallel iterations, " << threads << " threads"
                        << (messages ? ", tokens as messages" : ""));
      }
    }
  }
}

// The first number of what is drawn, shaped as a scalar.
Output First(const Scope& s, const Output& r) {
  return ops::Reshape(s, ops::Slice(s, r, ops::Const(s, {0}), ops::Const(s, {1})),
                      ops::Const(s, Tensor(DType::kInt32, TensorShape({0}))));
}

BOOST_AUTO_TEST_CASE(iterations_draw_in_their_order) {
  for (const int size : {10, 1000, 50000}) {
    for (const bool uneven : {false, true}) {
      Same(
          "a random series",
          [&](Scope& root, int parallel, std::optional<Operation>*) {
            const OutputList loop = While(
                root, {ops::Const(root, 0), ops::Const(root, 0.0f)},
                [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 8); },
                [&](const Scope& s, const OutputList& v) -> OutputList {
                  Output shape = ops::Fill(s, ops::Const(s, {1}), ops::Add(s, ops::Sub(s, v[0], v[0]), size));
                  if (uneven) shape = Slow(s, shape);
                  const Output r = ops::RandomUniform(s, shape, DType::kFloat, {.seed = 7, .seed2 = 3});
                  return {ops::AddV2(s, v[0], 1), ops::AddV2(s, ops::Mul(s, v[1], 2.0f), First(s, r))};
                },
                {.parallel_iterations = parallel});
            return ops::Identity(root, loop[1]);
          },
          5);
    }
  }
}

// A loop in a loop: the inner one of a later iteration may be ready long before that of an earlier
// one.
BOOST_AUTO_TEST_CASE(nested_loops_draw_in_their_order) {
  Same(
      "a nested random series",
      [&](Scope& root, int parallel, std::optional<Operation>*) {
        const OutputList outer = While(
            root, {ops::Const(root, 0), ops::Const(root, 0.0f)},
            [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 5); },
            [&](const Scope& s, const OutputList& v) -> OutputList {
              const Output begin = Slow(s, ops::Sub(s, v[0], v[0]));
              const OutputList inner = While(
                  s, {begin, ops::Const(s, 0.0f)},
                  [](const Scope& t, const OutputList& w) { return ops::Less(t, w[0], 4); },
                  [&](const Scope& t, const OutputList& w) -> OutputList {
                    const Output r = ops::RandomUniform(t, ops::Fill(t, ops::Const(t, {1}), ops::Add(t, w[0], 10)),
                                                        DType::kFloat, {.seed = 1, .seed2 = 2});
                    return {ops::AddV2(t, w[0], 1), ops::AddV2(t, ops::Mul(t, w[1], 3.0f), First(t, r))};
                  },
                  {.parallel_iterations = parallel});
              return {ops::AddV2(s, v[0], 1), ops::AddV2(s, ops::Mul(s, v[1], 2.0f), inner[1])};
            },
            {.parallel_iterations = parallel});
        return ops::Identity(root, outer[1]);
      },
      4);
}

// In a branch of an iteration: where it is not taken the turn passes on.
BOOST_AUTO_TEST_CASE(branches_that_are_not_taken_pass_their_turn_on) {
  Same(
      "a random series with a branch",
      [&](Scope& root, int parallel, std::optional<Operation>*) {
        const OutputList loop = While(
            root, {ops::Const(root, 0), ops::Const(root, 0.0f)},
            [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 12); },
            [&](const Scope& s, const OutputList& v) -> OutputList {
              const Output i = Slow(s, v[0]);
              const OutputList drawn = Cond(
                  s, ops::Equal(s, ops::FloorMod(s, i, ops::Const(s, 3)), 0),
                  [&](const Scope& t) -> OutputList {
                    return {First(t, ops::RandomUniform(t, ops::Fill(t, ops::Const(t, {1}), ops::Add(t, i, 1)),
                                                        DType::kFloat, {.seed = 5, .seed2 = 6}))};
                  },
                  [&](const Scope& t) -> OutputList { return {ops::Const(t, 0.5f)}; });
              return {ops::AddV2(s, v[0], 1), ops::AddV2(s, ops::Mul(s, v[1], 2.0f), drawn[0])};
            },
            {.parallel_iterations = parallel});
        return ops::Identity(root, loop[1]);
      },
      4);
}

// The sum of floats depends on their order.
BOOST_AUTO_TEST_CASE(iterations_add_in_their_order) {
  for (const bool resource : {true, false})
    Same(
        "a sum",
        [&](Scope& root, int parallel, std::optional<Operation>* init) {
          Variable v(root.WithOpName("v"), 0.0f, {.use_resource = resource});
          *init = GlobalVariablesInitializer(root);
          const OutputList loop = While(
              root, {ops::Const(root, 0), ops::Const(root, 0.0f)},
              [](const Scope& s, const OutputList& w) { return ops::Less(s, w[0], 20); },
              [&](const Scope& s, const OutputList& w) -> OutputList {
                const Output x = ops::Pow(s, ops::Const(s, 1.7f), ops::Cast(s, Slow(s, w[0]), DType::kFloat));
                const Output added = v.AssignAdd(s, x);
                return {ops::AddV2(s, w[0], 1), added};
              },
              {.parallel_iterations = parallel,
               .shape_invariants = {PartialTensorShape(TensorShape()), PartialTensorShape()}});
          const Output again = v.Read(root.WithControlDependencies(loop[1]));
          return ops::Identity(root, again);
        },
        3);
}

// Two updates of one variable that nothing orders: costly ones are neither put off nor jobs, so
// what they cost does not decide.
BOOST_AUTO_TEST_CASE(what_updates_cost_does_not_decide_their_order) {
  constexpr int kSize = 500000;
  Series expected;
  for (const int threads : {1, 2, 4}) {
    for (int session = 0; session < 4; ++session) {
      Scope root = Scope::NewRootScope();
      const auto filled = [](float value) {
        Tensor t(DType::kFloat, TensorShape({kSize}));
        std::fill_n(t.data<float>(), kSize, value);
        return t;
      };
      Variable v(root.WithOpName("v"), filled(0.0f));
      const Operation init = GlobalVariablesInitializer(root);
      std::vector<Operation> updates;
      for (const float value : {0.1f, 1.3e7f, 0.37f, 3.1e3f, -1.2e7f, 0.7f}) {
        updates.push_back(Operation(v.AssignAdd(root, ops::Const(root, filled(value)))));
      }
      const Output sum = ops::Identity(root, First(root, v.Read(root.WithControlDependencies(updates))));
      SessionOptions options;
      options.runtime_options.threads = threads;
      options.merge_common_subexpressions = false;
      const Series got = Fetch(root, sum, &init, options, 12);
      if (expected.empty()) expected = got;
      BOOST_TEST((got == expected), threads << " threads, session " << session);
    }
  }
}

// Costly draws of one iteration at a time, but whatever else the iterations do side by side: other
// nodes do not wait for turns.
BOOST_AUTO_TEST_CASE(only_stateful_nodes_wait_for_their_turn) {
  Scope root = Scope::NewRootScope();
  const OutputList loop = While(
      root, {ops::Const(root, 0), ops::Const(root, 0.0f)},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 6); },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        const Output r = ops::RandomUniform(s.WithControlDependencies(v[0]), ops::Const(s, {4}), DType::kFloat,
                                            {.seed = 7, .seed2 = 3});
        const Output slow = Slow(s, First(s, r));
        return {ops::AddV2(s, v[0], 1), ops::AddV2(s, v[1], slow)};
      },
      {.parallel_iterations = 6, .shape_invariants = {PartialTensorShape(TensorShape()), PartialTensorShape()}});
  SessionOptions options;
  options.runtime_options.threads = 4;
  auto session = NewSession(root, options);
  RunOptions run;
  run.collect_stats = true;
  bool overlap = false;
  for (int step = 0; step < 50 && !overlap; ++step) {
    proto::RunMetadata metadata;
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run(run, {}, {loop[1].name()}, {}, &out, &metadata));
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (const auto& n : metadata.step_stats().dev_stats(0).node_stats()) {
      if (n.node_name().find("DetUneven") == std::string::npos) continue;
      runs.emplace_back(n.all_start_nanos(), n.all_start_nanos() + n.all_end_rel_nanos());
    }
    BOOST_TEST(runs.size() == 6u);
    for (size_t i = 0; i < runs.size(); ++i) {
      for (size_t k = 0; k < i; ++k) overlap |= runs[i].first < runs[k].second && runs[k].first < runs[i].second;
    }
  }
  BOOST_TEST(overlap);
}

}  // namespace determinism_test
}  // namespace troupe
