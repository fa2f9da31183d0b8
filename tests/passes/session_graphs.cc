// Graphs that the tests of passes run in sessions of several kinds.
#include "tests/passes/session_graphs.h"

#include <cstdio>

#include "troupe/import_export.h"
#include "troupe/text.h"

namespace troupe::test {

std::string Bits(const Tensor& t) {
  if (t.dtype() != DType::kFloat || t.rank() != 0) return t.DebugString();
  char text[64];
  std::snprintf(text, sizeof(text), "%a", static_cast<double>(t.scalar<float>()));
  return text;
}

std::vector<Mode> AllModes() {
  return {{"one device", 1},
          {"one device, as it stands", 1, false, false},
          {"three devices", 3},
          {"three devices, cost model", 3, true},
          {"three devices, cost model, as it stands", 3, true, false}};
}

absl::StatusOr<std::unique_ptr<Session>> SessionFor(const std::string& text, const Mode& mode) {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, ParseGraphText(text));
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = mode.devices;
  options.use_cost_model = mode.use_cost_model;
  // A graph that asks for other devices runs on one all the same.
  options.allow_soft_placement = mode.devices == 1;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = mode.optimize;
  options.operation_timeout_ms = 30000;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*graph));
  return session;
}

std::string RunSteps(const std::string& text, const Names& fetches, const Names& targets, int steps, const Mode& mode) {
  auto session = SessionFor(text, mode);
  if (!session.ok()) return session.status().ToString();
  if (absl::Status s = (*session)->Run({}, {}, {"init"}, nullptr); !s.ok()) return s.ToString();
  std::string all;
  for (int step = 0; step < steps; ++step) {
    Feeds feeds;
    if (text.find("x = Placeholder") != std::string::npos) {
      feeds.emplace_back("x:0", Tensor::Scalar<float>(0.3f * static_cast<float>(step + 1)));
    }
    std::vector<Tensor> values;
    if (absl::Status s = (*session)->Run(feeds, fetches, targets, &values); !s.ok()) return s.ToString();
    for (const Tensor& t : values) StrAppend(&all, &t == &values[0] ? "" : " ", Bits(t));
    all += "\n";
  }
  return all;
}

}  // namespace troupe::test
