// The threads on which kernels wait for files are bounded.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "kernels/io/blocking.h"
#include "tests/checkpoint/held_files.h"
#include "troupe/evaluate.h"
#include "troupe/troupe.h"

namespace troupe {
namespace file_threads_test {

struct Readers {
  explicit Readers(const std::string& scheme, int count) {
    for (int i = 0; i < count; ++i) {
      const Output path = Const(root, Tensor::Scalar(StrCat(scheme, "://f")));
      read.push_back(ops::ReadFile(root.WithOpName(StrCat("read", i)), path).node()->name());
    }
    session = *Session::Create();
    const absl::Status s = session->Extend(*root.graph());
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
  }
  std::future<absl::Status> Start(const CancellationToken& token) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    RunOptions options;
    options.cancellation = &token;
    session->RunAsync(options, Feeds{}, Names{}, read,
                      [done](absl::Status s, std::vector<Tensor>) { done->set_value(std::move(s)); });
    return done->get_future();
  }
  Scope root = Scope::NewRootScope();
  std::vector<std::string> read;
  std::unique_ptr<Session> session;
};

BOOST_AUTO_TEST_CASE(kernels_that_wait_for_files_share_a_bounded_number_of_threads) {
  static FileGate gate;
  static std::atomic<int> inside{0}, most{0}, calls{0};
  const auto disk = std::make_shared<HeldFiles>([](std::string_view op, const std::string&) {
    if (op != "OpenToRead") return;
    ++calls;
    const int now = ++inside;
    for (int m = most; m < now && !most.compare_exchange_weak(m, now);) {
    }
    gate.Wait();
    --inside;
  });
  BOOST_REQUIRE(files::RegisterFileSystem("many", disk).ok());
  BOOST_REQUIRE(files::Write("many://f", "text").ok());
  constexpr int kMany = 4 * io::kFileThreads;
  Readers all("many", kMany);
  CancellationToken never, token;
  // What begins is as much as there are threads, and the rest never begins once it is cancelled.
  auto cancelled = all.Start(token);
  while (calls < io::kFileThreads) std::this_thread::yield();
  token.Cancel();
  BOOST_TEST(absl::IsCancelled(cancelled.get()));
  auto late = all.Start(never);
  gate.Open();
  const absl::Status s = late.get();
  BOOST_TEST(s.ok(), s);
  BOOST_TEST(most == io::kFileThreads);
  BOOST_TEST(calls == io::kFileThreads + kMany);
}

// While all threads are stuck, steps that were given up leave nothing behind them in the queue.
BOOST_AUTO_TEST_CASE(work_of_steps_that_ended_does_not_pile_up) {
  static FileGate gate;
  static std::atomic<int> calls{0};
  BOOST_REQUIRE(files::RegisterFileSystem("stuck", std::make_shared<HeldFiles>([](std::string_view op, const auto&) {
                                            if (op != "OpenToRead") return;
                                            ++calls;
                                            gate.Wait();
                                          }))
                    .ok());
  BOOST_REQUIRE(files::Write("stuck://f", "text").ok());
  Readers all("stuck", io::kFileThreads);
  CancellationToken first;
  auto stuck = all.Start(first);
  while (calls < io::kFileThreads) std::this_thread::yield();
  static StepContext over;
  over.Cancel();
  static const KernelContext ctx(nullptr, nullptr, nullptr, &over, nullptr);
  const auto token = std::make_shared<int>();
  for (int i = 0; i < 1000; ++i) {
    io::RunBlocking(
        ctx, [token] { return absl::OkStatus(); }, [](const absl::Status&) {});
  }
  BOOST_TEST(token.use_count() <= 2 * io::kFileThreads);
  first.Cancel();
  (void)stuck.get();
  gate.Open();
  while (token.use_count() > 1) std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(a_child_of_fork_has_threads_of_its_own) {
  BOOST_REQUIRE(files::Write("mem://forked", "text").ok());
  const std::vector<Tensor> path = {Tensor::Scalar<std::string>("mem://forked")};
  BOOST_REQUIRE(EvaluateOp("ReadFile", path).ok());  // there is an idle thread now
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(EvaluateOp("ReadFile", path).ok() ? 7 : 1);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_REQUIRE(WIFEXITED(status));
  BOOST_TEST(WEXITSTATUS(status) == 7);
}

}  // namespace file_threads_test
}  // namespace troupe
