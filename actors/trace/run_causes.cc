#include "actors/trace/run_causes.h"

#include <algorithm>
#include <numeric>

#include "actors/executor/run_rows.h"

namespace troupe {
namespace {

class Finder {
 public:
  Finder(const CompiledPart& part, const std::vector<node_run>& runs)
      : part_(part), runs_(runs), of_node_(part.nodes.size()), ordinal_(runs.size()) {
    std::vector<uint32_t> order(runs.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return runs[a].end_nanos < runs[b].end_nanos; });
    for (const uint32_t r : order) {
      if (runs[r].node >= of_node_.size()) continue;  // of no node of the part
      std::vector<uint32_t>& its = of_node_[runs[r].node];
      ordinal_[r] = static_cast<uint32_t>(its.size());
      its.push_back(r);
    }
    FindProducers();
    FindThroughSilent();
  }

  int64_t CauseOf(uint32_t run) const {
    const uint32_t node = runs_[run].node;
    if (node >= of_node_.size()) return -1;
    int64_t last = EarlierOfSame(run);
    for (uint32_t p = first_[node]; p < first_[node + 1]; ++p) {
      const uint32_t producer = producers_[p];
      last = Later(last, of_node_[producer].empty() ? ThroughSilent(producer, run) : RunBefore(producer, run));
    }
    return last;
  }

 private:
  // In CSR form, by consumer.
  void FindProducers() {
    const size_t n = part_.nodes.size();
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // consumer, producer
    for (uint32_t i = 0; i < n; ++i) {
      const CompiledNode& node = part_.nodes[i];
      for (uint32_t e = node.first_edge; e < node.last_edge; ++e) edges.emplace_back(part_.edges[e].dst, i);
      for (uint32_t c = node.first_control; c < node.last_control; ++c)
        edges.emplace_back(part_.controls[c] & ~kControlToMerge, i);
    }
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    first_.assign(n + 1, 0);
    for (const auto& [consumer, producer] : edges) {
      ++first_[consumer + 1];
      producers_.push_back(producer);
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
  }
  // Of nodes of the root that left no run: the last run before it. In an order in which producers
  // come first, without recursion, since chains of such nodes may be long.
  void FindThroughSilent() {
    through_.assign(part_.nodes.size(), kUnknown);
    std::vector<uint32_t> stack;
    for (uint32_t i = 0; i < part_.nodes.size(); ++i) {
      if (IsSilent(i) && through_[i] == kUnknown) stack.push_back(i);
      while (!stack.empty()) {
        const uint32_t node = stack.back();
        if (through_[node] == kUnknown) {
          through_[node] = -1;  // what leads back to it finds nothing
          for (uint32_t p = first_[node]; p < first_[node + 1]; ++p) {
            if (IsSilent(producers_[p]) && through_[producers_[p]] == kUnknown) stack.push_back(producers_[p]);
          }
          if (stack.back() != node) continue;
        }
        stack.pop_back();
        for (uint32_t p = first_[node]; p < first_[node + 1]; ++p) {
          const uint32_t producer = producers_[p];
          const std::vector<uint32_t>& its = of_node_[producer];
          through_[node] = Later(through_[node], its.empty() ? std::max<int64_t>(through_[producer], -1) : its.back());
        }
      }
    }
  }
  bool IsSilent(uint32_t node) const { return of_node_[node].empty() && FrameOf(node) == 0; }
  // Where its inputs are, and in which it counts its runs.
  uint32_t FrameOf(uint32_t node) const {
    const CompiledNode& n = part_.nodes[node];
    return n.flow == ControlFlow::kEnter ? part_.frames[n.frame].parent : n.frame;
  }

  int64_t Later(int64_t a, int64_t b) const {
    if (a < 0 || b < 0) return std::max(a, b);
    const int64_t end_a = runs_[static_cast<size_t>(a)].end_nanos, end_b = runs_[static_cast<size_t>(b)].end_nanos;
    return end_a != end_b ? (end_a < end_b ? b : a) : std::max(a, b);
  }
  // Of times that are equal, what was written down first came first: a run is written down before
  // what it makes ready runs.
  bool InTime(uint32_t cause, uint32_t run) const {
    const int64_t end = runs_[cause].end_nanos, start = runs_[run].start_nanos;
    return end < start || (end == start && cause < run);
  }
  // A node that waited has the run of its wait before its own.
  int64_t EarlierOfSame(uint32_t run) const {
    const uint32_t k = ordinal_[run];
    if (k == 0) return -1;
    const uint32_t before = of_node_[runs_[run].node][k - 1];
    const bool waited = runs_[before].thread == rows::kAsynchronous && runs_[run].thread != rows::kAsynchronous;
    return waited && InTime(before, run) ? int64_t{before} : -1;
  }
  int64_t ThroughSilent(uint32_t producer, uint32_t run) const {
    const int64_t cause = through_[producer];
    return cause >= 0 && InTime(static_cast<uint32_t>(cause), run) ? cause : -1;
  }
  int64_t RunBefore(uint32_t producer, uint32_t run) const {
    const std::vector<uint32_t>& its = of_node_[producer];
    const uint32_t node = runs_[run].node;
    const bool same_loop = FrameOf(producer) == FrameOf(node) && FrameOf(node) != 0 &&
                           part_.nodes[producer].flow != ControlFlow::kNextIteration;
    if (same_loop && its.size() == of_node_[node].size()) {
      if (const uint32_t same = its[ordinal_[run]]; InTime(same, run)) return same;
    }
    const auto past = std::partition_point(its.begin(), its.end(), [&](uint32_t other) { return InTime(other, run); });
    return past == its.begin() ? -1 : int64_t{*(past - 1)};
  }

  static constexpr int64_t kUnknown = -2;
  const CompiledPart& part_;
  const std::vector<node_run>& runs_;
  std::vector<std::vector<uint32_t>> of_node_;  // runs, in the order of their ends
  std::vector<uint32_t> ordinal_;               // by run, among its node's
  std::vector<uint32_t> first_, producers_;
  std::vector<int64_t> through_;  // by node that left no run
};

}  // namespace

std::vector<RunCause> CausesOf(const CompiledPart& part, const std::vector<node_run>& runs, int64_t begin) {
  const Finder finder(part, runs);
  std::vector<RunCause> causes(runs.size());
  for (uint32_t r = 0; r < runs.size(); ++r) {
    const int64_t after = finder.CauseOf(r);
    const int64_t ready = after < 0 ? begin : runs[static_cast<size_t>(after)].end_nanos;
    causes[r] = {after, std::min(ready, runs[r].start_nanos)};
  }
  return causes;
}

}  // namespace troupe
