// Forward values that are computed again for the gradients (RecomputeOptions): which nodes are
// added, that the gradients are the same bits, and that memory is saved.
#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "tests/autodiff/numeric.h"
#include "troupe/buffer.h"
#include "troupe/import_export.h"
#include "troupe/node_builder.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::testing {
namespace recompute_test {

GradientOptions ByScopes(std::vector<std::string> scopes) {
  GradientOptions options;
  options.recompute.scopes = std::move(scopes);
  return options;
}
GradientOptions ByBudget(int64_t bytes, int64_t assumed = 1) {
  GradientOptions options;
  options.recompute.budget_bytes = bytes;
  options.recompute.assumed_dimension = assumed;
  return options;
}

// Numbers in [-1, 1), always the same for a seed.
Tensor Numbers(const TensorShape& shape, int seed) {
  Tensor t(DType::kFloat, shape);
  std::mt19937 random(static_cast<unsigned>(seed));
  for (float& v : t.flat<float>()) v = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1);
  return t;
}

// "name(op) <- inputs" of each node that was added for recomputing, sorted; edges to readers, too.
std::vector<std::string> Copies(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node* n : graph.op_nodes()) {
    bool of_copy = n->name().find("/recompute/") != std::string::npos;
    std::string line = StrCat(n->name(), " (", n->op().name, ") <-");
    std::vector<std::string> controls;
    for (int i = 0; i < n->num_inputs(); ++i) {
      of_copy |= n->input(i).node->name().find("/recompute/") != std::string::npos;
      StrAppend(&line, " ", n->input(i).ToString());
    }
    for (const Edge* e : n->in_edges()) {
      if (e->IsControl() && e->src->IsOp()) controls.push_back(StrCat(" ^", e->src->name()));
    }
    std::sort(controls.begin(), controls.end());
    for (const std::string& c : controls) line += c;
    const auto after = n->Attr<std::vector<std::string>>("_after");
    for (size_t i = 0; after.ok() && i < after->size(); ++i) StrAppend(&line, " after ", (*after)[i]);
    if (of_copy) lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}
int64_t NumCopies(const Graph& graph) {
  int64_t n = 0;
  for (const Node* node : graph.op_nodes()) {
    n += node->name().find("/recompute/") != std::string::npos && node->op().name != "Identity" &&
         node->op().name != "NoOp";
  }
  return n;
}

// What a step of `graph` gives, with its nodes fused or as they are.
std::vector<Tensor> Run(const Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches, bool fuse,
                        int64_t* peak = nullptr) {
  SessionOptions options;
  options.fuse = fuse;
  auto session = Session::Create(options);
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  absl::Status s = (*session)->Extend(graph);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  RunOptions run;
  run.timeout_ms = 60000;
  std::vector<Tensor> out;
  const auto step = [&] {
    out.clear();
    s = (*session)->Run(run, feeds, fetches, {}, &out, nullptr);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  };
  step();
  for (int i = 0; i < 3 && peak != nullptr; ++i) {
    const int64_t before = Allocator::Cpu()->stats().bytes_in_use;
    Allocator::Cpu()->ResetPeak();
    step();
    *peak = std::max(*peak, Allocator::Cpu()->stats().peak_bytes_in_use - before);
  }
  return out;
}

std::string Different(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  if (got.size() != want.size()) return "another number of tensors";
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(got[i].shape() == want[i].shape())) return StrCat("tensor ", i, " has another shape");
    for (int64_t e = 0; e < got[i].num_elements(); ++e) {
      const float g = got[i].data<float>()[e], w = want[i].data<float>()[e];
      const bool same = tolerance == 0 ? std::memcmp(&g, &w, sizeof g) == 0
                                       : std::abs(g - w) <= tolerance * std::max(1.0f, std::abs(w));
      if (!same) return StrCat("tensor ", i, "[", e, "]: ", g, ", not ", w);
    }
  }
  return "";
}

