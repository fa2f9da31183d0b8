// Steps over several processes on the loopback interface: sessions see the devices of all tasks of
// a cluster, train between graphs and in one graph, and go on when processes are killed or stopped.
#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <barrier>
#include <cmath>
#include <csignal>
#include <future>
#include <map>
#include <thread>

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "tests/net/processes.h"
#include "troupe/ops.h"
#include "troupe/queues.h"
#include "troupe/server.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/replica_devices.h"
#include "troupe/variable.h"

namespace troupe {
namespace steps_test {

using namespace std::chrono_literals;

constexpr const char* kPs = "/job:ps/replica:0/task:0";
constexpr const char* kWorker = "/job:worker/replica:0/task:0";

// Sparse enough that a busy machine takes nobody for dead.
ServerOptions Options(const std::string& cluster, const std::string& job, int task = 0) {
  ServerOptions o;
  o.spec = {ClusterSpec::FromFlags(cluster).value(), {job, task}};
  o.heartbeat = HeartbeatPolicy::Of(1000ms);
  o.runtime.threads = 1;
  return o;
}
std::unique_ptr<Process> Serve(const std::string& cluster, const std::string& job, int task = 0, int heartbeat = 1000,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"serve",      "--cluster",   cluster,           "--job",     job, "--task",
                                StrCat(task), "--heartbeat", StrCat(heartbeat), "--threads", "1"};
  args.insert(args.end(), more.begin(), more.end());
  auto p = std::make_unique<Process>(args);
  BOOST_REQUIRE(p->Line() != "");
  return p;
}
SessionOptions In(const Server& server) {
  SessionOptions o;
  o.runtime = server.runtime();
  o.share_variables = true;
  return o;
}
std::string CodeOf(const absl::Status& s) { return absl::StatusCodeToString(s.code()); }

// A line's slope, whose variable stands on the ps; the rest is a worker's.
struct Line {
  explicit Line(int worker) {
    const Scope on = root.WithDeviceFunction(
        train::ReplicaDevices({.ps_tasks = 1, .worker_device = StrCat("/job:worker/task:", worker)}));
    w = Variable(on.WithOpName("w"), 0.0f);
    x = ops::Placeholder(on.WithOpName("x"), DType::kFloat);
    loss = ops::Square(on.WithOpName("loss"), ops::Sub(on, ops::Mul(on, w, x), ops::Mul(on, x, 3.0f)));
    step = train::GradientDescent(0.05f).Minimize(on, loss);
    init = GlobalVariablesInitializer(on);
    BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  }
  Scope root = Scope::NewRootScope();
  Variable w;
  Output x, loss;
  Operation step, init;
};

// Runs a step until it is not refused for lack of a task. A task may come and go meanwhile.
absl::Status Again(const std::function<absl::Status()>& run) {
  absl::Status last;
  Await([&] {
    last = run();
    return !absl::IsUnavailable(last) && !absl::IsAborted(last);
  });
  return last;
}

BOOST_AUTO_TEST_SUITE(steps)

// What a runtime knows of another task.
RemoteTask Known(const Server& server, const char* task) { return server.runtime()->impl()->remote->Find(task); }

BOOST_AUTO_TEST_CASE(edges_8_and_9_a_worker_that_was_restarted_is_known_to_the_others) {
  const std::string cluster = LocalCluster(1);
  auto ps = Server::Start(Options(cluster, "ps")).value();
  const auto worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
  const RemoteTask before = Known(*worker, kPs);
  BOOST_TEST(before.incarnation == ps->status()->incarnation);
  BOOST_TEST(before.incarnation == IncarnationOf(*ps->runtime()));
  BOOST_REQUIRE(!!before.worker);
  BOOST_TEST(before.worker.id() == WorkerOf(*ps->runtime(), kPs).id());
  caf::anon_send_exit(WorkerOf(*ps->runtime(), kPs), caf::exit_reason::kill);
  BOOST_TEST(Await([&] {
    const caf::actor next = Known(*worker, kPs).worker, own = WorkerOf(*ps->runtime(), kPs);
    return next && own && next.id() == own.id() && next != before.worker;
  }));
  BOOST_TEST(Known(*worker, kPs).incarnation == before.incarnation);
  // A task that goes is forgotten, at both ends.
  BOOST_TEST(!!Known(*ps, kWorker).worker);
  TROUPE_REQUIRE_OK(ps->Stop(60s));
  BOOST_TEST(Await([&] { return !Known(*worker, kPs).worker; }));
  BOOST_TEST(!Known(*ps, kWorker).worker);
}

BOOST_AUTO_TEST_CASE(tasks_that_do_not_come_are_named) {
  const std::string cluster = LocalCluster(2);
  const auto ps = Server::Start(Options(cluster, "ps")).value(),
             worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(ps->AwaitTasks({{"worker", 0}, {"ps", 0}}, 60s));
  BOOST_TEST(ps->AwaitTasks({}, 50ms).message() ==
             "within 50 ms these tasks have not come: /job:worker/replica:0/task:1");
  BOOST_TEST(CodeOf(ps->AwaitTasks({{"worker", 7}}, 50ms)) == "NOT_FOUND");
}

BOOST_AUTO_TEST_CASE(two_workers_train_between_graphs) {
  const std::string cluster = LocalCluster(2);
  const auto ps = Serve(cluster, "ps");
  std::vector<std::unique_ptr<Server>> workers;
  for (int t = 0; t < 2; ++t) workers.push_back(Server::Start(Options(cluster, "worker", t)).value());
  std::vector<std::thread> threads;
  std::vector<float> slopes(2);
  std::barrier both(2);
  std::promise<void> ready;
  const std::shared_future<void> initialised = ready.get_future().share();
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      TROUPE_REQUIRE_OK(workers[t]->AwaitTasks({{"ps", 0}}, 60s));
      const Line line(t);
      const auto session = NewSession(line.root, In(*workers[t]));
      if (t == 0) {
        TROUPE_REQUIRE_OK(session->Run({}, {}, {line.init}, nullptr));
        ready.set_value();
      }
      initialised.wait();
      const auto train = [&] {
        for (int i = 0; i < 60; ++i)
          TROUPE_REQUIRE_OK(session->Run({{line.x, Tensor::Scalar(1.0f + float(t))}}, {}, {line.step}, nullptr));
      };
      train();
      // Whoever was kept waiting in mid-step has added a gradient of long ago: one worker alone
      // makes up for it, while both have their sessions.
      both.arrive_and_wait();
      if (t == 0) train();
      both.arrive_and_wait();
      slopes[t] = session->Get(line.w)->scalar<float>();
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(std::abs(slopes[0] - 3) < 0.05);
  BOOST_TEST(std::abs(slopes[1] - 3) < 0.05);
}

BOOST_AUTO_TEST_CASE(one_client_drives_all_tasks_in_one_graph) {
  const std::string cluster = LocalCluster(2);
  const auto ps = Serve(cluster, "ps"), first = Serve(cluster, "worker", 0), second = Serve(cluster, "worker", 1);
  for (const int t : {0, 1})
    BOOST_TEST(Await([&] { return HealthAt(AddressIn(cluster, "ps", 0), {"worker", t}) == "alive"; }));
  const Scope root = Scope::NewRootScope();
  const Scope on_ps = root.WithDevice("/job:ps/task:0");
  const Variable w(on_ps.WithOpName("w"), Tensor::Vector<float>({1, 2}));
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  std::vector<Output> parts;
  for (const int t : {0, 1}) {
    const Scope on = root.WithDevice(StrCat("/job:worker/task:", t));
    parts.push_back(ops::Mul(on, ops::Mul(on, w, x), float(t + 1)));
  }
  const Output sum = ops::Add(on_ps.WithOpName("sum"), parts[0], parts[1]);
  const Output next = w.Assign(on_ps.WithOpName("next"), sum);
  const Operation init = GlobalVariablesInitializer(root);
  SessionOptions options;
  options.target = StrCat("troupe://", AddressIn(cluster, "worker", 0).ToString());
  options.connect_timeout_ms = 60000;
  const auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(Again([&] { return session->Run({}, {}, {init}, nullptr); }));
  for (int i = 0; i < 3; ++i) TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(1.0f)}}, {next}, {}, nullptr));
  const Tensor value = session->Get(w).value();
  BOOST_TEST(value.data<float>()[0] == 27);
  BOOST_TEST(value.data<float>()[1] == 54);
  const auto devices = session->ListDevices().value();
  BOOST_TEST(devices.size() == 3u);
}

