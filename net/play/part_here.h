// One process of a topology, in this process: its actor system, and in it a server, a model behind
// a batcher, or an actor.
//
// Thread rule: Start, Stop and the destructor block, on a thread that is no actor's; `over` is
// called on a thread of the part's own.
#ifndef TROUPE_NET_PLAY_PART_HERE_H_
#define TROUPE_NET_PLAY_PART_HERE_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/gate.h"
#include "net/play/keeper.h"
#include "net/probe.h"
#include "troupe/server.h"
#include "troupe/session.h"

namespace troupe::play {

class PartHere {
 public:
  // `topology` has all its addresses; `over` is told when the part has ended by itself, once.
  // NOT_FOUND for a process that it does not have, a program included; what of the part fails, with
  // its place where it has one.
  static absl::StatusOr<std::unique_ptr<PartHere>> Start(const Topology& topology, const std::string& process,
                                                         std::function<void(absl::Status why)> over);
  ~PartHere();
  PartHere(const PartHere&) = delete;
  PartHere& operator=(const PartHere&) = delete;

  // A server says goodbye to the others.
  absl::Status Stop(std::chrono::milliseconds at_most);
  // Where it can be called.
  const std::string& address() const { return address_; }

 private:
  PartHere(const Topology& topology, const Part& part, int process, std::function<void(absl::Status)> over);
  absl::Status StartSystem();
  absl::Status StartServer();
  absl::Status StartBatcher();
  absl::Status StartActor();
  absl::Status Load(Names* feeds, Names* fetches);
  absl::Status LoadGraph(Names* feeds, Names* fetches);
  absl::Status LoadModel(Names* feeds, Names* fetches);
  void KeepActors(std::vector<KeptActor> actors, std::vector<KeptPeer> peers);
  KeptActor Kept(const Part& actor) const;
  void AddPeers(const std::vector<std::string>& names, std::vector<KeptPeer>* peers) const;
  absl::Status PublishHere(const caf::actor& actor);
  HostPort Address(const std::string& part) const;

  const Topology topology_;
  const Part& part_;  // of topology_
  const int process_;
  const std::string address_;
  std::function<void(absl::Status)> over_;
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
  std::shared_ptr<Probes> probes_;
  std::unique_ptr<Gate> gate_;  // of a batcher or an actor
  std::unique_ptr<Server> server_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Session> session_;
  caf::actor batcher_, keeper_;
};

}  // namespace troupe::play

#endif  // TROUPE_NET_PLAY_PART_HERE_H_
