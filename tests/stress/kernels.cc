#include "tests/stress/kernels.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/stress/load.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::stress {
namespace {

using namespace std::chrono_literals;

// Nothing is kept for longer than this, so that the program ends whatever happens.
constexpr auto kLongest = 300s;

struct Gate {
  std::mutex mu;
  std::condition_variable opened;
  bool open = false;
  int64_t waiting = 0;
  std::vector<std::function<void()>> answers;  // of asynchronous kernels
};
std::mutex gates_mu;
std::map<int64_t, std::shared_ptr<Gate>> gates;

std::shared_ptr<Gate> GateOf(int64_t call) {
  std::lock_guard<std::mutex> lock(gates_mu);
  const auto it = gates.find(call >> 20);
  return it == gates.end() ? nullptr : it->second;
}

class LateAnswers {
 public:
  void Start() {
    stop_ = false;
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void After(int64_t ms, std::function<void()> what) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      due_.emplace(Clock::now() + std::chrono::milliseconds(ms), std::move(what));
    }
    changed_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    while (!stop_ || !due_.empty()) {
      if (due_.empty()) {
        changed_.wait(lock);
      } else if (due_.begin()->first > Clock::now()) {
        changed_.wait_until(lock, due_.begin()->first);
      } else {
        auto what = std::move(due_.begin()->second);
        due_.erase(due_.begin());
        lock.unlock();
        what();
        what = nullptr;
        lock.lock();
      }
    }
  }
  std::mutex mu_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::multimap<TimePoint, std::function<void()>> due_;
  std::thread thread_;
};
LateAnswers late;

absl::Status OwnError(int64_t call) { return absl::DataLossError(MarkOf(call) + " the kernel's own error"); }

void ThrowAs(Act act, int64_t call) {
  if (act == Act::kThrowInt) throw 42;
  if (act == Act::kThrowNoMemory) throw std::bad_alloc();
  throw std::runtime_error(MarkOf(call) + " thrown");
}

void Spin(int64_t ms) {
  const TimePoint until = Clock::now() + std::chrono::milliseconds(ms);
  while (Clock::now() < until) {
  }
}

TROUPE_OP("StressSync")
    .Input("x: double")
    .Input("how: int64")
    .Input("call: int64")
    .Output("y: double")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it misbehaves")
    .Doc("x, after what `how` says.");
