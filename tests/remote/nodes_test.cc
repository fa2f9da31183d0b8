// Two actor systems that CAF's middleman joins: what passes between the runtimes is made bytes of,
// and read, by CAF itself.
#include <caf/io/all.hpp>
#include <cstring>

#include "tests/remote/processes.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace nodes_test {

struct NodeConfig : caf::actor_system_config {
  NodeConfig() {
    load<caf::io::middleman>();
    AddCastMessageTypes(this);
    set("middleman.workers", static_cast<size_t>(0));
  }
};

// One node, with the runtime of one task.
struct Joined {
  Joined(const std::string& name, const std::string& other, uint64_t incarnation)
      : name(name), incarnation(incarnation) {
    auto started =
        StartRuntimeIn(system, {.threads = 2, .tasks = {name}}, {.remote_tasks = {other}, .incarnation = incarnation});
    BOOST_REQUIRE_MESSAGE(started.ok(), started.status());
    runtime = *std::move(started);
  }
  uint16_t Publish() {
    const auto port = system.middleman().publish(WorkerOf(*runtime, name), 0, "127.0.0.1", false);
    BOOST_REQUIRE(!!port);
    return *port;
  }
  void Meet(const Joined& other, uint16_t port) {
    const auto worker = system.middleman().remote_actor("127.0.0.1", port);
    BOOST_REQUIRE(!!worker);
    BOOST_TEST((worker->node() != system.node()));
    TaskCame(*runtime, {other.name, other.incarnation, *worker});
  }
  const std::string name;
  const uint64_t incarnation;
  NodeConfig config;
  caf::actor_system system{config};
  std::shared_ptr<Runtime> runtime;
};

BOOST_AUTO_TEST_CASE(steps_run_on_two_nodes) {
  Scope root = Scope::NewRootScope();
  const Scope here = root.WithDevice("/job:master"), there = root.WithDevice("/job:ps");
  const Output x = ops::Placeholder(here.WithOpName("x"), DType::kFloat);
  const Variable v(there.WithOpName("v"), 7.0f);
  ops::Add(here.WithOpName("back"), ops::Neg(there.WithOpName("there"), x), x);
  v.AssignAdd(there.WithOpName("add"), x);
  v.Read(there.WithOpName("read"));
  ops::MatMul(there.WithOpName("wrong"), x, x);
  const std::string init = GlobalVariablesInitializer(root).name();
  auto ps = std::make_unique<Joined>(kPsTask, kMasterTask, 72);
  Joined master(kMasterTask, kPsTask, 71);
  {
    master.Meet(*ps, ps->Publish());
    ps->Meet(master, master.Publish());
    SessionOptions options;
    options.runtime = master.runtime;
    auto session = NewSession(root, options);
    options.runtime = nullptr;
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    const Feeds feeds = {{"x", Tensor::Scalar(2.5f)}};
    std::vector<Tensor> out;
    for (int i = 0; i < 200; ++i) {
      TROUPE_REQUIRE_OK(session->Run(feeds, {"back", "there"}, {"add"}, &out));
      BOOST_TEST(out.at(0).scalar<float>() == 0.0f);
      BOOST_TEST(out.at(1).scalar<float>() == -2.5f);
    }
    TROUPE_REQUIRE_OK(session->Run({}, {"read"}, {}, &out));
    BOOST_TEST(out.at(0).scalar<float>() == 507.0f);
    const absl::Status wrong = session->Run(feeds, {"wrong"}, {}, &out);
    BOOST_TEST(absl::IsInvalidArgument(wrong), wrong);
    BOOST_TEST(HasAddress(wrong));
    // State through the worker there.
    const auto snapshot = session->SnapshotState({});
    BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
    BOOST_TEST(snapshot->entries.size() == 1u);
    TROUPE_REQUIRE_OK(session->Run(feeds, {}, {"add"}, nullptr));
    TROUPE_REQUIRE_OK(session->RestoreState(*snapshot));
    TROUPE_REQUIRE_OK(session->Run({}, {"read"}, {}, &out));
    BOOST_TEST(out.at(0).scalar<float>() == 507.0f);
    // A value of some size.
    Tensor big(DType::kFloat, TensorShape({1 << 20}));
    for (int i = 0; i < 1 << 20; ++i) big.data<float>()[i] = static_cast<float>(i);
    TROUPE_REQUIRE_OK(session->Run({{"x", big}}, {"there"}, {}, &out));
    BOOST_TEST(out.at(0).data<float>()[12345] == -12345.0f);
    // The node goes: the step is told by the connection's end.
    LeaveCluster(*ps->runtime);
    ps.reset();
    absl::Status gone;
    for (int i = 0; i < 1000 && gone.ok(); ++i) {
      RunOptions limited;
      limited.timeout_ms = 20000;
      gone = session->Run(limited, feeds, {"back"}, {}, &out, nullptr);
    }
    BOOST_TEST((absl::IsUnavailable(gone) || absl::IsAborted(gone)), gone);
    TROUPE_REQUIRE_OK(session->Run(feeds, {"x"}, {}, &out));
  }
  LeaveCluster(*master.runtime);
}

}  // namespace nodes_test
}  // namespace troupe
