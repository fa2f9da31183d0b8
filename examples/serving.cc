// A service that embeds Troupe in its own actor system and serves predictions to actors of another
// one, over TCP: each request by itself, and put together by a batcher.
//
//   serving [CLIENTS [REQUESTS]]     each client asks so many times, one request after the other
#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "troupe/serving.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

constexpr int64_t kPixels = 784, kHidden = 1024, kClasses = 10;

struct Config : caf::actor_system_config {
  Config() {
    load<caf::io::middleman>();
    AddMessageTypes(this);
    // Idle threads of CAF's other policy look for work every 10 ms.
    set("scheduler.policy", caf::atom("sharing"));
  }
};

absl::StatusOr<std::shared_ptr<Session>> Model(caf::actor_system& system) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const auto weights = [&](int64_t rows, int64_t columns) {
    return ops::Const(root, Tensor::Of<float>(std::vector<float>(static_cast<size_t>(rows * columns), 0.001f),
                                              TensorShape({rows, columns})));
  };
  const Output hidden = ops::Relu(root, ops::MatMul(root, x, weights(kPixels, kHidden)));
  const Output deep = ops::Relu(root, ops::MatMul(root, hidden, weights(kHidden, kHidden)));
  ops::Softmax(root.WithOpName("y"), ops::MatMul(root, deep, weights(kHidden, kClasses)));
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.runtime, StartRuntimeIn(system, {.threads = 2}));
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  return session;
}

// What a client sees: ms of each request. Empty: one failed.
std::vector<double> Ask(caf::actor_system& system, const caf::actor& server, int requests) {
  std::vector<double> ms;
  caf::scoped_actor self(system);
  run_request request;
  request.feeds = {{"x", Tensor::Of<float>(std::vector<float>(kPixels, 0.5f), TensorShape({1, kPixels}))}};
  request.fetches = {"y"};
  for (int i = 0; i < requests; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    bool ok = false;
    self->request(server, std::chrono::seconds(60), request)
        .receive([&](const run_reply& r) { ok = r.status.ok() && r.outputs.at(0).num_elements() == kClasses; },
                 [](const caf::error&) {});
    if (!ok) return {};
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return ms;
}

// So many clients at once.
absl::Status Load(const char* what, const caf::actor& server, caf::actor_system& home, int clients, int requests) {
  const auto port = home.middleman().publish(server, 0, "127.0.0.1", false);
  if (!port) return absl::UnavailableError(home.render(port.error()));
  Config config;
  caf::actor_system far(config);
  const auto handle = far.middleman().remote_actor("127.0.0.1", *port);
  if (!handle) return absl::UnavailableError(far.render(handle.error()));
  std::vector<double> all;
  std::mutex mu;
  std::vector<std::thread> threads;
  const auto begin = std::chrono::steady_clock::now();
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&] {
      const std::vector<double> ms = Ask(far, *handle, requests);
      const std::lock_guard<std::mutex> lock(mu);
      all.insert(all.end(), ms.begin(), ms.end());
    });
  }
  for (std::thread& t : threads) t.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  (void)home.middleman().unpublish(server, *port);
  if (all.size() != static_cast<size_t>(clients * requests)) return absl::InternalError("a request failed");
  std::sort(all.begin(), all.end());
  std::printf("%-12s %3d clients: %6.0f requests/s, p50 %6.2f ms, p99 %6.2f ms\n", what, clients,
              static_cast<double>(all.size()) / seconds, all[all.size() / 2], all[all.size() * 99 / 100]);
  return absl::OkStatus();
}

absl::Status Serve(caf::actor_system& system, int clients, int requests) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Model(system));
  // A step takes what has come while the one before it ran.
  const BatcherOptions options = {.feeds = {"x"}, .fetches = {"y"}, .max_batch = 32, .max_delay_us = 0};
  TROUPE_ASSIGN_OR_RETURN(const caf::actor batcher, SpawnBatcher(system, session, options));
  absl::Status status;
  for (const int n : {1, clients}) {
    status.Update(Load("one by one", ActorOf(*session), system, n, requests));
    status.Update(Load("in batches", batcher, system, n, requests));
  }
  caf::anon_send_exit(batcher, caf::exit_reason::user_shutdown);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  int clients = 16, requests = 200;
  const bool numbers =
      (argc < 2 || absl::SimpleAtoi(argv[1], &clients)) && (argc < 3 || absl::SimpleAtoi(argv[2], &requests));
  if (!numbers || clients < 1 || requests < 1 || argc > 3) {
    std::fprintf(stderr, "usage: serving [CLIENTS [REQUESTS]], each a number of at least 1\n");
    return 2;
  }
  Config config;
  caf::actor_system system(config);
  const absl::Status status = Serve(system, clients, requests);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
