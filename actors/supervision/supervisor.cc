#include "actors/supervision/supervisor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/messages/messages.h"
#include "actors/threads/surely.h"
#include "graph/core/log.h"

namespace troupe {

std::chrono::milliseconds RestartDecision::OnFailure(Time now) {
  while (!failures_.empty() && now - failures_.front() > policy_.window) failures_.pop_front();
  failures_.push_back(now);
  const int n = static_cast<int>(failures_.size());
  if (n > policy_.max_failures) return std::chrono::milliseconds(-1);
  const double base = static_cast<double>(policy_.min_delay.count()) * std::pow(policy_.factor, n - 1);
  const double bounded = std::min(base, static_cast<double>(policy_.max_delay.count()));
  std::uniform_real_distribution<double> off(1.0 - policy_.jitter, 1.0 + policy_.jitter);
  return std::chrono::milliseconds(std::max<int64_t>(0, std::llround(bounded * off(random_))));
}

void Directory::Set(const std::string& name, caf::actor actor, uint64_t incarnation) {
  std::lock_guard<std::mutex> lock(mu_);
  const bool arrives = !!actor;
  actors_[name] = {std::move(actor), incarnation};
  if (!arrives) return;
  if (!lost_.empty()) lost_.erase(name);
  ++arrivals_;
  arrived_.notify_all();
}
void Directory::Lose(const std::string& name, absl::Status why) {
  std::lock_guard<std::mutex> lock(mu_);
  lost_[name] = std::move(why);
  actors_.erase(name);
}
uint64_t Directory::arrivals() const {
  std::lock_guard<std::mutex> lock(mu_);
  return arrivals_;
}
bool Directory::WaitForArrival(uint64_t seen, std::chrono::steady_clock::time_point limit) const {
  std::unique_lock<std::mutex> lock(mu_);
  return arrived_.wait_until(lock, limit, [&] { return arrivals_ > seen; });
}
caf::actor Directory::Find(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = actors_.find(name);
  return it == actors_.end() ? caf::actor() : it->second.first;
}
void Directory::GiveUp(const std::string& name, const std::string& why) {
  std::lock_guard<std::mutex> lock(mu_);
  given_up_[name] = why;
}
void Directory::RootIsOver() {
  std::lock_guard<std::mutex> lock(mu_);
  root_is_over_ = true;
}
bool Directory::root_is_over() const {
  std::lock_guard<std::mutex> lock(mu_);
  return root_is_over_;
}
absl::Status Directory::WhyDown(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (const auto lost = lost_.find(name); lost != lost_.end()) return lost->second;
  const auto it = given_up_.find(name);
  if (it == given_up_.end()) return Unavailable("the actor '", name, "' is being restarted; try again");
  return FailedPrecondition("the actor '", name,
                            "' failed too often and is not restarted; the last time: ", it->second);
}
uint64_t Directory::Incarnation(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = actors_.find(name);
  return it == actors_.end() ? 0 : it->second.second;
}
void Directory::Forget(const std::string& name) {
  std::lock_guard<std::mutex> lock(mu_);
  actors_.erase(name);
  given_up_.erase(name);
}
size_t Directory::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return actors_.size();
}

void Children::Insert(ChildSpec spec, const caf::actor& first) {
  const std::string name = spec.name;
  const RestartPolicy policy = spec.policy;
  std::lock_guard<std::mutex> lock(mu_);
  const uint64_t number = last_ + 1;
  const auto before = by_name_.find(name);
  const uint64_t of_before = before == by_name_.end() ? 0 : before->second;
  try {
    children_.emplace(number, Child{std::move(spec), RestartDecision(policy), first});
    by_actor_.emplace(first.id(), number);
    by_name_[name] = number;
    directory_->Set(name, first, 1);
  } catch (...) {
    children_.erase(number);
    by_actor_.erase(first.id());
    const auto it = by_name_.find(name);
    if (it != by_name_.end() && of_before == 0)
      by_name_.erase(it);
    else if (it != by_name_.end())
      it->second = of_before;
    throw;
  }
  last_ = number;
}

void Children::Spawn(caf::actor_system& system, ChildSpec spec) {
  const caf::actor first = spec.spawn(system, 1);
  try {
    Insert(std::move(spec), first);
  } catch (...) {
    StopSurely(system, first);
    throw;
  }
}

void Children::Adopt(ChildSpec spec, const caf::actor& first) { Insert(std::move(spec), first); }

void Children::Doom(const std::string& name) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = by_name_.find(name);
  if (it != by_name_.end()) children_.at(it->second).doomed = true;
}

