// Times steps of a worker whose variables stand on a parameter server, two processes on loopback.
//
//   cluster ps CLUSTER                     the parameter server; it ends with its input
//   cluster worker CLUSTER N MODE SECONDS  the worker N
//   cluster tcp BYTES SECONDS              two processes and a plain socket instead: the seconds
//                                          from a byte of request to BYTES of answer
//
// CLUSTER is ps=HOST:PORT;worker=HOST:PORT,... The modes:
//
//   scalar     read a scalar, add 1 on the worker, add the result to it on the server
//   rate       the same, as steps a second, for several workers at once
//   fetch      100 MB from the server to the worker
//   update     the same, and back, where they are added to the variable
//   sparse     32 rows of a table of 256 MB: read, add 1 on the worker, add to the table
//   BYTES      a variable of so many bytes to the worker
//
// With "-tcp" behind it, as in fetch-tcp, tensors go through the connection; otherwise big ones go
// by way of shared memory.
//
// A sample is the seconds of a step, but for `rate`. No graph is rewritten.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "tools/benchmarks/serve.h"
#include "troupe/server.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT
using namespace std::chrono_literals;

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "cluster: %s\n", s.ToString().c_str());
  std::exit(1);
}

std::unique_ptr<Server> StartServer(const std::string& cluster, const ClusterTask& task, bool share_memory = true) {
  ServerOptions options;
  options.share_memory = share_memory;
  auto spec = ClusterSpec::FromFlags(cluster);
  Need(spec.status());
  options.spec.cluster = *std::move(spec);
  options.spec.task = task;
  auto server = Server::Start(options);
  Need(server.status());
  return *std::move(server);
}

int ParameterServer(const std::string& cluster) {
  const auto server = StartServer(cluster, {"ps", 0});
  return Serve("{}", [] { return 0.0; });
}

// The step of a mode; a graph has the variables of no other.
struct Step {
  Step(const std::string& mode, int worker) {
    const Scope there = root.WithDevice("/job:ps/task:0");
    const Scope here = root.WithDevice(StrCat("/job:worker/task:", worker));
    const auto variable = [&](const char* name, const TensorShape& shape) {
      std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
      return Variable(there.WithOpName(name), ops::Fill(there, Tensor::Vector<int32_t>(dims), 0.0f));
    };
    Operation last;
    if (mode == "scalar" || mode == "rate") {
      const Variable v(there.WithOpName("scalar"), 0.0f);
      last = Operation(v.AssignAdd(there, ops::Add(here, ops::Identity(here, v), 1.0f)));
    } else if (mode == "fetch" || mode == "update") {
      const Variable v = variable("dense", TensorShape({25, 1000000}));
      const Output value = ops::Identity(here, v);
      last = Operation(mode == "update" ? v.AssignAdd(there, value) : value);
    } else if (mode == "sparse") {
      const Variable v = variable("table", TensorShape({1000000, 64}));
      const Output ids = ops::Placeholder(here.WithOpName("ids"), DType::kInt64);
      const Output rows = ops::ResourceGather(there, v.handle(), ids, DType::kFloat);
      last = ops::ResourceScatterAdd(there, v.handle(), ids, ops::Add(here, rows, 1.0f));
      feeds = {"ids"};
    } else {
      last = Operation(ops::Identity(here, variable("payload", TensorShape({std::atoll(mode.c_str()) / 4}))));
    }
    init = GlobalVariablesInitializer(root).name();
    Need(root.status());
    done = last.name();
  }
  Scope root = Scope::NewRootScope();
  std::string init, done;
  Names feeds;
};

int Worker(const std::string& cluster, int number, std::string mode, double seconds) {
  const bool tcp = mode.ends_with("-tcp");
  if (tcp) mode.resize(mode.size() - 4);
  // What one of the two does without, neither has.
  const auto server = StartServer(cluster, {"worker", number}, !tcp);
  Need(server->AwaitTasks({{"ps", 0}}, 60s));
  const Step step(mode, number);
  SessionOptions options;
  options.runtime = server->runtime();
  options.share_variables = true;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = false;
  auto session = Session::Create(options);
  Need(session.status());
  Need((*session)->Extend(*step.root.graph()));
  if (number == 0) Need((*session)->Run({}, {}, {step.init}, nullptr));
  auto callable = (*session)->Prepare(step.feeds, {}, {step.done});
  Need(callable.status());
  std::mt19937_64 random(1);
  std::vector<Tensor> values;
  if (!step.feeds.empty()) {
    values.emplace_back(DType::kInt64, TensorShape({32}));
    for (int64_t& id : values[0].flat<int64_t>()) id = static_cast<int64_t>(random() % 1000000);
  }
  const auto run = [&] { Need(callable->Run(values, nullptr)); };
  for (int i = 0; i < 3; ++i) run();
  const int status = Serve("{}", [&] {
    if (mode != "rate") return Sample(seconds, run);
    const auto start = Clock::now();
    int64_t steps = 0;
    for (; SecondsSince(start) < seconds; ++steps) run();
    return static_cast<double>(steps) / SecondsSince(start);
  });
  Need(server->Stop(10s));
  return status;
}

void All(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}
void Read(int socket, std::vector<char>* into, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = ::read(socket, into->data(), std::min(into->size(), bytes - got));
    if (n == 0) std::exit(0);
    All(n > 0, "read");
    got += static_cast<size_t>(n);
  }
}
void Write(int socket, const std::vector<char>& from, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t n = ::write(socket, from.data(), std::min(from.size(), bytes - sent));
    All(n > 0, "write");
    sent += static_cast<size_t>(n);
  }
}

int Tcp(size_t bytes, double seconds) {
  std::vector<char> buffer(std::min(bytes, size_t{1} << 20));
  const int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  All(bind(listener, reinterpret_cast<sockaddr*>(&at), size) == 0 && listen(listener, 1) == 0, "listen");
  All(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0, "getsockname");
  if (fork() == 0) {
    const int s = accept(listener, nullptr, nullptr);
    All(s >= 0, "accept");
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (;;) {
      Read(s, &buffer, 1);
      Write(s, buffer, bytes);
    }
  }
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  All(connect(s, reinterpret_cast<sockaddr*>(&at), size) == 0, "connect");
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  const int status = Serve("{}", [&] {
    return Sample(seconds, [&] {
      Write(s, buffer, 1);
      Read(s, &buffer, bytes);
    });
  });
  ::close(s);
  return wait(nullptr) > 0 ? status : 1;
}

}  // namespace

int main(int argc, char** argv) {
  // The output is for samples.
  spdlog::set_default_logger(spdlog::stderr_logger_mt("cluster"));
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "ps" && argc == 3) return ParameterServer(argv[2]);
  if (role == "worker" && argc == 6) return Worker(argv[2], std::atoi(argv[3]), argv[4], std::atof(argv[5]));
  if (role == "tcp" && argc == 4 && std::atoll(argv[2]) > 0)
    return Tcp(static_cast<size_t>(std::atoll(argv[2])), std::atof(argv[3]));
  return std::fprintf(stderr, "usage: cluster ps CLUSTER | worker CLUSTER N MODE SECONDS | tcp BYTES SECONDS\n"), 2;
}
