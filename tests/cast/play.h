// A session on the stage, with ops whose kernels wait for what never comes.
#ifndef TROUPE_TESTS_CAST_PLAY_H_
#define TROUPE_TESTS_CAST_PLAY_H_

#include <optional>

#include "tests/actors/signatures.h"
#include "tests/cast/stage.h"
#include "troupe/import_export.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

// CastNever: an asynchronous kernel that waits for the step's end. Registered in never_op.cc.
inline Output Never(const Scope& root, const Output& x) {
  auto n = NodeBuilder(root.graph(), "never", "CastNever").Input(NodeOut{x.node(), x.index()}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return Output({*n, 0}, x.scope_state());
}

// A placeholder of this name, as a new node for a session.
inline extend_request OneMore(const std::string& name) {
  Graph graph;
  BOOST_REQUIRE(graph.AddNode(name, "Placeholder", {{"dtype", DType::kFloat}}).ok());
  auto def = std::make_shared<proto::GraphDef>();
  ExportGraphDef(graph, def.get());
  return {std::move(def), nullptr};
}

// A runtime and a session in the stage's system; x -> twice, and x -> never.
class Play {
 public:
  explicit Play(SessionOptions options = {}, int devices = 1, int threads = 1, const CastPolicies& policies = {},
                const std::vector<std::string>& tasks = RuntimeOptions().tasks) {
    // How long a step took is not in the play: by default no thread is lent.
    if (options.lend_thread_us == SessionOptions().lend_thread_us) options.lend_thread_us = 0;
    stage.Inline([&] {
      options.runtime = StartRuntimeIn(stage.system(), {.threads = threads, .cpu_devices = devices, .tasks = tasks},
                                       stage.clock(), policies)
                            .value();
      runtime = options.runtime;
      auto created = Session::Create(options);
      BOOST_REQUIRE_MESSAGE(created.ok(), created.status());
      session = *std::move(created);
      options.runtime = nullptr;
    });
  }
  ~Play() {
    stage.Inline([&] {
      session = nullptr;
      runtime = nullptr;
    });
  }
  void Extend() {
    stage.Inline([&] {
      BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
      TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    });
  }
  // Compiles the signature, so that what follows starts with run_step.
  void Warm(const Feeds& feeds, const Names& fetches, const Names& targets = {}) {
    Names names;
    for (const auto& [name, value] : feeds) names.push_back(name);
    stage.Inline([&] {
      auto c = session->Prepare(names, fetches, targets);
      BOOST_REQUIRE_MESSAGE(c.ok(), c.status());
    });
  }
  // Starts a step; its end is written to `answer`.
  void Start(const Names& fetches, const RunOptions& options = {}, proto::RunMetadata* metadata = nullptr) {
    answer.reset();
    session->RunAsync(
        options, feeds, fetches, {},
        [this](absl::Status s, std::vector<Tensor> out) {
          BOOST_TEST(!answer.has_value());
          answer = std::move(s);
          outputs = std::move(out);
        },
        metadata);
  }
  // "running", or the code of the answer.
  std::string State() const {
    return !answer ? "running" : answer->ok() ? "OK" : absl::StatusCodeToString(answer->code());
  }
  std::string Message() const { return answer ? std::string(answer->message()) : ""; }
  std::string Go() {
    return stage.Play([this] { return State(); });
  }
  // In the runtime's directory; "worker" is that of the first task.
  std::string NameOf(const std::string& name) const {
    return name == "worker" ? WorkerName(runtime->impl()->tasks[0].name) : name;
  }
  caf::actor Find(const std::string& name) const {
    if (name == "supervisor") return runtime->impl()->root->actor();
    return runtime->impl()->directory->Find(NameOf(name));
  }

  Stage stage;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<Session> session;
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), twice = ops::Add(root.WithOpName("twice"), x, x),
         never = Never(root, x);
  Feeds feeds = {{"x", Tensor::Scalar(2.0f)}};
  std::optional<absl::Status> answer;
  std::vector<Tensor> outputs;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_PLAY_H_