// The gradients of what `build` returns with respect to `xs`, with these options: the same bits as
// without recomputing, and with nodes fused nearly the same numbers. Returns how many nodes are
// computed again.
struct Model {
  Output y;
  std::vector<Output> xs;
  Feeds feeds;
};
int64_t CheckSame(const std::function<Model(const Scope&)>& build, const GradientOptions& options) {
  std::vector<std::vector<Tensor>> got[2];
  int64_t copies = 0;
  for (const bool again : {false, true}) {
    const Scope s = Scope::NewRootScope();
    const Model m = build(s);
    std::vector<Output> fetches = Gradients(s, {m.y}, m.xs, {}, again ? options : GradientOptions());
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    fetches.push_back(m.y);
    for (const bool fuse : {false, true}) got[again].push_back(Run(*s.graph(), m.feeds, fetches, fuse));
    copies = NumCopies(*s.graph());
  }
  BOOST_TEST(Different(got[1][0], got[0][0], 0) == "");
  BOOST_TEST(Different(got[1][1], got[0][1], 1e-5) == "");
  return copies;
}

// An x of three numbers, and no y yet.
Model OneInput(const Scope& s) {
  Model m;
  m.feeds.emplace_back("x", Numbers({3}, 1));
  m.xs.push_back(Source(s, "x", {3}, DType::kFloat));
  return m;
}

// `layers` layers below the scopes net/layer_0, net/layer_1, ...
Model Layers(const Scope& s, int layers, int64_t batch, int64_t width, bool fed_batch = false) {
  Model m;
  m.feeds.emplace_back("x", Numbers({batch, width}, 1));
  Output h =
      Source(s, "x", fed_batch ? PartialTensorShape({-1, width}) : PartialTensorShape({batch, width}), DType::kFloat);
  m.xs.push_back(h);
  const Scope net = s.NewSubScope("net");
  for (int i = 0; i < layers; ++i) {
    const Scope l = net.NewSubScope(StrCat("layer_", i));
    const Output w = Const(l.WithOpName("w"), Numbers({width, width}, 10 + i));
    m.xs.push_back(w);
    h = Op(l.WithOpName("tanh"), "Tanh", {Op(l.WithOpName("product"), "MatMul", {h, w})});
    h = Op(l.WithOpName("sigmoid"), "Sigmoid", {Op(l.WithOpName("scaled"), "Mul", {h, 0.5f})});
  }
  m.y = Op(s.WithOpName("loss"), "Mean", {Op(s.WithOpName("squares"), "Square", {h}), Const(s, {0, 1})});
  return m;
}

