// Whole topologies: real processes, what they say to each other, their deaths, and their end.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <caf/io/all.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "tests/common/shell.h"
#include "tests/play/number.h"
#include "troupe/open_cast.h"
#include "troupe/play.h"
#include "troupe/serving.h"
#include "troupe/tls.h"
#include "troupe/troupe.h"

namespace troupe::play {
namespace play_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A folder with the graph y = 2 x + 2, in which commands run, and what processes write.
struct Stage {
  Stage() : path((fs::temp_directory_path() / StrCat("troupe_play_", ::getpid())).string()) {
    fs::remove_all(path);
    fs::create_directories(path);
    fs::copy(TROUPE_SOURCE_DIR "/docs/guide/affine.pbtxt", path);
  }
  ~Stage() {
    play = nullptr;
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  absl::Status Start(const std::string& text) {
    auto topology = Topology::Parse(text, "a.play");
    if (!topology.ok()) return topology.status();
    PlayOptions options;
    options.command = {TROUPE_PROGRAM, "play", "--troupe_part={part}", "--load", TROUPE_ROLES};
    options.dir = path;
    options.logs = path + "/logs";
    options.on_line = [this](const std::string& name, uint64_t incarnation, std::string_view line) {
      std::lock_guard<std::mutex> lock(mu);
      StrAppend(&text_, name, ".", incarnation, " ", line, "; ");
    };
    auto started = Play::Start(*topology, options);
    if (!started.ok()) return started.status();
    play = *std::move(started);
    return absl::OkStatus();
  }
  std::string heard() {
    std::lock_guard<std::mutex> lock(mu);
    return text_;
  }
  PartStatus Part(const std::string& name) {
    const auto status = play->status();
    BOOST_REQUIRE(status.ok());
    for (const PartStatus& p : status->parts) {
      if (p.process.name == name) return p;
    }
    BOOST_FAIL("no " + name);
    return {};
  }
  void AwaitReady() {
    const absl::Status ready = play->AwaitReady(60s);
    BOOST_REQUIRE_MESSAGE(ready.ok(), ready << " after " << heard());
  }
  // "" when all ended well.
  std::string End() {
    const auto over = play->Wait(60s);
    BOOST_REQUIRE(over.ok());
    BOOST_REQUIRE_MESSAGE(*over, heard());
    return std::string(play->status()->result.message());
  }
  const std::string path;
  std::mutex mu;
  std::string text_;
  std::unique_ptr<Play> play;
};

bool Await(const std::function<bool()>& what) {
  for (const auto end = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < end;) {
    if (what()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

struct Config : caf::actor_system_config {
  Config() {
    load<caf::io::middleman>();
    AddMessageTypes(this);
    AddCallMessageTypes(this);
    add_message_types<caf::id_block::test_numbers>();
  }
};

// A node of CAF's that asks actors of the topology.
struct Asker {
  caf::actor At(const std::string& address) {
    const size_t colon = address.rfind(':');
    const auto found = system.middleman().remote_actor(address.substr(0, colon),
                                                       static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    if (!found) BOOST_FAIL(address + ": " + system.render(found.error()));
    return *found;
  }
  int Tell(const caf::actor& whom, int value) {
    int answer = 0;
    caf::scoped_actor self(system);
    self->request(whom, 10s, number{value}).receive([&](const number& n) { answer = n.value; }, [](caf::error&) {});
    return answer;
  }
  Config config;
  caf::actor_system system{config};
};

// A graph in the server that calls actors by name.
struct Client {
  Client(const std::string& target, const std::string& actor) {
    const Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    CallActor(root.WithOpName("y"), actor, {x}, {DType::kFloat});
    SessionOptions options;
    options.target = target;
    session = Session::Create(options).value();
    BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  }
  absl::Status Ask(float x, float* y) {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({{"x", Tensor::Vector<float>({x})}}, {"y"}, {}, &out));
    *y = out[0].data<float>()[0];
    return absl::OkStatus();
  }
  // Until it is that.
  bool Answers(float x, float wanted) {
    return Await([&] {
      float y = 0;
      return Ask(x, &y).ok() && y == wanted;
    });
  }
  std::unique_ptr<Session> session;
};

// A variable of the environment, while the object is there.
struct Variable {
  Variable(const char* name, const std::string& value) : name(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name); }
  const char* const name;
};

BOOST_AUTO_TEST_SUITE(play)

BOOST_AUTO_TEST_CASE(programs_start_in_order_are_wired_and_end) {
  Stage s;
  const absl::Status started = s.Start(
      "program third\n  run: sh -c 'cat {dir}/order; echo third'\n  after: second\n"
      "program first\n  run: sh -c 'sleep 0.1; echo first >> {dir}/order'\n"
      "program second\n  run: sh -c 'echo second {task} >> {dir}/order; echo $WORD of $TROUPE_PART'\n"
      "  tasks: 2\n  after: first\n  env: WORD={job}\n");
  BOOST_REQUIRE_MESSAGE(started.ok(), started);
  BOOST_TEST((s.Part("third").process.state == ProcessState::kHeld));
  BOOST_TEST(s.End() == "", s.heard());
  BOOST_TEST(s.heard().find("third.1 first; third.1 second ") != std::string::npos, s.heard());
  BOOST_TEST(s.heard().find("second:1.1 second of second:1; ") != std::string::npos, s.heard());
  BOOST_TEST(s.Part("third").ready);
  BOOST_TEST(fs::exists(s.path + "/logs/second:0.log"));
}

BOOST_AUTO_TEST_CASE(who_waits_for_what_has_failed_ends_all) {
  Stage s;
  BOOST_REQUIRE(s.Start("program bad\n  run: false\n  restart: never\n  if_given_up: go_on\n"
                        "program next\n  run: true\n  after: bad\n"
                        "program long\n  run: sleep 1000\n")
                    .ok());
  BOOST_TEST(s.End() == "next cannot start: it comes after bad, which is over and was not ready");
  Stage t;
  BOOST_REQUIRE(t.Start("program bad\n  run: sh -c 'echo why; exit 3'\n  most_restarts: 1\n  back_off: 1ms 1ms\n"
                        "program next\n  run: true\n  after: bad\n")
                    .ok());
  BOOST_TEST(t.End() == "bad exited with status 3, after 1 restarts, and is given up; its last line: why");
  BOOST_TEST(!t.play->AwaitReady(1s).ok());
}

BOOST_AUTO_TEST_CASE(a_part_is_ready_when_it_says_so) {
  Stage s;
  BOOST_REQUIRE(
      s.Start("program a\n  run: sh -c 'sleep 0.2; echo up {dir} at last; exec sleep 1000'\n  ready: 'at last'\n"
              "  service: yes\n"
              "program b\n  run: true\n  after: a\n  service: yes\n  restart: never\n")
          .ok());
  BOOST_TEST(absl::IsDeadlineExceeded(s.play->AwaitReady(0ms)));
  BOOST_TEST(Await([&] { return s.Part("b").process.state == ProcessState::kEnded; }));
  BOOST_TEST(s.Part("a").ready);
  BOOST_TEST(s.play->Stop(10s).ok());
}

// How often the thread of this name has waited for something; -1: there is none.
int64_t WaitsOf(const std::string& thread) {
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream name(task.path() / "comm"), status(task.path() / "status");
    std::string word;
    if (!std::getline(name, word) || word != thread) continue;
    while (status >> word) {
      int64_t waits = 0;
      if (word == "voluntary_ctxt_switches:" && status >> waits) return waits;
    }
  }
  return -1;
}

BOOST_AUTO_TEST_CASE(while_nothing_happens_nobody_looks) {
  Stage s;
  BOOST_REQUIRE(s.Start("program a\n  run: sleep 1000\n  service: yes\n").ok());
  s.AwaitReady();
  std::this_thread::sleep_for(100ms);
  const int64_t before = WaitsOf("troupe.play");
  BOOST_TEST(before > 0);
  std::this_thread::sleep_for(500ms);
  BOOST_TEST(WaitsOf("troupe.play") <= before + 2);
  // What happens then is seen.
  BOOST_TEST(s.play->Signal("a", SIGKILL).ok());
  BOOST_TEST(Await([&] { return s.Part("a").process.incarnation == 2; }));
  s.AwaitReady();
  BOOST_TEST(s.play->Stop(10s).ok());
}

BOOST_AUTO_TEST_CASE(a_graph_in_a_server_calls_actors_there_and_in_other_processes) {
  Stage s;
  const absl::Status started = s.Start(
      "server lab\n  threads: 1\n  heartbeat: 50ms\n"
      "actor twice\n  factory: multiplier\n  with: by=2\n  back_off: 10ms 10ms\n"
      "actor thrice\n  factory: multiplier\n  with: by=3\n  in: lab\n"
      "actor agent\n  factory: agent\n  uses: twice\n  in: lab\n"
      "forward double\n  in: lab\n  to: twice\n");
  BOOST_REQUIRE_MESSAGE(started.ok(), started);
  s.AwaitReady();
  const std::string target = "troupe://" + s.Part("lab:0").address;
  Client far(target, "double"), near(target, "thrice"), agent(target, "agent");
  BOOST_TEST(far.Answers(5, 10));
  BOOST_TEST(near.Answers(5, 15));
  BOOST_TEST(agent.Answers(7, 14));
  // The program's own messages reach it, too. It is told another factor, dies, and comes back as it
  // was.
  {
    Asker asker;
    BOOST_TEST(asker.Tell(asker.At(s.Part("twice").address), 10) == 20);
  }
  BOOST_TEST(far.Answers(5, 50));
  BOOST_TEST(agent.Answers(5, 50));
  BOOST_REQUIRE(s.play->Signal("twice", SIGKILL).ok());
  BOOST_TEST(far.Answers(5, 10));
  BOOST_TEST(agent.Answers(7, 14));
  BOOST_TEST(s.Part("twice").process.restarts == 1);
  BOOST_TEST(s.play->Stop(10s).ok(), s.heard());
  BOOST_TEST(s.play->status()->result.ok());
}

BOOST_AUTO_TEST_CASE(an_actor_that_dies_is_started_again_by_its_policy) {
  Stage s;
  BOOST_REQUIRE(s.Start("actor a\n  factory: multiplier\n  with: by=2\n  back_off: 1ms 1ms\n").ok());
  s.AwaitReady();
  {
    Asker asker;
    BOOST_TEST(asker.Tell(asker.At(s.Part("a").address), -1) == -2);
  }
  BOOST_TEST(Await([&] { return s.Part("a").process.incarnation == 2 && s.Part("a").ready; }), s.heard());
  BOOST_TEST(s.Part("a").process.last_end == "exited with status 1");
  BOOST_TEST(s.heard().find("a.1 troupe: a: ABORTED: the actor 'a' is given up; it ended: ") != std::string::npos,
             s.heard());
  Asker again;
  BOOST_TEST(again.Tell(again.At(s.Part("a").address), 4) == 8);
  BOOST_TEST(s.play->Stop(10s).ok());
}

BOOST_AUTO_TEST_CASE(a_model_is_served_to_actors_of_other_processes) {
  Stage s;
  BOOST_REQUIRE(s.Start(StrCat("batcher model\n  graph: affine.pbtxt\n  feeds: x\n  fetches: y\n  folder: ", s.path,
                               "\n  threads: 1\n  max_batch: 4\n"))
                    .ok());
  s.AwaitReady();
  Asker asker;
  const caf::actor model = asker.At(s.Part("model").address);
  caf::scoped_actor self(asker.system);
  const auto ask = [&](std::vector<float> x) {
    run_reply answer;
    run_request request;
    request.feeds = {{"x", Tensor::Of<float>(x, TensorShape({static_cast<int64_t>(x.size())}))}};
    request.fetches = {"y"};
    self->request(model, 10s, request).receive([&](run_reply& r) { answer = r; }, [](caf::error&) {});
    return answer;
  };
  const run_reply y = ask({1, 2});
  BOOST_REQUIRE(y.status.ok());
  BOOST_TEST(y.outputs.at(0).data<float>()[1] == 6);
  BOOST_TEST(s.play->Stop(10s).ok());
}

// The batcher's process ends with it, and is started again.
BOOST_AUTO_TEST_CASE(a_batcher_that_dies_leaves_nobody_waiting_and_comes_back) {
  Stage s;
  BOOST_REQUIRE(s.Start(StrCat("batcher model\n  graph: affine.pbtxt\n  feeds: x\n  fetches: y\n  folder: ", s.path,
                               "\n  threads: 1\n  max_batch: 2\n  max_delay: 60m\n  back_off: 1ms 1ms\n"))
                    .ok());
  s.AwaitReady();
  const auto request = [](int64_t rows) {
    run_request r;
    r.feeds = {{"x", Tensor::Of<float>(std::vector<float>(static_cast<size_t>(rows), 1), TensorShape({rows}))}};
    r.fetches = {"y"};
    return r;
  };
  // Hears of the answer, UNKNOWN where there is only an error of CAF's, which is `why`.
  const auto ask = [&](Asker* asker, const caf::actor& model, int64_t rows, bool kill, std::string* why) {
    absl::Status status = absl::UnknownError("nothing was heard");
    caf::scoped_actor self(asker->system);
    auto asked = self->request(model, 60s, request(rows));
    if (kill) caf::anon_send_exit(model, caf::exit_reason::kill);
    asked.receive([&](const run_reply& r) { status = r.status; },
                  [&](const caf::error& e) { *why = asker->system.render(e); });
    return status;
  };
  std::string why;
  {
    Asker asker;
    const caf::actor model = asker.At(s.Part("model").address);
    BOOST_TEST(ask(&asker, model, 2, false, &why).ok(), why);
    // This one would wait for another row.
    BOOST_TEST(!ask(&asker, model, 1, true, &why).ok());
    BOOST_TEST(why.find("timeout") == std::string::npos, why);
  }
  BOOST_TEST(Await([&] { return s.Part("model").process.incarnation == 2 && s.Part("model").ready; }), s.heard());
  BOOST_TEST(s.heard().find("ABORTED: the batcher has ended") != std::string::npos, s.heard());
  Asker again;
  BOOST_TEST(ask(&again, again.At(s.Part("model").address), 2, false, &why).ok(), why);
  BOOST_TEST(s.play->Stop(10s).ok());
}

// Ports of actors are plain: whoever answers there could write to the server's.
BOOST_AUTO_TEST_CASE(a_server_with_tls_calls_no_actor_of_another_process) {
  Stage s;
  const std::string folder = s.path + "/tls";
  const absl::Status made = MakeClusterCertificate(folder);
  if (absl::IsUnimplemented(made)) return;
  BOOST_REQUIRE_MESSAGE(made.ok(), made);
  const Variable certificate("TROUPE_TLS_CERTIFICATE", folder + "/node.crt"),
      key("TROUPE_TLS_KEY", folder + "/node.key"), ca("TROUPE_TLS_CA_FILE", folder + "/ca.crt");
  const std::string server = "server lab\n  threads: 1\n  most_restarts: 0\n";
  const std::string twice = "actor twice\n  factory: multiplier\n  with: by=2\n";
  for (const auto& [name, peer] : {std::pair("double", "forward double\n  in: lab\n  to: twice\n"),
                                   std::pair("twice", "actor agent\n  factory: agent\n  uses: twice\n  in: lab\n")}) {
    const absl::Status started = s.Start(server + twice + peer);
    BOOST_REQUIRE_MESSAGE(started.ok(), started);
    BOOST_TEST(s.End().starts_with("lab:0 exited with status 1"), s.heard());
    const std::string why = StrCat("FAILED_PRECONDITION: lab:0: its connections are encrypted, and '", name,
                                   "' has a plain port: a server with TLS calls no actor of another process");
    BOOST_TEST(Await([&] { return s.heard().find(why) != std::string::npos; }), s.heard());
    s.play = nullptr;
  }
  // What it can do with TLS, it does.
  const absl::Status started = s.Start(server + "actor thrice\n  factory: multiplier\n  with: by=3\n  in: lab\n");
  BOOST_REQUIRE_MESSAGE(started.ok(), started);
  s.AwaitReady();
  Client client("troupe://" + s.Part("lab:0").address, "thrice");
  BOOST_TEST(client.Answers(5, 15));
  BOOST_TEST(s.play->Stop(10s).ok());
}

// Each by itself: the end of one ends the others, which may not have said anything yet.
BOOST_AUTO_TEST_CASE(what_cannot_start_says_why_in_its_log) {
  const auto ends = [](const std::string& text, const std::string& end, const std::string& why) {
    Stage s;
    BOOST_REQUIRE(s.Start(text).ok());
    const std::string ended = s.End();
    BOOST_TEST(ended.starts_with(end), ended);
    BOOST_TEST(Await([&] { return s.heard().find(why) != std::string::npos; }), s.heard());
  };
  ends("batcher model\n  graph: no_such_graph.pb\n  feeds: x\n  fetches: y\n  most_restarts: 0\n",
       "model exited with status 1", "no_such_graph.pb");
  ends("actor a\n  factory: nobody\n", "a exited", "no role 'nobody' is registered; these are: agent, multiplier");
}

BOOST_AUTO_TEST_CASE(a_launcher_starts_what_belongs_on_another_host) {
  Stage s;
  const absl::Status started = s.Start(StrCat(
      "host elsewhere\n  launcher: sh -c\n"
      "program a\n  run: sh -c 'echo $WORD; pwd; echo $TROUPE_PART'\n  host: elsewhere\n  env: WORD='it is' \n  folder: ",
      s.path, "\n"));
  BOOST_REQUIRE_MESSAGE(started.ok(), started);
  BOOST_TEST(s.End() == "");
  BOOST_TEST(s.heard() == StrCat("a.1 it is; a.1 ", s.path, "; a.1 a; "));
}

BOOST_AUTO_TEST_CASE(the_command_checks_plays_and_tells) {
  Stage s;
  const auto run = [&](const std::string& arguments) {
    return testing::RunShell(StrCat("cd ", s.path, " && ", TROUPE_PROGRAM, " play ", arguments, " 2>&1"));
  };
  std::ofstream(s.path + "/bad.play") << "server ps\n  tasks: many\n";
  auto said = run("bad.play");
  BOOST_TEST(said.code == 1);
  BOOST_TEST(said.out == "troupe: INVALID_ARGUMENT: bad.play:2:10: tasks: 'many' is no whole number from 1 to 1000\n");
  BOOST_TEST(run("").code == 2);
  BOOST_TEST(run("none.play").code == 1);
  std::ofstream(s.path + "/good.play") << "server ps\n  threads: 1\n"
                                          "program a\n  run: "
                                       << TROUPE_PROGRAM
                                       << " run affine.pbtxt --server {target} --feed x=[4] --fetch y\n  after: ps\n";
  said = run("--check good.play");
  BOOST_TEST(said.code == 0);
  BOOST_TEST(said.out.find("a (program), after ps: ") != std::string::npos, said.out);
  said = run("good.play --dir d");
  BOOST_TEST(said.code == 0, said.out);
  BOOST_TEST(said.out.find("ps:0 is ready at 127.0.0.1:") != std::string::npos, said.out);
  BOOST_TEST(said.out.ends_with("all ended well\n"), said.out);
  const auto logs = testing::RunShell(StrCat(TROUPE_PROGRAM, " cluster logs --dir ", s.path, "/d a"));
  BOOST_TEST(logs.out.find("y float32 [1]\n[10]\n") != std::string::npos, logs.out);
  const auto status = testing::RunShell(StrCat(TROUPE_PROGRAM, " cluster status --dir ", s.path, "/d"));
  BOOST_TEST(status.out.find("is over: OK\n  ps:0 at 127.0.0.1:") != std::string::npos, status.out);
  // Without programs it ends when it is told.
  std::ofstream(s.path + "/server.play") << "server ps\n";
  said = testing::RunShell(StrCat("cd ", s.path, " && ", TROUPE_PROGRAM, " play server.play --dir d --json & sleep 1; ",
                                  TROUPE_PROGRAM, " cluster down --dir ", s.path, "/d; wait $!; echo status $?"));
  BOOST_TEST(said.out.find("{\"event\": \"end\", \"ok\": true}\n") != std::string::npos, said.out);
  BOOST_TEST(said.out.ends_with("status 0\n"), said.out);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace play_test
}  // namespace troupe::play
