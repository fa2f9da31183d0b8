// Coordinators and queue runners: their logic edge by edge, then in sessions.
#include "troupe/train/coordinator.h"

#include <numeric>
#include <thread>

#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "actors/train/coordinator_impl.h"
#include "actors/train/runner_machine.h"
#include "tests/actors/graphs.h"
#include "troupe/files.h"
#include "troupe/train/queue_runner.h"
#include "troupe/train/saver.h"

namespace troupe::train {
namespace coordinator_test {

BOOST_AUTO_TEST_SUITE(coordinator)

using Kind = CoordinatorRequest::Kind;

struct Alone {
  Alone() {
    impl.machine = std::make_shared<CoordinatorMachine>(std::vector<absl::StatusCode>{absl::StatusCode::kOutOfRange});
    impl.mailbox = std::make_unique<PlainMailbox>(impl.machine);
  }
  Coordinator::Impl impl;
};

BOOST_FIXTURE_TEST_CASE(edges_1_2_and_6_members_come_and_go, Alone) {
  BOOST_TEST(impl.Ask(Kind::kWaitEmpty)->answered());
  const int64_t a = impl.Enter("a"), b = impl.Enter("b");
  const auto empty = impl.Ask(Kind::kWaitEmpty), either = impl.Ask(Kind::kWaitEither),
             gone = impl.Ask(Kind::kWaitEmpty), stopped = impl.Ask(Kind::kWaitStopped);
  BOOST_TEST((impl.Ask(Kind::kAsk)->members == std::vector<std::string>{"a", "b"}));
  impl.Withdraw(gone);
  impl.Leave(a);
  impl.Leave(a);
  BOOST_TEST(!either->answered());
  impl.Leave(b);
  BOOST_TEST(empty->answered());
  BOOST_TEST(either->answered());
  BOOST_TEST(!gone->answered());
  BOOST_TEST(!stopped->answered());
}

BOOST_FIXTURE_TEST_CASE(what_one_of_them_throws_keeps_no_answer_from_the_others, Alone) {
  const auto before = impl.Ask(Kind::kWaitStopped);
  auto thrower = std::make_shared<CoordinatorRequest>(Kind::kWaitStopped);
  thrower->WhenAnswered([] { throw std::runtime_error("of the user"); });
  impl.Ask(thrower);
  const auto behind = impl.Ask(Kind::kWaitStopped);
  impl.Stop(InvalidArgument("enough"));
  BOOST_TEST(before->answered());
  BOOST_TEST(behind->answered());
}

BOOST_FIXTURE_TEST_CASE(edges_3_to_5_the_first_who_stops_counts, Alone) {
  const int64_t a = impl.Enter("a");
  const auto stopped = impl.Ask(Kind::kWaitStopped), either = impl.Ask(Kind::kWaitEither);
  impl.Stop(InvalidArgument("first"));
  impl.Stop(Internal("second"));
  BOOST_TEST(stopped->answered());
  BOOST_TEST(either->answered());
  BOOST_TEST(impl.machine->stopped());
  BOOST_TEST(impl.Ask(Kind::kAsk)->why == absl::InvalidArgumentError("first"));
  const int64_t b = impl.Enter("b");
  impl.Leave(a);
  const auto empty = impl.Ask(Kind::kWaitEmpty);
  BOOST_TEST(!empty->answered());
  impl.Leave(b);
  BOOST_TEST(empty->answered());
  // The end of the work is no error, and later errors are not the first.
  Alone other;
  other.impl.Stop(OutOfRange("no more"));
  other.impl.Stop(Internal("late"));
  BOOST_TEST(other.impl.Ask(Kind::kAsk)->why.ok());
}

using RunnerKind = RunnerRequest::Kind;
struct RunnerAlone {
  // What is to be done: "again", "close", "cancel", "leave", or the failure.
  std::string Tell(RunnerKind kind, absl::Status status = absl::OkStatus()) {
    const auto r = std::make_shared<RunnerRequest>(kind, std::move(status));
    mailbox.Send({StateLetter::Kind::kAsk, r});
    std::string text;
    for (const auto& [is, word] :
         {std::pair(r->again, "again"), {r->close, "close"}, {r->cancel, "cancel"}, {r->leave, "leave"}}) {
      if (is) StrAppend(&text, text.empty() ? "" : " ", word);
    }
    return r->failure.ok() ? text : StrCat(r->failure.message(), text.empty() ? "" : " ", text);
  }
  PlainMailbox mailbox{
      std::make_shared<RunnerMachine>("q", 2, std::vector<absl::StatusCode>{absl::StatusCode::kOutOfRange})};
};

BOOST_FIXTURE_TEST_CASE(edges_1_2_and_6_of_a_runner_the_last_to_end_closes_the_queue, RunnerAlone) {
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded) == "again");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded, OutOfRange("")) == "");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded) == "again");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded, OutOfRange("")) == "close");
  // The close may wait behind enqueues for which nobody makes room.
  BOOST_TEST(Tell(RunnerKind::kStop) == "cancel");
  BOOST_TEST(Tell(RunnerKind::kCloseEnded) == "");
  BOOST_TEST(Tell(RunnerKind::kCancelEnded) == "leave");
  BOOST_TEST(Tell(RunnerKind::kStop) == "");
}