// There and back, by way of memory that both can read; or, when one of them wants no such, through
// the connection. The server that is killed meanwhile has its memory with it.
BOOST_AUTO_TEST_CASE(servers_of_a_host_pass_big_tensors_by_way_of_shared_memory) {
  constexpr int64_t kFloats = 1 << 20;
  constexpr uint64_t kBytes = kFloats * 4;
  for (const bool shared : {true, false}) {
    BOOST_TEST_CONTEXT("shared: " << shared) {
      const std::string cluster = LocalCluster(1);
      const std::vector<std::string> more =
          shared ? std::vector<std::string>() : std::vector<std::string>{"--no_shared_memory"};
      auto ps = Serve(cluster, "ps", 0, 1000, more);
      const auto worker = Server::Start(Options(cluster, "worker")).value();
      TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
      const Scope root = Scope::NewRootScope();
      const Output x = ops::Placeholder(root.WithDevice("/job:worker").WithOpName("x"), DType::kFloat);
      const Output there = ops::Neg(root.WithDevice("/job:ps"), x);
      const Output back = ops::Add(root.WithDevice("/job:worker").WithOpName("back"), there, x);
      const auto session = NewSession(root, In(*worker));
      Tensor value(DType::kFloat, TensorShape({kFloats}));
      for (int64_t i = 0; i < kFloats; ++i) value.data<float>()[i] = static_cast<float>(i);
      const auto run = [&] {
        std::vector<Tensor> out;
        TROUPE_RETURN_IF_ERROR(session->Run({{x, value}}, {back}, {}, &out));
        for (int64_t i = 0; i < kFloats; ++i) {
          if (out.at(0).data<float>()[i] != 0) return Internal("element ", i, " is wrong");
        }
        return absl::OkStatus();
      };
      for (int i = 0; i < 3; ++i) TROUPE_REQUIRE_OK(run());
      const ServerStatus here = worker->status().value();
      const ServerStatus other = AskServer(AddressIn(cluster, "ps", 0), 60s).value();
      for (const ServerStatus& s : {here, other}) {
        BOOST_TEST(s.tensor_bytes_in_shared_memory == (shared ? 3 * kBytes : 0u));
        BOOST_TEST(s.tensor_bytes_in_messages == (shared ? 0u : 3 * kBytes));
      }
      ps->Signal(SIGKILL);
      ps = Serve(cluster, "ps", 0, 1000, more);
      TROUPE_REQUIRE_OK(Again(run));
      const ServerStatus next = AskServer(AddressIn(cluster, "ps", 0), 60s).value();
      BOOST_TEST((shared ? next.tensor_bytes_in_shared_memory : next.tensor_bytes_in_messages) >= kBytes);
    }
  }
}

