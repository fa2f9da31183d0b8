// A worker that trains with others: the variables stand on a parameter server, and each worker
// takes steps of its own. For one parameter server and one worker on this machine, by two commands:
//
//   troupe serve --cluster 'ps=localhost:2222;worker=localhost:2223' --job ps --task 0 &
//   parameter_server 'ps=localhost:2222;worker=localhost:2223' 0
//
// Further workers have addresses behind the first, ";worker=localhost:2223,localhost:2224", and
// the numbers 1 and on.
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "troupe/server.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/replica_devices.h"
#include "troupe/troupe.h"

using namespace troupe;
using namespace std::chrono_literals;

absl::Status Work(const char* cluster, int task) {
  ServerOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.spec.cluster, ClusterSpec::FromFlags(cluster));
  options.spec.task = {"worker", task};
  // As `troupe serve --heartbeat 1000`: a machine where much else runs may keep a server from being
  // heard for longer than the 390 ms after which it is taken for dead otherwise.
  options.heartbeat = HeartbeatPolicy::Of(1000ms);
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Server::Start(options));
  TROUPE_RETURN_IF_ERROR(server->AwaitTasks({{"ps", 0}}, 60s));

  // Variables, and what updates them, go to the parameter server, all else to this worker.
  Scope root = Scope::NewRootScope();
  Scope on = root.WithDeviceFunction(
      train::ReplicaDevices({.ps_tasks = 1, .worker_device = StrCat("/job:worker/task:", task)}));
  Variable w(on.WithOpName("w"), 0.0f), b(on.WithOpName("b"), 0.0f);
  Output x = ops::Placeholder(on, DType::kFloat, {.shape = {-1}});
  Output target = ops::Placeholder(on, DType::kFloat, {.shape = {-1}});
  Output error = ops::Sub(on, ops::Add(on, ops::Mul(on, w, x), b), target);
  Output loss = ops::Mean(on, ops::Square(on, error), 0);
  Operation step = train::GradientDescent(0.1f).Minimize(on, loss);
  Operation init = GlobalVariablesInitializer(on);
  Output ready = ops::LogicalAnd(on, w.IsInitialized(on), b.IsInitialized(on));
  TROUPE_RETURN_IF_ERROR(root.status());

  // The session of a worker is in its own process, and shares the variables with those of others.
  SessionOptions in;
  in.runtime = server->runtime();
  in.share_variables = true;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(in));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  // The first worker gives the variables their values, and the others wait for that.
  if (task == 0) TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  std::vector<Tensor> out;
  for (bool there = false; !there; there = out[0].scalar<bool>()) {
    if (!out.empty()) std::this_thread::sleep_for(100ms);
    TROUPE_RETURN_IF_ERROR(session->Run({}, {ready}, {}, &out));
  }

  const Tensor xs = Tensor::Vector<float>({-1, 0, 1, 2}), ys = Tensor::Vector<float>({-4, -1, 2, 5});
  for (int i = 0; i < 200; ++i) TROUPE_RETURN_IF_ERROR(session->Run({{x, xs}, {target, ys}}, {}, {step}, nullptr));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {w, b}, {}, &out));
  std::printf("w = %.3f, b = %.3f\n", out[0].scalar<float>(), out[1].scalar<float>());  // w = 3.000, b = -1.000
  session = nullptr;
  return server->Stop(10s);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: parameter_server 'ps=host:port;worker=host:port,...' NUMBER_OF_THE_WORKER\n");
    return 2;
  }
  const absl::Status s = Work(argv[1], std::atoi(argv[2]));
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
