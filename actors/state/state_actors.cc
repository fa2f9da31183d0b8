#include "actors/state/state_actors.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "actors/threads/actor_thread.h"
#include "actors/threads/lean_actor.h"
#include "actors/messages/messages.h"
#include "actors/threads/surely.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"

namespace troupe {
namespace {

// What make() says, however long there is no memory for its text.
template <class F>
absl::Status Surely(F&& make) noexcept {
  absl::Status status;
  UntilMemoryAllows([&] { status = make(); });
  return status;
}

// What one of them calls may throw; the others wait for their answers all the same.
void AnswerAll(const std::vector<StateLetter>& letters, const absl::Status& why) noexcept {
  for (const StateLetter& l : letters) (void)Guarded("who waits for a resource", [&] { l.request->Answer(why); });
}

// Resumes an actor on the thread that woke it.
class AskersThread : public caf::execution_unit {
 public:
  using caf::execution_unit::execution_unit;
  void exec_later(caf::resumable* actor) override {
    constexpr size_t kThroughput = 64;
    switch (actor->resume(this, kThroughput)) {
      case caf::resumable::resume_later:
        return ScheduleSurely(system(), actor);
      case caf::resumable::awaiting_message:
      case caf::resumable::done:
        return caf::intrusive_ptr_release(actor);
      case caf::resumable::shutdown_execution_unit:
        return;
    }
  }
};

}  // namespace

// The place of one machine's actor, whichever incarnation sits there.
class StateSeat : public std::enable_shared_from_this<StateSeat> {
 public:
  StateSeat(caf::actor_system* system, caf::execution_unit* home, std::shared_ptr<StateMachine> machine)
      : system_(system), home_(home), machine_(std::move(machine)) {}
  ~StateSeat() {
    if (!waiting_.empty()) AnswerAll(waiting_, Surely([this] { return Aborted(What(), " is gone"); }));
  }

  // The next incarnation; null when the seat has ended.
  caf::actor Spawn();
  // Throws std::bad_alloc when there is no memory for it to be sent.
  void Send(StateLetter letter) { Send(&letter); }
  // Of an actor that is dead.
  void Undelivered(uint64_t incarnation, StateLetter letter) noexcept;
  void Open(const StateLetter& letter) { machine_->Open(letter); }
  // In the last turn of an actor.
  void Left(uint64_t incarnation);
  // No incarnation follows; letters get this answer.
  void End(const absl::Status& why);
  bool ended() const {
    std::lock_guard<std::mutex> lock(mu_);
    return !why_.ok();
  }
  caf::actor actor() const {
    std::lock_guard<std::mutex> lock(mu_);
    return actor_;
  }
  std::string What() const { return machine_->DebugString(); }
  // No thread is about to send to an actor of this seat. Once it has ended and this was true, no
  // thread touches the actor system for it any more.
  bool quiet() const { return sending_.load(std::memory_order_acquire) == 0; }

 private:
  // A thread that has an actor of this seat in hand. Begins with the lock held.
  class Sending {
   public:
    ~Sending() {
      if (seat_ != nullptr) seat_->sending_.fetch_sub(1, std::memory_order_release);
    }
    void Begin(StateSeat* seat) {
      seat->sending_.fetch_add(1, std::memory_order_relaxed);
      seat_ = seat;
    }

   private:
    StateSeat* seat_ = nullptr;
  };

  // To `actor`, or back to the seat. Where it throws std::bad_alloc, it has done nothing, and the
  // letter is its caller's still.
  void Deliver(const caf::actor& actor, uint64_t incarnation, StateLetter* letter);
  void Send(StateLetter* letter);

  caf::actor_system* const system_;
  caf::execution_unit* const home_;
  const std::shared_ptr<StateMachine> machine_;
  mutable std::mutex mu_;  // guards:
  caf::actor actor_;
  uint64_t incarnation_ = 0, left_ = 0;  // the last one, and the last that has died
  std::vector<StateLetter> waiting_;
  absl::Status why_;
  std::atomic<int> sending_{0};  // grows under mu_
};

namespace {

StateLetter LetterIn(state_letter* m) { return {static_cast<StateLetter::Kind>(m->kind), std::move(m->request)}; }

class StateActor : public LeanActor<StateActor> {
 public:
  StateActor(caf::actor_config& cfg, std::shared_ptr<StateSeat> seat, uint64_t incarnation)
      : LeanActor(cfg), seat_(std::move(seat)), incarnation_(incarnation) {
    set_error_handler([](caf::error&) {});
    set_default_handler(caf::drop);
  }
  const char* name() const override { return "troupe.state"; }
  caf::behavior make_behavior() override {
    return {[this](state_letter& m) { Open(&m); }};
  }
  bool Take(caf::type_erased_tuple& content) {
    if (!content.match_elements<state_letter>()) return false;
    Open(&content.get_mutable_as<state_letter>(0));
    return true;
  }
  void on_exit() override {
    if (seat_ != nullptr) std::exchange(seat_, nullptr)->Left(incarnation_);
  }