Children::Child* Children::Find(uint64_t number) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = children_.find(number);
  return it == children_.end() ? nullptr : &it->second;
}

Children::Child* Children::Find(const std::string& name, uint64_t* number) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = by_name_.find(name);
  if (it == by_name_.end()) return nullptr;
  *number = it->second;
  return &children_.at(it->second);
}

void Children::SetActor(uint64_t number, Child* child, caf::actor actor) {
  std::lock_guard<std::mutex> lock(mu_);
  if (actor) by_actor_[actor.id()] = number;
  if (child->actor) by_actor_.erase(child->actor.id());
  child->actor = std::move(actor);
  child->watched_by = 0;
}

void Children::Monitor(caf::event_based_actor* self, Child* child) {
  if (std::exchange(child->watched_by, self->id()) != self->id()) self->monitor(child->actor);
}

void Children::TakeOver(caf::event_based_actor* self) {
  std::vector<std::pair<uint64_t, bool>> all;  // and whether it is doomed
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [number, child] : children_) all.emplace_back(number, child.doomed);
  }
  for (const auto& [number, doomed] : all) {
    Child* const c = Find(number);
    if (c == nullptr) continue;
    // Whoever asked the supervisor before has heard that it is gone.
    c->gone = nullptr;
    if (c->state == State::kWatching) Monitor(self, c);  // of a dead one news comes at once
    if (doomed) {
      c->state == State::kWatching ? StopSurely(self->system(), c->actor) : Forget(number);
    } else if (c->state == State::kBackingOff) {
      // The timer went with the supervisor that had set it.
      OnRestart(self, number);
    }
  }
}

void Children::Watch(caf::event_based_actor* self, const std::string& name) {
  uint64_t number = 0;
  Child* const c = Find(name, &number);
  if (c != nullptr && c->state == State::kWatching) Monitor(self, c);
}

void Children::Remove(caf::event_based_actor* self, const std::string& name, std::function<void()> gone) {
  Doom(name);
  uint64_t number = 0;
  Child* const c = Find(name, &number);
  if (c == nullptr) return gone();
  c->gone = std::move(gone);
  if (c->state != State::kWatching) return Forget(number);
  // Its add_child may have gone with another supervisor.
  Monitor(self, c);
  StopSurely(self->system(), c->actor);
}

void Children::Forget(uint64_t number) {
  std::map<uint64_t, Child>::node_type child;  // goes without the lock
  {
    std::lock_guard<std::mutex> lock(mu_);
    child = children_.extract(number);
    if (!child) return;
    const auto it = by_name_.find(child.mapped().spec.name);
    if (it != by_name_.end() && it->second == number) by_name_.erase(it);
    if (child.mapped().actor) by_actor_.erase(child.mapped().actor.id());
  }
  directory_->Forget(child.mapped().spec.name);
  if (child.mapped().gone) child.mapped().gone();
}

void Children::Start(caf::event_based_actor* self, uint64_t number, Child* c) {
  caf::actor next = c->spec.spawn(self->system(), c->incarnation);
  if (!next) return Forget(number);
  try {
    SetActor(number, c, next);
  } catch (...) {
    // The next supervisor spawns another.
    StopSurely(self->system(), next);
    throw;
  }
  c->state = State::kWatching;
  Monitor(self, c);
  directory_->Set(c->spec.name, next, c->incarnation);
  if (c->spec.restarted) c->spec.restarted(c->incarnation);
}

void Children::OnRestart(caf::event_based_actor* self, uint64_t number) {
  Child* const c = Find(number);
  if (c == nullptr || c->state != State::kBackingOff) return;
  if (!c->spec.may_restart || c->spec.may_restart()) return Start(self, number, c);
  constexpr std::chrono::milliseconds kSoon{1};
  self->delayed_send(self, kSoon, restart_child{number});
}

void Children::StopAll() {
  // One after the other, each told without the lock: that may have to wait for memory.
  for (uint64_t after = 0;;) {
    caf::actor actor;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const auto it = children_.upper_bound(after);
      if (it == children_.end()) return;
      after = it->first;
      actor = it->second.actor;
      directory_->Set(it->second.spec.name, nullptr, it->second.incarnation);
    }
    if (actor) StopSurely(actor->home_system(), actor);
  }
}

void Children::Abandon(const std::string& why) {
  // First: a child that dies from here on finds it.
  directory_->RootIsOver();
  std::vector<std::function<void(const std::string&)>> tell;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [number, c] : children_) {
      directory_->GiveUp(c.spec.name, why);
      if (c.spec.abandoned) tell.push_back(c.spec.abandoned);
    }
  }
  for (const auto& f : tell) f(why);
}