// A step that waits on the ps while that is killed: its end names the task, and is told at once.
BOOST_AUTO_TEST_CASE(a_killed_ps_ends_the_steps_and_the_next_process_is_used) {
  const std::string cluster = LocalCluster(1);
  auto ps = Serve(cluster, "ps");
  const auto worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
  const Line line(0);
  const Queue queue = Queue::Fifo(line.root.WithDevice("/job:ps/task:0"), {DType::kFloat});
  const Output waits = queue.Dequeue(line.root.WithDevice("/job:ps/task:0").WithOpName("waits"))[0];
  const auto session = NewSession(line.root, In(*worker));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {line.init}, nullptr));
  auto waiting = std::async(std::launch::async, [&] { return session->Run({}, {waits}, {}, nullptr); });
  BOOST_TEST(Await([&] { return !session->RunningSteps().empty(); }));
  std::this_thread::sleep_for(200ms);
  ps->Signal(SIGKILL);
  const absl::Status dead = waiting.get();
  BOOST_TEST((absl::IsAborted(dead) || absl::IsUnavailable(dead)), dead);
  BOOST_TEST(dead.message().find(kPs) != std::string::npos, dead);
  const absl::Status down = session->Run({}, {line.loss}, {}, nullptr);
  BOOST_TEST(!down.ok());
  ps = Serve(cluster, "ps");
  TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
  // Its variables are gone with the process before.
  const absl::Status empty = Again([&] {
    return session->Run({{line.x, Tensor::Scalar(1.0f)}}, {}, {line.step}, nullptr);
  });
  BOOST_TEST(CodeOf(empty) == "FAILED_PRECONDITION", empty);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {line.init}, nullptr));
  for (int i = 0; i < 60; ++i)
    TROUPE_REQUIRE_OK(session->Run({{line.x, Tensor::Scalar(1.0f)}}, {}, {line.step}, nullptr));
  BOOST_TEST(std::abs(session->Get(line.w)->scalar<float>() - 3) < 0.1);
}