BOOST_FIXTURE_TEST_CASE(edge_3_of_a_runner_a_failure_stops_all, RunnerAlone) {
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded, Internal("broken")) == "broken");
  BOOST_TEST(Tell(RunnerKind::kStop) == "cancel");
  BOOST_TEST(Tell(RunnerKind::kCancelEnded) == "");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded, Cancelled("closed")) == "closed leave");
  RunnerAlone other;
  BOOST_TEST(other.Tell(RunnerKind::kEnqueueEnded, Internal("one")) == "one");
  // The stop may come when nobody is left to hear of it, and somebody waits for an element.
  BOOST_TEST(other.Tell(RunnerKind::kEnqueueEnded, Internal("two")) == "two cancel");
  BOOST_TEST(other.Tell(RunnerKind::kStop) == "");
  BOOST_TEST(other.Tell(RunnerKind::kCancelEnded) == "leave");
}

BOOST_FIXTURE_TEST_CASE(edges_4_5_and_7_of_a_runner_a_stop_cancels, RunnerAlone) {
  BOOST_TEST(Tell(RunnerKind::kStop) == "cancel");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded) == "");
  BOOST_TEST(Tell(RunnerKind::kEnqueueEnded) == "");
  BOOST_TEST(Tell(RunnerKind::kCancelEnded) == "leave");
}

// A queue that nobody closes would be waited for without end.
BOOST_AUTO_TEST_CASE(edges_8_to_10_of_a_runner_a_close_that_is_cut_off_is_done_again) {
  const auto ending = [](RunnerAlone& r) {
    BOOST_TEST(r.Tell(RunnerKind::kEnqueueEnded, OutOfRange("")) == "");
    BOOST_TEST(r.Tell(RunnerKind::kEnqueueEnded, OutOfRange("")) == "close");
  };
  RunnerAlone again;
  ending(again);
  BOOST_TEST(again.Tell(RunnerKind::kCloseEnded, absl::AbortedError("died")) == "close");
  BOOST_TEST(again.Tell(RunnerKind::kCloseEnded, absl::UnavailableError("down")) == "close");
  BOOST_TEST(again.Tell(RunnerKind::kCloseEnded) == "leave");
  // Not for ever; and other errors at once.
  RunnerAlone often;
  ending(often);
  std::string told;
  int tries = 0;
  while ((told = often.Tell(RunnerKind::kCloseEnded, absl::AbortedError("died"))) == "close") ++tries;
  BOOST_TEST(tries == 9);
  BOOST_TEST(told == "died cancel");
  BOOST_TEST(often.Tell(RunnerKind::kCancelEnded) == "leave");
  RunnerAlone fails;
  ending(fails);
  BOOST_TEST(fails.Tell(RunnerKind::kCloseEnded, absl::ResourceExhaustedError("full")) == "full cancel");
  BOOST_TEST(fails.Tell(RunnerKind::kStop) == "");
  BOOST_TEST(fails.Tell(RunnerKind::kCancelEnded, absl::AbortedError("died")) == "cancel");
  BOOST_TEST(fails.Tell(RunnerKind::kCancelEnded, absl::InternalError("broken")) == "broken leave");
  // The cancel op closes the queue, too.
  RunnerAlone stopped;
  ending(stopped);
  BOOST_TEST(stopped.Tell(RunnerKind::kStop) == "cancel");
  BOOST_TEST(stopped.Tell(RunnerKind::kCloseEnded, absl::AbortedError("died")) == "");
  BOOST_TEST(stopped.Tell(RunnerKind::kCancelEnded) == "leave");
  // A session that is closed is no failure.
  RunnerAlone closed;
  ending(closed);
  BOOST_TEST(closed.Tell(RunnerKind::kCloseEnded, absl::CancelledError("the session is closed")) == "leave");
}

