// What a Server is made of.
//
// Thread rule: Stop from any thread that may block. `control` under `mu`, which nobody holds while
// waiting; `stopped` and `result` under `stopping`; the rest is set by Start and read afterwards.
#ifndef TROUPE_NET_SERVER_IMPL_H_
#define TROUPE_NET_SERVER_IMPL_H_

#include <memory>
#include <mutex>

#include "net/gate.h"
#include "net/messages.h"
#include "net/probe.h"
#include "troupe/server.h"

namespace troupe {

struct Server::Impl {
  absl::Status Stop(std::chrono::milliseconds at_most);
  caf::actor Control();

  // Sessions and steps may have shares, too. The last one ends the actor system, unless that is the
  // program's. First here, so that it goes last.
  std::shared_ptr<Runtime> runtime;
  caf::actor_system* system = nullptr;  // the runtime's
  std::shared_ptr<Probes> probes;
  std::unique_ptr<Gate> gate;  // under `stopping`; null: not open
  uint16_t port = 0;           // 0: not open
  ServerSpec spec;
  std::string listens_at, target;
  std::mutex mu;
  caf::actor control;   // null before it starts, and when it has stopped
  bool hosted = false;  // the runtime has a host of clients' sessions, until it has stopped
  std::mutex stopping;  // for all of Stop
  bool stopped = false;
  absl::Status result;  // of Stop
};

}  // namespace troupe

#endif  // TROUPE_NET_SERVER_IMPL_H_