BOOST_AUTO_TEST_CASE(a_killed_worker_ends_the_steps_of_a_client) {
  const std::string cluster = LocalCluster(1);
  const auto ps = Serve(cluster, "ps");
  auto worker = Serve(cluster, "worker");
  BOOST_TEST(Await([&] { return HealthAt(AddressIn(cluster, "ps", 0), {"worker", 0}) == "alive"; }));
  const Scope root = Scope::NewRootScope();
  const Scope on = root.WithDevice("/job:worker/task:0");
  const Queue queue = Queue::Fifo(on, {DType::kFloat});
  const Output waits = queue.Dequeue(on.WithOpName("waits"))[0];
  const Output twice = ops::Mul(on.WithOpName("twice"), ops::Const(on, 4.0f), 2.0f);
  SessionOptions options;
  options.target = StrCat("troupe://", AddressIn(cluster, "ps", 0).ToString());
  options.connect_timeout_ms = 60000;
  const auto session = NewSession(root, options);
  BOOST_TEST(CodeOf(Again([&] { return session->Run({}, {twice}, {}, nullptr); })) == "OK");
  auto waiting = std::async(std::launch::async, [&] { return session->Run({}, {waits}, {}, nullptr); });
  std::this_thread::sleep_for(300ms);
  worker->Signal(SIGKILL);
  const absl::Status dead = waiting.get();
  BOOST_TEST((absl::IsAborted(dead) || absl::IsUnavailable(dead)), dead);
  BOOST_TEST(dead.message().find("/job:worker/replica:0/task:0") != std::string::npos, dead);
  worker = Serve(cluster, "worker");
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(Again([&] { return session->Run({}, {twice}, {}, &out); }));
  BOOST_TEST(out.at(0).scalar<float>() == 8);
}

// A stopped process is found by its silence; when it goes on, it is the same task.
BOOST_AUTO_TEST_CASE(a_stopped_ps_ends_the_steps_and_is_used_again_when_it_goes_on) {
  const std::string cluster = LocalCluster(1);
  const auto ps = Serve(cluster, "ps");
  const auto worker = Server::Start(Options(cluster, "worker")).value();
  TROUPE_REQUIRE_OK(worker->AwaitTasks({}, 60s));
  const Line line(0);
  const auto session = NewSession(line.root, In(*worker));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {line.init}, nullptr));
  const auto train = [&] { return session->Run({{line.x, Tensor::Scalar(1.0f)}}, {}, {line.step}, nullptr); };
  TROUPE_REQUIRE_OK(train());
  ps->Signal(SIGSTOP);
  const absl::Status silent = train();
  BOOST_TEST((absl::IsAborted(silent) || absl::IsUnavailable(silent)), silent);
  BOOST_TEST(silent.message().find(kPs) != std::string::npos, silent);
  ps->Signal(SIGCONT);
  const absl::Status again = Again(train);
  BOOST_TEST(again.ok(), again);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace steps_test
}  // namespace troupe
