#include "actors/supervisor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/messages.h"

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
  actors_[name] = {std::move(actor), incarnation};
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
absl::Status Directory::WhyDown(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
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

void Children::Spawn(caf::actor_system& system, ChildSpec spec) {
  caf::actor first = spec.spawn(system, 1);
  directory_->Set(spec.name, first, 1);
  const RestartPolicy policy = spec.policy;
  children_.emplace(++last_, Child{std::move(spec), RestartDecision(policy), std::move(first)});
}

void Children::TakeOver(caf::event_based_actor* self) {
  for (auto it = children_.begin(); it != children_.end();) {
    const auto each = it++;
    if (each->second.state == State::kWatching) self->monitor(each->second.actor);  // of a dead one news comes at once
    // The timer went with the supervisor that had set it.
    if (each->second.state == State::kBackingOff) Start(self, each);
  }
}

void Children::Add(caf::event_based_actor* self, ChildSpec spec, caf::actor first) {
  directory_->Set(spec.name, first, 1);
  self->monitor(first);
  const RestartPolicy policy = spec.policy;
  children_.emplace(++last_, Child{std::move(spec), RestartDecision(policy), std::move(first)});
}

void Children::Remove(caf::event_based_actor* self, const std::string& name, std::function<void()> gone) {
  for (auto it = children_.begin(); it != children_.end(); ++it) {
    Child& c = it->second;
    if (c.spec.name != name) continue;
    c.gone = std::move(gone);
    if (c.state == State::kWatching) return self->send_exit(c.actor, caf::exit_reason::user_shutdown);
    return Forget(it);
  }
  gone();
}

void Children::Forget(std::map<uint64_t, Child>::iterator it) {
  const std::function<void()> gone = std::move(it->second.gone);
  directory_->Forget(it->second.spec.name);
  children_.erase(it);
  if (gone) gone();
}

void Children::Start(caf::event_based_actor* self, std::map<uint64_t, Child>::iterator it) {
  Child& c = it->second;
  c.actor = c.spec.spawn(self->system(), c.incarnation);
  if (!c.actor) return Forget(it);
  c.state = State::kWatching;
  self->monitor(c.actor);
  directory_->Set(c.spec.name, c.actor, c.incarnation);
  if (c.spec.restarted) c.spec.restarted(c.incarnation);
}

void Children::OnRestart(caf::event_based_actor* self, uint64_t number) {
  const auto it = children_.find(number);
  if (it != children_.end() && it->second.state == State::kBackingOff) Start(self, it);
}

void Children::StopAll() {
  for (auto& [number, c] : children_) {
    if (c.actor) caf::anon_send_exit(c.actor, caf::exit_reason::user_shutdown);
    directory_->Set(c.spec.name, nullptr, c.incarnation);
  }
}

void Children::OnDown(caf::event_based_actor* self, const caf::down_msg& down) {
  const auto it = std::find_if(children_.begin(), children_.end(), [&](const auto& each) {
    return each.second.actor && each.second.actor.address() == down.source;
  });
  if (it == children_.end()) return;
  const uint64_t number = it->first;
  Child& c = it->second;
  c.actor = nullptr;
  if (c.gone) return Forget(it);
  const bool normal = !down.reason || down.reason == caf::exit_reason::user_shutdown;
  c.state = State::kStopped;
  directory_->Set(c.spec.name, nullptr, ++c.incarnation);
  if (normal && c.spec.policy.restart != Restart::kAlways) return;
  const std::string why = self->system().render(down.reason);
  const auto delay = c.spec.policy.restart == Restart::kNever ? std::chrono::milliseconds(-1)
                                                              : c.decision.OnFailure(self->clock().now());
  // First what others wait for; it happens in a later turn than what hears of the failure here.
  if (delay.count() >= 0) {
    c.state = State::kBackingOff;
    self->delayed_send(self, delay, restart_child{number});
  }
  if (c.spec.failed) c.spec.failed(why);
  if (delay.count() >= 0) return;
  directory_->GiveUp(c.spec.name, why);
  if (c.spec.gave_up) c.spec.gave_up(why);
  if (!c.spec.policy.escalate) return;
  StopAll();
  self->quit(down.reason);
}

namespace {

struct SupervisorState {
  std::unique_ptr<Children> children;
  const char* name = "troupe.supervisor";
};
using SupervisorActor = caf::stateful_actor<SupervisorState>;

// The children's first incarnations run already.
caf::behavior SupervisorBehavior(SupervisorActor* self, std::shared_ptr<std::unique_ptr<Children>> children) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.children = std::move(*children);
  self->state.children->TakeOver(self);
  self->set_down_handler([self](caf::down_msg& down) { self->state.children->OnDown(self, down); });
  self->set_exit_handler([self](caf::exit_msg& e) {
    self->state.children->StopAll();
    self->quit(e.reason);
  });
  return {
      [self](restart_child r) { self->state.children->OnRestart(self, r.number); },
      [self](add_child& a) { self->state.children->Add(self, std::move(*a.spec), std::move(a.first)); },
      [self](const remove_child& r) {
        auto promise = self->make_response_promise<child_removed>();
        self->state.children->Remove(self, r.name, [promise]() mutable { promise.deliver(child_removed{}); });
        return promise;
      },
  };
}

}  // namespace

caf::actor SpawnSupervisor(caf::actor_system& system, std::vector<ChildSpec> specs,
                           std::shared_ptr<Directory> directory) {
  // A behaviour function runs at its actor's first turn, later than this returns; callers look the
  // children up at once.
  auto children = std::make_unique<Children>(std::move(directory));
  for (ChildSpec& c : specs) children->Spawn(system, std::move(c));
  return system.spawn<caf::hidden>(SupervisorBehavior,
                                   std::make_shared<std::unique_ptr<Children>>(std::move(children)));
}

}  // namespace troupe
