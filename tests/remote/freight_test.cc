// Tensors that travel in pieces: the protocol message by message, the sender's side, and what it
// costs that one of the two sides goes or fails. The receiver's side: freight_in_test.cc.
#include <limits>
#include <map>
#include <thread>

#include "tests/cast/same_tensor.h"
#include "tests/remote/freight_play.h"

namespace troupe {
namespace freight_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(edges_1_to_3_a_big_tensor_travels_in_pieces) {
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    BigPlay p(options);
    p.Warm({"back"});
    p.StartBig({"back"});
    // The worker is that of the ps, worker2 that of the master.
    BOOST_TEST(p.Go() == R"(
worker <- run_parts | running
executor <- run_step | running
executor2 <- run_step | running
worker <- freight_note | running
worker2 <- freight_go | running
worker <- freight_piece | running
worker <- freight_piece | running
worker2 <- freight_taken | running
worker2 <- freight_taken | running
worker <- freight_piece | running
worker2 <- freight_taken | running
executor2 <- doorbell | running
worker2 <- freight_note | running
worker2 <- parts_done | running
worker <- freight_go | running
worker2 <- freight_piece | running
worker2 <- freight_piece | running
worker <- freight_taken | running
worker <- freight_taken | running
worker2 <- freight_piece | running
worker <- freight_taken | running
executor <- doorbell | OK)");
    BOOST_TEST(p.State() == "OK", p.Message());
    p.RunBig();
    // Results, and arguments of a part elsewhere.
    p.StartBig({"there"});
    p.stage.Play();
    BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
    BOOST_TEST(p.outputs.at(0).data<float>()[9] == -20.0f);
    p.CheckNothingIsLeft();
  }
}

// Of every type that crosses, between two processes and back.
BOOST_AUTO_TEST_CASE(big_tensors_of_all_types_come_back_equal) {
  BigPlay p;
  const Scope there = p.root.WithDevice("/job:ps");
  std::vector<Tensor> values = {Ten(), Tensor::Vector<std::string>({"one", "", std::string(100, 'x')}),
                                Tensor::Vector<int64_t>({1, 2, 3}), Tensor::Vector<double>({1.0, -0.0, 1e300}),
                                Tensor::Of<int32_t>({1, 2, 3, 4}, TensorShape({2, 1, 2, 1, 1, 1}))};
  Tensor bools(DType::kBool, TensorShape({50}));
  for (int i = 0; i < 50; ++i) bools.data<bool>()[i] = i % 3 == 0;
  values.push_back(bools);
  Names fetches;
  Feeds feeds;
  for (size_t i = 0; i < values.size(); ++i) {
    const Output in = ops::Placeholder(there.WithOpName(StrCat("in", i)), values[i].dtype());
    ops::Identity(there.WithOpName(StrCat("out", i)), in);
    feeds.emplace_back(StrCat("in", i), values[i]);
    fetches.push_back(StrCat("out", i));
  }
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph())); });
  p.session->RunAsync({}, feeds, fetches, {}, [&](absl::Status s, std::vector<Tensor> out) {
    p.answer = std::move(s);
    p.outputs = std::move(out);
  });
  const std::string play = p.stage.Play();
  BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
  BOOST_TEST(play.find("freight_piece") != std::string::npos);
  for (size_t i = 0; i < values.size(); ++i) BOOST_TEST(Same(p.outputs.at(i), values[i]), "of " << i);
  p.CheckNothingIsLeft();
}

// The master did not ask for that: to it the step is lost.
BOOST_AUTO_TEST_CASE(what_a_runtime_that_ends_still_owes_is_lost) {
  BigPlay p;
  p.Warm({"there"});
  p.StartBig({"there"});
  std::string line;
  do {
    line = p.stage.Deliver();
    BOOST_REQUIRE(!line.empty());
  } while (line != "worker2 <- freight_note");
  BOOST_TEST(p.State() == "running");
  p.processes->StepsOf(kPsTask).Close();
  p.stage.Play();
  BOOST_TEST(p.State() == "UNAVAILABLE", p.Message());
  BOOST_TEST(p.Message().find("the runtime of the step's task ends") != std::string::npos, p.Message());
  p.CheckNothingIsLeft();
}

