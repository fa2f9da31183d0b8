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

// Forced into its caller, whose instructions it uses.
template <class V>
[[gnu::always_inline]] inline float Chains() {
  constexpr int kLanes = sizeof(V) / sizeof(float);
  V sums[kChains], by, plus;
  for (int l = 0; l < kLanes; ++l) by[l] = 0.5f;
  for (int l = 0; l < kLanes; ++l) plus[l] = 1.0f;
  for (int c = 0; c < kChains; ++c) sums[c] = plus * static_cast<float>(c);
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) {
      sums[c] = sums[c] * by + plus;
      // Or the compiler would see that they come to rest at 2.
      asm volatile("" : "+x"(sums[c]));
    }
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += sums[c][0];
  return sum;
}

struct Way {
  float (*run)();
  double lanes;
};

#if defined(__x86_64__)
using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));
using Sixteen = float __attribute__((vector_size(64)));
float Narrow() { return Chains<Four>(); }
[[gnu::target("avx2,fma")]] float Wide() { return Chains<Eight>(); }
[[gnu::target("avx512f")]] float Widest() { return Chains<Sixteen>(); }

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

absl::StatusOr<double> MultiplyAdds(const Scope& scope) {
  double sum = 0;
  for (Node* n : scope.graph()->op_nodes()) {
    const bool batches = n->op().name.starts_with("BatchMatMul");
    if (!batches && n->op().name != "MatMul") continue;
    const NodeOut left = n->input(0);
    const PartialTensorShape a = scope.ShapeOf(Output(left)), made = scope.ShapeOf(Output({n, 0}));
    if (!a.IsFullyDefined() || !made.IsFullyDefined())
      return InvalidArgument("the shape of ", n->name(), " is not known");
    const absl::StatusOr<bool> turned = n->Attr<bool>(batches ? "adj_x" : "transpose_a");
    if (!turned.ok()) return turned.status();
    double pairs = static_cast<double>(a.dim(a.rank() - (*turned ? 2 : 1)));
    for (int i = 0; i < made.rank(); ++i) pairs *= static_cast<double>(made.dim(i));
    sum += pairs;
  }
  return sum;
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
