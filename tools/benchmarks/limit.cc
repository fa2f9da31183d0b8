#include "tools/benchmarks/limit.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "tools/benchmarks/serve.h"
#include "troupe/graph.h"

namespace troupe::bench {
namespace {

// Enough chains that none waits for its last result, few enough for the registers.
constexpr int kChains = 12;
constexpr int64_t kRounds = 1000000;

// As a macro, since a function with other instructions than its caller's is not inlined everywhere.
// Variables by name: those of an array need not be in registers.
#define TROUPE_RUN_CHAINS(V)                                                                                    \
  V by = {}, plus = {};                                                                                         \
  by += 0.5f;                                                                                                   \
  plus += 1.0f;                                                                                                 \
  V a = plus, b = a + 1.0f, c = b + 1.0f, d = c + 1.0f, e = d + 1.0f, f = e + 1.0f, g = f + 1.0f, h = g + 1.0f, \
    i = h + 1.0f, j = i + 1.0f, k = j + 1.0f, l = k + 1.0f;                                                     \
  for (int64_t round = 0; round < kRounds; ++round) {                                                           \
    a = a * by + plus, b = b * by + plus, c = c * by + plus, d = d * by + plus;                                 \
    e = e * by + plus, f = f * by + plus, g = g * by + plus, h = h * by + plus;                                 \
    i = i * by + plus, j = j * by + plus, k = k * by + plus, l = l * by + plus;                                 \
  }                                                                                                             \
  return (((a + b) + (c + d)) + ((e + f) + (g + h)) + ((i + j) + (k + l)))[0]

struct Way {
  float (*run)();
  double lanes;
};

#if defined(__x86_64__)
using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));
float Narrow() { TROUPE_RUN_CHAINS(Four); }
[[gnu::target("avx2,fma")]] float Wide() { TROUPE_RUN_CHAINS(Eight); }
[[gnu::target("avx512f")]] float Widest() { TROUPE_RUN_CHAINS(Sixteen); }

std::vector<Way> Ways() {
  std::vector<Way> ways{{Narrow, 4}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) ways.push_back({Wide, 8});
  if (__builtin_cpu_supports("avx512f")) ways.push_back({Widest, 16});
  return ways;
}
#else
std::vector<Way> Ways() { return {}; }
#endif

// Pairs a second of all threads, each of which runs once.
double Rate(const Way& way, int threads) {
  std::vector<std::thread> others;
  volatile float kept = 0;
  const Clock::time_point start = Clock::now();
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&way] {
      volatile float own = way.run();
      (void)own;
    });
  kept = way.run();
  (void)kept;
  for (std::thread& t : others) t.join();
  return threads * way.lanes * kChains * static_cast<double>(kRounds) / SecondsSince(start);
}

}  // namespace

namespace {

double Elements(const PartialTensorShape& shape) {
  double n = 1;
  for (int i = 0; i < shape.rank(); ++i) n *= static_cast<double>(shape.dim(i));
  return n;
}

// Of how many pairs each number of the node's output is the sum; 0: of no products. Negative: not
// known.
double PairsInOne(const Node& n, const PartialTensorShape& a, const PartialTensorShape& b) {
  const std::string& op = n.op().name;
  if (op == "Conv2D" || op == "DepthwiseConv2dNative") {
    if (!b.IsFullyDefined()) return -1;
    const double window = static_cast<double>(b.dim(0) * b.dim(1));
    return op == "Conv2D" ? window * static_cast<double>(b.dim(2)) : window;
  }
  const bool batches = op.starts_with("BatchMatMul");
  if (!batches && op != "MatMul") return 0;
  const absl::StatusOr<bool> turned = n.Attr<bool>(batches ? "adj_x" : "transpose_a");
  if (!a.IsFullyDefined() || !turned.ok()) return -1;
  return static_cast<double>(a.dim(a.rank() - (*turned ? 2 : 1)));
}

}  // namespace

double MultiplyAdds(const Scope& scope) {
  double all = 0;
  for (Node* n : scope.graph()->op_nodes()) {
    if (n->name().starts_with("gradients/") || n->num_inputs() < 2 || n->num_outputs() < 1) continue;
    const Output a(n->input(0)), b(n->input(1));
    const double pairs = PairsInOne(*n, scope.ShapeOf(a), scope.ShapeOf(b));
    if (pairs == 0) continue;
    const PartialTensorShape made = scope.ShapeOf(Output({n, 0}));
    if (pairs < 0 || !made.IsFullyDefined()) return 0;
    const int fed = (a.node()->op().name == "Placeholder" ? 1 : 0) + (b.node()->op().name == "Placeholder" ? 1 : 0);
    all += (3 - fed) * pairs * Elements(made);
  }
  return all;
}

double MultiplyAddRate(int threads, double seconds) {
  double best = 0;
  const Clock::time_point start = Clock::now();
  const std::vector<Way> ways = Ways();
  while (!ways.empty() && SecondsSince(start) < seconds)
    for (const Way& way : ways) best = std::max(best, Rate(way, threads));
  return best;
}

}  // namespace troupe::bench
