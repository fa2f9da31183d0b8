// One trace of a step that several processes run, on the loopback interface: `troupe run --trace`
// in a server, `troupe trace`, and training with --trace.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

#include "net/json.h"
#include "tests/net/processes.h"

namespace troupe {
namespace trace_test {

namespace fs = std::filesystem;

constexpr const char* kPs = "/job:ps/replica:0/task:0";
constexpr const char* kWorker = "/job:worker/replica:0/task:0";

struct Folder {
  Folder() : path((fs::temp_directory_path() / StrCat("troupe_trace_", ::getpid())).string()) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string Path(const std::string& name) const { return (fs::path(path) / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name));
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
  }
  const std::string path;
};

std::unique_ptr<Process> Serve(const std::string& cluster, const std::string& job) {
  auto p = std::make_unique<Process>(std::vector<std::string>{"serve", "--cluster", cluster, "--job", job, "--task",
                                                              "0", "--heartbeat", "1000", "--threads", "1", "--load",
                                                              TROUPE_SLOW_OP});
  BOOST_REQUIRE_MESSAGE(p->Line() != "", p->errors());
  return p;
}
std::string All(Process* p) {
  std::string text;
  for (std::string line = p->Line(); !line.empty(); line = p->Line()) text += line + "\n";
  return text;
}
JsonValue Parsed(const std::string& text) {
  auto json = ParseJson(text);
  BOOST_REQUIRE_MESSAGE(json.ok(), json.status().ToString() << "\n" << text);
  return *std::move(json);
}
std::string Text(const JsonValue& v, const char* key) {
  const JsonValue* const m = v.Find(key);
  return m == nullptr ? "" : m->text;
}
double Number(const JsonValue& v, const char* key) { return std::atof(Text(v, key).c_str()); }
// What `troupe trace --json` says of files.
JsonValue Told(std::vector<std::string> args) {
  args.insert(args.begin(), {"trace", "--json"});
  Process p(args);
  const std::string said = All(&p);
  BOOST_REQUIRE_MESSAGE(p.Wait() == 0, p.errors());
  return Parsed(said);
}

std::string Node(const std::string& name, const std::string& op, const std::string& input, const char* task,
                 const std::string& attrs = "attr { key: \"T\" value { type: DT_FLOAT } }") {
  return StrCat("node { name: \"", name, "\" op: \"", op, "\" ", input.empty() ? "" : StrCat("input: \"", input, "\" "),
                "device: \"", task, "\" ", attrs, " }\n");
}
// x -> near on the worker -> slow, which sleeps, on the ps -> back on the worker; and quick, which
// nobody waits for.
std::string Graph(int sleep_ms) {
  const std::string type = "attr { key: \"dtype\" value { type: DT_FLOAT } }";
  return StrCat("versions { producer: 27 }\n", Node("x", "Placeholder", "", kWorker, type),
                Node("near", "Neg", "x", kWorker),
                Node("slow", "TraceSleep", "near", kPs, StrCat("attr { key: \"ms\" value { i: ", sleep_ms, " } }")),
                Node("back", "Neg", "slow", kWorker), Node("quick", "Neg", "near", kPs));
}

// The events of a file that `troupe run --trace` has written.
struct Events {
  explicit Events(const JsonValue& file) {
    for (const JsonValue& e : file.Find("traceEvents")->items) {
      const std::string phase = Text(e, "ph");
      if (phase == "M" && Text(e, "name") == "process_name") {
        tasks[Text(e, "pid")] = Text(*e.Find("args"), "name");
        uncertainty[Text(e, "pid")] = Number(*e.Find("args"), "uncertainty_us");
      } else if (phase == "X" && Text(e, "cat") == "step") {
        begin = Number(e, "ts");
      } else if (phase == "X" && !Text(*e.Find("args"), "node").empty()) {
        nodes.emplace(Text(*e.Find("args"), "node"), e);
      } else if (phase == "s") {
        arrows[Text(e, "id")].first = e;
      } else if (phase == "f") {
        arrows[Text(e, "id")].second = e;
      }
    }
  }
  const JsonValue& OfNode(const std::string& name) const {
    BOOST_REQUIRE_MESSAGE(nodes.contains(name), name << " is not in the trace");
    return nodes.at(name);
  }
  std::string TaskOf(const JsonValue& e) const { return tasks.at(Text(e, "pid")); }
  std::map<std::string, std::string> tasks;   // by pid
  std::map<std::string, double> uncertainty;  // likewise
  std::map<std::string, JsonValue> nodes;     // by name
  std::map<std::string, std::pair<JsonValue, JsonValue>> arrows;
  double begin = 0;  // of the step
};

// A path begins and ends with what came last, of times of two clocks that may be equal, or off by
// `most`. So it is not known what that is, but it is known of each:
//
//  - it begins with the message that tells the ps of the step, and then without `near`, or on the
//    worker, if not the clocks have put the ps before the step's begin;
//  - it ends with `back`, if not something of the ps ended as late;
//  - what is on it is in order.
void CheckEnds(const JsonValue& step, const std::string& path, const Events& events, double most) {
  const JsonValue &near = events.OfNode("near"), &slow = events.OfNode("slow"), &back = events.OfNode("back");
  const auto end = [](const JsonValue& e) { return Number(e, "ts") + Number(e, "dur"); };
  constexpr double kRounded = 0.002;
  const size_t at_near = path.find("near "), at_slow = path.find("slow "), at_back = path.find("back ");
  BOOST_TEST(at_slow != std::string::npos, path);
  BOOST_TEST((at_near == std::string::npos || at_near < at_slow), path);
  BOOST_TEST((at_back == std::string::npos || at_back > at_slow), path);

  const std::vector<JsonValue>& parts = step.Find("critical_path")->items;
  const JsonValue &first = parts.front(), &last = parts.back();
  if (Text(first, "of") == "message") {
    BOOST_TEST(Text(first, "task") == kPs);
    BOOST_TEST(at_near == std::string::npos, path);
  } else if (Text(first, "task") != kWorker) {
    BOOST_TEST(std::min(Number(slow, "ts"), end(near) - most) <= events.begin + kRounded, path);
  }
  const bool answer = Text(last, "of") == "answer";
  if (answer ? Text(last, "what") == "communication" : Text(last, "task") == kPs) {
    double latest = 0;
    for (const auto& [name, e] : events.nodes) {
      if (events.TaskOf(e) == kPs) latest = std::max(latest, end(e));
    }
    BOOST_TEST(latest >= end(back) - kRounded, path);
  } else {
    BOOST_TEST((at_back != std::string::npos || Number(back, "dur") < kRounded), path);
  }
}

BOOST_AUTO_TEST_SUITE(trace)

BOOST_AUTO_TEST_CASE(a_step_of_two_servers_is_one_trace_that_names_its_slow_node) {
  const Folder folder;
  const std::string cluster = LocalCluster(1);
  const auto ps = Serve(cluster, "ps"), worker = Serve(cluster, "worker");
  const std::string address = AddressIn(cluster, "worker", 0).ToString();
  BOOST_REQUIRE(Await([&] { return HealthAt(AddressIn(cluster, "worker", 0), {"ps", 0}) == "alive"; }));
  Process run({"run", folder.Write("g.pbtxt", Graph(120)), "--load", TROUPE_SLOW_OP, "--server", "troupe://" + address,
               "--feed", "x=3", "--fetch", "back", "--fetch", "quick", "--trace", folder.Path("t.json")});
  const std::string said = All(&run);
  BOOST_REQUIRE_MESSAGE(run.Wait() == 0, run.errors());
  BOOST_TEST(said.find("back float32 []\n3") == 0u, said);

  const Events events(Parsed(folder.Read("t.json")));
  BOOST_TEST(events.tasks.size() == 2u);
  const JsonValue &near = events.OfNode("near"), &slow = events.OfNode("slow"), &back = events.OfNode("back");
  BOOST_TEST(events.TaskOf(near) == kWorker);
  BOOST_TEST(events.TaskOf(slow) == kPs);
  BOOST_TEST(events.TaskOf(back) == kWorker);
  BOOST_TEST(Number(slow, "dur") >= 120e3);
  double most = 0;
  for (const auto& [pid, micros] : events.uncertainty) {
    most += micros;
    BOOST_TEST((events.tasks.at(pid) == kPs) == (micros > 0), events.tasks.at(pid));
    BOOST_TEST(micros < 50e3);
  }
  // A tensor there, which both nodes take, one back, and the step's own messages.
  BOOST_TEST(events.arrows.size() == 4u);
  for (const auto& [id, arrow] : events.arrows) {
    BOOST_TEST(Number(arrow.second, "ts") - Number(arrow.first, "ts") >= -most, id);
    BOOST_TEST(Text(arrow.first, "pid") != Text(arrow.second, "pid"));
  }
  // Nodes are in order, too: each after the one it needs.
  BOOST_TEST(Number(slow, "ts") >= Number(near, "ts") + Number(near, "dur") - most);
  BOOST_TEST(Number(back, "ts") >= Number(slow, "ts") + Number(slow, "dur") - most);
  BOOST_TEST(Number(*back.Find("args"), "after") > 0);
  BOOST_TEST(Text(*back.Find("args"), "queued_us") != "");

  const JsonValue told = Told({folder.Path("t.json")});
  const JsonValue& step = told.Find("steps")->items.at(0);
  BOOST_TEST(Text(step, "task") == kWorker);
  const JsonValue* longest = nullptr;
  double sum = 0;
  std::string path;
  for (const JsonValue& part : step.Find("critical_path")->items) {
    sum += Number(part, "ms");
    if (longest == nullptr || Number(part, "ms") > Number(*longest, "ms")) longest = &part;
    if (Text(part, "what") == "compute") path += Text(part, "node") + " ";
  }
  BOOST_REQUIRE(longest != nullptr);
  BOOST_TEST(Text(*longest, "node") == "slow");
  BOOST_TEST(Text(*longest, "what") == "compute");
  BOOST_TEST(Text(*longest, "task") == kPs);
  BOOST_TEST(Number(*longest, "share") > 0.5);
  BOOST_TEST(std::abs(sum - Number(step, "ms")) < 0.01);  // the parts fill the step
  CheckEnds(step, path, events, most);
  BOOST_TEST(path.find("quick") == std::string::npos, path);
  bool crosses = false;
  for (const JsonValue& stall : told.Find("stalls")->items) crosses |= Text(stall, "what") == "communication";
  BOOST_TEST(crosses);
}

#ifdef TROUPE_CLUSTER_MNIST
BOOST_AUTO_TEST_CASE(workers_that_train_together_are_one_trace) {
  const Folder folder;
  Process up({"cluster", "up", "ps=1;worker=2", "--dir", folder.Path("run"), "--threads", "1", "--program",
              StrCat("worker='", TROUPE_CLUSTER_MNIST,
                     "' --cluster {cluster} --job {job} --task {task} --steps 14 --net small --batch 20 --threads 1 "
                     "--save_steps 100 --trace {dir}/{task}.json --trace_from 8 --trace_steps 3 --json")});
  const std::string said = All(&up);
  BOOST_REQUIRE_MESSAGE(up.Wait() == 0, said << up.errors());
  const JsonValue told = Told({folder.Path("run/0.json"), folder.Path("run/1.json"), "--out", folder.Path("all.json")});
  std::map<std::string, int> steps;  // by name, without the number of the update
  for (const JsonValue& step : told.Find("steps")->items) {
    std::string name = Text(step, "name");
    for (const char* const number : {" 8", " 9", " 10"}) {
      if (const size_t at = name.find(number); at != std::string::npos) name.erase(at, std::string(number).size());
    }
    ++steps[name];
    BOOST_TEST(!step.Find("critical_path")->items.empty());
  }
  const std::map<std::string, int> want{{"update", 3}, {"gradient of worker 0", 3}, {"gradient of worker 1", 3}};
  BOOST_TEST((steps == want));
  BOOST_TEST(told.Find("tasks")->items.size() == 3u);
  // What was written reads as what was told.
  BOOST_TEST(Told({folder.Path("all.json")}).Find("steps")->items.size() == 9u);
  const JsonValue whole = Parsed(folder.Read("all.json"));
  // By one clock the second worker's gradients lie among the first one's updates: every update
  // waits for both.
  double updates = 0, first = 1e18, last = 0;
  for (const JsonValue& e : whole.Find("traceEvents")->items) {
    if (Text(e, "cat") != "step") continue;
    if (Text(e, "name") == "update 8") first = Number(e, "ts");
    if (Text(e, "name") == "update 10") last = Number(e, "ts");
    updates += Text(e, "name").starts_with("update") ? 1 : 0;
  }
  BOOST_TEST(updates == 3);
  for (const JsonValue& e : whole.Find("traceEvents")->items) {
    if (Text(e, "name") == "gradient 9 of worker 1") {
      BOOST_TEST(Number(e, "ts") > first);
      BOOST_TEST(Number(e, "ts") < last);
    }
  }
}
#endif

BOOST_AUTO_TEST_SUITE_END()

}  // namespace trace_test
}  // namespace troupe
