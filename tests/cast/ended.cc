// The end of a runtime while one of its threads is still at work for it: nothing that this one uses
// goes before it is done.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "actors/runtime/runtime_impl.h"
#include "actors/threads/aside.h"
#include "tests/checkpoint/held_files.h"
#include "troupe/kernel.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;
using Clock = std::chrono::steady_clock;

#define EXPECT(condition)                               \
  if (!(condition)) {                                   \
    std::printf("line %d: " #condition "\n", __LINE__); \
    std::fflush(stdout);                                \
    _exit(2);                                           \
  }

// An actor system whose memory cannot be touched any more after its end.
class System {
 public:
  System() {
    memory_ = mmap(nullptr, sizeof(caf::actor_system), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(memory_ != MAP_FAILED);
    system_ = new (memory_) caf::actor_system(config_);
  }
  void End() {
    system_->~actor_system();
    EXPECT(mprotect(memory_, sizeof(caf::actor_system), PROT_NONE) == 0);
  }
  caf::actor_system& operator*() { return *system_; }
  bool Has(const void* p) const {
    return p >= memory_ && p < static_cast<const char*>(memory_) + sizeof(caf::actor_system);
  }

 private:
  caf::actor_system_config config_;
  void* memory_ = nullptr;
  caf::actor_system* system_ = nullptr;
};

// This thread takes its time before each lock of this system.
System* slow_in = nullptr;
thread_local bool is_slow = false;

// A callback that ends the session, and with it the runtime, and works on for longer than anybody
// waits.
void CallbackWorksOn(bool own, bool in_callback) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Add(root.WithOpName("y"), x, x);
  const Feeds feeds = {{"x", Tensor::Scalar(2.0f)}};
  std::unique_ptr<System> system;
  SessionOptions options;
  options.lend_thread_us = 0;
  options.runtime_options.threads = 2;
  if (!own) {
    system = std::make_unique<System>();
    options.runtime = StartRuntimeIn(**system, options.runtime_options).value();
  }
  std::shared_ptr<Session> session = Session::Create(options).value();
  const std::weak_ptr<Device> device = session->runtime()->impl()->devices[0];
  options.runtime = nullptr;
  EXPECT(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  EXPECT(session->Run(feeds, {"y"}, {}, &out).ok());
  struct Shared {
    std::promise<void> begun;
    std::atomic<bool> over{false};
    std::shared_ptr<Session> session;
  };
  auto shared = std::make_shared<Shared>();
  if (in_callback) shared->session = session;
  auto begun = shared->begun.get_future();
  session->RunAsync(feeds, {"y"}, {}, [shared](absl::Status s, std::vector<Tensor>) {
    EXPECT(s.ok());
    shared->session = nullptr;
    shared->begun.set_value();
    const auto until = Clock::now() + std::chrono::milliseconds(1400);
    while (Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    shared->over = true;
  });
  begun.wait();
  session = nullptr;
  // The caller's system waits for the callback's thread, which is one of its runtime's.
  if (!own) {
    system->End();
    EXPECT(shared->over);
  }
  const auto until = Clock::now() + std::chrono::seconds(60);
  while (!(shared->over && device.expired()) && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT(shared->over);
  EXPECT(device.expired());  // nothing is left for good
}

// The last share of a runtime goes on a thread for which nobody waits, while the owner of the actor
// system ends it.
void LastShareGoesOnAPlainThread() {
  System system;
  auto runtime = StartRuntimeIn(*system, {}).value();
  slow_in = &system;
  std::thread last([&] {
    is_slow = true;
    runtime = nullptr;
    is_slow = false;
  });
  // From the moment on in which nothing runs in the system any more.
  const auto until = Clock::now() + std::chrono::seconds(60);
  while ((*system).registry().running() != 0 && Clock::now() < until) {
  }
  system.End();
  last.join();
}

// Main returns while a product goes on whose step was answered long ago.
void AProductGoesOn() {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::MatMul(root.WithOpName("y"), x, x);
  auto session = Session::Create({.runtime_options = {.threads = 2}}).value();
  EXPECT(session->Extend(*root.graph()).ok());
  Tensor big(DType::kFloat, TensorShape({3000, 3000}));
  std::fill_n(big.data<float>(), big.num_elements(), 1.0f);
  RunOptions options;
  options.timeout_ms = 10;
  const absl::Status s = session->Run(options, {{"x", big}}, {"y"}, {}, nullptr, nullptr);
  EXPECT(absl::IsDeadlineExceeded(s));
}

// A product begins while static objects are destroyed, oneDNN's among them.
TROUPE_OP("EndedNaps").Input("x: float").Output("y: float").Stateful().NotDifferentiable("a test's").Doc("");
std::atomic<int> nap_ms{0}, naps{0};
absl::Status Nap(KernelContext& ctx) {
  ++naps;
  std::this_thread::sleep_for(std::chrono::milliseconds(nap_ms));
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("EndedNaps").Device("CPU").Function<Nap>();

bool line_is_awaited = false;
std::atomic<int> late_lines{0};
// Looks after all that follows it has ended.
struct LineIsHeard {
  ~LineIsHeard() { EXPECT(!line_is_awaited || late_lines == 1); }
} line_is_heard;

struct SlowToGo {
  ~SlowToGo() { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  int ms = 0;
};
std::unique_ptr<Session> static_session;
SlowToGo slow_to_go;

void AProductBegins() {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output y = ops::MatMul(root, EmitOp(root, "EndedNaps", {x}).output(0), x);
  static_session = Session::Create({.runtime_options = {.threads = 2}}).value();
  EXPECT(static_session->Extend(*root.graph()).ok());
  Tensor big(DType::kFloat, TensorShape({1500, 1500}));
  std::fill_n(big.data<float>(), big.num_elements(), 1.0f);
  std::vector<Tensor> out;
  EXPECT(static_session->Run({{x, big}}, {y}, {}, &out).ok());
  slow_to_go.ms = 100;
  nap_ms = 50;
  naps = 0;
  static_session->RunAsync({{x, big}}, {}, {y}, [](absl::Status, std::vector<Tensor>) {});
  while (naps == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// A callback throws after main has returned and spdlog has ended. What is logged of it goes to the
// program's logger still.
struct CountingSink : spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg&) override { ++late_lines; }
  void flush_() override {}
};

void ALineIsLate() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("late", std::make_shared<CountingSink>()));
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output y = ops::Add(root, x, x);
  SessionOptions options;
  options.lend_thread_us = 0;
  static_session = Session::Create(options).value();
  EXPECT(static_session->Extend(*root.graph()).ok());
  slow_to_go.ms = 600;
  line_is_awaited = true;
  static_session->RunAsync({{x, Tensor::Scalar(1.0f)}}, {y}, {}, [](absl::Status, std::vector<Tensor>) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    throw std::runtime_error("late");
  });
}

// Work that the destructor of an object with static storage begins, when the end of the process has
// waited for all else: it is waited for before the objects that were there earlier go.
std::atomic<bool> late_work{false};
struct LateWorkIsOver {
  ~LateWorkIsOver() { EXPECT(!late_work); }
} late_work_is_over;
struct BeginsLateWork {
  ~BeginsLateWork() {
    if (!begins) return;
    late_work = true;
    std::thread([at_exit = UntilExit()] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      late_work = false;
    }).detach();
  }
  bool begins = false;
} begins_late_work;

void WorkBeginsLate() {
  UntilExit() = nullptr;
  begins_late_work.begins = true;
}

// Main returns while a save beside steps writes its file.
std::atomic<bool> save_begun{false}, save_over{false};
struct OverAtEnd {
  ~OverAtEnd() { EXPECT(!save_begun || save_over); }
} over_at_end;

void ASaveGoesOn() {
  EXPECT(files::RegisterFileSystem("slow", std::make_shared<HeldFiles>([](std::string_view op, const std::string&) {
                                     if (op != "OpenToWrite") return;
                                     save_begun = true;
                                     std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                   }))
             .ok());
  Scope root = Scope::NewRootScope();
  Variable v(root.WithOpName("v"), Const(root, 1.0f, TensorShape({20})));
  train::Saver saver(root, train::SaverOptions());
  const Operation init = GlobalVariablesInitializer(root);
  auto session = Session::Create({}).value();
  EXPECT(session->Extend(*root.graph()).ok());
  EXPECT(session->Run({}, {}, {init}, nullptr).ok());
  saver.SaveAsync(*session, "slow://d/m", {}, [](const absl::StatusOr<std::string>& saved) {
    EXPECT(saved.ok());
    save_over = true;
  });
  while (!save_begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Its parent's end waits for a thread, which the child has not got.
void AChildEnds() {
  const std::shared_ptr<void> parents = UntilExit();
  const pid_t child = fork();
  if (child == 0) {
    UntilExit() = nullptr;
    std::exit(0);
  }
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 5000 && ended == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) kill(child, SIGKILL);
  EXPECT(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

extern "C" int pthread_mutex_lock(pthread_mutex_t* m) {
  static auto* const real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (is_slow && slow_in->Has(m)) usleep(20000);
  return real(m);
}

int main(int, char** argv) {
  alarm(100);
  if (std::strcmp(argv[1], "own") == 0) {
    CallbackWorksOn(true, false);
  } else if (std::strcmp(argv[1], "own_in_callback") == 0) {
    CallbackWorksOn(true, true);
  } else if (std::strcmp(argv[1], "callers") == 0) {
    CallbackWorksOn(false, false);
  } else if (std::strcmp(argv[1], "callers_in_callback") == 0) {
    CallbackWorksOn(false, true);
  } else if (std::strcmp(argv[1], "plain_thread") == 0) {
    LastShareGoesOnAPlainThread();
  } else if (std::strcmp(argv[1], "product") == 0) {
    AProductGoesOn();
  } else if (std::strcmp(argv[1], "late_product") == 0) {
    AProductBegins();
  } else if (std::strcmp(argv[1], "late_line") == 0) {
    ALineIsLate();
  } else if (std::strcmp(argv[1], "late_work") == 0) {
    WorkBeginsLate();
  } else if (std::strcmp(argv[1], "save") == 0) {
    ASaveGoesOn();
  } else if (std::strcmp(argv[1], "child") == 0) {
    AChildEnds();
  } else {
    return 3;
  }
}
