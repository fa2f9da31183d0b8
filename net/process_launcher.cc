#include "net/process_launcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "actors/threads/aside.h"
#include "graph/core/log.h"
#include "net/child_process.h"
#include "net/rotated_log.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kMostLine = 65536, kMostLastLine = 500;

// Cuts what a process writes into lines.
class Lines {
 public:
  template <class F>
  void Add(std::string_view bytes, F told) {
    while (!bytes.empty()) {
      const size_t feed = bytes.find('\n');
      const std::string_view piece = bytes.substr(0, feed);
      line_.append(piece.substr(0, kMostLine - std::min(kMostLine, line_.size())));
      if (feed == std::string_view::npos) return;
      bytes.remove_prefix(feed + 1);
      End(told);
    }
  }
  template <class F>
  void End(F told) {
    if (!line_.empty()) last_ = line_.substr(0, kMostLastLine);
    if (!line_.empty()) told(std::string_view(line_));
    line_.clear();
  }
  const std::string& last() const { return last_; }

 private:
  std::string line_, last_;
};

class Launcher final : public ProcessLauncher {
 public:
  Launcher(const ProcessSupervisorOptions& options, std::vector<ChildCommand> commands, ProcessEvents events, int wake)
      : options_(options), commands_(std::move(commands)), events_(std::move(events)), wake_(wake) {
    // At most one for each of them: nothing is allocated once there is a process.
    children_.reserve(commands_.size());
    for (const ProcessSpec& spec : options_.processes) {
      logs_.push_back(std::make_unique<RotatedLog>(
          options_.logs.empty() ? std::string() : StrCat(options_.logs, "/", spec.name, ".log"), options_.log_bytes,
          options_.log_files));
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~Launcher() override {
    Close();
    thread_.join();
    ::close(wake_);
  }
  void Launch(int process, uint64_t incarnation) override { Order({process, incarnation, 0}); }
  void Signal(int process, uint64_t incarnation, int signal) override { Order({process, incarnation, signal}); }
  void Close() override {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    Wake();
  }

 private:
  struct Child {
    int process = 0;
    uint64_t incarnation = 0;
    ChildProcess it;
    Lines lines;
  };

  void Order(const ProcessGroup::Action& what) {
    std::lock_guard<std::mutex> lock(mu_);
    orders_.push_back(what);
    Wake();
  }
  void Wake() {
    const uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof(one));
  }

  void Run() {
    for (bool on = true; on;) {
      try {
        on = Turn();
      } catch (const std::exception& e) {
        // Out of memory: what is not done is done in the next turn.
        LogWarning("the launcher of processes goes on after: ", e.what());
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    KillAll();
  }
  // False: closed.
  bool Turn() {
    std::vector<pollfd> polled{{wake_, POLLIN, 0}};
    bool watched = true;
    for (const Child& c : children_) {
      polled.push_back({c.it.output, POLLIN, 0});
      polled.push_back({c.it.watch, POLLIN, 0});
      watched = watched && c.it.watch >= 0;
    }
    ::poll(polled.data(), polled.size(), watched ? -1 : 20);
    uint64_t count;
    if (polled[0].revents != 0) (void)!::read(wake_, &count, sizeof(count));
    // From the last one on: one that has ended goes from the list.
    for (size_t i = children_.size(); i-- > 0;) {
      Child& c = children_[i];
      if (polled[1 + 2 * i].revents != 0) Read(&c, 1);
      if ((polled[2 + 2 * i].revents != 0 || c.it.watch < 0) && HasEnded(c)) Finish(i);
    }
    for (;;) {
      ProcessGroup::Action order;
      {
        std::lock_guard<std::mutex> lock(mu_);
        if (closed_) return false;
        if (orders_.empty()) return true;
        order = orders_.front();
        orders_.pop_front();
      }
      order.signal == 0 ? Begin(order) : Send(order);
    }
  }

  void Begin(const ProcessGroup::Action& order) {
    absl::StatusOr<ChildProcess> child = absl::ResourceExhaustedError("no memory");
    try {
      child = StartChild(commands_[static_cast<size_t>(order.process)]);
    } catch (const std::bad_alloc&) {
    }
    // First what needs no memory.
    if (child.ok()) children_.push_back({order.process, order.incarnation, *child, Lines()});
    Note(order.process, [&] {
      return child.ok()
                 ? StrCat("starts as process ", static_cast<int64_t>(child->pid), ", incarnation ", order.incarnation)
                 : StrCat("could not be started: ", child.status().message());
    });
    if (!child.ok()) return events_.launched(order.process, order.incarnation, child.status());
    events_.launched(order.process, order.incarnation, static_cast<int64_t>(child->pid));
  }
  void Send(const ProcessGroup::Action& order) {
    for (const Child& c : children_) {
      if (c.process == order.process && c.incarnation == order.incarnation) ::kill(-c.it.pid, order.signal);
    }
  }
  template <class F>
  void Note(int process, F what) noexcept {
    try {
      const auto i = static_cast<size_t>(process);
      logs_[i]->Append(StrCat("troupe: ", options_.processes[i].name, " ", what(), "\n"));
    } catch (const std::bad_alloc&) {
    }
  }

  void Read(Child* c, int most) {
    char bytes[65536];
    while (c->it.output >= 0 && most-- > 0) {
      const ssize_t n = ::read(c->it.output, bytes, sizeof(bytes));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) {
        ::close(std::exchange(c->it.output, -1));
        return;
      }
      const std::string_view text(bytes, static_cast<size_t>(n));
      logs_[static_cast<size_t>(c->process)]->Append(text);
      c->lines.Add(text, [&](std::string_view line) { Tell(*c, line); });
    }
  }
  void Tell(const Child& c, std::string_view line) {
    if (!options_.on_line) return;
    CallUser("ProcessSupervisorOptions.on_line",
             [&] { options_.on_line(options_.processes[static_cast<size_t>(c.process)].name, c.incarnation, line); });
  }

  static bool HasEnded(const Child& c) {
    siginfo_t info{};
    const int asked = ::waitid(P_PID, static_cast<id_t>(c.it.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    // Where SIGCHLD is ignored, or another thread waits for all children, its end is not to be had.
    return asked == 0 ? info.si_pid != 0 : errno == ECHILD;
  }
  void Finish(size_t i) {
    Child& c = children_[i];
    // What it wrote last, but not all that those whom it left behind go on to write. They end, too,
    // while the number of the group is still its.
    Read(&c, 64);
    c.lines.End([&](std::string_view line) { Tell(c, line); });
    ProcessEnd end;
    end.last_line = c.lines.last();
    siginfo_t info{};
    const bool ours = ::waitid(P_PID, static_cast<id_t>(c.it.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (ours) ::kill(-c.it.pid, SIGKILL);
    // How one ended whose end somebody else took is not known: not well.
    constexpr int kStatus255 = 0xff00;
    if (!ours || ::waitpid(c.it.pid, &end.wait_status, 0) != c.it.pid) end.wait_status = kStatus255;
    CloseChild(&c);
    const int process = c.process;
    const uint64_t incarnation = c.incarnation;
    if (i + 1 < children_.size()) c = std::move(children_.back());
    children_.pop_back();
    Note(process, [&] {
      return WIFEXITED(end.wait_status) ? StrCat("exited with status ", WEXITSTATUS(end.wait_status))
                                        : StrCat("was ended by signal ", WTERMSIG(end.wait_status));
    });
    events_.ended(process, incarnation, std::move(end));
  }
  static void CloseChild(Child* c) {
    if (c->it.output >= 0) ::close(std::exchange(c->it.output, -1));
    if (c->it.watch >= 0) ::close(std::exchange(c->it.watch, -1));
  }
  // One that even so does not end, waiting for a disk, is left to the system.
  void KillAll() {
    for (const Child& c : children_) ::kill(-c.it.pid, SIGKILL);
    const auto end = Clock::now() + std::chrono::seconds(10);
    for (Child& c : children_) {
      while (::waitpid(c.it.pid, nullptr, WNOHANG) == 0 && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CloseChild(&c);
    }
    children_.clear();
  }

  const ProcessSupervisorOptions options_;
  const std::vector<ChildCommand> commands_;
  const ProcessEvents events_;
  const int wake_;
  std::mutex mu_;
  std::deque<ProcessGroup::Action> orders_;
  bool closed_ = false;
  // Of the thread's.
  std::vector<Child> children_;
  std::vector<std::unique_ptr<RotatedLog>> logs_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessLauncher>> NewProcessLauncher(const ProcessSupervisorOptions& options,
                                                                    ProcessEvents events) {
  std::vector<ChildCommand> commands;
  for (const ProcessSpec& spec : options.processes) {
    auto program = FindProgram(spec.command.at(0));
    if (!program.ok()) return Annotate(program.status(), spec.name);
    commands.push_back({*std::move(program), spec.command, spec.environment, spec.folder});
  }
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return ResourceExhausted("no descriptor for the launcher of processes: ", std::strerror(errno));
  try {
    return std::make_unique<Launcher>(options, std::move(commands), std::move(events), wake);
  } catch (const std::system_error& e) {
    ::close(wake);
    return ResourceExhausted("no thread for the launcher of processes: ", e.what());
  }
}

}  // namespace troupe
