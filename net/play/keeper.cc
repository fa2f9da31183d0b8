#include "net/play/keeper.h"

#include <algorithm>
#include <utility>

namespace troupe::play {
namespace {

class Keeper {
 public:
  Keeper(caf::event_based_actor* self, KeeperOptions options) : self_(self), options_(std::move(options)) {
    for (const KeptActor& a : options_.actors) actors_.push_back({RestartDecision(a.policy)});
    peers_.resize(options_.peers.size());
  }

  void Begin() {
    for (size_t i = 0; i < actors_.size(); ++i) Make(i);
    for (size_t i = 0; i < peers_.size(); ++i) Call(i);
  }

  void Make(size_t i) {
    const KeptActor& kept = options_.actors[i];
    Actor& mine = actors_[i];
    absl::StatusOr<caf::actor> made = MakeOrWhyNot(kept, ++mine.incarnation);
    if (made.ok() && !*made) made = Internal("its factory made no actor");
    if (made.ok() && kept.named != nullptr) {
      if (const absl::Status named = kept.named(*made); !named.ok()) {
        self_->send_exit(*made, caf::exit_reason::kill);
        made = named;
      }
    }
    if (!made.ok()) return Failed(i, std::string(made.status().message()));
    mine.actor = *std::move(made);
    self_->monitor(mine.actor);
    for (size_t p = 0; p < peers_.size(); ++p) {
      if (peers_[p] && Uses(kept, p)) self_->send(mine.actor, part_up{options_.peers[p].name, peers_[p]});
    }
  }

  void OnDown(const caf::down_msg& down) {
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].actor.address() == down.source) return OnActorDown(i, down.reason);
    }
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].address() != down.source) continue;
      peers_[i] = nullptr;
      TellUsers(i, part_down{options_.peers[i].name});
      self_->delayed_send(self_, options_.call_again_after, call_again{i});
      return;
    }
  }

  void Call(size_t i) {
    options_.dial(options_.peers[i].address,
                  [i, me = caf::actor_cast<caf::actor>(self_)](absl::StatusOr<caf::actor> found) {
                    caf::anon_send(me, peer_called{i, std::move(found)});
                  });
  }

  void OnCalled(const peer_called& m) {
    absl::Status status = m.found.status();
    const KeptPeer& peer = options_.peers[m.peer];
    if (status.ok() && peer.named != nullptr) status = peer.named(*m.found);
    if (!status.ok()) {
      self_->delayed_send(self_, options_.call_again_after, call_again{m.peer});
      return;
    }
    peers_[m.peer] = *m.found;
    self_->monitor(*m.found);
    TellUsers(m.peer, part_up{peer.name, *m.found});
  }

  void Exit() {
    for (Actor& a : actors_) {
      if (a.actor) self_->send_exit(a.actor, caf::exit_reason::user_shutdown);
      a.actor = nullptr;
    }
  }

 private:
  struct Actor {
    RestartDecision decision;
    caf::actor actor = nullptr;
    uint64_t incarnation = 0;
  };

  // A factory is the program's own code.
  static absl::StatusOr<caf::actor> MakeOrWhyNot(const KeptActor& kept, uint64_t incarnation) {
    try {
      return kept.make(incarnation);
    } catch (const std::exception& e) {
      return Internal("its factory threw ", e.what());
    } catch (...) {
      return Internal("its factory threw an exception");
    }
  }
  bool Uses(const KeptActor& kept, size_t peer) const {
    return std::find(kept.uses.begin(), kept.uses.end(), options_.peers[peer].name) != kept.uses.end();
  }
  template <class Message>
  void TellUsers(size_t peer, const Message& message) {
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].actor && Uses(options_.actors[i], peer)) self_->send(actors_[i].actor, message);
    }
  }
  void OnActorDown(size_t i, const caf::error& reason) {
    actors_[i].actor = nullptr;
    const bool well = !reason || reason == caf::exit_reason::user_shutdown || reason == caf::exit_reason::normal;
    if (well && options_.actors[i].policy.restart != Restart::kAlways) {
      if (options_.actors[i].whole) Over(absl::OkStatus());
      return;
    }
    Failed(i, StrCat("it ended: ", self_->system().render(reason)));
  }
  void Failed(size_t i, const std::string& why) {
    const KeptActor& kept = options_.actors[i];
    const bool may = kept.policy.restart != Restart::kNever;
    const auto delay = may ? actors_[i].decision.OnFailure(self_->clock().now()) : std::chrono::milliseconds(-1);
    if (delay.count() >= 0) {
      self_->delayed_send(self_, delay, make_again{i});
      return;
    }
    if (kept.policy.escalate) Over(Aborted("the actor '", kept.name, "' is given up; ", why));
  }
  void Over(const absl::Status& why) {
    if (options_.over != nullptr) std::exchange(options_.over, nullptr)(why);
  }

  caf::event_based_actor* const self_;
  KeeperOptions options_;
  std::vector<Actor> actors_;
  std::vector<caf::actor> peers_;  // null: not up
};

struct KeeperState {
  const char* name = "troupe.play_keeper";
  std::unique_ptr<Keeper> keeper;
};

caf::behavior KeeperBehavior(caf::stateful_actor<KeeperState>* self, const KeeperOptions& options) {
  self->state.keeper = std::make_unique<Keeper>(self, options);
  Keeper* const k = self->state.keeper.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_down_handler([k](const caf::down_msg& down) { k->OnDown(down); });
  self->set_exit_handler([self, k](const caf::exit_msg& exit) {
    k->Exit();
    self->quit(exit.reason);
  });
  return {
      [k](const begin_keeping&) { k->Begin(); },
      [k](const make_again& m) { k->Make(m.actor); },
      [k](const peer_called& m) { k->OnCalled(m); },
      [k](const call_again& m) { k->Call(m.peer); },
  };
}

}  // namespace

caf::actor SpawnKeeper(caf::actor_system& system, KeeperOptions options) {
  return system.spawn(KeeperBehavior, std::move(options));
}

}  // namespace troupe::play
