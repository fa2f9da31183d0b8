// troupe trace, on traces written by hand whose critical path is known, on files that are none, and
// on several that are put together.
#include <boost/test/unit_test.hpp>

#include "net/json.h"
#include "tests/program/hand_trace.h"
#include "tests/program/program_test.h"
#include "tools/troupe/critical_path.h"
#include "tools/troupe/trace_file.h"
#include "troupe/strings.h"

namespace troupe {
namespace trace_command_test {

std::string Line(const JsonValue& part) {
  const auto text = [&](const char* key) {
    const JsonValue* const v = part.Find(key);
    return v == nullptr ? std::string("-") : v->text;
  };
  return StrCat(text("what"), " ", text("node"), " ", text("ms"));
}
std::string Lines(const JsonValue& list) {
  std::string all;
  for (const JsonValue& item : list.items) StrAppend(&all, Line(item), "\n");
  return all;
}
// What the command prints of files, as JSON.
JsonValue Told(const std::vector<std::string>& files, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"trace", "--json"};
  args.insert(args.end(), files.begin(), files.end());
  args.insert(args.end(), more.begin(), more.end());
  const Ended e = RunProgram(args);
  BOOST_REQUIRE_MESSAGE(e.status == 0, e.err);
  auto json = ParseJson(e.out);
  BOOST_REQUIRE_MESSAGE(json.ok(), json.status().ToString() << "\n" << e.out);
  return *std::move(json);
}

BOOST_AUTO_TEST_SUITE(trace_command)

BOOST_AUTO_TEST_CASE(the_critical_path_of_a_known_step) {
  const Folder folder;
  const JsonValue told = Told({folder.Write("t.json", Known().Text())});
  const JsonValue& step = told.Find("steps")->items.at(0);
  BOOST_TEST(step.Find("ms")->text == "0.15");
  BOOST_TEST(Lines(*step.Find("critical_path")) ==
             "queueing a 0.005\n"  // from the step's begin
             "compute a 0.01\n"
             "compute a/send 0.002\n"
             "communication a/recv 0.01\n"
             "queueing b 0.004\n"
             "compute b 0.06\n"
             "compute b/send 0.001\n"
             "communication b/recv 0.008\n"
             "synchronisation d 0.02\n"
             "compute d 0.001\n"
             "queueing e 0.001\n"
             "compute e 0.018\n"
             "queueing - 0.01\n");  // the answer
  BOOST_TEST(step.Find("critical_path")->items.at(5).Find("share")->text == "0.4");
  BOOST_TEST(step.Find("critical_path")->items.at(5).Find("task")->text == "/job:ps/replica:0/task:0");
  BOOST_TEST(Lines(*told.Find("stalls")) ==
             "synchronisation d 0.02\n"
             "communication a/recv 0.01\n"
             "communication b/recv 0.008\n"
             "queueing a 0.005\n"
             "queueing b 0.004\n"
             "queueing c 0.002\n"
             "queueing e 0.001\n");
  BOOST_TEST(told.Find("stalls")->items.at(4).Find("on_critical_path")->text == "true");
  BOOST_TEST(told.Find("stalls")->items.at(5).Find("on_critical_path")->text == "false");
  BOOST_TEST(told.Find("tasks")->items.at(1).Find("clock_uncertainty_ms")->text == "0.0025");
}

BOOST_AUTO_TEST_CASE(the_same_as_a_table) {
  const Folder folder;
  const Ended e = RunProgram({"trace", folder.Write("t.json", Known().Text())});
  BOOST_REQUIRE_MESSAGE(e.status == 0, e.err);
  BOOST_TEST(
      e.out.starts_with("step 1: 0.150 ms, led by /job:worker/replica:0/task:0\n"
                        "the clock of /job:ps/replica:0/task:0 may be off by 0.003 ms\n"));
  BOOST_TEST(e.out.find("  40.0%  0.060  0.031  compute          b (Op)       /job:ps/replica:0/task:0 CPU:0\n") !=
                 std::string::npos,
             e.out);
  BOOST_TEST(e.out.find("tensor b:0 from P") != std::string::npos);
  BOOST_TEST(e.out.find("for v") != std::string::npos);
}

// The first node of another task waited for the step's message, and the answer came from there.
BOOST_AUTO_TEST_CASE(a_step_that_is_all_elsewhere) {
  Hand h;
  h.Task(0, "/job:worker/replica:0/task:0");
  h.Task(1, "/job:ps/replica:0/task:0");
  h.Step(1, 0, 100);
  h.Run(1, "far", 1, 30, 80, {.queued = 10});
  const Folder folder;
  const JsonValue told = Told({folder.Write("t.json", h.Text())});
  BOOST_TEST(Lines(*told.Find("steps")->items.at(0).Find("critical_path")) ==
             "communication far 0.02\nqueueing far 0.01\ncompute far 0.05\ncommunication - 0.02\n");
}

BOOST_AUTO_TEST_CASE(between_devices_of_a_task_it_is_a_copy) {
  Hand h;
  h.Task(0, "/job:worker/replica:0/task:0");
  h.Step(1, 0, 40);
  h.Run(1, "s", 0, 0, 10, {});
  h.Run(2, "r", 0, 0, 25, {.from = 1, .category = "receives"});
  h.Run(3, "n", 0, 25, 40, {.after = 2});
  const Folder folder;
  const JsonValue told = Told({folder.Write("t.json", h.Text())});
  BOOST_TEST(Lines(*told.Find("steps")->items.at(0).Find("critical_path")) ==
             "compute s 0.01\ncopy r 0.015\ncompute n 0.015\n");
}

// Clocks that are off by 5 us let the receiver have its tensor before it was sent: nothing is
// negative, and the parts fill the step.
BOOST_AUTO_TEST_CASE(clocks_that_are_off_make_no_negative_times) {
  Hand h;
  h.Task(0, "/job:worker/replica:0/task:0");
  h.Task(1, "/job:ps/replica:0/task:0", 0, 5);
  h.Step(1, 0, 50);
  h.Run(1, "s", 0, 0, 20, {});
  h.Run(2, "r", 1, 0, 15, {.from = 1, .category = "receives"});
  h.Run(3, "n", 1, 15, 45, {.after = 2});
  const Folder folder;
  const JsonValue told = Told({folder.Write("t.json", h.Text())});
  BOOST_TEST(Lines(*told.Find("steps")->items.at(0).Find("critical_path")) ==
             "compute s 0.015\ncompute n 0.03\ncommunication - 0.005\n");
}

BOOST_AUTO_TEST_CASE(several_steps_are_added_up_and_one_can_be_chosen) {
  Hand h;
  h.Task(0, "/job:worker/replica:0/task:0");
  h.Step(1, 0, 10);
  h.Step(2, 10, 40);
  h.Run(1, "n", 0, 0, 10, {});
  h.Run(2, "n", 0, 10, 30, {.step = 2});
  h.Run(3, "m", 0, 30, 40, {.after = 2, .step = 2});
  const Folder folder;
  const std::string file = folder.Write("t.json", h.Text());
  const Ended all = RunProgram({"trace", file});
  BOOST_TEST(all.out.find("2 steps: 0.040 ms in all\n") == 0u, all.out);
  BOOST_TEST(all.out.find("  75.0%  0.030      2  compute  n (Op)") != std::string::npos, all.out);
  const Ended one = RunProgram({"trace", file, "--step", "2"});
  BOOST_TEST(one.out.find("step 2: 0.030 ms") == 0u, one.out);
  BOOST_TEST(one.out.find("66.7%") != std::string::npos, one.out);
  const Ended none = RunProgram({"trace", file, "--step", "3"});
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.err.find("it has no step 3; its steps are 1 to 2") != std::string::npos, none.err);
}

