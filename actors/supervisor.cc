#include "actors/supervisor.h"

#include <algorithm>
#include <cmath>

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

namespace {

struct Child {
  ChildSpec spec;
  RestartDecision decision;
  caf::actor actor;
  uint64_t incarnation = 0;
};

struct SupervisorState {
  std::vector<Child> children;
  std::shared_ptr<Directory> directory;
  const char* name = "troupe.supervisor";
};
using SupervisorActor = caf::stateful_actor<SupervisorState>;

void Start(SupervisorActor* self, size_t i) {
  Child& c = self->state.children[i];
  c.actor = c.spec.spawn(self->system(), ++c.incarnation);
  self->monitor(c.actor);
  self->state.directory->Set(c.spec.name, c.actor, c.incarnation);
}

void StopChildren(SupervisorActor* self) {
  for (Child& c : self->state.children) {
    if (c.actor) self->send_exit(c.actor, caf::exit_reason::user_shutdown);
    self->state.directory->Set(c.spec.name, nullptr, c.incarnation);
  }
}

void OnDown(SupervisorActor* self, const caf::down_msg& down) {
  auto& children = self->state.children;
  for (size_t i = 0; i < children.size(); ++i) {
    Child& c = children[i];
    if (!c.actor || c.actor.address() != down.source) continue;
    c.actor = nullptr;
    self->state.directory->Set(c.spec.name, nullptr, c.incarnation);
    if (!down.reason || down.reason == caf::exit_reason::user_shutdown) return;
    const std::string why = self->system().render(down.reason);
    if (c.spec.failed) c.spec.failed(why);
    const auto delay = c.decision.OnFailure(self->clock().now());
    if (delay.count() < 0) {
      self->state.directory->GiveUp(c.spec.name, why);
      if (c.spec.gave_up) c.spec.gave_up(why);
      if (c.spec.policy.escalate) {
        StopChildren(self);
        self->quit(down.reason);
      }
      return;
    }
    self->delayed_send(self, delay, restart_child{i});
    return;
  }
}

// `first` are the children's first incarnations, which run already.
caf::behavior SupervisorBehavior(SupervisorActor* self, std::vector<ChildSpec> specs, std::vector<caf::actor> first,
                                 std::shared_ptr<Directory> directory) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.directory = std::move(directory);
  for (size_t i = 0; i < specs.size(); ++i) {
    const RestartPolicy policy = specs[i].policy;
    self->state.children.push_back({std::move(specs[i]), RestartDecision(policy), first[i], 1});
    self->monitor(first[i]);  // of one that died meanwhile the message comes at once
  }
  self->set_down_handler([self](caf::down_msg& down) { OnDown(self, down); });
  self->set_exit_handler([self](caf::exit_msg& e) {
    StopChildren(self);
    self->quit(e.reason);
  });
  return {
      [self](restart_child r) {
        Start(self, r.index);
        const Child& c = self->state.children[r.index];
        if (c.spec.restarted) c.spec.restarted(c.incarnation);
      },
  };
}

}  // namespace

caf::actor SpawnSupervisor(caf::actor_system& system, std::vector<ChildSpec> children,
                           std::shared_ptr<Directory> directory) {
  // A behaviour function runs at its actor's first turn, later than this returns; callers look the
  // children up at once.
  std::vector<caf::actor> first;
  for (const ChildSpec& c : children) {
    first.push_back(c.spawn(system, 1));
    directory->Set(c.name, first.back(), 1);
  }
  return system.spawn<caf::hidden>(SupervisorBehavior, std::move(children), std::move(first), std::move(directory));
}

}  // namespace troupe