BOOST_AUTO_TEST_CASE(a_segment_is_copied_up_to_what_is_kept) {
  const Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", {2, 2}, DType::kFloat);
  const Scope in = s.NewSubScope("part");
  const Output a = Op(in.WithOpName("a"), "Tanh", {x}), b = Op(in.WithOpName("b"), "Sigmoid", {a}),
               c = Op(in.WithOpName("c"), "Exp", {b});
  const Output y = Op(s.WithOpName("y"), "Tanh", {c});
  Gradients(s, {y}, {x}, {}, ByScopes({"part"}));
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const std::vector<std::string> want = {
      "gradients/part/a_grad/TanhGrad (TanhGrad) <- gradients/recompute/part/a:0 gradients/part/b_grad/SigmoidGrad:0",
      "gradients/part/b_grad/SigmoidGrad (SigmoidGrad) <- gradients/recompute/part/b:0 "
      "gradients/part/c_grad/Mul:0",
      "gradients/part/c_grad/Mul (Mul) <- gradients/y_grad/TanhGrad:0 gradients/recompute/part/c:0",
      "gradients/recompute/part/a (Tanh) <- gradients/recompute/x/kept:0",
      "gradients/recompute/part/b (Sigmoid) <- gradients/recompute/part/a:0",
      "gradients/recompute/part/c (Exp) <- gradients/recompute/part/b:0",
      "gradients/recompute/turn (NoOp) <- after gradients/y_grad/TanhGrad",
      "gradients/recompute/x/kept (Identity) <- x:0 ^gradients/recompute/turn",
  };
  const std::vector<std::string> got = Copies(*s.graph());
  BOOST_TEST(got == want, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_the_next_segment_reads_is_kept) {
  const Scope s = Scope::NewRootScope();
  Model m = Layers(s, 3, 2, 2);
  Gradients(s, {m.y}, m.xs, {}, ByScopes({"net/*"}));
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  std::set<std::string> kept, copied;
  for (const Node* n : s.graph()->op_nodes()) {
    const size_t at = n->name().find("/recompute/");
    if (at == std::string::npos || n->op().name == "NoOp") continue;
    const std::string name(n->name().substr(at + 11));
    (n->op().name == "Identity" ? kept : copied).insert(name);
  }
  // The sigmoid of a layer is kept when the next layer's product reads it.
  const std::set<std::string> want_kept = {"x/kept", "net/layer_0/sigmoid/kept", "net/layer_1/sigmoid/kept"},
                              want_copied = {"net/layer_0/product", "net/layer_0/tanh",    "net/layer_1/product",
                                             "net/layer_1/tanh",    "net/layer_2/product", "net/layer_2/tanh",
                                             "net/layer_2/scaled",  "net/layer_2/sigmoid"};
  BOOST_TEST(kept == want_kept, boost::test_tools::per_element());
  BOOST_TEST(copied == want_copied, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(gradients_are_the_same_bits) {
  const auto build = [](const Scope& s) { return Layers(s, 6, 5, 7); };
  BOOST_TEST(CheckSame(build, ByScopes({"net/*"})) == 14);
  BOOST_TEST(CheckSame(build, ByScopes({"net/layer_1", "net/layer_3"})) == 4);
  BOOST_TEST(CheckSame(build, ByScopes({"net"})) > 12);
  BOOST_TEST(CheckSame(build, ByScopes({"*"})) == CheckSame(build, ByScopes({"net"})));
  BOOST_TEST(CheckSame(build, ByBudget(6 * 5 * 7 * 4)) > 0);
  BOOST_TEST(CheckSame(build, ByBudget(1)) > 0);
  BOOST_TEST(CheckSame(build, ByBudget(int64_t{1} << 40)) == 0);
}

// A segment that others lie within: what it reads of them is kept.
BOOST_AUTO_TEST_CASE(a_segment_may_have_another_in_its_midst) {
  const auto build = [](const Scope& s) {
    Model m;
    m.feeds.emplace_back("x", Numbers({3, 4}, 1));
    const Output x = Source(s, "x", {3, 4}, DType::kFloat);
    m.xs = {x};
    const Scope outer = s.NewSubScope("outer"), inner = s.NewSubScope("inner");
    const Output a = Op(outer.WithOpName("a"), "Tanh", {Op(outer, "Sin", {x})});
    const Output b = Op(inner.WithOpName("b"), "Exp", {Op(inner, "Tanh", {a})});
    const Output c = Op(outer.WithOpName("c"), "Sigmoid", {Op(outer, "Mul", {b, a})});
    const Output d = Op(inner.WithOpName("d"), "Tanh", {Op(inner, "Mul", {c, b})});
    m.y = Op(outer.WithOpName("y"), "Mul", {Op(outer, "Exp", {d}), c});
    return m;
  };
  BOOST_TEST(CheckSame(build, ByScopes({"outer", "inner"})) > 4);
  BOOST_TEST(CheckSame(build, ByScopes({"outer"})) > 2);
  BOOST_TEST(CheckSame(build, ByScopes({"inner"})) > 2);
}

// Any graph, any segments: never a cycle, and always the same gradients.
BOOST_AUTO_TEST_CASE(graphs_by_chance) {
  int64_t copies = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const auto build = [&](const Scope& s) {
      std::mt19937 random(static_cast<unsigned>(seed));
      Model m;
      m.feeds.emplace_back("x", Numbers({2, 3}, 1));
      std::vector<Output> values = {Source(s, "x", {2, 3}, DType::kFloat)};
      m.xs = values;
      std::vector<Scope> scopes;
      for (int i = 0; i < 4; ++i) scopes.push_back(s.NewSubScope(StrCat("s", i)));
      const char* const ops[] = {"Tanh", "Sigmoid", "Sin", "Neg", "Mul", "Add", "Sub", "Maximum", "Sum"};
      const int nodes = 10 + static_cast<int>(random() % 30);
      for (int i = 0; i < nodes; ++i) {
        const Scope& at = scopes[random() % scopes.size()];
        const auto any = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 6)]; };
        const std::string op = ops[random() % std::size(ops)];
        if (op == "Sum") {
          values.push_back(Op(at, "Tanh", {Op(at, "Mul", {any(), Op(at, "Sum", {any(), Const(s, {0, 1})})})}));
        } else if (op[0] == 'M' || op[0] == 'A' || op == "Sub") {
          const Output a = any(), b = any();
          values.push_back(Op(at, op, {a, b}));
        } else {
          values.push_back(Op(at, op, {any()}));
        }
      }
      m.y = Op(s, "Add", {values.back(), values[values.size() - 2]});
      return m;
    };
    BOOST_TEST_CONTEXT("seed " << seed) {
      std::vector<std::string> scopes;
      {
        const Scope probe = Scope::NewRootScope();
        build(probe);
        for (int i = 0; i < 4; ++i) {
          for (const Node* n : probe.graph()->op_nodes()) {
            if (!n->name().starts_with(StrCat("s", i, "/")) || n->op().name == "Const") continue;
            scopes.push_back(StrCat("s", i));
            break;
          }
        }
      }
      const Scope probe = Scope::NewRootScope();
      const Model m = build(probe);
      // An x that no y depends on would be an error.
      GradientOptions options = ByScopes(scopes);
      if (!Gradients(probe, {m.y}, m.xs)[0].valid()) continue;
      copies += CheckSame(build, options);
      copies += CheckSame(build, ByBudget(60));
    }
  }
  BOOST_TEST(copies > 500);
}