size_t Children::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return children_.size();
}

bool Children::OnDown(caf::event_based_actor* self, const caf::down_msg& down) {
  const bool normal = !down.reason || down.reason == caf::exit_reason::user_shutdown;
  uint64_t number = 0;
  bool doomed = false;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = by_actor_.find(down.source.id());
    if (it == by_actor_.end()) return true;
    number = it->second;
    doomed = children_.at(number).doomed;
  }
  Child& c = *Find(number);
  SetActor(number, &c, nullptr);
  if (doomed) {
    Forget(number);
    return true;
  }
  // If memory runs out from here on, the next supervisor goes on.
  const bool stays_down =
      c.spec.policy.restart == Restart::kNever || (normal && c.spec.policy.restart != Restart::kAlways);
  c.state = stays_down ? State::kStopped : State::kBackingOff;
  directory_->Set(c.spec.name, nullptr, ++c.incarnation);
  if (normal && stays_down) return true;
  const std::string why = self->system().render(down.reason);
  const auto delay = stays_down ? std::chrono::milliseconds(-1) : c.decision.OnFailure(self->clock().now());
  // First what others wait for; it happens in a later turn than what hears of the failure here.
  if (delay.count() >= 0) {
    self->delayed_send(self, delay, restart_child{number});
  } else {
    c.state = State::kStopped;
  }
  if (c.spec.failed) c.spec.failed(why);
  if (delay.count() >= 0) return true;
  directory_->GiveUp(c.spec.name, why);
  if (c.spec.gave_up) c.spec.gave_up(why);
  if (!c.spec.policy.escalate) return true;
  StopAll();
  self->quit(down.reason);
  return false;
}

namespace {

struct SupervisorState {
  std::shared_ptr<Children> children;
  std::function<void()> died;
  const char* name = "troupe.supervisor";
  ~SupervisorState() {
    if (died) died();
  }
};
using SupervisorActor = caf::stateful_actor<SupervisorState>;

caf::behavior SupervisorBehavior(SupervisorActor* self, std::shared_ptr<Children> children,
                                 std::function<void()> died) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.children = std::move(children);
  self->state.died = std::move(died);
  self->state.children->TakeOver(self);
  self->set_down_handler([self](caf::down_msg& down) {
    if (!self->state.children->OnDown(self, down)) self->state.died = nullptr;
  });
  self->set_exit_handler([self](caf::exit_msg& e) {
    // With a failure the children wait for the next incarnation.
    if (e.reason == caf::exit_reason::user_shutdown) {
      self->state.died = nullptr;
      self->state.children->StopAll();
    }
    self->quit(e.reason);
  });
  return {
      [self](restart_child r) { self->state.children->OnRestart(self, r.number); },
      [self](const add_child& a) { self->state.children->Watch(self, a.name); },
      [self](const remove_child& r) {
        auto promise = self->make_response_promise<child_removed>();
        self->state.children->Remove(self, r.name, [promise]() mutable { promise.deliver(child_removed{}); });
        return promise;
      },
  };
}

}  // namespace

caf::actor SpawnSupervisor(caf::actor_system& system, std::shared_ptr<Children> children, std::function<void()> died) {
  return system.spawn<caf::hidden>(SupervisorBehavior, std::move(children), std::move(died));
}

void RootSupervisor::Start(caf::actor_system& system) {
  std::lock_guard<std::mutex> lock(mu_);
  actor_ = Spawn(system);
}

caf::actor RootSupervisor::actor() const {
  std::lock_guard<std::mutex> lock(mu_);
  return actor_;
}

caf::actor RootSupervisor::End() {
  std::lock_guard<std::mutex> lock(mu_);
  over_ = true;
  return std::exchange(actor_, nullptr);
}

caf::actor RootSupervisor::Spawn(caf::actor_system& system) {
  return SpawnSupervisor(system, children_, [me = shared_from_this(), &system] { me->Died(system); });
}

void RootSupervisor::Died(caf::actor_system& system) {
  {
    caf::actor dead;  // goes without the lock
    std::lock_guard<std::mutex> lock(mu_);
    if (over_) return;
    dead = std::exchange(actor_, nullptr);
    if (decision_.OnFailure(std::chrono::steady_clock::now()).count() >= 0) {
      LogWarning("the supervisor failed; it is restarted");
      actor_ = Spawn(system);
      return;
    }
  }
  LogError("the supervisor failed too often and is not restarted: nobody restarts its children any more");
  children_->Abandon("the runtime's supervisor failed too often");
}

}  // namespace troupe
