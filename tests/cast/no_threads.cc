// Starts sessions where threads or memory cannot be had: each is made and works, or is refused with
// a status. Each trial is a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "troupe/files.h"
#include "troupe/troupe.h"

namespace {

// `limit` is set when the graph is built: builders have no status for memory that has run out. 0:
// it works; 1: refused as it should be; else wrong.
template <class F>
int Trial(int threads, F limit) {
  using namespace troupe;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Add(root.WithOpName("y"), x, x);
  if (const int failed = limit(); failed != 0) return failed;
  SessionOptions options;
  options.runtime_options.threads = threads;
  auto session = Session::Create(options);
  if (!session.ok()) {
    if (session.status().code() == absl::StatusCode::kResourceExhausted) return 1;
    std::printf("refused with %s\n", session.status().ToString().c_str());
    return 2;
  }
  std::vector<Tensor> out;
  absl::Status s = (*session)->Extend(*root.graph());
  if (s.ok()) s = (*session)->Run({{"x", Tensor::Scalar(2.0f)}}, {"y"}, {}, &out);
  if (!s.ok()) {
    std::printf("the step failed: %s\n", s.ToString().c_str());
    return 3;
  }
  return out[0].scalar<float>() == 4.0f ? 0 : 4;
}

// A deadline of a session that has its threads is kept when there are none to be had any more. 0:
// it is.
int Deadline() {
  using namespace troupe;
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 6;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output never = While(
      root, x, [](const Scope& s, const Output& v) { return ops::Equal(s, v, v); },
      [](const Scope& s, const Output& v) { return ops::Neg(s, v); });
  auto session = Session::Create({.runtime_options = {.threads = 2}}).value();
  if (!session->Extend(*root.graph()).ok()) return 3;
  const Feeds feeds = {{"x", Tensor::Scalar(2.0f)}};
  const auto run = [&](const std::string& fetch, int64_t timeout_ms) {
    auto done = std::make_shared<std::promise<absl::Status>>();
    auto answer = done->get_future();
    RunOptions options;
    options.timeout_ms = timeout_ms;
    session->RunAsync(options, feeds, {fetch}, {}, [done](absl::Status s, std::vector<Tensor>) { done->set_value(s); });
    return answer.wait_for(std::chrono::seconds(30)) == std::future_status::ready ? answer.get()
                                                                                  : absl::UnknownError("no answer");
  };
  (void)session->Prepare({"x"}, {never.name()}, {});
  if (!run("x", 0).ok()) return 4;
  const rlimit limit = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 5;
  const absl::Status s = run(never.name(), 50);
  if (s.code() == absl::StatusCode::kDeadlineExceeded) return 0;
  std::printf("the step ended with %s\n", s.ToString().c_str());
  std::fflush(stdout);
  _exit(7);
}

// The inputs of a node that fails its check are not written then; not by the thread that runs the
// step either. 0: so it is.
int Dump() {
  using namespace troupe;
  if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 6;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Log(root.WithOpName("log"), x);
  auto session = Session::Create({.runtime_options = {.threads = 2}}).value();
  if (!session->Extend(*root.graph()).ok()) return 3;
  RunOptions checked;
  checked.check_numerics = true;
  checked.numerics_folder = "mem://dumps";
  std::vector<Tensor> out;
  if (!session->Run(checked, {{"x", Tensor::Scalar(1.0f)}}, {"log"}, {}, &out, nullptr).ok()) return 4;
  const rlimit limit = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 5;
  const absl::Status s = session->Run(checked, {{"x", Tensor::Scalar(-1.0f)}}, {"log"}, {}, &out, nullptr);
  std::printf("%s\n", s.ToString().c_str());
  std::fflush(stdout);
  const bool right = s.code() == absl::StatusCode::kInvalidArgument &&
                     s.message().find("no thread left") != s.message().npos && !files::Exists("mem://dumps");
  _exit(right ? 0 : 7);
}

long AddressSpaceInUse() {
  long pages = 0;
  if (FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages * sysconf(_SC_PAGESIZE);
}

template <class F>
int InChild(F f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const int code = f();
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

}  // namespace

int main(int, char** argv) {
  if (std::strcmp(argv[1], "deadline") == 0) return InChild(Deadline);
  if (std::strcmp(argv[1], "dump") == 0) return InChild(Dump);
  const bool memory = std::strcmp(argv[1], "memory") == 0;
  int worked = 0, refused = 0;
  for (int i = 0; i <= 16; ++i) {
    const int code = InChild([&] {
      return Trial(8, [&] {
        if (i == 16) return 0;  // without a limit
        if (memory) {
          // Each thread takes 8 MB for its stack.
          const rlim_t bytes = static_cast<rlim_t>(AddressSpaceInUse()) + (static_cast<rlim_t>(i) << 23);
          const rlimit limit = {bytes, bytes};
          return setrlimit(RLIMIT_AS, &limit) != 0 ? 5 : 0;
        }
        // The limit counts the threads of a user, and does not hold for root.
        if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 6;
        const rlimit limit = {static_cast<rlim_t>(i), static_cast<rlim_t>(i)};
        return setrlimit(RLIMIT_NPROC, &limit) != 0 ? 5 : 0;
      });
    });
    worked += code == 0;
    refused += code == 1;
    if (code > 1) {
      std::printf("limit %d: the process ended with %d\n", i, code);
      return 1;
    }
  }
  std::printf("%d worked, %d were refused\n", worked, refused);
  return worked > 0 && refused > 0 ? 0 : 1;
}