BOOST_AUTO_TEST_CASE(random_numbers_are_drawn_once) {
  const Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", {64, 64}, DType::kFloat);
  const Scope in = s.NewSubScope("dropout");
  // y = x * mask: so its gradient is the mask, which a second draw would change.
  const Output chance = Op(in, "RandomUniform", {Const(in, {64, 64})}, {{"dtype", DType::kFloat}});
  const Output y = Op(in, "Mul", {x, Op(in, "Floor", {Op(in, "Add", {chance, 0.5f})})});
  const std::vector<Output> g = Gradients(s, {y}, {x}, {}, ByScopes({"dropout"}));
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(NumCopies(*s.graph()) > 0);
  Tensor ones(DType::kFloat, {64, 64});
  for (float& v : ones.flat<float>()) v = 1;
  for (const bool fuse : {false, true}) {
    const std::vector<Tensor> got = Run(*s.graph(), {{"x", ones}}, {y, g[0]}, fuse);
    BOOST_TEST(Different({got[0]}, {got[1]}, 0) == "");
    double sum = 0;
    for (const float v : got[0].flat<float>()) sum += v;
    BOOST_TEST((sum > 1500 && sum < 2600));
  }
}

BOOST_AUTO_TEST_CASE(loops_and_branches_are_kept) {
  const auto build = [](const Scope& s) {
    Model m = OneInput(s);
    const Output x = m.xs[0];
    const Scope in = s.NewSubScope("part");
    const Output before = Op(in, "Tanh", {Op(in, "Exp", {x})});
    const OutputList loop = While(
        in, {Const(in, 0), before},
        [&](const Scope& b, const OutputList& v) {
          return Op(b, "Less", {v[0], 3});
        },
        [&](const Scope& b, const OutputList& v) -> OutputList {
          return {Op(b, "Add", {v[0], 1}), Op(b, "Sin", {Op(b, "Mul", {v[1], before})})};
        });
    const Output yes = Op(in, "Less", {SumAll(in, x), 100.0f});
    const Output branch = Cond(
        in, yes, [&](const Scope& b) { return Op(b, "Exp", {Op(b, "Tanh", {loop[1]})}); },
        [&](const Scope& b) { return Op(b, "Neg", {before}); });
    m.y = Op(in, "Tanh", {Op(in, "Mul", {branch, before})});
    return m;
  };
  BOOST_TEST(CheckSame(build, ByScopes({"part"})) > 1);
  BOOST_TEST(CheckSame(build, ByBudget(20)) >= 0);
}