// Whatever ends the step, and wherever its tensors are.
BOOST_AUTO_TEST_CASE(out_edge_4_a_step_that_ends_frees_both_sides) {
  int ended = 0;
  for (const std::string how : {"token", "deadline", "close"}) {
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT(how << " after " << position << " messages") {
        BigPlay p;
        p.Warm({"back", "never_there"});
        CancellationToken token;
        RunOptions options;
        options.cancellation = &token;
        if (how == "deadline") options.timeout_ms = 100;
        p.StartBig({"back", "never_there"}, options);
        int delivered = 0;
        while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        if (how == "token") token.Cancel();
        if (how == "close") TROUPE_REQUIRE_OK(p.session->Close());
        for (int i = 0; i < 3; ++i) {
          p.stage.Advance(100ms);
          p.stage.Play();
        }
        BOOST_TEST((p.State() == "CANCELLED" || p.State() == "DEADLINE_EXCEEDED"), p.State());
        p.CheckNothingIsLeft();
        ++ended;
      }
    }
  }
  BOOST_TEST(ended > 20);
}

BOOST_AUTO_TEST_CASE(edge_6_a_process_that_goes_frees_both_sides) {
  const Quiet quiet;
  int costs = 0;
  for (int position = 0;; ++position) {
    BOOST_TEST_CONTEXT("went after " << position << " messages") {
      BigPlay p;
      p.Warm({"back"});
      p.StartBig({"back"});
      int delivered = 0;
      while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
      if (delivered < position) break;
      p.processes->Went(kPsTask, kMasterTask);
      p.processes->Went(kMasterTask, kPsTask);
      p.stage.Play();
      BOOST_REQUIRE(p.answer.has_value());
      costs += !p.answer->ok();
      p.CheckNothingIsLeft();
      p.processes->IntroduceAll();
      p.RunBig();
    }
  }
  BOOST_TEST(costs > 10);
}

BOOST_AUTO_TEST_CASE(edges_7_and_9_a_worker_that_dies_frees_both_sides) {
  const Quiet quiet;
  int costs = 0;
  for (const std::string& victim : {kMasterTask, kPsTask}) {
    const std::string other = victim == kPsTask ? kMasterTask : kPsTask;
    for (int position = 0;; ++position) {
      BOOST_TEST_CONTEXT(victim << " killed after " << position << " messages") {
        BigPlay p;
        p.Warm({"back"});
        p.StartBig({"back"});
        int delivered = 0;
        while (delivered < position && !p.stage.Deliver().empty()) ++delivered;
        if (delivered < position) break;
        p.stage.Kill(WorkerOf(p.processes->Of(victim), victim));
        p.stage.Play();
        p.stage.Advance(5ms);
        p.stage.Play();
        BOOST_REQUIRE(p.answer.has_value());
        costs += !p.answer->ok();
        p.processes->Introduce(victim, other);
        p.stage.Play();
        p.CheckNothingIsLeft();
        p.RunBig();
      }
    }
  }
  BOOST_TEST(costs > 20);
}

BOOST_AUTO_TEST_CASE(out_edge_8_what_is_unknown_changes_nothing) {
  BigPlay p;
  FreightOut& out = p.processes->StepsOf(kMasterTask).freight().out;
  const uint64_t mine = p.processes->incarnations.at(kMasterTask), other = p.processes->incarnations.at(kPsTask);
  p.Warm({"back"});
  p.StartBig({"back"});
  while (out.size() == 0) BOOST_REQUIRE(!p.stage.Deliver().empty());
  for (const uint64_t number : {uint64_t{0}, uint64_t{99}, std::numeric_limits<uint64_t>::max()}) {
    for (const uint64_t to : {uint64_t{0}, mine, other}) {
      for (const uint64_t from : {uint64_t{0}, mine, other}) {
        out.Go({from, to, number});
        out.Drop({from, to, number});
        out.Taken({from, to, 1000000});  // a ticket of nobody
        BOOST_TEST(p.processes->StepsOf(kMasterTask).freight().in.Gone({from, to, number, Aborted("no")}).empty());
      }
    }
  }
  BOOST_TEST(out.size() == 1u);
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  p.CheckNothingIsLeft();
}