// Numbers 0, 1, ... flow from `numbers`, which the test fills, to `out`.
struct Pipeline {
  explicit Pipeline(int64_t capacity, int steps_at_a_time = 1) {
    numbers = Queue::Fifo(root.WithOpName("numbers"), {DType::kInt32}, {.shapes = {TensorShape()}});
    out = Queue::Fifo(root.WithOpName("out"), {DType::kInt32}, {.capacity = capacity, .shapes = {TensorShape()}});
    x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
    fill = numbers.EnqueueMany(root, {x});
    close = numbers.Close(root);
    const Operation put = out.Enqueue(root, {ops::Add(root, numbers.Dequeue(root)[0], Const(root, 100))});
    AddQueueRunner(root, MakeQueueRunner(root, out, std::vector<Operation>(static_cast<size_t>(steps_at_a_time), put)));
    many = out.DequeueUpTo(root, Const(root, 1000))[0];
    size = out.Size(root);
    SessionOptions options;
    options.runtime = Runtime::Start({.threads = 2}).value();
    session = NewSession(root, options);
  }
  void Fill(int n) {
    std::vector<int32_t> v(static_cast<size_t>(n));
    std::iota(v.begin(), v.end(), 0);
    TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Vector<int32_t>(v)}}, {}, {fill}, nullptr));
  }
  void CloseNumbers() { TROUPE_REQUIRE_OK(session->Run({}, {}, {close}, nullptr)); }

  Scope root = Scope::NewRootScope();
  Queue numbers, out;
  Output x, many, size;
  Operation fill, close;
  std::unique_ptr<Session> session;
};

BOOST_AUTO_TEST_CASE(runners_fill_a_queue_and_close_it) {
  Pipeline p(1000, 3);
  p.Fill(500);
  p.CloseNumbers();
  Coordinator coordinator(*p.session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*p.session, coordinator, *p.root.graph()));
  TROUPE_REQUIRE_OK(coordinator.Join());
  BOOST_TEST(!coordinator.ShouldStop());
  const Tensor all = RunOne(*p.session, {}, p.many);
  BOOST_TEST(all.num_elements() == 500);
  BOOST_TEST(std::accumulate(all.data<int32_t>(), all.data<int32_t>() + 500, 0) == 500 * 499 / 2 + 500 * 100);
}