// Sums of slices at the edge of a branch are dead when the other one is taken: no copy waits for
// them.
BOOST_AUTO_TEST_CASE(a_branch_that_is_not_taken_ends_no_copy) {
  for (const float sign : {1.0f, -1.0f}) {
    const auto build = [&](const Scope& s) {
      Model m;
      Tensor ids(DType::kInt32, {3}), way(DType::kFloat, {});
      for (int i = 0; i < 3; ++i) ids.data<int32_t>()[i] = i;
      *way.data<float>() = sign;
      m.feeds = {{"x", Numbers({4, 2}, 1)}, {"ids", ids}, {"way", way}};
      const Output x = Source(s, "x", PartialTensorShape({-1, 2}), DType::kFloat);
      const Output fed = Source(s, "ids", {3}, DType::kInt32), side = Source(s, "way", TensorShape(), DType::kFloat);
      m.xs = {x};
      const Scope in = s.NewSubScope("part");
      const Output table = Op(in, "Tanh", {Op(in, "Exp", {Op(in, "Sin", {x})})});
      m.y = Cond(
          s, Op(s, "Greater", {side, 0.0f}),
          [&](const Scope& b) {
            const auto rows = [&](int more) {
              return Op(b, "GatherV2", {table, Op(b, "Minimum", {Op(b, "Add", {fed, more}), 3}), 0});
            };
            return SumAll(b, Op(b, "Square", {Op(b, "Mul", {rows(0), rows(1)})}));
          },
          [&](const Scope& b) { return SumAll(b, Op(b, "Square", {table})); });
      return m;
    };
    BOOST_TEST(CheckSame(build, ByScopes({"part"})) > 0);
    BOOST_TEST(CheckSame(build, ByBudget(16)) >= 0);
  }
}

BOOST_AUTO_TEST_CASE(what_is_there_to_be_fed_is_kept) {
  const auto build = [](const Scope& s) {
    Model m;
    m.feeds = {{"x", Numbers({2}, 1)}, {"part/other", Numbers({2}, 2)}};
    const Output x = Source(s, "x", {2}, DType::kFloat);
    m.xs = {x};
    const Scope in = s.NewSubScope("part");
    const Output other = Op(in.WithOpName("other"), "PlaceholderWithDefault", {Op(in, "Exp", {x})},
                            {{"shape", PartialTensorShape({2})}});
    m.y = Op(s, "Tanh", {Op(in, "Sin", {Op(in, "Mul", {x, other})})});
    return m;
  };
  BOOST_TEST(CheckSame(build, ByScopes({"part"})) > 0);
  BOOST_TEST(CheckSame(build, ByBudget(1)) >= 0);
}

