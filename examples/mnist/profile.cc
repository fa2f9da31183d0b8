#include "profile.h"

#include <algorithm>
#include <cstdio>

#include "troupe/proto/config.pb.h"

namespace mnist {
namespace {

// What one in `nth` stays below.
int64_t Low(std::vector<int64_t> v, size_t nth) {
  if (v.empty()) return 0;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / nth), v.end());
  return v[v.size() / nth];
}

using Line = std::pair<double, std::string>;  // microseconds, what

void PrintSorted(std::vector<Line> lines, size_t limit) {
  std::sort(lines.rbegin(), lines.rend());
  if (lines.size() > limit) lines.resize(limit);
  for (const auto& [us, what] : lines) std::printf("%10.1f  %s\n", us, what.c_str());
}

}  // namespace

void StepProfile::AddStep(int64_t batch_nanos, int64_t step_nanos) {
  batches_.push_back(batch_nanos);
  steps_.push_back(step_nanos);
}

void StepProfile::Add(const troupe::proto::RunMetadata& metadata) {
  for (const auto& device : metadata.step_stats().dev_stats()) {
    for (const auto& node : device.node_stats()) nanos_[node.timeline_label()].push_back(node.all_end_rel_nanos());
  }
}

void StepProfile::Print() const {
  std::map<std::string, std::pair<double, int>> ops;
  std::vector<Line> nodes, by_op;
  double sum = 0;
  for (const auto& [label, nanos] : nanos_) {
    const double us = static_cast<double>(Low(nanos, 2)) / 1000;
    const size_t eq = label.rfind(" = ");
    auto& [total, count] = ops[eq == std::string::npos ? label : label.substr(eq + 3)];
    total += us;
    ++count;
    sum += us;
    nodes.emplace_back(us, label);
  }
  for (const auto& [op, total] : ops) by_op.emplace_back(total.first, op + " x" + std::to_string(total.second));
  const auto print = [](const char* what, const std::vector<int64_t>& v) {
    std::printf("%s: median %.1f us, a tenth below %.1f us\n", what, static_cast<double>(Low(v, 2)) / 1000,
                static_cast<double>(Low(v, 10)) / 1000);
  };
  std::printf("\n");
  print("making a batch", batches_);
  print("step", steps_);
  std::printf("medians of nodes, %.1f us in all\n\n", sum);
  PrintSorted(by_op, 40);
  std::printf("\n");
  PrintSorted(nodes, 40);
}

}  // namespace mnist