 private:
  void Open(state_letter* m) {
    m->to = nullptr;
    seat_->Open(LetterIn(m));
  }

  std::shared_ptr<StateSeat> seat_;
  const uint64_t incarnation_;
};

// A resource's mailbox, with which the actor ends.
class SeatMailbox : public StateMailbox {
 public:
  explicit SeatMailbox(std::shared_ptr<StateSeat> seat) : seat_(std::move(seat)) {}
  ~SeatMailbox() override {
    seat_->End(Surely([this] { return Aborted(seat_->What(), " is gone"); }));
  }
  void Send(StateLetter letter) override { seat_->Send(std::move(letter)); }
  const StateSeat& seat() const { return *seat_; }

 private:
  const std::shared_ptr<StateSeat> seat_;
};

}  // namespace

state_letter::~state_letter() {
  if (const std::shared_ptr<StateSeat> seat = std::move(to)) seat->Undelivered(incarnation, LetterIn(this));
}

caf::actor StateSeat::Spawn() {
  std::vector<StateLetter> letters;
  caf::actor actor;
  uint64_t incarnation;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!why_.ok()) return nullptr;
    incarnation = ++incarnation_;
    NoLoggerAfter restore;
    actor = system_->spawn<StateActor, caf::hidden + caf::lazy_init>(shared_from_this(), incarnation);
  }
  // It is named when all letters that have waited lie in its mailbox, so that none overtakes them.
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (!why_.ok() || left_ == incarnation) return actor;
      letters.swap(waiting_);
      if (letters.empty()) {
        actor_ = actor;
        return actor;
      }
    }
    // Their askers have gone on, and wait.
    for (StateLetter& l : letters) UntilMemoryAllows([&] { Deliver(actor, incarnation, &l); });
    letters.clear();
  }
}

void StateSeat::Deliver(const caf::actor& actor, uint64_t incarnation, StateLetter* letter) {
  // It allocates first, and moves then.
  caf::mailbox_element_ptr element =
      caf::make_mailbox_element(nullptr, caf::make_message_id(), caf::no_stages, state_letter());
  auto& m = element->content().get_mutable_as<state_letter>(0);
  m.to = shared_from_this();
  m.incarnation = incarnation;
  m.kind = static_cast<uint8_t>(letter->kind);
  m.request = std::move(letter->request);
  if (home_ != nullptr) return actor->enqueue(std::move(element), home_);
  EnqueueSurely(*system_, caf::actor_cast<caf::abstract_actor*>(actor), std::move(element));
}

void StateSeat::Send(StateLetter* letter) {
  Sending sending;  // destroyed after the share of the actor
  caf::actor actor;
  uint64_t incarnation;
  {
    std::unique_lock<std::mutex> lock(mu_);
    if (!why_.ok()) {
      const absl::Status why = why_;
      lock.unlock();
      return letter->request->Answer(why);
    }
    if (!actor_) return waiting_.push_back(std::move(*letter));
    actor = actor_;
    incarnation = incarnation_;
    sending.Begin(this);
  }
  Deliver(actor, incarnation, letter);
}

// Its asker has gone on, and waits.
void StateSeat::Undelivered(uint64_t incarnation, StateLetter letter) noexcept {
  UntilMemoryAllows([&] {
    {
      std::lock_guard<std::mutex> lock(mu_);
      // An actor that ended without a last turn, with its actor system, is still named here.
      if (why_.ok() && (!actor_ || incarnation_ == incarnation)) return waiting_.push_back(std::move(letter));
    }
    Send(&letter);
  });
}

void StateSeat::Left(uint64_t incarnation) {
  absl::Status why;
  {
    std::lock_guard<std::mutex> lock(mu_);
    actor_ = nullptr;
    left_ = incarnation;
    why = why_;
  }
  if (why.ok()) {
    why = Surely([this] {
      return Aborted("the actor of ", What(), " died while the request waited; it is restarted with its elements");
    });
  }
  machine_->AbortWaiting(why);
}

void StateSeat::End(const absl::Status& why) {
  std::vector<StateLetter> letters;
  Sending sending;
  caf::actor actor;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!why_.ok()) return;
    why_ = why;
    sending.Begin(this);
    actor = std::move(actor_);
    actor_ = nullptr;
    letters.swap(waiting_);
  }
  AnswerAll(letters, why);
  StopSurely(*system_, actor);
}

