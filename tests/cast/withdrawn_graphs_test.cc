// Graphs that workers compile while nobody waits for them any more: withdraw_graph, from the
// session that sends it to the worker that stops.
#include <condition_variable>
#include <future>
#include <mutex>

#include "actors/session/session_impl.h"
#include "kernels/device/session_containers.h"
#include "tests/cast/asked.h"

namespace troupe {
namespace withdrawn_graphs_test {

using namespace std::chrono_literals;

// Called by the constructor of CastDoor's kernel.
std::function<void(KernelInit&)> at_the_door;

TROUPE_OP("CastDoor")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it has no inputs")
    .Doc("Calls the test when its kernel is made.");
class DoorKernel {
 public:
  explicit DoorKernel(KernelInit& init) { at_the_door(init); }
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, Tensor::Scalar(1.0f));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("CastDoor").Device("CPU").Class<DoorKernel>();

struct Withdrawn : Asked {
  Withdrawn() {
    at_the_door = [this](KernelInit&) { ++doors; };
  }
  ~Withdrawn() { at_the_door = nullptr; }
  // Two parts with a door each.
  register_graph Doors(int64_t compile) const {
    register_graph message;
    message.compile = compile;
    message.session = "test";
    for (int i = 0; i < 2; ++i) {
      auto graph = std::make_shared<Graph>();
      auto n = NodeBuilder(graph.get(), StrCat("door", i), "CastDoor").Build();
      BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
      message.parts.push_back({runtime->devices()[0].name, {graph}});
    }
    return message;
  }
  // A worker whose graphs have threads of their own.
  caf::actor NewWorker(uint64_t incarnation) {
    return SpawnWorker(stage.system(), logic, incarnation, children, /*aside=*/true);
  }
  std::atomic<int> doors{0};
  const std::shared_ptr<GraphsInWork> in_work = std::make_shared<GraphsInWork>();
  const std::shared_ptr<const Worker> logic = std::make_shared<const Worker>(
      "/job:localhost/replica:0/task:0", std::vector<Worker::OneDevice>{{runtime->impl()->devices[0], nullptr}},
      std::make_shared<RegisteredGraphs>(), in_work);
  const std::shared_ptr<Children> children = std::make_shared<Children>(std::make_shared<Directory>());
};

// Stops whoever makes the kernel of a CastDoor until it is opened.
class HeldDoor {
 public:
  explicit HeldDoor(std::atomic<int>* doors) : doors_(*doors) {
    at_the_door = [this](KernelInit&) {
      std::unique_lock<std::mutex> lock(mu_);
      ++doors_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    };
  }
  // Waits until somebody stands at the first door.
  void WaitForOne() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return doors_.load() == 1; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::atomic<int>& doors_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
};

// A compile whose parts a worker has in its mailbox.
BOOST_FIXTURE_TEST_CASE(edges_9_and_12_and_17_workers_are_told_that_nobody_waits, Withdrawn) {
  Extend();
  const auto begin = [&](const Names& fetches, const std::string& by = "session") {
    const auto asker = AskCompile({"x"}, fetches);
    BOOST_TEST(stage.Deliver() == by + " <- compile_request");
    return asker;
  };
  const auto first = begin({"twice"}), second = AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.DeliverTo("session") == "session <- compile_request");
  Withdraw(first);
  BOOST_TEST(stage.DeliverTo("session") == "session <- withdraw_compile");
  BOOST_TEST(stage.Queue() == "worker <- register_graph");  // the second waits
  Withdraw(second);
  BOOST_TEST(stage.DeliverTo("session") == "session <- withdraw_compile");
  BOOST_TEST(Go() == R"(
worker <- register_graph | compile CANCELLED; compile CANCELLED; 
worker <- withdraw_graph | 
session <- graph_registered | )");
  // The session's actor dies.
  begin({"twice", "x"});
  stage.Kill(ActorOf(*session));
  BOOST_TEST(stage.DeliverTo("session") == "session <- exit");
  BOOST_TEST(std::exchange(said, "") == "compile ABORTED; ");
  BOOST_TEST(Go() == R"(
worker <- register_graph | 
worker <- withdraw_graph | 
supervisor <- down | )");
  stage.Advance(1s);
  stage.Play();
  AskCompile({"x"}, {"x"});
  stage.Play();
  BOOST_TEST(std::exchange(said, "") == "compile OK; ");
  // The session ends. The worker hears of all that it may work on.
  begin({"x", "twice"}, "session2");
  AskClose();
  BOOST_TEST(stage.DeliverTo("session2") == "session2 <- close_request");
  BOOST_TEST(Go() == R"(
worker <- register_graph | compile CANCELLED; close OK; 
worker <- withdraw_graph | 
session2 <- graph_registered | )");
}

BOOST_FIXTURE_TEST_CASE(worker_edge_6_work_for_which_nobody_waits_ends, Withdrawn) {
  const caf::actor worker = NewWorker(1);
  HeldDoor door(&doors);
  caf::scoped_actor asker(stage.system());
  asker->send(worker, Doors(5));
  stage.Play();
  door.WaitForOne();
  // Others' graphs, and the session's others, are not meant.
  for (const withdraw_graph& m : {withdraw_graph{"other", 5}, withdraw_graph{"test", 6}, withdraw_graph{"test", 5}})
    asker->send(worker, m);
  stage.Play();
  door.Open();
  absl::Status status;
  asker->receive([&](const graph_registered& a) { status = a.status; });
  BOOST_TEST(absl::IsCancelled(status), status);
  BOOST_TEST(doors.load() == 1);
  BOOST_TEST(in_work->WaitUntilNone(1min));
  // One that nobody withdraws is compiled whole.
  asker->send(worker, withdraw_graph{"test", 5});
  asker->send(worker, Doors(7));
  stage.Play();
  asker->receive([&](const graph_registered& a) { status = a.status; });
  TROUPE_REQUIRE_OK(status);
  BOOST_TEST(doors.load() == 3);
  stage.Kill(worker);
  stage.Play();
}

BOOST_FIXTURE_TEST_CASE(worker_edge_7_what_a_dead_worker_worked_on_ends, Withdrawn) {
  const caf::actor worker = NewWorker(1);
  HeldDoor door(&doors);
  caf::scoped_actor asker(stage.system());
  asker->send(worker, Doors(5));
  stage.Play();
  door.WaitForOne();
  stage.Kill(worker);
  stage.Play();
  const caf::actor next = NewWorker(2);
  stage.Play();
  door.Open();
  absl::Status status;
  asker->receive([&](const graph_registered& a) { status = a.status; });
  BOOST_TEST(absl::IsAborted(status), status);  // nobody has withdrawn it
  BOOST_TEST(in_work->WaitUntilNone(1min));
  BOOST_TEST(doors.load() == 1);
  stage.Kill(next);
  stage.Play();
}

// The session ends while a kernel is made. What that puts into the session's containers goes, too.
BOOST_FIXTURE_TEST_CASE(worker_edge_6_nothing_is_left_of_a_session_that_has_ended, Withdrawn) {
  class State : public Resource {
   public:
    std::string DebugString() const override { return "state"; }
  };
  ResourceContainers* const containers = runtime->impl()->devices[0]->containers();
  const auto states = [&] { return containers->List().size(); };
  bool ends = true;
  at_the_door = [&](KernelInit& init) {
    ++doors;
    if (ends) logic->Withdraw({"test", 0});
    const auto [container, name] = init.ResourceKey(/*per_session=*/true);
    TROUPE_REQUIRE_OK(
        containers->LookUpOrCreate<State>(container, name, [] { return std::make_shared<State>(); }).status());
    BOOST_TEST(states() == (ends ? 1u : static_cast<size_t>(doors.load()) - 1));
  };
  const register_graph first = Doors(1);
  graph_registered answer = logic->Register(first, *in_work->Begin(first));
  BOOST_TEST(absl::IsCancelled(answer.status), answer.status);
  BOOST_TEST(doors.load() == 1);
  BOOST_TEST(states() == 0u);
  ends = false;
  const register_graph second = Doors(2);
  answer = logic->Register(second, *in_work->Begin(second));
  TROUPE_REQUIRE_OK(answer.status);
  BOOST_TEST(states() == 2u);
  // Nothing is worked on: what was made before goes at once.
  logic->Withdraw({"test", 0});
  BOOST_TEST(states() == 0u);
}

struct Ended : Withdrawn {
  Ended() {
    Extend();
    register_graph request;
    request.session = session->impl()->id;
    request.compile = 70;
    job = work.Begin(request);
    request.session = "other";
    others = work.Begin(request);
  }
  ~Ended() { work.End(*others); }
  class State : public Resource {
   public:
    std::string DebugString() const override { return "state"; }
  };
  // As work does that ends after the session has cleared its own.
  void MakeState() {
    TROUPE_REQUIRE_OK(
        containers
            ->LookUpOrCreate<State>(OwnState(session->impl()->id), "late", [] { return std::make_shared<State>(); })
            .status());
  }
  GraphsInWork& work = *runtime->impl()->tasks[0].in_work;
  ResourceContainers* const containers = runtime->impl()->devices[0]->containers();
  std::shared_ptr<GraphsInWork::Job> job, others;
};

// The worker dies with the message in its mailbox. What it has left goes on meanwhile.
BOOST_FIXTURE_TEST_CASE(worker_edge_6_the_end_of_a_session_is_not_lost_with_its_worker, Ended) {
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.DeliverTo("session") == "session <- compile_request");
  stage.Kill(Find("worker"));
  AskClose();
  BOOST_TEST(stage.DeliverTo("session") == "session <- close_request");
  MakeState();
  BOOST_TEST(stage.DeliverTo("worker") == "worker <- register_graph");
  BOOST_TEST(containers->List().size() == 1u);
  BOOST_TEST(stage.DeliverTo("worker") == "worker <- exit");
  BOOST_TEST(containers->List().empty());
  BOOST_TEST(job->withdrawn.load());
  BOOST_TEST(!others->withdrawn.load());
  BOOST_TEST(work.End(*job));
  stage.Play();
}