absl::Status Sync(KernelContext& ctx) {
  const int64_t how = ctx.input(1).scalar<int64_t>(), call = ctx.input(2).scalar<int64_t>();
  switch (ActOf(how)) {
    case Act::kSlow:
      std::this_thread::sleep_for(std::chrono::milliseconds(MillisOf(how)));
      break;
    case Act::kBusy:
      Spin(MillisOf(how));
      break;
    case Act::kThrow:
    case Act::kThrowInt:
    case Act::kThrowNoMemory:
      ThrowAs(ActOf(how), call);
      break;
    case Act::kError:
      return OwnError(call);
    case Act::kNoOutput:
      return absl::OkStatus();
    case Act::kStuck:
      if (const auto gate = GateOf(call)) {
        std::unique_lock<std::mutex> lock(gate->mu);
        ++gate->waiting;
        gate->opened.wait_for(lock, kLongest, [&] { return gate->open; });
        --gate->waiting;
      }
      break;
    default:
      break;
  }
  ctx.set_output(0, ctx.input(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("StressSync").Device("CPU").Function<Sync>();

TROUPE_OP("StressAsync")
    .Input("x: double")
    .Input("how: int64")
    .Input("call: int64")
    .Output("y: double")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it misbehaves")
    .Doc("x, when `how` says.");
class Async {
 public:
  explicit Async(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    const int64_t how = ctx.input(1).scalar<int64_t>(), call = ctx.input(2).scalar<int64_t>(), ms = MillisOf(how);
    // The context is there until `done` is called or gone, also when nobody waits for the step any
    // more.
    const auto answer = [&ctx, done] {
      ctx.set_output(0, ctx.input(0));
      done(absl::OkStatus());
    };
    switch (ActOf(how)) {
      case Act::kPass:
        return answer();
      case Act::kSlow:
        return late.After(ms, answer);
      case Act::kBusy:
        Spin(ms);
        return answer();
      case Act::kThrow:
      case Act::kThrowInt:
      case Act::kThrowNoMemory:
        ThrowAs(ActOf(how), call);
        return;
      case Act::kError:
        return done(OwnError(call));
      case Act::kNoOutput:
        return done(absl::OkStatus());
      case Act::kStuck:
        if (const auto gate = GateOf(call)) {
          std::lock_guard<std::mutex> lock(gate->mu);
          if (!gate->open) return gate->answers.push_back(answer);
        }
        return answer();
      case Act::kTwice:
        answer();
        return done(OwnError(call));
      case Act::kTwiceLate:
        answer();  // first, however long this thread is kept from its processor
        return late.After(ms, [done, call] { done(OwnError(call)); });
      case Act::kThrowAfterDone:
        answer();
        return ThrowAs(Act::kThrow, call);
      case Act::kThrowAfterHanding:
        late.After(ms, [done] { done(absl::OkStatus()); });
        return ThrowAs(Act::kThrow, call);
      case Act::kDrop:
        return;
      case Act::kDropLate:
        return late.After(ms, [done] {});
      case Act::kErrorLate:
        return late.After(ms, [done, call] { done(OwnError(call)); });
    }
  }
};
TROUPE_KERNEL("StressAsync").Device("CPU").Class<Async>();

TROUPE_OP("StressBadBirth")
    .Input("x: double")
    .Output("y: double")
    .Attr("what: int")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it cannot be made")
    .Doc("Its kernel's constructor throws.");
class BadBirth {
 public:
  explicit BadBirth(KernelInit& init) {
    const auto what = init.Attr<int64_t>("what");
    if (what == 1) throw 7;
    if (what == 2) throw std::bad_alloc();
    throw std::runtime_error("a bad birth");
  }
  absl::Status Compute(KernelContext&) { return absl::OkStatus(); }
};
TROUPE_KERNEL("StressBadBirth").Device("CPU").Class<BadBirth>();

TROUPE_OP("StressWrongType")
    .Input("x: double")
    .Output("y: double")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it is of no type")
    .Doc("An int32.");
absl::Status WrongType(KernelContext& ctx) {
  ctx.set_output(0, Tensor::Scalar<int32_t>(1));
  return absl::OkStatus();
}
TROUPE_KERNEL("StressWrongType").Device("CPU").Function<WrongType>();

}  // namespace

const char* NameOf(Act act) {
  constexpr const char* kNames[] = {"pass",
                                    "slow",
                                    "busy",
                                    "throw",
                                    "throw int",
                                    "throw bad_alloc",
                                    "error",
                                    "no output",
                                    "stuck",
                                    "twice",
                                    "twice late",
                                    "throw after done",
                                    "throw after handing done on",
                                    "drop done",
                                    "drop done late",
                                    "error late"};
  return kNames[static_cast<int>(act)];
}

bool MustFail(Act act) {
  switch (act) {
    case Act::kThrow:
    case Act::kThrowInt:
    case Act::kThrowNoMemory:
    case Act::kError:
    case Act::kNoOutput:
    case Act::kThrowAfterHanding:
    case Act::kDrop:
    case Act::kDropLate:
    case Act::kErrorLate:
      return true;
    default:
      return false;
  }
}

std::string MarkOf(int64_t call) { return "stress-call-" + std::to_string(call) + ";"; }

void MakeGate(int64_t scenario) {
  std::lock_guard<std::mutex> lock(gates_mu);
  gates[scenario] = std::make_shared<Gate>();
}

void OpenGate(int64_t scenario) {
  const auto gate = GateOf(CallNumber(scenario, 0));
  if (gate == nullptr) return;
  std::vector<std::function<void()>> answers;
  {
    std::lock_guard<std::mutex> lock(gate->mu);
    gate->open = true;
    answers.swap(gate->answers);
  }
  gate->opened.notify_all();
  // Not on this thread, which may be one that a step's end waits for.
  for (auto& a : answers) late.After(0, std::move(a));
  std::lock_guard<std::mutex> lock(gates_mu);
  gates.erase(scenario);
}

int64_t WaitingAtGate(int64_t scenario) {
  const auto gate = GateOf(CallNumber(scenario, 0));
  if (gate == nullptr) return 0;
  std::lock_guard<std::mutex> lock(gate->mu);
  return gate->waiting + static_cast<int64_t>(gate->answers.size());
}

void StartLateAnswers() { late.Start(); }
void StopLateAnswers() { late.Stop(); }

}  // namespace troupe::stress
