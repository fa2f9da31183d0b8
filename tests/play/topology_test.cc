// Topologies as text: what is read, and the sentence for each thing that is wrong, with its place.
#include <time.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "net/play/settings.h"
#include "net/play/wiring.h"
#include "tests/play/topologies.h"

namespace troupe::play {
namespace topology_test {

std::string Message(const std::string& text) {
  const auto topology = Topology::Parse(text, "a.play");
  if (topology.ok()) return "";
  BOOST_TEST(absl::IsInvalidArgument(topology.status()));
  return std::string(topology.status().message());
}

BOOST_AUTO_TEST_SUITE(topology)

BOOST_AUTO_TEST_CASE(a_topology_is_read_as_it_is_written) {
  const auto t = Topology::Parse(WholeTopology(), "a.play");
  BOOST_REQUIRE(t.ok());
  BOOST_TEST(t->parts().size() == 8u);
  const Part* const worker = t->Find("worker");
  BOOST_REQUIRE(worker != nullptr);
  BOOST_TEST((worker->kind == Kind::kProgram));
  BOOST_TEST(worker->at.line == 16);
  const std::vector<std::string> run = TextsOf(*worker, "run");
  const std::vector<std::string> want = {
      "sh", "-c", "echo \"task {task} of {job} at {address}\"", "", "{ps.address}", "--more", "{{literally}", "a b"};
  BOOST_TEST(run == want, boost::test_tools::per_element());
  BOOST_TEST(worker->Find("run")->words[7].at.line == 18);
  BOOST_TEST(worker->Find("run")->words[7].at.column == 28);
  BOOST_TEST(PairsOf(*worker, "env")[1].second == "two words");
  const Part& ps = *t->Find("ps");
  BOOST_TEST(CountOf(ps, "tasks", 1) == 2);
  BOOST_TEST(BytesOf(ps, "memory", 0) == 64 << 20);
  BOOST_TEST(DurationOf(ps, "heartbeat", {}).count() == 100000);
  BOOST_TEST(BackOffOf(ps, {}).second.count() == 1000000);
  BOOST_TEST(DurationOf(*t->Find("model"), "max_delay", {}).count() == 500);
  BOOST_TEST(t->Find("other") == nullptr);
  BOOST_TEST(t->Find("everything") == nullptr);
  BOOST_TEST(ProcessesOf(ps) == 2);
  BOOST_TEST(ProcessesOf(*t->Find("inside")) == 0);
  BOOST_TEST((HasAddress(*worker) && HasAddress(*t->Find("fall")) && !HasAddress(*t->Find("physics"))));
}

BOOST_AUTO_TEST_CASE(a_topology_and_its_text_are_the_same) {
  const auto t = Topology::Parse(WholeTopology());
  BOOST_REQUIRE(t.ok());
  const auto again = Topology::Parse(t->ToText());
  BOOST_REQUIRE_MESSAGE(again.ok(), again.status() << "\n" << t->ToText());
  BOOST_TEST(again->ToText() == t->ToText());
  BOOST_REQUIRE(again->parts().size() == t->parts().size());
  for (size_t i = 0; i < t->parts().size(); ++i) {
    const Part &a = t->parts()[i], &b = again->parts()[i];
    BOOST_TEST(a.name == b.name);
    BOOST_REQUIRE(a.settings.size() == b.settings.size());
    for (const Setting& s : a.settings)
      BOOST_TEST(TextsOf(a, s.key) == TextsOf(b, s.key), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(lines_of_another_system_tabs_and_quotes_are_read) {
  const auto t = Topology::Parse("\xef\xbf\xbd# no\r\n");
  BOOST_TEST(!t.ok());
  const auto good =
      Topology::Parse("program\ta\r\n\trun:\t'it'\\''s' \"a \\\" b\" c\\ d 'x'y#z  #end\r\n  folder: \xc3\xa4");
  BOOST_REQUIRE_MESSAGE(good.ok(), good.status());
  const std::vector<std::string> want = {"it's", "a \" b", "c d", "xy#z"};
  BOOST_TEST(TextsOf(good->parts()[0], "run") == want, boost::test_tools::per_element());
  BOOST_TEST(TextOf(good->parts()[0], "folder") == "\xc3\xa4");
}

struct Case {
  std::string text, message;
};

const std::string kRun = "program a\n  run: true\n";

std::vector<Case> FormCases() {
  return {
      {"", "a.play:1:1: the topology is empty"},
      {"# nothing\n\n", "a.play:1:1: the topology is empty"},
      {std::string(Topology::kMostBytes + 1, '#'), "a.play:1:1: a topology has at most 65536 bytes, not 65537"},
      {kRun + "  env: A=\x01\n", "a.play:3:10: the byte 1 has no place in a topology"},
      {kRun + std::string("# \0", 3), "a.play:3:3: the byte 0 has no place in a topology"},
      {kRun + "  run: 'a b\n", "a.play:3:8: the quote ' is not closed"},
      {kRun + "  run: x\"a 'b'\n", "a.play:3:9: the quote \" is not closed"},
      {kRun + "  run: a \\\n", "a.play:3:10: a line does not go on in the next one: give the setting again"},
      {kRun + "  run true\n", "a.play:3:3: an indented line is a setting, KEY: VALUE; a part is not indented"},
      {kRun + "  :\n", "a.play:3:3: an indented line is a setting, KEY: VALUE; a part is not indented"},
      {kRun + "  run:true\n", "a.play:3:7: a blank stands between a setting's ':' and its value"},
      {"''\n", "a.play:1:1: a part begins with its kind"},
      {"  run: true\n", "a.play:1:3: a setting stands below its part, and there is none yet"},
      {"run: true\n",
       "a.play:1:1: 'run:' is no kind of part: these are topology, host, server, program, batcher, actor, forward; "
       "settings are indented below their part"},
      {"server\n", "a.play:1:1: the server needs a name"},
      {"server ps 2\n", "a.play:1:11: a server has one name; its settings are indented below it"},
      {"server 2\n", "a.play:1:8: '2' is no name: it begins with a letter, and has letters, digits and _, at most 60"},
      {"server a-b\n",
       "a.play:1:8: 'a-b' is no name: it begins with a letter, and has letters, digits and _, at most 60"},
      {"server " + std::string(61, 'a') + "\n", StrCat("a.play:1:8: '", std::string(61, 'a'),
                                                       "' is no name: it begins with a letter, and has letters, digits "
                                                       "and _, at most 60")},
      {kRun + "topology t\n", "a.play:3:1: the topology's own settings come first, and once"},
      {kRun + "server a\n", "a.play:3:8: the program of line 1 has the name 'a', too"},
      {"host a\n  launcher: x\nhost a\n  launcher: y\n" + kRun, "a.play:3:6: the host of line 1 has the name 'a', too"},
      {"program a\n  folder: x\n  run: y\n  folder: z\n", "a.play:4:3: 'folder' is given in line 2, too"},
      {"topology t\n", "a.play:1:1: the topology has no part with a process: no server, program, batcher or actor"},
  };
}

std::vector<Case> ValueCases() {
  const std::string server = "server ps\n  ";
  return {
      {server + "run: x\n",
       "a.play:2:3: a server has no setting 'run'; it may have tasks, threads, memory, heartbeat, host, at, after, "
       "restart, back_off, most_restarts, if_given_up, env, folder"},
      {kRun + "  rum: x\n",
       "a.play:3:3: a program has no setting 'rum'; it may have run, service, ready, tasks, host, at, after, restart, "
       "back_off, most_restarts, if_given_up, env, folder"},
      {"program a\n", "a.play:1:1: the program 'a' needs the setting 'run'"},
      {"actor a\n", "a.play:1:1: the actor 'a' needs the setting 'factory'"},
      {"host a\n" + kRun, "a.play:1:1: the host 'a' needs the setting 'launcher'"},
      {kRun + "forward f\n  in: a\n", "a.play:3:1: the forward 'f' needs the setting 'to'"},
      {server + "tasks:\n", "a.play:2:3: 'tasks' has no value"},
      {server + "tasks: 1 2\n", "a.play:2:12: 'tasks' has one value; quotes make one of several words"},
      {server + "tasks: 0\n", "a.play:2:10: tasks: '0' is no whole number from 1 to 1000"},
      {server + "tasks: 1001\n", "a.play:2:10: tasks: '1001' is no whole number from 1 to 1000"},
      {server + "tasks: -1\n", "a.play:2:10: tasks: '-1' is no whole number from 1 to 1000"},
      {server + "tasks: 99999999999999999999\n",
       "a.play:2:10: tasks: '99999999999999999999' is no whole number from 1 to 1000"},
      {server + "tasks: two\n", "a.play:2:10: tasks: 'two' is no whole number from 1 to 1000"},
      {server + "threads: ''\n", "a.play:2:12: threads: the value is empty"},
      {server + "memory: 5GB\n", "a.play:2:11: memory: '5GB' is no size, as 512MiB: a whole number of KiB, MiB or GiB"},
      {server + "memory: 99999999999999GiB\n",
       "a.play:2:11: memory: '99999999999999GiB' is no size, as 512MiB: a whole number of KiB, MiB or GiB"},
      {server + "heartbeat: 5\n", "a.play:2:14: heartbeat: '5' is no time, as 100ms: a whole number of us, ms, s or m"},
      {server + "heartbeat: 5ms\n", "a.play:2:14: heartbeat: 5ms is not from 10ms to 60s"},
      {server + "restart: often\n", "a.play:2:12: restart: 'often' is none of always, on_failure, never"},
      {server + "back_off: 1s\n", "a.play:2:3: 'back_off' has two times, the first and the longest"},
      {server + "back_off: 1s 2s 3s\n", "a.play:2:3: 'back_off' has two times, the first and the longest"},
      {server + "back_off: 2s 1s\n", "a.play:2:16: back_off: the longest time is shorter than the first"},
      {server + "env: A\n", "a.play:2:8: env: 'A' is not KEY=VALUE"},
      {server + "env: =A\n", "a.play:2:8: env: '=A' is not KEY=VALUE"},
      {server + "at: 127.0.0.1\n", "a.play:2:7: at: the address '127.0.0.1' is not host:port: there is no port"},
  };
}

std::vector<Case> MeaningCases() {
  const std::string ps = "server ps\n", batcher = "batcher b\n  graph: g\n  feeds: x\n  fetches: y\n";
  const std::string actor = "actor f\n  factory: f\n";
  return {
      {ps + "  tasks: 2\n  at: 127.0.0.1:1\n", "a.play:3:3: 'ps' has 2 processes, and 1 addresses"},
      {ps + "  tasks: 3\n  host: a b\n", "a.play:3:3: 'ps' has 3 processes, and 2 hosts; one stands for all"},
      {ps + "  tasks: 1000\n" + kRun, "a.play:3:1: with 'a' there are more than 1000 processes"},
      {kRun + "  after: b\n", "a.play:3:10: after: there is no part 'b'"},
      {kRun + "  after: a\n", "a.play:3:10: after: 'a' is the part itself"},
      {ps + actor + "  in: ps\n" + kRun + "  after: f\n", "a.play:7:10: after: 'f' has no process of its own"},
      {kRun + actor + "  in: a\n", "a.play:5:7: in: 'a' is a program, and no server"},
      {ps + "forward g\n  in: ps\n  to: ps\n",
       "a.play:4:7: to: 'ps' is neither an actor with a process of its own nor a batcher"},
      {kRun + actor + "  uses: a\n",
       "a.play:5:9: uses: 'a' is neither an actor with a process of its own nor a batcher"},
      {"batcher b\n  feeds: x\n", "a.play:1:1: the batcher 'b' needs one of 'graph' and 'saved_model'"},
      {batcher + "  saved_model: m\n", "a.play:1:1: the batcher 'b' needs one of 'graph' and 'saved_model'"},
      {"batcher b\n  graph: g\n  feeds: x\n", "a.play:1:1: the batcher 'b' of a graph needs the setting 'fetches'"},
      {batcher + "  signature: s\n", "a.play:5:3: signature: a graph has none; name its feeds and fetches"},
      {"batcher b\n  saved_model: m\n  init: i\n", "a.play:3:3: init: a saved model has its own"},
      {ps + actor + "  in: ps\n  env: A=1\n", "a.play:5:3: env: 'f' is in the process of 'ps'"},
      {"program a\n  run: {\n", "a.play:2:8: run: '{' without '}'; {{ stands for one {"},
      {"program a\n  run: {x}\n",
       "a.play:2:8: run: '{x}' is none of {part}, {job}, {task}, {address}, {host}, {port}, {cluster}, {target}, {dir}, "
       "{NAME.address}, {NAME.host} and {NAME.port}; {{ stands for one {"},
      {"program a\n  run: {task}\n", "a.play:2:8: run: {task}: 'a' has no tasks"},
      {"program a\n  run: {port}\n", "a.play:2:8: run: {port}: 'a' has no address: give it `tasks` or `at`"},
      {"program a\n  run: x {b.port}\n", "a.play:2:10: run: {b.port}: there is no part 'b'"},
      {"program a\n  run: {a.host}\n", "a.play:2:8: run: {a.host}: 'a' has no address"},
      {"program a\n  run: {cluster}\n", "a.play:2:8: run: {cluster}: there is no server, and no program with tasks"},
      {"program a\n  run: x\n  env: T={target}\n", "a.play:3:8: env: {target}: there is no server"},
      {ps + "  at: 10.0.0.1:2222\n",
       "a.play:2:7: at: 10.0.0.1:2222 is not of this machine alone, and connections are neither encrypted nor "
       "authenticated; `insecure: yes` of the topology says that the network is trusted"},
      {ps + "  at: 127.0.0.1:1\n" + kRun + "  at: 127.0.0.1:1\n",
       "a.play:5:7: at: 127.0.0.1:1 is an address of 'ps', too"},
      {kRun + "  after: b\nprogram b\n  run: x\n  after: c\nprogram c\n  run: x\n  after: b\n",
       "a.play:3:3: after: 'a' would start after itself"},
  };
}

void CheckCases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const std::string message = Message(c.text);
    BOOST_TEST(message == c.message, c.text << "\n  gives " << message << "\n  not   " << c.message);
  }
}

BOOST_AUTO_TEST_CASE(every_mistake_of_form_has_its_sentence) { CheckCases(FormCases()); }
BOOST_AUTO_TEST_CASE(every_wrong_value_has_its_sentence) { CheckCases(ValueCases()); }
BOOST_AUTO_TEST_CASE(every_contradiction_has_its_sentence) { CheckCases(MeaningCases()); }

// A host may have the name of a part, and hides no circle of parts.
BOOST_AUTO_TEST_CASE(a_circle_is_told_whatever_hosts_there_are) {
  BOOST_TEST(Message("program a\n  run: x\n  after: b\nprogram b\n  run: x\n  after: a\n"
                     "host a\n  launcher: sh\nhost b\n  launcher: sh\n") ==
             "a.play:3:3: after: 'a' would start after itself");
  BOOST_TEST(Message("program a\n  run: x\n  after: b b\nprogram b\n  run: x\nprogram c\n  run: x\n  after: a b\n"
                     "host a\n  launcher: sh\n") == "");
}

// The processor time of this thread that a topology takes to be read, each of whose parts comes
// after the next one; the least of several readings.
double SecondsOfChain(int parts) {
  std::string text;
  for (int i = 0; i < parts; ++i) {
    StrAppend(&text, "program p", i, "\n  run: x\n");
    if (i + 1 < parts) StrAppend(&text, "  after: p", i + 1, "\n");
  }
  const auto now = [] {
    timespec t;
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
  };
  double least = 1e9;
  for (int i = 0; i < 7; ++i) {
    const double begin = now();
    BOOST_TEST(Message(text) == "");
    least = std::min(least, now() - begin);
  }
  return least;
}

// Compared with itself, since machines differ: four times the parts take some four times as long,
// and would take sixteen times if each were compared with all.
BOOST_AUTO_TEST_CASE(reading_takes_as_long_as_the_text_is) {
  const double few = SecondsOfChain(Topology::kMostProcesses / 4), many = SecondsOfChain(Topology::kMostProcesses);
  BOOST_TEST(many < 9 * few, many / few << " times as long");
}

BOOST_AUTO_TEST_CASE(a_file_is_named_in_its_errors) {
  BOOST_TEST(absl::IsNotFound(Topology::Read("/nonexistent.play").status()));
  const std::string path = StrCat("/tmp/troupe_topology_", ::getpid(), ".play");
  std::ofstream(path) << "server ps\n  tasks: many\n";
  BOOST_TEST(Topology::Read(path).status().message() ==
             StrCat(path, ":2:10: tasks: 'many' is no whole number from 1 to 1000"));
  ::unlink(path.c_str());
  BOOST_TEST(absl::IsNotFound(Topology::OfThisProcess().status()));
}

// Whatever the bytes: an answer, a place in the text, and what was read can be written and read.
void CheckAnswer(const std::string& text) {
  const auto t = Topology::Parse(text, "f");
  if (t.ok()) {
    const auto again = Topology::Parse(t->ToText(), "f");
    BOOST_TEST(again.ok(), again.status() << " of\n" << t->ToText());
    return;
  }
  const std::string message(t.status().message());
  int line = 0, column = 0;
  BOOST_TEST(std::sscanf(message.c_str(), "f:%d:%d: ", &line, &column) == 2, message);
  BOOST_TEST((line >= 1 && line <= 1 + std::count(text.begin(), text.end(), '\n')), message);
  BOOST_TEST((column >= 1 && column <= 1 + static_cast<int>(text.size())), message);
}

BOOST_AUTO_TEST_CASE(mutated_topologies_give_an_answer) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string whole = WholeTopology();
  const std::string pieces[] = {
      "'", "\"", "\\", "#", ":", "{", "}", "\n", "  ", "\t", "server a\n", "  after: ps\n", "9999999999999999999"};
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (size_t n = 1 + below(4); n > 0; --n) {
      const size_t at = below(text.size());
      switch (below(6)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(20));
          break;
        case 2:
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 3:
          text.resize(at + 1);
          break;
        case 4:
          text.insert(at, whole.substr(below(whole.size()), below(60)));
          break;
        default:
          std::swap(text[at], text[below(text.size())]);
      }
      if (text.empty()) text = "x";
    }
    CheckAnswer(text);
  }
}

BOOST_AUTO_TEST_CASE(random_bytes_give_an_answer) {
  std::mt19937 random(8);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 200, 0);
    for (char& c : text) c = static_cast<char>(random() % 2 == 0 ? random() % 256 : "serv apo:\n'{}"[random() % 13]);
    CheckAnswer(text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace topology_test
}  // namespace troupe::play
