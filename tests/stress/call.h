// A call: what it asks for, what was answered, and whether that is what the scenario allows.
//
// Each call is answered exactly once. Its plan is drawn before anything runs; what may befall it
// (Close, kills, ...) is noted in its party and its place before it is done to them, so that a
// status is allowed when its reason was there at the time of the answer.
#ifndef TROUPE_TESTS_STRESS_CALL_H_
#define TROUPE_TESTS_STRESS_CALL_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/stress/kernels.h"
#include "tests/stress/load.h"
#include "tests/stress/model.h"
#include "troupe/actors.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe::stress {

// A time that threads note; the first one counts.
class Moment {
 public:
  void Now() {
    TimePoint never = kNever;
    at_.compare_exchange_strong(never, Clock::now());
  }
  TimePoint at() const { return at_.load(); }
  bool came() const { return at() != kNever; }

 private:
  std::atomic<TimePoint> at_{kNever};
};

// A runtime, and what has been done to it.
struct Place {
  RuntimeOptions options;
  bool foreign = false;  // in an actor system of the scenario's
  std::unique_ptr<caf::actor_system_config> config;
  std::unique_ptr<caf::actor_system> system;  // where it is foreign
  std::shared_ptr<Runtime> runtime;
  size_t actors = 0;   // that run in it before any session is made
  Moment killed;       // an actor of the runtime was killed
  double slow_ms = 0;  // what all its kernels take together
  bool stuck = false;  // some do not end before the gate opens
};

// A session, and what has been done to it.
struct Party {
  int index = 0;
  Place* place = nullptr;
  std::unique_ptr<Model> first, model;  // what it begins with, and what it may be extended to
  SessionOptions options;
  std::vector<std::vector<int>> signatures;  // fetches
  Moment closing, closed, killed, reset, extending, extended;

  std::mutex mu;  // guards what follows
  std::shared_ptr<Session> session;
  std::vector<Callable> callables;       // by signature
  std::set<std::array<float, 4>> noise;  // what was drawn

  // Calls that run its counter: those that have begun, and those that were OK.
  std::atomic<int64_t> counter_started{0}, counter_ok{0};

  std::shared_ptr<Session> Get() {
    std::lock_guard<std::mutex> lock(mu);
    return session;
  }
};

enum class Mode {
  kBlocking,
  kAsync,
  kPrepared,  // Callable, blocking
  kPreparedAsync,
  kPartial,
  kHandlerAsync,  // RunAsync in an actor's handler
  kHandlerPrepared,
  kHandlerRefused,  // a blocking Run there
  kRequest,         // an actor's run_request to the session's actor
};
const char* NameOf(Mode mode);

struct Call {
  // Its plan.
  int64_t number = 0;
  Party* party = nullptr;
  Mode mode = Mode::kBlocking;
  int signature = 0;
  Inputs in;
  int64_t timeout_ms = 0;       // as in RunOptions
  double cancel_after_ms = -1;  // 0 = before it begins; negative = never
  bool callback_throws = false, metadata = false, keeps_session = true, abandon = false;
  int pause_us = 0;  // before it is made
  int then = -1;     // the call that its callback makes

  // Its life.
  CancellationToken token;
  Moment started, cancelling, answered, returned;  // returned: RunAsync gave the thread back
  bool was_closed = false, was_extended = false;   // when it began
  std::atomic<int> answers{0};
  std::atomic<bool> judged{false}, issuing{false};  // issuing: it is one for RunAsync
  proto::RunMetadata stats;
  Act act() const { return ActOf(in.how); }
  const std::vector<int>& fetches() const { return party->signatures[static_cast<size_t>(signature)]; }
  bool Has(Kind kind) const;
  // How often its misbehaving kernels run, all together; of synchronous ones only.
  int64_t TimesRun() const;
  int64_t TimesRunSync() const;
  bool blocking() const { return mode == Mode::kBlocking || mode == Mode::kPrepared || mode == Mode::kPartial; }
  int64_t deadline_ms() const;
  std::string Describe() const;
  // By when it must be answered, as far as is known now. `gate`: when stuck kernels go on.
  TimePoint Due(TimePoint gate) const;
};

// Inputs of a step in which nobody misbehaves.
inline Inputs PlainInputs(const Party& p) {
  return {.x = 3, .n = 2, .v = Value(static_cast<size_t>(p.model->vector_length()), 5.0)};
}

// To be called with each answer, on whatever thread it comes.
void Judge(Call& call, const absl::Status& status, const std::vector<Tensor>& outputs, TimePoint gate);

// The numbers that a random op of this seed gives in a session of its own, by step.
void RecordNoise();

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_CALL_H_
