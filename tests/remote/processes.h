// Processes of a cluster on one stage: runtimes that know each other as remote tasks. What passes
// between them passes through bytes, as it would between processes.
#ifndef TROUPE_TESTS_REMOTE_PROCESSES_H_
#define TROUPE_TESTS_REMOTE_PROCESSES_H_

#include <map>
#include <optional>
#include <set>

#include "actors/runtime/remote_tasks.h"
#include "actors/step/remote_steps.h"
#include "tests/cast/play.h"

namespace troupe {

inline const std::string kMasterTask = "/job:master/replica:0/task:0";
inline const std::string kPsTask = "/job:ps/replica:0/task:0";
inline const std::string kHelperTask = "/job:helper/replica:0/task:3";

// The runtimes of some tasks, in one actor system.
struct Processes {
  using Start = std::function<absl::StatusOr<std::shared_ptr<Runtime>>(const RuntimeOptions&, const ClusterOptions&)>;
  Processes(std::vector<std::string> all, Start start) : names(std::move(all)), start(std::move(start)) {
    for (const std::string& name : names) Begin(name);
  }
  // Starts the process of a task, in its next incarnation.
  void Begin(const std::string& name) {
    ClusterOptions cluster;
    for (const std::string& other : names) {
      if (other != name) cluster.remote_tasks.push_back(other);
    }
    cluster.incarnation = incarnations[name] = ++last;
    auto runtime = start({.threads = 2, .tasks = {name}}, cluster);
    BOOST_REQUIRE_MESSAGE(runtime.ok(), runtime.status());
    runtimes[name] = *std::move(runtime);
  }
  // `at` hears that `task` is there.
  void Introduce(const std::string& task, const std::string& at) {
    TaskCame(*runtimes.at(at), {task, incarnations.at(task), WorkerOf(*runtimes.at(task), task)});
  }
  void IntroduceAll() {
    for (const std::string& a : names) {
      for (const std::string& b : names) {
        if (a != b && runtimes.contains(a) && runtimes.contains(b)) Introduce(a, b);
      }
    }
  }
  void Went(const std::string& task, const std::string& at) {
    TaskWent(*runtimes.at(at), task, incarnations.at(task), Unavailable("the connection was cut"));
  }
  Runtime& Of(const std::string& task) { return *runtimes.at(task); }
  RemoteSteps& StepsOf(const std::string& task) { return *Of(task).impl()->remote_steps; }