// A copy is the value that it is a copy of: as an x, and where gradients stop, also after an import
// under other names.
BOOST_AUTO_TEST_CASE(copies_count_as_what_they_copy) {
  std::vector<std::vector<Tensor>> got[2];
  for (const bool again : {false, true}) {
    Scope s = Scope::NewRootScope();
    const Output x = Source(s, "x", {2}, DType::kFloat);
    const Scope in = s.NewSubScope("part");
    const Output h = Op(in.WithOpName("h"), "Sin", {x});
    const Output y = Op(in, "Exp", {Op(in, "Square", {h})});
    const std::vector<Output> g = Gradients(s, {y}, {x}, {}, again ? ByScopes({"part"}) : GradientOptions());
    const Output z = Op(s.WithOpName("z"), "Add", {Op(s, "Square", {g[0]}), h});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    BOOST_TEST((NumCopies(*s.graph()) > 0) == again);
    const auto check = [&](Graph* graph, const std::string& prefix) {
      const auto at = [&](const char* name) { return NodeOut{graph->Find(prefix + name), 0}; };
      GradientOptions stop;
      stop.name = "second";
      stop.stop_gradients = {at("part/h")};
      std::vector<NodeOut> by_h, stopped;
      absl::Status status = AddGradients(graph, {at("z")}, {at("part/h")}, {}, {}, &by_h);
      if (status.ok()) status = AddGradients(graph, {at("z")}, {at("x")}, {}, stop, &stopped);
      BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
      got[again].push_back(
          RunGraph(*graph, {{prefix + "x", Numbers({2}, 1)}}, {by_h[0].ToString(), stopped[0].ToString()}));
    };
    proto::GraphDef def;
    ExportGraphDef(*s.graph(), &def);
    check(s.graph(), "");
    Graph imported;
    ImportOptions under;
    under.prefix = "elsewhere";
    BOOST_REQUIRE(ImportGraphDef(def, under, &imported).ok());
    check(&imported, "elsewhere/");
  }
  for (int i = 0; i < 2; ++i) BOOST_TEST(Different(got[1][i], got[0][i], 1e-5) == "", "graph " << i);
}

// Copies wait for other gradients only in steps that need those.
BOOST_AUTO_TEST_CASE(one_gradient_needs_no_feeds_of_another) {
  std::vector<Tensor> got[2][2];
  for (const bool again : {false, true}) {
    const Scope s = Scope::NewRootScope();
    const Output x = Source(s, "x", {2}, DType::kFloat), w = Source(s, "w", {2}, DType::kFloat);
    const Output p = Source(s, "p", {2}, DType::kFloat);
    const Scope a = s.NewSubScope("a"), b = s.NewSubScope("b");
    const Output h = Op(a, "Tanh", {Op(a, "Sin", {x})}), k = Op(b, "Tanh", {Op(b, "Mul", {w, p})});
    const std::vector<Output> g = Gradients(s, {h, k}, {x, w}, {}, again ? ByScopes({"a", "b"}) : GradientOptions());
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    BOOST_TEST((NumCopies(*s.graph()) > 0) == again);
    got[again][0] = Run(*s.graph(), {{"x", Numbers({2}, 1)}}, {g[0]}, true);
    got[again][1] = Run(*s.graph(), {{"w", Numbers({2}, 1)}, {"p", Numbers({2}, 3)}}, {g[1]}, true);
  }
  for (int i = 0; i < 2; ++i) BOOST_TEST(Different(got[1][i], got[0][i], 1e-6) == "", "gradient " << i);
}

// A value that the gradient of a loop reads is kept for that: a copy would be one more.
BOOST_AUTO_TEST_CASE(what_the_gradient_of_a_loop_reads_is_kept) {
  const auto build = [](const Scope& s) {
    Model m = OneInput(s);
    const Output x = m.xs[0];
    const Scope in = s.NewSubScope("part");
    const Output scale = Op(in.WithOpName("scale"), "Tanh", {x});
    m.y = While(
        s, {Const(s, 0), x},
        [&](const Scope& b, const OutputList& v) {
          return Op(b, "Less", {v[0], 3});
        },
        [&](const Scope& b, const OutputList& v) -> OutputList {
          return {Op(b, "Add", {v[0], 1}), Op(b, "Mul", {v[1], scale})};
        })[1];
    return m;
  };
  BOOST_TEST(CheckSame(build, ByScopes({"part"})) == 0);
  BOOST_TEST(CheckSame(build, ByBudget(1)) == 0);
}

BOOST_AUTO_TEST_CASE(second_gradients_go_through_copies) {
  const auto build = [](const Scope& s) {
    Model m = Layers(s, 3, 2, 3);
    const std::vector<Output> g = Gradients(s, {m.y}, {m.xs[0]}, {}, ByScopes({"net/*"}));
    m.y = SumAll(s, Op(s, "Square", {g[0]}));
    return m;
  };
  BOOST_TEST(CheckSame(build, ByScopes({"net/*", "gradients"})) > 12);
}