// Many to one receiver that does not answer: so many pieces are under way, a piece of each in turn.
BOOST_AUTO_TEST_CASE(notes_share_what_may_be_under_way_in_fair_turns) {
  Stage stage;
  Peer to(&stage), from(&stage);
  FreightOut out(&stage.system(), 1, nullptr);
  out.set_limits({.big = 8, .piece = 16, .under_way = 3, .share = false});
  std::vector<uint64_t> numbers(3);
  for (uint64_t& number : numbers) {
    TROUPE_REQUIRE_OK(out.Send(to.relay.actor, 2, part_letter{1, 5, {1, 1}, tensor_to_part{5, 0, {}, false, Ten(), 0}},
                               FreightOut::Owner{1, 5, 0}, from.ptr(), &number));
    out.Go({1, 2, number});
    out.Go({1, 2, number});
  }
  BOOST_TEST(to.Got<freight_note>().size() == 3u);
  std::vector<uint64_t> order;
  std::map<uint64_t, uint64_t> bytes;
  for (;;) {
    const auto pieces = to.Got<freight_piece>();
    BOOST_TEST(pieces.size() <= 3u);
    if (pieces.empty()) break;
    for (const freight_piece& piece : pieces) {
      BOOST_TEST(piece.offset == bytes[piece.number]);
      bytes[piece.number] += piece.size;
      order.push_back(piece.number);
      out.Taken({1, 2, 0});
    }
  }
  BOOST_TEST(order.size() == 9u);
  for (const uint64_t number : numbers) BOOST_TEST(bytes[number] == 40u);
  // The first had the room for itself; then each has its turn.
  for (size_t i = 3; i + 2 < order.size(); i += 2) BOOST_TEST(order[i] != order[i + 1]);
  BOOST_TEST(out.size() == 0u);
  BOOST_TEST(out.under_way() == 0);
  // Of a step that ends, the rest does not go.
  uint64_t number = 0;
  TROUPE_REQUIRE_OK(out.Send(to.relay.actor, 2, part_letter{1, 6, {1, 1}, tensor_to_part{6, 0, {}, false, Ten(), 0}},
                             FreightOut::Owner{1, 6, 0}, from.ptr(), &number));
  out.EndStep({1, 5, 0});
  BOOST_TEST(out.size() == 1u);
  out.EndStep({1, 6, 0});
  BOOST_TEST(out.size() == 0u);
  BOOST_TEST(to.Got<freight_gone>().size() == 1u);
}

// What a partial run tells before its end comes before its end.
BOOST_AUTO_TEST_CASE(big_results_of_a_partial_run_come_before_its_end) {
  Scope root = Scope::NewRootScope();
  const Scope there = root.WithDevice("/job:ps");
  const Output a = ops::Placeholder(there.WithOpName("a"), DType::kFloat),
               b = ops::Placeholder(there.WithOpName("b"), DType::kFloat);
  ops::Neg(there.WithOpName("c"), a);
  ops::Neg(there.WithOpName("d"), b);
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask},
                      [&](const RuntimeOptions& o, const ClusterOptions& c) { return StartRuntimeIn(system, o, c); });
  processes.IntroduceAll();
  for (const std::string& name : processes.names) processes.StepsOf(name).freight().out.set_limits(kSmall);
  SessionOptions options;
  options.runtime = processes.runtimes.at(kMasterTask);
  auto session = NewSession(root, options);
  options.runtime = nullptr;
  for (int i = 0; i < 50; ++i) {
    RunOptions limited;
    limited.timeout_ms = 60000;
    auto handle = session->PartialRunSetup(limited, {"a", "b"}, {"c", "d"}, {});
    BOOST_REQUIRE_MESSAGE(handle.ok(), handle.status());
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"a", Ten()}}, {"c"}, &out));
    BOOST_TEST(out.at(0).data<float>()[9] == -10.0f);
    TROUPE_REQUIRE_OK(session->PartialRun(limited, *handle, {{"b", Ten(5)}}, {"d"}, &out));
    BOOST_TEST(out.at(0).data<float>()[9] == -14.0f);
  }
}

