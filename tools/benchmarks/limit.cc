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

double MultiplyAdds(const Scope& scope) {
  double forward = 0;
  for (Node* n : scope.graph()->op_nodes()) {
    const bool batches = n->op().name.starts_with("BatchMatMul");
    if ((!batches && n->op().name != "MatMul") || n->name().starts_with("gradients/")) continue;
    const PartialTensorShape a = scope.ShapeOf(Output(n->input(0))), made = scope.ShapeOf(Output({n, 0}));
    const absl::StatusOr<bool> turned = n->Attr<bool>(batches ? "adj_x" : "transpose_a");
    if (!a.IsFullyDefined() || !made.IsFullyDefined() || !turned.ok()) return 0;
    double pairs = static_cast<double>(a.dim(a.rank() - (*turned ? 2 : 1)));
    for (int i = 0; i < made.rank(); ++i) pairs *= static_cast<double>(made.dim(i));
    forward += pairs;
  }
  return 3 * forward;
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