BOOST_FIXTURE_TEST_CASE(worker_edge_6_a_session_may_end_while_its_worker_is_down, Ended) {
  stage.Kill(Find("worker"));
  AskCompile({"x"}, {"twice"});
  BOOST_TEST(stage.DeliverTo("session") == "session <- compile_request");
  stage.Play();
  BOOST_TEST(std::exchange(said, "") == "compile ABORTED; ");
  BOOST_TEST(!Find("worker"));
  AskClose();
  MakeState();
  BOOST_TEST(Go() == R"(
session <- close_request | close OK; )");
  BOOST_TEST(containers->List().empty());
  BOOST_TEST(work.End(*job));
}

// A worker that never compiles, and answers a withdrawal before the session has sent the next
// message.
class PromptWorker : public caf::monitorable_actor {
 public:
  explicit PromptWorker(caf::actor_config config) : caf::monitorable_actor(config) {}
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    caf::type_erased_tuple& content = what->content();
    if (content.match_elements<register_graph>()) {
      asked_ = what->sender;
      compile_ = content.get_as<register_graph>(0).compile;
    } else if (content.match_elements<withdraw_graph>() && asked_ != nullptr) {
      graph_registered answer;
      answer.compile = compile_;
      answer.task = "/job:localhost/replica:0/task:0";
      answer.status = Cancelled("nobody waits");
      caf::anon_send(caf::actor_cast<caf::actor>(std::exchange(asked_, nullptr)), std::move(answer));
      // Time enough to take that for the answer to the compile.
      told = heard.get_future().wait_for(200ms) == std::future_status::ready;
      answered = true;
    }
  }
  std::promise<void> heard;  // set when the compile has been answered
  std::atomic<bool> told{false}, answered{false};

 private:
  caf::strong_actor_ptr asked_;
  int64_t compile_ = 0;
};