// Two workers, each with a clock of its own, and one ps: its clock is 500 us before the first
// worker's and 300 us before the second's, so the second's is 200 us before the first's.
BOOST_AUTO_TEST_CASE(traces_of_several_workers_become_one_in_one_clock) {
  const std::string first = "/job:worker/replica:0/task:0", second = "/job:worker/replica:0/task:1",
                    ps = "/job:ps/replica:0/task:0";
  Hand a(first, 1000), b(second, 1250);
  a.Task(0, first);
  a.Task(1, ps, 500, 3);
  a.Step(1, 0, 100);
  a.Run(1, "x", 0, 10, 90, {});
  b.Task(0, second);
  b.Task(1, ps, 300, 4);
  b.Step(1, 0, 60);
  b.Run(1, "y", 0, 5, 20, {});
  b.Run(2, "z", 1, 20, 55, {.after = 1});
  const Folder folder;
  const std::string whole = folder.Path("all.json");
  const JsonValue told = Told({folder.Write("a.json", a.Text()), folder.Write("b.json", b.Text())}, {"--out", whole});
  BOOST_TEST(told.Find("steps")->items.size() == 2u);
  const auto file = tool::ReadTrace(whole);
  BOOST_REQUIRE_MESSAGE(file.ok(), file.status().ToString());
  BOOST_REQUIRE(file->tasks.size() == 3u);
  for (const tool::TraceTask& t : file->tasks) {
    BOOST_TEST(t.offset == (t.name == first ? 0 : t.name == second ? 200'000 : 500'000), t.name);
    BOOST_TEST(t.uncertainty == (t.name == first ? 0 : t.name == second ? 7'000 : 3'000), t.name);
  }
  BOOST_REQUIRE(file->runs.size() == 3u);
  // 1250 + 5 by the second's clock is 1055 by the first's, 55 after its begin.
  BOOST_TEST(file->texts[file->runs[1].node] == "y");
  BOOST_TEST(file->runs[1].start == 55'000);
  BOOST_TEST(file->runs[2].after == file->runs[1].id);
  BOOST_TEST(file->runs[2].step == 2);
  BOOST_TEST(file->tasks[file->runs[2].task].name == ps);

  Hand stranger("/job:other/replica:0/task:0");
  stranger.Task(0, "/job:other/replica:0/task:0");
  stranger.Step(1, 0, 1);
  const Ended e = RunProgram({"trace", folder.Path("a.json"), folder.Write("c.json", stranger.Text())});
  BOOST_TEST(e.status == 1);
  BOOST_TEST(e.err.find("c.json: none of its tasks is in the files before it") != std::string::npos, e.err);
}

BOOST_AUTO_TEST_CASE(what_is_no_trace_is_told_with_its_place) {
  const std::string good = Known().Text();
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const size_t at = text.find(what);
    BOOST_REQUIRE(at != std::string::npos);
    return text.replace(at, what.size(), instead);
  };
  const auto told = [](const std::string& text) {
    const auto file = tool::ParseTrace(text);
    return file.ok() ? std::string("OK") : std::string(file.status().message());
  };
  BOOST_TEST(told(good) == "OK");
  BOOST_TEST(told("") == "line 1, column 1: a trace is an object: '{' is missing");
  BOOST_TEST(told("{}") == "line 1, column 2: a key in quotes is missing");
  BOOST_TEST(told("{\"a\": 1}") == "it has no 'traceEvents'");
  BOOST_TEST(told("{\"traceEvents\": 3}") == "line 1, column 17: 'traceEvents' is no list: '[' is missing");
  BOOST_TEST(told("{\"traceEvents\": []}") == "there is no step in it: it is no trace of Troupe's");
  BOOST_TEST(told("{\"traceEvents\": [\n 3]}") == "line 2, column 2: an event is no object");
  BOOST_TEST(told("{\"traceEvents\": [\n {\"name\": 3}]}") == "line 2, column 2: an event has no 'ph'");
  BOOST_TEST(told(good + "x") == "line 16, column 1: there is more behind the trace");
  BOOST_TEST(
      told(with("\"ts\": 131", "\"ts\": \"x\"")).find("line 8, column 66: ts is no number of microseconds") == 0u,
      told(with("\"ts\": 131", "\"ts\": \"x\"")));
  BOOST_TEST(told(with("\"dur\": 60", "\"dur\": -60")).find("line 8, column 78: dur is negative") == 0u);
  BOOST_TEST(told(with("\"ts\": 131", "\"ts\": 1e300")).find("line 8") == 0u);
  BOOST_TEST(told(with("\"id\": 4", "\"id\": 0")).find("the id is 0") != std::string::npos);
  BOOST_TEST(told(with("\"id\": 4", "\"id\": 3")) == "line 8: event 3: another event has the same id");
  BOOST_TEST(told(with("\"after\": 3", "\"after\": 99")) == "line 8: event 4: it names event 99, which is not there");
  BOOST_TEST(told(with("\"step\": 1, \"id\": 4", "\"step\": 7, \"id\": 4")) ==
             "line 8: event 4: it is of step 7, which is not there");
  BOOST_TEST(told(StrCat("{\"traceEvents\": [{\"ph\": \"X\", \"a\": [", std::string(20000, '['))).find("too deep") !=
             std::string::npos);
  std::string many = "{\"traceEvents\": [{\"ph\": \"X\", \"a\": [1";
  for (int i = 0; i < 5000; ++i) many += ",1";
  BOOST_TEST(told(many).find("a value has more than 4096 parts") != std::string::npos);

  const Folder folder;
  const Ended circle = RunProgram({"trace", folder.Write("t.json", with("\"id\": 1,", "\"id\": 1, \"after\": 10,"))});
  BOOST_TEST(circle.status == 1);
  BOOST_TEST(circle.err.find("waits for itself, by way of others") != std::string::npos, circle.err);
  const Ended absent = RunProgram({"trace", folder.Path("none.json")});
  BOOST_TEST(absent.status == 1);
  BOOST_TEST(absent.err.find("none.json") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace trace_command_test
}  // namespace troupe