BOOST_AUTO_TEST_CASE(a_stop_ends_runners_that_wait) {
  Pipeline p(2, 2);
  p.Fill(10);
  Coordinator coordinator(*p.session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*p.session, coordinator, *p.root.graph()));
  while (RunOne(*p.session, {}, p.size).scalar<int32_t>() < 2) std::this_thread::yield();
  BOOST_TEST((coordinator.WaitForStop(1).code() == absl::StatusCode::kDeadlineExceeded));
  bool told = false;
  coordinator.WhenStopped([&] { told = true; });
  coordinator.RequestStop();
  TROUPE_REQUIRE_OK(coordinator.Join());
  BOOST_TEST(coordinator.ShouldStop());
  BOOST_TEST(told);
  TROUPE_REQUIRE_OK(coordinator.WaitForStop());
  // And one that waits for its input hears of it when the input closes, or with its session.
  Pipeline waits(2);
  auto other = std::make_unique<Coordinator>(*waits.session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*waits.session, *other, *waits.root.graph()));
  TROUPE_REQUIRE_OK(waits.session->Close());
  BOOST_TEST((other->Join().code() == absl::StatusCode::kCancelled));
  waits.session = nullptr;
  BOOST_TEST(other->ShouldStop());
}

BOOST_AUTO_TEST_CASE(the_first_error_is_what_join_returns) {
  Pipeline p(10);
  const Operation bad = p.out.Enqueue(p.root.WithOpName("bad"), {Const(p.root, {1, 2})});
  AddQueueRunner(p.root, MakeQueueRunner(p.root, p.out, {bad}));
  TROUPE_REQUIRE_OK(p.session->Extend(*p.root.graph()));
  Coordinator coordinator(*p.session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*p.session, coordinator, *p.root.graph()));
  TROUPE_REQUIRE_OK(coordinator.WaitForStop());
  p.CloseNumbers();  // for which the other runner waits
  const absl::Status s = coordinator.Join();
  BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument), s);
  BOOST_TEST(s.ToString().find("'bad'") != std::string::npos, s);
  // Nodes that are not there.
  QueueRunner none;
  none.queue = "none";
  none.enqueue_ops = {"nobody"};
  const absl::Status missing = StartQueueRunners(*p.session, coordinator, std::vector<QueueRunner>{none});
  BOOST_TEST((missing.code() == absl::StatusCode::kNotFound), missing);
}

BOOST_AUTO_TEST_CASE(who_waits_for_elements_of_a_runner_that_failed_is_told) {
  const Scope root = Scope::NewRootScope();
  const Queue q = Queue::Fifo(root, {DType::kFloat}, {.capacity = 8, .shapes = {TensorShape()}});
  const Variable count(root, 0.0f);
  const Scope counted = root.WithControlDependencies(count.AssignAdd(root, 1.0f));
  // The fourth is the logarithm of a negative number.
  const Operation put = q.Enqueue(root, {ops::CheckNumerics(root, ops::Log(root, 3.5f - count.Read(counted)), "it")});
  AddQueueRunner(root, MakeQueueRunner(root, q, {put}));
  const Output four = q.DequeueMany(root, 4)[0];
  const Operation init = GlobalVariablesInitializer(root);
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  Coordinator coordinator(*session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*session, coordinator, *root.graph()));
  RunOptions not_for_ever;
  not_for_ever.timeout_ms = 20000;
  std::vector<Tensor> out;
  const absl::Status waited = session->Run(not_for_ever, {}, {four.name()}, {}, &out, nullptr);
  BOOST_TEST((absl::IsCancelled(waited) || absl::IsOutOfRange(waited)), waited);
  const absl::Status joined = coordinator.Join();
  BOOST_TEST(absl::IsInvalidArgument(joined), joined);
}

BOOST_AUTO_TEST_CASE(members_that_do_not_leave_are_named) {
  const Scope root = Scope::NewRootScope();
  auto session = NewSession(root);
  Coordinator coordinator(*session, {.grace_ms = 10});
  Coordinator::Member one = coordinator.Enter("the reader"), other = coordinator.Enter("the writer");
  one.Leave();
  coordinator.RequestStop();
  const absl::Status s = coordinator.Join();
  BOOST_TEST((s.code() == absl::StatusCode::kDeadlineExceeded), s);
  BOOST_TEST(s.ToString().find("within 10 ms: the writer") != std::string::npos, s);
  other = Coordinator::Member();
  TROUPE_REQUIRE_OK(coordinator.Join());
  // It may outlive its runtime.
  session = nullptr;
  coordinator.RequestStop();
}

