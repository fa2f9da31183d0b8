// Times steps of one graph (serve.h says how samples are asked for; a sample is in seconds).
//
//   run GRAPH.pb [--mode MODE] [--threads N] [--callers K] [--optimize] [--seconds S]
//
//   steps      Session::Run with names: one sample is the time of a step; with K callers, the wall time divided by all steps of that many threads
//   callable   as steps, by a Callable
//   pair       two steps by names, of the target "put" and of the fetch "get"
//   actor      steps that a handler of an actor in a system of the user's own starts, one after the other
//   first      parse + import + compile + first step, in a new session each time
//   signature  a step of a choice of fetches that the session has not seen ("layer<i>")
//   bare       no runtime: the bare loop over the graph's edges (no loops)
//
// With --optimize constants are folded and common subexpressions merged, as sessions do by default;
// without it every node of the graph is a node of the step.
#include <CLI/CLI.hpp>
#include <atomic>
#include <caf/all.hpp>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>

#include "graph/ir/on_arena.h"
#include "tools/benchmarks/graphs.h"
#include "tools/benchmarks/serve.h"
#include "troupe/actors.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

struct Flags {
  std::string file, mode = "steps";
  int threads = 1, callers = 0;
  bool optimize = false;
  double seconds = 0.1;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "run: %s\n", s.ToString().c_str());
  std::exit(1);
}

double cpu_per_step = 0;  // of the last sample of ManyCallers

// Wall time over the steps of K threads that start and stop together.
double ManyCallers(const Flags& flags, const std::function<void()>& run) {
  if (flags.callers == 0) return Sample(flags.seconds, run);
  std::atomic<bool> go{false}, stop{false};
  std::atomic<int64_t> steps{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < flags.callers; ++i) {
    threads.emplace_back([&] {
      while (!go.load()) std::this_thread::yield();
      int64_t mine = 0;
      for (; !stop.load(std::memory_order_relaxed); ++mine) run();
      steps += mine;
    });
  }
  const Clock::time_point start = Clock::now();
  const double cpu = CpuSeconds();
  go = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(flags.seconds * 2));
  stop = true;
  for (std::thread& t : threads) t.join();
  const double all = static_cast<double>(std::max<int64_t>(1, steps));
  cpu_per_step = (CpuSeconds() - cpu) / all;
  return SecondsSince(start) / all;
}
std::string CpuTail() { return StrCat("{\"cpu_s_per_step\":", cpu_per_step, "}"); }

// The user's actor: each step's end is a message that starts the next one.
struct Driver {
  Callable step;
  std::vector<Tensor> feeds;
  int64_t left = 0;
  std::promise<void>* done = nullptr;
};
caf::behavior Drive(caf::stateful_actor<Driver>* self, Callable step, std::vector<Tensor> feeds) {
  self->state.step = std::move(step);
  self->state.feeds = std::move(feeds);
  const auto start = [self] {
    self->state.step.RunAsync(
        self->state.feeds,
        [me = caf::actor_cast<caf::actor>(self)](absl::Status s, std::vector<Tensor>) { caf::anon_send(me, s.ok()); });
  };
  return {
      [self, start](int64_t steps, uint64_t done) {
        self->state.left = steps;
        self->state.done = reinterpret_cast<std::promise<void>*>(done);
        start();
      },
      [self, start](bool) {
        if (--self->state.left > 0) return start();
        self->state.done->set_value();
      },
  };
}

void Parse(const Flags& flags, const std::string& bytes, proto::GraphDef* def) {
  if (!def->ParseFromString(bytes)) Need(InvalidArgument(flags.file, " holds no GraphDef"));
}

// The graph of the flags, and a session that has run it once.
class Loaded {
 public:
  Loaded(const Flags& flags, std::string bytes, const SessionOptions& options)
      : flags_(flags), bytes_(std::move(bytes)), options_(options) {
    OnArena<proto::GraphDef> def;
    Parse(flags, bytes_, def.get());
    Need(ImportGraphDef(*def, {}, &graph).status());
    feeds = FeedsOf(graph);
    fetches = FetchesOf(graph);
    targets = TargetsOf(graph);
  }
  // Seconds from the file's bytes to the end of the first step, in a new session.
  double First() {
    session.reset();
    const Clock::time_point start = Clock::now();
    OnArena<proto::GraphDef> def;
    Parse(flags_, bytes_, def.get());
    parts_[0] = SecondsSince(start);
    session = Session::Create(options_).value();
    Need(session->Extend(*def));
    parts_[1] = SecondsSince(start) - parts_[0];
    Step();
    parts_[2] = SecondsSince(start) - parts_[1] - parts_[0];
    return SecondsSince(start);
  }
  void Step() const {
    std::vector<Tensor> out;
    Need(session->Run(feeds, fetches, targets, &out));
  }
  int nodes() const { return graph.num_nodes() - 2; }
  std::string Head(double first_run) const {
    return StrCat("{\"nodes\":", nodes(), ",\"first_run_s\":", first_run, ",\"parse_s\":", parts_[0],
                  ",\"import_s\":", parts_[1], ",\"compile_and_step_s\":", parts_[2], "}");
  }

