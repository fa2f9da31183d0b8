// Runs steps of small graphs for callgrind to count their instructions; check.py runs it and says
// what the counts may be.
//
//   valgrind --tool=callgrind --instr-atstart=no --separate-threads=yes count_instructions [CASE...]
//
// Each case runs N steps and then 2N steps, and the counters are dumped after each ("case N"): the
// difference is N steps and nothing else. Which nodes the executor times repeats every sixteen
// steps, so N is a multiple of it. Prints the case, N, and how many nodes or iterations a step has.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <deque>
#include <functional>

#include "tools/benchmarks/graphs.h"

namespace {

using namespace troupe;  // NOLINT

struct Counted {
  const char* name;
  const char* graph;
  enum Kind { kBare, kRun, kCallable } kind;
  int steps;
  int units;  // of a step: 0 = its nodes
};

constexpr Counted kCases[] = {
    {"bare_null", "null_16x256", Counted::kBare, 160, 0},
    {"null_tall", "null_16x256", Counted::kCallable, 32, 0},
    {"null_fat", "null_256x16", Counted::kCallable, 32, 0},
    {"const_identity", "const_identity_40x40", Counted::kCallable, 32, 0},
    {"tree", "tree512", Counted::kCallable, 32, 0},
    {"chain", "chain1000", Counted::kCallable, 32, 0},
    {"while_1", "while200x1", Counted::kCallable, 16, 200},
    {"while_100", "while20x100", Counted::kCallable, 16, 20 * 101},
    {"mlp", "mlp50", Counted::kCallable, 32, 0},
    {"queue_pair", "queue100", Counted::kCallable, 32, 100},
    {"add1_names", "add1", Counted::kRun, 320, 1},
    {"add1_callable", "add1", Counted::kCallable, 320, 1},
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "count_instructions: %s\n", s.ToString().c_str());
  std::exit(1);
}

struct Prepared {
  Counted what;
  int units = 0;
  std::unique_ptr<Session> session;
  std::function<void()> step;
};

Prepared Prepare(const Counted& c) {
  Prepared p{c};
  auto graph = std::make_shared<Graph>();
  Need(bench::BuildGraph(c.graph, graph));
  p.units = c.units > 0 ? c.units : graph->num_nodes() - 2;
  if (c.kind == Counted::kBare) {
    p.step = [bare = std::make_shared<bench::BareGraph>(*graph)] { bare->Run(); };
    return p;
  }
  SessionOptions options;
  options.runtime_options.threads = 1;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = false;
  p.session = Session::Create(options).value();
  Need(p.session->Extend(*graph));
  const Feeds feeds = bench::FeedsOf(*graph);
  const Names fetches = bench::FetchesOf(*graph), targets = bench::TargetsOf(*graph);
  if (c.kind == Counted::kRun) {
    p.step = [s = p.session.get(), feeds, fetches, targets] {
      std::vector<Tensor> out;
      Need(s->Run(feeds, fetches, targets, &out));
    };
  } else {
    Names names;
    std::vector<Tensor> values;
    for (const auto& [name, value] : feeds) {
      names.push_back(name);
      values.push_back(value);
    }
    p.step = [call = p.session->Prepare(names, fetches, targets).value(), values] {
      std::vector<Tensor> out;
      Need(call.Run(values, &out));
    };
  }
  for (int i = 0; i < 16; ++i) p.step();
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Prepared> all;
  for (const Counted& c : kCases) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= std::string(argv[i]) == c.name;
    if (wanted) all.push_back(Prepare(c));
  }
  std::deque<std::string> labels;  // callgrind keeps pointers to them
  CALLGRIND_START_INSTRUMENTATION;
  for (Prepared& p : all) {
    for (int i = 0; i < 16; ++i) p.step();
    for (const int steps : {p.what.steps, 2 * p.what.steps}) {
      CALLGRIND_ZERO_STATS;
      for (int i = 0; i < steps; ++i) p.step();
      CALLGRIND_DUMP_STATS_AT(labels.emplace_back(StrCat(p.what.name, " ", steps)).c_str());
    }
    std::printf("%s %d %d\n", p.what.name, p.what.steps, p.units);
  }
  CALLGRIND_STOP_INSTRUMENTATION;
  std::fflush(stdout);
  return 0;
}