BOOST_AUTO_TEST_CASE(edge_7_who_waits_for_a_coordinator_that_dies_goes_on_waiting) {
  Pipeline p(1000);
  Coordinator coordinator(*p.session);
  const auto actor = [&] { return StateActorOf(*coordinator.impl()->mailbox); };
  BOOST_REQUIRE(!!actor());
  TROUPE_REQUIRE_OK(StartQueueRunners(*p.session, coordinator, *p.root.graph()));
  std::atomic<bool> told{false};
  coordinator.WhenStopped([&] { told = true; });
  for (int i = 0; i < 3; ++i) {
    caf::actor victim = actor();
    while (!victim) victim = actor();
    caf::anon_send_exit(victim, caf::exit_reason::kill);
    while (actor() == victim) std::this_thread::yield();
  }
  p.Fill(20);
  p.CloseNumbers();
  TROUPE_REQUIRE_OK(coordinator.Join());
  BOOST_TEST(RunOne(*p.session, {}, p.many).num_elements() == 20);
  BOOST_TEST(!told);
  coordinator.RequestStop();
  TROUPE_REQUIRE_OK(coordinator.WaitForStop());
  while (!told) std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(a_meta_graph_carries_its_runners) {
  Pipeline p(8);
  TROUPE_REQUIRE_OK(WriteMetaGraph("mem://pipeline.meta", *p.root.graph(), nullptr));
  Graph graph;
  const auto saver = ReadMetaGraph("mem://pipeline.meta", &graph);
  BOOST_TEST((saver.ok() || absl::IsNotFound(saver.status())), saver.status());
  const auto runners = QueueRunnersOf(graph);
  BOOST_REQUIRE_MESSAGE(runners.ok(), runners.status());
  BOOST_REQUIRE(runners->size() == 1u);
  BOOST_TEST((*runners)[0].queue == "out");
  BOOST_TEST((*runners)[0].enqueue_ops == (std::vector<std::string>{"QueueEnqueueV2"}));
  BOOST_TEST((*runners)[0].cancel_op == "out_runner/cancel");
  BOOST_TEST(((*runners)[0].queue_closed == std::vector<absl::StatusCode>{absl::StatusCode::kOutOfRange}));
  // A damaged entry.
  graph.collection(kQueueRunners)[0] = "q";
  BOOST_TEST((QueueRunnersOf(graph).status().code() == absl::StatusCode::kDataLoss));
}

// TensorFlow's own pipeline, started by what stands in its MetaGraph.
BOOST_AUTO_TEST_CASE(tensorflows_pipeline_runs) {
  Graph graph;
  const auto saver = ReadMetaGraph(TROUPE_SOURCE_DIR "/tests/queue/tf_input_pipeline.pbtxt", &graph);
  BOOST_TEST((saver.ok() || absl::IsNotFound(saver.status())), saver.status());
  auto session = Session::Create({}).value();
  TROUPE_REQUIRE_OK(session->Extend(graph));
  Coordinator coordinator(*session);
  TROUPE_REQUIRE_OK(StartQueueRunners(*session, coordinator, graph));
  const std::vector<std::string> expected = {"[0 1 2 3]", "[4 5 0 1]", "[2 3 4 5]", "[0 1 2 3]"};
  for (const std::string& e : expected) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({}, {"out", "half"}, {}, &out));
    BOOST_TEST(out[0].DebugString() == StrCat("int32 [4] ", e));
    BOOST_TEST(out[1].data<float>()[3] == static_cast<float>(out[0].data<int32_t>()[3]) / 2);
  }
  coordinator.RequestStop();
  TROUPE_REQUIRE_OK(coordinator.Join());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace coordinator_test
}  // namespace troupe::train