  const std::vector<std::string> names;
  const Start start;
  uint64_t last = 100;
  std::map<std::string, uint64_t> incarnations;
  std::map<std::string, std::shared_ptr<Runtime>> runtimes;
};

// Stands in the place of a worker, and hands on what it gets when it is told.
struct Relay {
  // The actor may get messages after the relay has gone.
  struct State {
    void Hand(size_t i) const {
      auto [sender, message] = held.at(i);
      caf::actor_cast<caf::abstract_actor*>(to)->enqueue(sender, caf::make_message_id(), message, nullptr);
    }
    void Release() {
      for (size_t i = 0; i < held.size(); ++i) Hand(i);
      held.clear();
    }
    caf::actor to;
    bool hold = false, gone = false;
    std::vector<std::pair<caf::strong_actor_ptr, caf::message>> held;
  };
  Relay(Stage* stage, const caf::actor& to) {
    state->to = to;
    actor = stage->system().spawn(
        [state = state](caf::event_based_actor* self, int) -> caf::behavior {
          self->set_default_handler(
              [state](caf::scheduled_actor* me, caf::message_view& view) -> caf::result<caf::message> {
                if (state->gone) return caf::message();
                state->held.emplace_back(me->current_sender(), view.move_content_to_message());
                if (!state->hold) state->Release();
                return caf::message();
              });
          return {[](int) {}};
        },
        0);
  }
  ~Relay() {
    state->gone = true;
    state->held.clear();
    state->to = nullptr;
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  void Hand(size_t i) { state->Hand(i); }
  void Release() { state->Release(); }

  const std::shared_ptr<State> state = std::make_shared<State>();
  caf::actor actor;
  caf::actor& to = state->to;
  bool& hold = state->hold;
  std::vector<std::pair<caf::strong_actor_ptr, caf::message>>& held = state->held;
};

// On a stage: a master with a session, and others. x -> twice on the master -> there on the ps ->
// back on the master; `far` is all on the ps; `v` is a variable there, and `never_there` waits
// there.
struct RemotePlay {
  explicit RemotePlay(SessionOptions options = {}, std::vector<std::string> names = {kMasterTask, kPsTask}) {
    options.lend_thread_us = 0;
    stage.Inline([&] {
      processes.emplace(std::move(names), [this](const RuntimeOptions& o, const ClusterOptions& c) {
        return StartRuntimeIn(stage.system(), o, c, stage.clock());
      });
      processes->IntroduceAll();
      options.runtime = processes->runtimes.at(kMasterTask);
      auto created = Session::Create(options);
      BOOST_REQUIRE_MESSAGE(created.ok(), created.status());
      session = *std::move(created);
      options.runtime = nullptr;
    });
    const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
    x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
    const Output twice = ops::Add(here.WithOpName("twice"), x, x);
    const Output neg = ops::Neg(there.WithOpName("there"), twice);
    ops::Add(here.WithOpName("back"), neg, x);
    ops::Neg(there.WithOpName("far"), ops::Const(there, 3.0f));
    const Variable v(there.WithOpName("v"), 7.0f);
    v.Read(there.WithOpName("read"));
    v.AssignAdd(there.WithOpName("add"), twice);
    v.AssignAdd(there.WithOpName("add_one"), ops::Const(there, 1.0f));
    init = GlobalVariablesInitializer(root).name();
    Never("never_there", "/job:ps", neg);
    Never("never_here", "/job:master", neg);
    ops::Neg(here.WithOpName("after_never"), Output({root.graph()->Find("never_there"), 0}, x.scope_state()));
    ops::MatMul(there.WithOpName("wrong"), twice, twice);
    ops::Neg(here.WithOpName("after_wrong"), Output({root.graph()->Find("wrong"), 0}, x.scope_state()));
    ops::MatMul(here.WithOpName("wrong_here"), twice, neg);
    stage.Inline([&] {
      BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
      TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    });
  }
  ~RemotePlay() {
    // Steps that nobody ends keep their runtime.
    if (session != nullptr) (void)session->Close();
    stage.Play();
    stage.Inline([&] { session = nullptr; });
    for (auto& [name, runtime] : processes->runtimes) LeaveCluster(*runtime);
    stage.Play();
    stage.Inline([&] { processes.reset(); });
  }
  void Never(const std::string& name, const std::string& device, const Output& input) {
    auto n = NodeBuilder(root.graph(), name, "CastNever").Input(NodeOut{input.node(), 0}).Device(device).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  }
  void Initialize() {
    stage.Inline([&] { TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr)); });
  }
  void Warm(const Names& fetches, const Names& targets = {}) {
    stage.Inline([&] {
      auto c = session->Prepare({"x"}, fetches, targets);
      BOOST_REQUIRE_MESSAGE(c.ok(), c.status());
    });
  }
  void Start(const Names& fetches, const Names& targets = {}, const RunOptions& options = {},
             proto::RunMetadata* metadata = nullptr) {
    answer.reset();
    session->RunAsync(
        options, {{"x", Tensor::Scalar(2.0f)}}, fetches, targets,
        [this](absl::Status s, std::vector<Tensor> out) {
          BOOST_TEST(!answer.has_value());
          answer = std::move(s);
          outputs = std::move(out);
        },
        metadata);
  }
  std::string State() const {
    return !answer ? "running" : answer->ok() ? "OK" : absl::StatusCodeToString(answer->code());
  }
  std::string Message() const { return answer ? std::string(answer->message()) : ""; }
  std::string Go() {
    return stage.Play([this] { return State(); });
  }
  float Run(const std::string& fetch) {
    Start({fetch});
    stage.Play();
    BOOST_REQUIRE_MESSAGE(State() == "OK", Message());
    return outputs.at(0).scalar<float>();
  }

  Stage stage;
  std::optional<Processes> processes;
  std::unique_ptr<Session> session;
  Scope root = Scope::NewRootScope();
  Output x;
  std::string init;
  std::optional<absl::Status> answer;
  std::vector<Tensor> outputs;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_REMOTE_PROCESSES_H_
