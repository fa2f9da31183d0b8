#include "net/child_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

// The header of glibc 2.36 is one for C.
extern "C" {
#include <sys/pidfd.h>
}

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

namespace troupe {
namespace {

// What went wrong in the child, as bytes of a pipe.
struct ChildError {
  enum Step : int { kFolder, kExecute, kOther };
  int step = kOther;
  int error = 0;
};

// A descriptor beyond the standard ones, which the child replaces.
int Beyond(int descriptor) {
  if (descriptor < 0 || descriptor > 2) return descriptor;
  const int other = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  ::close(descriptor);
  return other;
}

struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    for (int& e : ends) e = Beyond(e);
  }
  ~Pipe() {
    for (int i : {0, 1}) Close(i);
  }
  void Close(int end) {
    if (ends[end] >= 0) ::close(std::exchange(ends[end], -1));
  }
  bool ok() const { return ends[0] >= 0 && ends[1] >= 0; }
  int ends[2] = {-1, -1};
};

// From fork to exec: only what is safe where other threads of the parent held locks.
[[noreturn]] void BeChild(const char* program, char* const* arguments, char* const* environment, const char* folder,
                          pid_t parent, int output, int errors) {
  const auto fail = [errors](ChildError::Step step) {
    const ChildError e{step, errno};
    (void)!::write(errors, &e, sizeof(e));
    ::_exit(127);
  };
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(ChildError::kOther);
  // The parent may be gone already, and nothing would be sent for it.
  if (::getppid() != parent) ::_exit(127);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) ::sigaction(s, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0) {
    fail(ChildError::kOther);
  }
  if (::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int d = 3; d < 4096; ++d) ::fcntl(d, F_SETFD, FD_CLOEXEC);
  }
  if (*folder != '\0' && ::chdir(folder) != 0) fail(ChildError::kFolder);
  ::execve(program, arguments, environment);
  fail(ChildError::kExecute);
  ::_exit(127);
}

std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& more) {
  std::map<std::string, std::string> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text = *each;
    const size_t equal = text.find('=');
    if (equal != std::string_view::npos) all[std::string(text.substr(0, equal))] = std::string(text.substr(equal + 1));
  }
  for (const auto& [name, value] : more) all[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(StrCat(name, "=", value));
  return lines;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& t : *texts) pointers.push_back(t.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status NoMore(const char* of) { return ResourceExhausted("no ", of, " for a process: ", std::strerror(errno)); }

}  // namespace

absl::StatusOr<ChildProcess> StartChild(const ChildCommand& command) {
  std::vector<std::string> words = command.arguments, variables = EnvironmentWith(command.environment);
  const std::vector<char*> arguments = Pointers(&words), environment = Pointers(&variables);
  Pipe output, errors;
  if (!output.ok() || !errors.ok() || ::fcntl(output.ends[0], F_SETFL, O_NONBLOCK) != 0) return NoMore("pipe");
  const pid_t parent = ::getpid();
  ChildProcess child;
  child.pid = ::fork();
  if (child.pid < 0) return NoMore("room");
  if (child.pid == 0) {
    BeChild(command.program.c_str(), arguments.data(), environment.data(), command.folder.c_str(), parent,
            output.ends[1], errors.ends[1]);
  }
  // Here, too, so that the group is there whoever is first. It fails when the child has begun.
  ::setpgid(child.pid, child.pid);
  errors.Close(1);
  ChildError error;
  ssize_t n;
  do {
    n = ::read(errors.ends[0], &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof(error))) {
    ::waitpid(child.pid, nullptr, 0);
    const std::string why = std::strerror(error.error);
    if (error.step == ChildError::kFolder) return NotFound("its folder ", command.folder, ": ", why);
    if (error.step == ChildError::kExecute) return NotFound(command.program, ": ", why);
    return ResourceExhausted("its process could not be prepared: ", why);
  }
  child.watch = ::pidfd_open(child.pid, 0);
  child.output = std::exchange(output.ends[0], -1);
  return child;
}

absl::StatusOr<std::string> FindProgram(const std::string& name) {
  std::error_code error;
  const auto usable = [&](const std::filesystem::path& p) {
    return std::filesystem::is_regular_file(p, error) && ::access(p.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (usable(name)) return std::filesystem::absolute(name).string();
    return NotFound("there is no program ", name);
  }
  const char* path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  while (!name.empty() && !left.empty()) {
    const std::string_view folder = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(left.size(), folder.size() + 1));
    const auto here = std::filesystem::path(folder) / name;
    if (usable(here)) return std::filesystem::absolute(here).string();
  }
  return NotFound("there is no program ", name.empty() ? "''" : name, " in PATH");
}

}  // namespace troupe