StateActors::StateActors(caf::actor_system* system, std::shared_ptr<Directory> directory, std::string device,
                         RestartPolicy policy, bool on_askers_thread)
    : system_(system),
      directory_(directory),
      device_(std::move(device)),
      policy_(std::move(policy)),
      askers_thread_(on_askers_thread ? std::make_unique<AskersThread>(system) : nullptr),
      children_(directory) {}

StateActors::~StateActors() = default;

std::unique_ptr<StateMailbox> StateActors::Open(std::shared_ptr<StateMachine> machine) {
  auto seat = std::make_shared<StateSeat>(system_, askers_thread_.get(), std::move(machine));
  auto mailbox = std::make_unique<SeatMailbox>(seat);
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) {
      seat->End(Aborted("the runtime has ended"));
      return mailbox;
    }
    if (all_.size() >= sweep_at_) {
      std::erase_if(all_, [](const std::weak_ptr<StateSeat>& s) { return s.expired(); });
      sweep_at_ = 2 * all_.size() + 16;
    }
    all_.push_back(seat);
    new_.push_back(seat);
    seat->Spawn();
  }
  // While it is down there is nobody to tell; the next incarnation looks by itself.
  SendSurely(*system_, directory_->Find("container:" + device_), [] { return states_came{}; });
  return mailbox;
}

void StateActors::Close() {
  std::vector<std::weak_ptr<StateSeat>> all;
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    all.swap(all_);  // takes no memory, and nobody adds to it now
    new_.clear();
  }
  for (const std::weak_ptr<StateSeat>& s : all) {
    if (const std::shared_ptr<StateSeat> seat = s.lock())
      seat->End(Surely([&] { return Aborted("the runtime of ", seat->What(), " has ended"); }));
  }
  std::lock_guard<std::mutex> lock(mu_);
  all_.swap(all);
}

bool StateActors::WaitUntilQuiet(std::chrono::milliseconds at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  const auto quiet = [this] {
    std::lock_guard<std::mutex> lock(mu_);
    return std::all_of(all_.begin(), all_.end(), [](const std::weak_ptr<StateSeat>& s) {
      const std::shared_ptr<StateSeat> seat = s.lock();
      return seat == nullptr || seat->quiet();
    });
  };
  // A sender is there for moments, and tells nobody when it goes: that would cost each letter.
  while (!quiet()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void StateActors::TakeOver(caf::event_based_actor* container) {
  children_.TakeOver(container);
  TakeNew(container);
}

void StateActors::TakeNew(caf::event_based_actor* container) {
  // One stays in the list until it is watched: if memory runs out, the next container finds it.
  for (;; TookFirst()) {
    std::shared_ptr<StateSeat> seat;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (new_.empty()) return;
      seat = new_.front();
    }
    caf::actor first = seat->actor();
    if (!first && seat->ended()) continue;
    ChildSpec spec;
    spec.name = StrCat("state:", device_, ":", ++last_);
    spec.policy = policy_;
    spec.spawn = [seat](caf::actor_system&, uint64_t) { return seat->Spawn(); };
    spec.failed = [seat](const std::string& why) {
      if (!seat->ended()) LogWarning("the actor of ", seat->What(), " failed (", why, "); it is restarted");
    };
    spec.gave_up = [seat](const std::string& why) {
      LogError("the actor of ", seat->What(), " failed too often (", why, "); it is not restarted");
      seat->End(FailedPrecondition("the actor of ", seat->What(), " failed too often and is not restarted: ", why));
    };
    // One that died before it was watched.
    if (!first) first = seat->Spawn();
    if (!first) continue;
    const std::string name = spec.name;
    children_.Adopt(std::move(spec), first);
    children_.Watch(container, name);
  }
}

void StateActors::TookFirst() {
  std::lock_guard<std::mutex> lock(mu_);
  if (!new_.empty()) new_.pop_front();
}

void StateActors::OnDown(caf::event_based_actor* container, const caf::down_msg& down) {
  children_.OnDown(container, down);
}
void StateActors::OnRestart(caf::event_based_actor* container, uint64_t number) {
  children_.OnRestart(container, number);
}
void StateActors::StopAll() { children_.StopAll(); }

caf::actor StateActorOf(const StateMailbox& mailbox) {
  const auto* const seat = dynamic_cast<const SeatMailbox*>(&mailbox);
  return seat == nullptr ? caf::actor() : seat->seat().actor();
}

}  // namespace troupe