// Variables that the same step updates: the copies read what the forward pass has read.
BOOST_AUTO_TEST_CASE(updates_in_the_same_step_do_not_change_copies) {
  for (const bool resource : {false, true}) {
    std::vector<std::vector<Tensor>> values[2];
    for (const bool again : {false, true}) {
      const Scope s = Scope::NewRootScope();
      VariableOptions of_variable;
      of_variable.use_resource = resource;
      const Output x = Source(s, "x", {4, 4}, DType::kFloat);
      std::vector<Variable> vars;
      std::vector<Output> xs;
      Output h = x;
      for (int i = 0; i < 4; ++i) {
        const Scope l = s.NewSubScope(StrCat("layer_", i));
        vars.emplace_back(l.WithOpName("w"), Const(l, Numbers({4, 4}, i)), of_variable);
        xs.push_back(vars.back());
        h = Op(l, "Tanh", {Op(l, "Sigmoid", {Op(l, "MatMul", {h, vars.back()})})});
      }
      const Output loss = SumAll(s, Op(s, "Square", {h}));
      const std::vector<Output> g = Gradients(
          s, {loss}, xs, {}, again ? ByScopes({"layer_0", "layer_1", "layer_2", "layer_3"}) : GradientOptions());
      std::vector<std::string> updates;
      for (size_t i = 0; i < g.size(); ++i)
        updates.push_back(vars[i].AssignSub(s, Op(s, "Mul", {g[i], 0.3f})).node()->name());
      const Operation init = GlobalVariablesInitializer(s);
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
      BOOST_TEST((NumCopies(*s.graph()) > 0) == again);
      SessionOptions options;
      options.fuse = false;
      auto session = Session::Create(options);
      BOOST_REQUIRE(session.ok());
      BOOST_REQUIRE((*session)->Extend(*s.graph()).ok());
      std::vector<Tensor> out;
      BOOST_REQUIRE((*session)->Run({}, {}, {init.name()}, &out).ok());
      for (int step = 0; step < 20; ++step) {
        const absl::Status run = (*session)->Run({{"x", Numbers({4, 4}, 100 + step)}}, {loss.name()}, updates, &out);
        BOOST_REQUIRE_MESSAGE(run.ok(), run.ToString());
        values[again].push_back(out);
      }
    }
    for (size_t step = 0; step < values[0].size(); ++step)
      BOOST_TEST(Different(values[1][step], values[0][step], 0) == "", "step " << step);
  }
}

BOOST_AUTO_TEST_CASE(memory_follows_the_budget) {
  constexpr int kLayers = 16;
  constexpr int64_t kBatch = 2000, kWidth = 32, kValue = kBatch * kWidth * 4;
  const auto peak = [&](const GradientOptions& options, int64_t* copies) {
    const Scope s = Scope::NewRootScope();
    const Model m = Layers(s, kLayers, kBatch, kWidth, /*fed_batch=*/true);
    const std::vector<Output> g = Gradients(s, {m.y}, m.xs, {}, options);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    *copies = NumCopies(*s.graph());
    int64_t most = 0;
    Run(*s.graph(), m.feeds, g, /*fuse=*/true, &most);
    return most;
  };
  // Of each layer two values are kept: those of tanh and sigmoid.
  int64_t copies = 0, before = 0;
  const int64_t all = peak({}, &copies);
  BOOST_TEST(copies == 0);
  BOOST_TEST(all >= 2 * kLayers * kValue);
  int64_t last = all;
  for (const int64_t values : {30, 20, 13}) {
    const int64_t most = peak(ByBudget(values * kValue, kBatch), &copies);
    // What the budget does not count: gradients, and values that no gradient uses.
    BOOST_TEST(most <= (values + 6) * kValue, values << " values: " << most / kValue);
    BOOST_TEST(most < last);
    BOOST_TEST(copies > before);
    last = most;
    before = copies;
  }
  // Each layer alone: its input is kept, and one layer's values at a time are there again.
  const int64_t layers = peak(ByScopes({"net/*"}), &copies);
  BOOST_TEST(layers <= (kLayers + 6) * kValue, layers / kValue);
}

