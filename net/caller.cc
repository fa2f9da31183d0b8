#include "net/caller.h"

#include <caf/io/middleman.hpp>
#include <set>

#include "actors/threads/actor_thread.h"
#include "actors/watch/call_wait.h"
#include "net/link_scribe.h"

namespace troupe {
namespace {

// To a caller, by its probe.
struct probed {
  absl::StatusOr<Reached> found;
};

}  // namespace
}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::probed)

namespace troupe {
namespace {

struct CallerState {
  const char* name = "troupe.caller";
  std::shared_ptr<void> share;  // until it has told
};
using Done = std::function<void(absl::StatusOr<caf::actor>)>;

caf::behavior CallerBehavior(caf::stateful_actor<CallerState>* self, const HostPort& address,
                             const std::shared_ptr<Probes>& probes, std::chrono::milliseconds timeout,
                             const Done& done) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.share = probes->Share();
  const auto end = [self, done](absl::StatusOr<caf::actor> result) {
    done(std::move(result));
    self->state.share = nullptr;
    self->quit();
  };
  const auto connected = [address, end](const caf::node_id&, const caf::strong_actor_ptr& found,
                                        const std::set<std::string>&) {
    if (!found) return end(Unavailable(address.ToString(), ": a node of CAF's is there, but no server"));
    end(caf::actor_cast<caf::actor>(found));
  };
  const auto by = std::chrono::steady_clock::now() + timeout;
  probes->Start(address, timeout, [me = caf::actor_cast<caf::actor>(self)](absl::StatusOr<Reached> found) {
    caf::anon_send(me, probed{std::move(found)});
  });
  return {[=](const probed& p) {
    if (!p.found.ok()) return end(p.found.status());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(by - std::chrono::steady_clock::now());
    // The connection that answered. CAF never gives one up that stops in the middle of its
    // greeting.
    const std::shared_ptr<Socket> socket = (*p.found->link)->socket();
    const auto failed = [self, address, end, socket](const caf::error& e) {
      socket->Cut();
      end(Unavailable(address.ToString(), ": CAF could not connect: ", self->system().render(e)));
    };
    self->request(BrokerOf(self->system()), std::max(left, std::chrono::milliseconds(100)), caf::connect_atom::value,
                  ScribeOf(self->system(), std::move(*p.found->link)), p.found->at.port)
        .then(connected, failed);
  }};
}

}  // namespace

Dial DialByNetwork(caf::actor_system& system, std::shared_ptr<Probes> probes, std::chrono::milliseconds timeout) {
  return [&system, probes = std::move(probes), timeout](const HostPort& address, Done done) {
    system.spawn<caf::hidden>(CallerBehavior, address, probes, timeout, std::move(done));
  };
}

namespace {

absl::StatusOr<caf::actor> ConnectBy(caf::actor_system& system, const std::shared_ptr<Probes>& probes,
                                     const HostPort& address, std::chrono::milliseconds at_most) {
  NoLoggerAfter restore;
  at_most = Bounded(at_most);
  auto wait = std::make_shared<CallWait<absl::StatusOr<caf::actor>>>();
  DialByNetwork(system, probes, at_most)(address, [wait](absl::StatusOr<caf::actor> r) { wait->Set(std::move(r)); });
  absl::StatusOr<caf::actor> found = wait->Wait();
  probes->Close(at_most);
  return found;
}

}  // namespace

absl::StatusOr<caf::actor> ConnectTo(caf::actor_system& system, const HostPort& address,
                                     std::chrono::milliseconds at_most, const std::shared_ptr<TlsContext>& tls) {
  return ConnectBy(system, Probes::With(tls), address, at_most);
}

absl::StatusOr<caf::actor> ConnectTo(caf::actor_system& system, const Reached& reached,
                                     std::chrono::milliseconds at_most) {
  const auto found = [reached](const HostPort&, std::chrono::milliseconds, const std::atomic<bool>*) {
    return absl::StatusOr<Reached>(reached);
  };
  return ConnectBy(system, std::make_shared<Probes>(found), reached.at, at_most);
}

namespace {

struct CallersConfig : caf::actor_system_config {
  CallersConfig() {
    set("scheduler.max-threads", static_cast<size_t>(2));
    // Who steals looks for work every 50 us, or sleeps; who shares is woken by it. A step whose
    // parts are in two processes waits for one message after the other.
    set("scheduler.policy", caf::atom("sharing"));
    ConfigureServer(this);
  }
};

}  // namespace

std::unique_ptr<caf::actor_system_config> NodeConfig(std::chrono::milliseconds lease) {
  auto config = std::make_unique<CallersConfig>();
  KeepConnectionsFor(lease, config.get());
  return config;
}

}  // namespace troupe
