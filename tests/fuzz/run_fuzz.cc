// Any bytes as a graph (random_graph.h) that is imported, compiled and run: every kernel must
// answer with values or an error. A step has a second and 256 MB: loops that do not end must end by
// the deadline, and what is too large must be refused.
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/random_graph.h"
#include "troupe/import_export.h"
#include "troupe/session.h"

namespace troupe::fuzz {
namespace {

// Never destroyed: the threads of a runtime that ends with the process would be counted as leaks of
// the last input.
const std::shared_ptr<Runtime>& TheRuntime() {
  static const auto* runtime = [] {
    RuntimeOptions options;
    options.threads = 2;
    options.memory_limit = int64_t{256} << 20;
    auto started = Runtime::Start(options);
    if (!started.ok()) std::abort();
    return new std::shared_ptr<Runtime>(*std::move(started));
  }();
  return *runtime;
}

void Check(const absl::Status& s, const proto::GraphDef& def) {
  // What a kernel throws was not foreseen by it.
  if (s.message().find("threw") == std::string::npos) return;
  std::fprintf(stderr, "%s\n%s\n", std::string(s.message()).c_str(), def.DebugString().c_str());
  std::abort();
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  fuzz::Bytes bytes(data, size);
  const bool token_messages = bytes.Byte() == 255, fold = bytes.Byte() < 128;
  fuzz::RandomGraph graph = fuzz::MakeGraph(&bytes, 10);
  if (graph.outputs.empty()) return 0;
  if (std::getenv("TROUPE_FUZZ_SHOW") != nullptr) std::fprintf(stderr, "%s\n", graph.def.DebugString().c_str());
  SessionOptions options;
  options.runtime = fuzz::TheRuntime();
  options.fold_constants = fold;
  options.token_messages = token_messages;
  options.operation_timeout_ms = 1000;
  auto session = Session::Create(options);
  if (!session.ok()) return 0;
  const absl::Status extended = (*session)->Extend(graph.def);
  fuzz::Check(extended, graph.def);
  if (extended.ok()) {
    Names fetches;
    for (uint32_t i = 0, n = 1 + bytes.Pick(3); i < n; ++i) {
      fetches.push_back(
          graph.outputs[graph.outputs.size() - 1 - bytes.Pick(static_cast<uint32_t>(graph.outputs.size()))]);
    }
    fetches.push_back(graph.outputs.back());
    for (int run = 0; run < 2; ++run) {
      std::vector<Tensor> out;
      const absl::Status s = (*session)->Run({}, fetches, {}, &out);
      if (std::getenv("TROUPE_FUZZ_SHOW") != nullptr) std::fprintf(stderr, "%s\n", s.ToString().c_str());
      fuzz::Check(s, graph.def);
      for (const Tensor& t : out) (void)t.DebugString();
      if (!s.ok()) break;
    }
  }
  (void)(*session)->Close();
  (void)(*session)->Reset({""});
  return 0;
}