// The attrs by which copies are known and ordered, in a graph that somebody else has made.
BOOST_AUTO_TEST_CASE(names_in_a_foreign_graph_do_no_harm) {
  Graph graph;
  const auto built = [](absl::StatusOr<Node*> node) {
    BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
    return *node;
  };
  const auto names = [](std::vector<std::string> list) { return list; };
  Node* const x = built(NodeBuilder(&graph, "x", "Placeholder").Attr("dtype", DType::kFloat).Build());
  Node* const y = built(NodeBuilder(&graph, "y", "Tanh").Input(x).Build());
  // Says that it is x again, and is none.
  built(NodeBuilder(&graph, "other", "Sin").Input(y).Attr("_recomputes", names({"x"})).Build());
  std::vector<NodeOut> g;
  const absl::Status added = AddGradients(&graph, {{y, 0}}, {{x, 0}}, {}, {}, &g);
  BOOST_TEST(added.ok(), added.ToString());
  // After itself, and after one that is after it.
  built(NodeBuilder(&graph, "itself", "NoOp").Attr("_after", names({"itself"})).Build());
  built(NodeBuilder(&graph, "first", "NoOp").Attr("_after", names({"second", "second", "nobody"})).Build());
  built(NodeBuilder(&graph, "second", "NoOp").Attr("_after", names({"first"})).Build());
  for (const bool passes : {true, false}) {
    SessionOptions options;
    options.fold_constants = options.merge_common_subexpressions = passes;
    auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok());
    BOOST_REQUIRE((*session)->Extend(graph).ok());
    std::vector<Tensor> out;
    BOOST_TEST(absl::IsInvalidArgument((*session)->Run({}, {}, {"itself"}, &out)));
    const absl::Status both = (*session)->Run({}, {}, {"first", "second"}, &out);
    BOOST_TEST(absl::IsInvalidArgument(both));
    BOOST_TEST(both.ToString().find("with attr '_after'") != std::string::npos, both.ToString());
    BOOST_TEST((*session)->Run({}, {}, {"first"}, &out).ok());
  }
}

BOOST_AUTO_TEST_CASE(bad_options_are_refused) {
  const auto refuse = [](const GradientOptions& options, const std::string& why) {
    const Scope s = Scope::NewRootScope();
    Model m = Layers(s, 2, 2, 2);
    const int nodes = s.graph()->num_nodes();
    Gradients(s, {m.y}, m.xs, {}, options);
    BOOST_TEST(absl::IsInvalidArgument(s.status()));
    BOOST_TEST(s.status().ToString().find(why) != std::string::npos, s.status().ToString());
    BOOST_TEST(s.graph()->num_nodes() == nodes);
  };
  GradientOptions both = ByScopes({"net"});
  both.recompute.budget_bytes = 1;
  refuse(both, "by scopes or by a budget");
  refuse(ByBudget(-1), "must be positive, not -1");
  refuse(ByBudget(1, 0), "at least 1, not 0");
  // Sizes that no number holds.
  const Scope s = Scope::NewRootScope();
  Model m = Layers(s, 2, 2, 2, /*fed_batch=*/true);
  Gradients(s, {m.y}, m.xs, {}, ByBudget(int64_t{1} << 50, std::numeric_limits<int64_t>::max()));
  BOOST_TEST(s.ok(), s.status().ToString());
  refuse(ByScopes({"net", "nets"}), "nothing below the scope 'nets'");
  for (const std::string& none : {"", "/*", "net/", "ne*", "net/**", "net/*/x", "**"}) {
    refuse(ByScopes({none}), StrCat("'", none, "' names no scope to recompute"));
  }
  refuse(ByScopes({"net/layer_0/*"}), "nothing below the scope 'net/layer_0/*'");
}

}  // namespace recompute_test
}  // namespace troupe::testing
