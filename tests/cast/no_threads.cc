// Starts sessions where threads or memory cannot be had: each is made and works, or is refused with a status. Each trial is a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "troupe/troupe.h"

namespace {

// 0: it works; 1: refused as it should be; else wrong.
int Trial(int threads) {
  using namespace troupe;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Add(root.WithOpName("y"), x, x);
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
  const bool memory = std::strcmp(argv[1], "memory") == 0;
  int worked = 0, refused = 0;
  for (int i = 0; i <= 16; ++i) {
    const int code = InChild([&] {
      if (i == 16) return Trial(8);  // without a limit
      if (memory) {
        // Each thread takes 8 MB for its stack.
        const rlim_t bytes = static_cast<rlim_t>(AddressSpaceInUse()) + (static_cast<rlim_t>(i) << 23);
        const rlimit limit = {bytes, bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0) return 5;
      } else {
        // The limit counts the threads of a user, and does not hold for root.
        if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 6;
        const rlimit limit = {static_cast<rlim_t>(i), static_cast<rlim_t>(i)};
        if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 5;
      }
      return Trial(8);
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