// One task's worker is gone when the other's has been asked already.
BOOST_AUTO_TEST_CASE(a_compile_that_cannot_be_sent_says_so_whatever_a_worker_answers_meanwhile) {
  const std::string first = "/job:localhost/replica:0/task:0", second = "/job:localhost/replica:0/task:1";
  const std::shared_ptr<Runtime> runtime =
      StartRuntime({.threads = 2, .tasks = {first, second}}, CastPolicies()).value();
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithDevice("/task:0").WithOpName("x"), DType::kFloat);
  const Output here = ops::Neg(root.WithDevice("/task:0").WithOpName("here"), x);
  ops::Neg(root.WithDevice("/task:1").WithOpName("there"), here);
  const std::vector<std::pair<std::string, Tensor>> feeds = {{"x", Tensor::Scalar(1.0f)}};
  auto session = Session::Create({.runtime = runtime}).value();
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run(feeds, {"here"}, {}, nullptr));
  Directory& directory = *runtime->impl()->directory;
  caf::actor_system& system = *runtime->impl()->system;
  const caf::actor workers[] = {directory.Find(WorkerName(first)), directory.Find(WorkerName(second))};
  const auto prompt = caf::make_actor<PromptWorker, caf::strong_actor_ptr>(system.next_actor_id(), system.node(),
                                                                           &system, caf::actor_config());
  auto* const logic = static_cast<PromptWorker*>(caf::actor_cast<caf::abstract_actor*>(prompt));
  directory.Set(WorkerName(first), caf::actor_cast<caf::actor>(prompt), 1);
  directory.Lose(WorkerName(second), absl::UnavailableError("the second worker is gone"));
  std::promise<absl::Status> ended;
  session->RunAsync({}, feeds, {"there"}, {}, [&](absl::Status s, std::vector<Tensor>) {
    logic->heard.set_value();
    ended.set_value(std::move(s));
  });
  const absl::Status s = ended.get_future().get();
  BOOST_TEST(absl::IsUnavailable(s), s);
  BOOST_TEST(s.message().find("the second worker is gone") != std::string::npos, s);
  BOOST_TEST(logic->answered.load());
  BOOST_TEST(!logic->told.load());
  directory.Set(WorkerName(first), workers[0], 1);
  directory.Set(WorkerName(second), workers[1], 1);
  TROUPE_REQUIRE_OK(session->Run(feeds, {"there"}, {}, nullptr));
}

}  // namespace withdrawn_graphs_test
}  // namespace troupe