  Graph graph;
  Feeds feeds;
  Names fetches, targets;
  std::unique_ptr<Session> session;

 private:
  const Flags& flags_;
  const std::string bytes_;
  const SessionOptions options_;
  double parts_[3] = {};  // parse, import, compile and first step
};

// Each sample is the first step of a signature that the session has not seen.
int ServeSignatures(const Loaded& l, const std::string& head) {
  int layer = 0;
  while (l.graph.Find(StrCat("layer", layer)) != nullptr) ++layer;
  return Serve(head, [&] {
    if (layer == 0) Need(InvalidArgument("no more layers to fetch"));
    const Names fetch = {StrCat("layer", --layer, ":0")};
    std::vector<Tensor> out;
    const Clock::time_point start = Clock::now();
    Need(l.session->Run(l.feeds, fetch, {}, &out));
    return SecondsSince(start);
  });
}

// Steps that an actor of the system starts, one after the other.
int ServeActor(const Flags& flags, const std::string& head, caf::actor_system* system, const Callable& step,
               const std::vector<Tensor>& values) {
  caf::scoped_actor main(*system);
  const caf::actor driver = system->spawn(Drive, step, values);
  const auto many = [&](int64_t steps) {
    std::promise<void> done;
    caf::anon_send(driver, steps, reinterpret_cast<uint64_t>(&done));
    done.get_future().wait();
  };
  const int result = Serve(head, [&] {
    many(10);
    const Clock::time_point probe = Clock::now();
    many(100);
    const int64_t steps = static_cast<int64_t>(flags.seconds / (SecondsSince(probe) / 100)) + 1;
    const Clock::time_point start = Clock::now();
    many(steps);
    return SecondsSince(start) / static_cast<double>(steps);
  });
  main->send_exit(driver, caf::exit_reason::user_shutdown);
  main->wait_for(driver);
  return result;
}

int Main(const Flags& flags) {
  std::ifstream in(flags.file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (bytes.empty()) return std::fprintf(stderr, "run: cannot read %s\n", flags.file.c_str()), 1;

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;  // outlives the runtime
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = flags.optimize;
  if (flags.mode == "actor") {
    system = std::make_unique<caf::actor_system>(config);
    options.runtime = StartRuntimeIn(*system, options.runtime_options).value();
  } else {
    options.runtime = Runtime::Start(options.runtime_options).value();
  }

  Loaded l(flags, std::move(bytes), options);
  if (flags.mode == "bare") {
    BareGraph bare(l.graph);
    return Serve(StrCat("{\"nodes\":", l.nodes(), "}"), [&] { return Sample(flags.seconds, [&] { bare.Run(); }); });
  }
  const std::string head = l.Head(l.First());
  if (flags.mode == "first") return Serve(head, [&] { return l.First(); });
  if (flags.mode == "signature") return ServeSignatures(l, head);
  if (flags.mode == "steps") {
    return Serve(
        head, [&] { return ManyCallers(flags, [&] { l.Step(); }); }, CpuTail);
  }
  if (flags.mode == "pair") {
    const Names put = {"put"}, get = {"get:0"};
    std::vector<Tensor> out;
    return Serve(head, [&] {
      return Sample(flags.seconds, [&] {
        Need(l.session->Run({}, {}, put, nullptr));
        Need(l.session->Run({}, get, {}, &out));
      });
    });
  }
  Names names;
  std::vector<Tensor> values;
  for (const auto& [name, value] : l.feeds) {
    names.push_back(name);
    values.push_back(value);
  }
  const Callable step = l.session->Prepare(names, l.fetches, l.targets).value();
  if (flags.mode == "callable") {
    const auto run = [&] {
      std::vector<Tensor> out;
      Need(step.Run(values, &out));
    };
    return Serve(
        head, [&] { return ManyCallers(flags, run); }, CpuTail);
  }
  if (flags.mode != "actor") return std::fprintf(stderr, "run: there is no mode '%s'\n", flags.mode.c_str()), 2;
  return ServeActor(flags, head, system.get(), step, values);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times steps of one graph");
  app.add_option("graph", flags.file, "a binary GraphDef")->required();
  app.add_option("--mode", flags.mode);
  app.add_option("--threads", flags.threads);
  app.add_option("--callers", flags.callers)->check(CLI::Range(0, 1024));
  app.add_flag("--optimize", flags.optimize);
  app.add_option("--seconds", flags.seconds, "of a sample");
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
