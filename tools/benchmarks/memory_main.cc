// What steps leave behind, and what a step in flight holds beside tensors.
//
//   memory flat_mnist STEPS [MNIST]   resident bytes after a tenth of STEPS training steps of experiment E1, and after all
//   memory flat_graph STEPS GRAPH     the same with the steps of a graph by name
//   memory in_flight GRAPH            bytes per node of a further step in flight, and how many of them are tensors: their headers, which
//                                     lie in the slots of the nodes' inputs
//
// Prints one line of JSON.
#include <malloc.h>

#include <cstdlib>

#include "examples/mnist/data.h"
#include "examples/mnist/model.h"
#include "tools/benchmarks/graphs.h"
#include "tools/benchmarks/serve.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "memory: %s\n", s.ToString().c_str());
  std::exit(1);
}
template <class T>
T Need(absl::StatusOr<T> s) {
  Need(s.status());
  return *std::move(s);
}

int Flat(int64_t steps, const std::function<void()>& run) {
  const int64_t warm = std::max<int64_t>(1, steps / 10);
  for (int64_t i = 0; i < warm; ++i) run();
  const double before = MemoryNow();
  for (int64_t i = warm; i < steps; ++i) run();
  std::printf("{\"steps\":%lld,\"before_bytes\":%.0f,\"after_bytes\":%.0f}\n", static_cast<long long>(steps), before,
              MemoryNow());
  return 0;
}

int FlatMnist(int64_t steps, const std::string& folder) {
  const mnist::Digits digits =
      Need(folder.empty() ? mnist::ReadSmallDigits(TROUPE_DIGITS_FILE) : mnist::ReadIdx(folder));
  Scope root = Scope::NewRootScope();
  const mnist::Model model = Need(mnist::BuildModel(root, "E1", 1));
  SessionOptions options;
  options.runtime_options.threads = 1;
  const std::unique_ptr<Session> session = Need(Session::Create(options));
  Need(session->Extend(*root.graph()));
  Need(session->Run({}, {}, {model.init.name()}, nullptr));
  const Callable step = Need(session->Prepare({model.images.name(), model.labels.name(), model.learning_rate.name()},
                                              {model.loss.name()}, {model.train.name()}));
  const Tensor x = digits.train.Images(0, 10), t = digits.train.Labels(0, 10), rate = Tensor::Scalar(1e-5f);
  return Flat(steps, [&] {
    std::vector<Tensor> out;
    Need(step.Run({x, t, rate}, &out));
  });
}

struct Loaded {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::unique_ptr<Session> session;
};
Loaded Load(const std::string& name) {
  Loaded l;
  Need(BuildGraph(name, l.graph));
  SessionOptions options;
  options.runtime_options.threads = 1;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = false;
  l.session = Need(Session::Create(options));
  Need(l.session->Extend(*l.graph));
  return l;
}

int FlatGraph(int64_t steps, const std::string& name) {
  const Loaded l = Load(name);
  const Feeds feeds = FeedsOf(*l.graph);
  const Names fetches = FetchesOf(*l.graph), targets = TargetsOf(*l.graph);
  return Flat(steps, [&] {
    std::vector<Tensor> out;
    Need(l.session->Run(feeds, fetches, targets, &out));
  });
}

// Partial runs that wait for their feed are steps in flight; each has counters, slots and queues of
// its own.
int InFlight(const std::string& name) {
  // What is counted below is one arena and large blocks: so there is one arena, and what is large
  // stays so.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  const Loaded l = Load(name);
  Names names;
  for (const auto& [feed, value] : FeedsOf(*l.graph)) names.push_back(feed);
  const auto used = [] {
    const struct mallinfo2 m = mallinfo2();
    return static_cast<double>(m.uordblks) + static_cast<double>(m.hblkhd);
  };
  constexpr int kMore = 4;
  Need(l.session->PartialRunSetup(names, FetchesOf(*l.graph), TargetsOf(*l.graph)).status());
  const double before = used();
  for (int i = 0; i < kMore; ++i)
    Need(l.session->PartialRunSetup(names, FetchesOf(*l.graph), TargetsOf(*l.graph)).status());
  const double bytes = (used() - before) / kMore;
  double headers = 0;
  for (const Node* n : l.graph->op_nodes()) headers += n->num_inputs() * static_cast<double>(sizeof(Tensor));
  const int nodes = l.graph->num_nodes() - 2;
  std::printf("{\"nodes\":%d,\"bytes_per_node\":%.2f,\"tensors_per_node\":%.2f}\n", nodes, bytes / nodes,
              headers / nodes);
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "flat_mnist" && argc >= 3) return FlatMnist(std::atoll(argv[2]), argc > 3 ? argv[3] : "");
  if (what == "flat_graph" && argc == 4) return FlatGraph(std::atoll(argv[2]), argv[3]);
  if (what == "in_flight" && argc == 3) return InFlight(argv[2]);
  return std::fprintf(stderr, "usage: memory flat_mnist STEPS [MNIST] | flat_graph STEPS GRAPH | in_flight GRAPH\n"), 2;
}