// With threads: workers die, and connections are cut, while big tensors travel both ways. Each call
// is answered, the next ones run, and nothing is left.
BOOST_AUTO_TEST_CASE(big_tensors_go_on_through_deaths) {
  const Quiet quiet;
  Scope root = Scope::NewRootScope();
  const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
  const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
  Output sum = x;
  for (int i = 0; i < 6; ++i) sum = ops::Add(i % 2 == 0 ? there : here, sum, x);
  ops::Identity(here.WithOpName("sum"), sum);
  CastPolicies policies;
  policies.worker.min_delay = policies.worker.max_delay = 1ms;
  policies.worker.max_failures = 1 << 30;
  caf::actor_system_config config;
  caf::actor_system system(config);
  Processes processes({kMasterTask, kPsTask}, [&](const RuntimeOptions& o, const ClusterOptions& c) {
    return StartRuntimeIn(system, o, c, nullptr, policies);
  });
  processes.IntroduceAll();
  for (const std::string& name : processes.names) {
    processes.StepsOf(name).freight().out.set_limits(kSmall);
    WatchWorkers(processes.Of(name), [&](const std::string& task, const caf::actor& worker) {
      for (const auto& [other, runtime] : processes.runtimes) {
        if (other != task) TaskCame(*runtime, {task, processes.incarnations.at(task), worker});
      }
    });
  }
  SessionOptions options;
  options.runtime = processes.runtimes.at(kMasterTask);
  auto session = NewSession(root, options);
  options.runtime = nullptr;
  int done = 0, failed = 0;
  for (int i = 0; done < 60; ++i) {
    BOOST_REQUIRE(i < 100000);
    if (i % 3 == 0) {
      const std::string& victim = processes.names[static_cast<size_t>(i / 3) % 2];
      if (i % 2 == 0) {
        const caf::actor worker = WorkerOf(processes.Of(victim), victim);
        if (worker) caf::anon_send_exit(worker, caf::exit_reason::kill);
      } else {
        processes.Went(kPsTask, kMasterTask);
        processes.Introduce(kPsTask, kMasterTask);
      }
    }
    RunOptions limited;
    limited.timeout_ms = 60000;
    std::vector<Tensor> out;
    const absl::Status s = session->Run(limited, {{"x", Ten()}}, {"sum"}, {}, &out, nullptr);
    if (!s.ok()) BOOST_TEST((absl::IsAborted(s) || absl::IsUnavailable(s)), s);
    if (s.ok()) BOOST_TEST(out.at(0).data<float>()[9] == 70.0f);
    s.ok() ? ++done : ++failed;
  }
  for (const std::string& name : processes.names) WatchWorkers(processes.Of(name), nullptr);
  BOOST_TEST(failed > 0);
  session = nullptr;
  const auto until = std::chrono::steady_clock::now() + 60s;
  for (const std::string& name : processes.names) {
    Freight& f = processes.StepsOf(name).freight();
    while (f.in.size() + f.out.size() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    BOOST_TEST(f.in.size() == 0u, name);
    BOOST_TEST(f.out.size() == 0u, name);
  }
}

}  // namespace freight_test
}  // namespace troupe
