#include "net/play/part_here.h"

#include <algorithm>
#include <map>
#include <utility>

#include "actors/threads/actor_thread.h"
#include "net/caller.h"
#include "net/link_scribe.h"
#include "net/play/roles.h"
#include "net/play/settings.h"
#include "net/play/wiring.h"
#include "troupe/import_export.h"
#include "troupe/open_cast.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/serving.h"
#include "troupe/train/saved_model.h"

namespace troupe::play {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDialTime{1000};

RestartPolicy PolicyOf(const Part& part) {
  RestartPolicy policy;
  const std::string restart = TextOf(part, "restart", "always");
  policy.restart = restart == "always"  ? Restart::kAlways
                   : restart == "never" ? Restart::kNever
                                        : Restart::kAfterFailure;
  const auto [first, longest] = BackOffOf(part, {milliseconds(100), milliseconds(5000)});
  policy.min_delay = std::chrono::ceil<milliseconds>(first);
  policy.max_delay = std::chrono::ceil<milliseconds>(longest);
  policy.max_failures = static_cast<int>(CountOf(part, "most_restarts", 10));
  policy.window = std::chrono::minutes(1);
  policy.escalate = TextOf(part, "if_given_up", "stop") == "stop";
  return policy;
}

// Of a saved model; null when it has none and none is asked for.
absl::StatusOr<const train::ModelSignature*> ChooseSignature(const train::SavedModel& model, const std::string& name) {
  const auto& all = model.signatures;
  if (const auto it = all.find(name.empty() ? "serving_default" : name); it != all.end()) return &it->second;
  if (name.empty() && all.size() == 1) return &all.begin()->second;
  std::vector<std::string> names;
  for (const auto& [each, signature] : all) names.push_back(each);
  return NotFound(name.empty() ? "the setting 'signature' is needed" : StrCat("there is no signature '", name, "'"),
                  "; the model has ", names.empty() ? "none" : StrJoin(names, ", "));
}

// The tensors that these keys name; all, when there are none.
absl::StatusOr<Names> TensorsOf(const std::map<std::string, GraphName>& tensors, const std::vector<std::string>& keys) {
  Names names;
  if (keys.empty()) {
    for (const auto& [key, tensor] : tensors) names.push_back(tensor.text());
    return names;
  }
  for (const std::string& key : keys) {
    const auto it = tensors.find(key);
    if (it == tensors.end()) return NotFound("the signature has no '", CEscape(key), "'");
    names.push_back(it->second.text());
  }
  return names;
}

}  // namespace

PartHere::PartHere(const Topology& topology, const Part& part, int process, std::function<void(absl::Status)> over)
    : topology_(topology),
      part_(*topology_.Find(part.name)),
      process_(process),
      address_(AddressOf(part, process)),
      over_(std::move(over)) {}

absl::StatusOr<std::unique_ptr<PartHere>> PartHere::Start(const Topology& topology, const std::string& process,
                                                          std::function<void(absl::Status)> over) {
  const auto [part, number] = FindProcess(topology, process);
  if (part == nullptr) return NotFound("the topology has no part '", CEscape(process), "'");
  if (part->kind == Kind::kProgram) return NotFound("'", process, "' is a program, and has a command of its own");
  if (AddressOf(*part, number).empty()) return FailedPrecondition("'", process, "' has no address (`at`)");
  NoLoggerAfter restore;
  try {
    std::unique_ptr<PartHere> here(new PartHere(topology, *part, number, std::move(over)));
    absl::Status status = here->StartSystem();
    if (status.ok() && part->kind == Kind::kServer) status = here->StartServer();
    if (status.ok() && part->kind == Kind::kBatcher) status = here->StartBatcher();
    if (status.ok() && part->kind == Kind::kActor) status = here->StartActor();
    if (!status.ok()) return Annotate(status, process);
    return here;
  } catch (const std::exception& e) {
    return ResourceExhausted(process, " could not be started: ", e.what());
  }
}

PartHere::~PartHere() { (void)Stop(milliseconds(0)); }

absl::Status PartHere::StartSystem() {
  config_ = NodeConfig(ClientPolicy().lease);
  AddCallMessageTypes(config_.get());
  if (part_.kind != Kind::kServer) {
    // Whoever asks an actor may be silent for as long as it likes.
    config_->set("middleman.connection-timeout", caf::timespan(0));
  }
  if (part_.kind == Kind::kActor)
    config_->set("scheduler.max-threads", static_cast<size_t>(CountOf(part_, "threads", 2)));
  ConfigureSystem(config_.get());
  system_ = std::make_unique<caf::actor_system>(*config_);
  // The programs that call a batcher or an actor use CAF's own connector, which has no TLS.
  probes_ = Probes::With(nullptr);
  return absl::OkStatus();
}

absl::Status PartHere::StartServer() {
  ServerOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.spec.cluster, ClusterOf(topology_));
  options.spec.task = {part_.name, process_};
  options.runtime.threads = static_cast<int>(CountOf(part_, "threads", 0));
  options.runtime.memory_limit = BytesOf(part_, "memory", 0);
  const Part& first = topology_.parts().front();
  options.insecure = first.kind == Kind::kTopology && IsYes(first, "insecure");
  if (part_.Find("heartbeat") != nullptr) {
    const auto interval = std::chrono::duration_cast<milliseconds>(DurationOf(part_, "heartbeat", {}));
    options.heartbeat = HeartbeatPolicy::Of(interval);
  }
  TROUPE_ASSIGN_OR_RETURN(server_, Server::StartIn(*system_, options));
  runtime_ = server_->runtime();
  std::vector<KeptActor> actors;
  std::vector<KeptPeer> peers;
  for (const Part& other : topology_.parts()) {
    if (TextOf(other, "in") != part_.name) continue;
    const auto name = [runtime = runtime_.get(), name = other.name](const caf::actor& actor) {
      return NameActor(*runtime, name, actor);
    };
    if (other.kind == Kind::kForward) {
      peers.push_back({other.name, Address(TextOf(other, "to")), name});
    } else {
      actors.push_back(Kept(other));
      TROUPE_RETURN_IF_ERROR(FindRole(TextOf(other, "factory")).status());
      actors.back().named = name;
      AddPeers(actors.back().uses, &peers);
    }
  }
  // Whoever answers a plain connection could write to the server's actors, and to those behind it.
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> tls, TlsContext::Make(options.tls));
  if (tls != nullptr && !peers.empty())
    return FailedPrecondition("its connections are encrypted, and '", peers.front().name, "' has a plain port: a ",
                              "server with TLS calls no actor of another process");
  if (!actors.empty() || !peers.empty()) KeepActors(std::move(actors), std::move(peers));
  return absl::OkStatus();
}

absl::Status PartHere::LoadGraph(Names* feeds, Names* fetches) {
  proto::GraphDef def;
  TROUPE_RETURN_IF_ERROR(ReadGraphDef(TextOf(part_, "graph"), &def));
  TROUPE_RETURN_IF_ERROR(session_->Extend(def));
  for (const std::string& init : TextsOf(part_, "init")) TROUPE_RETURN_IF_ERROR(session_->Run({}, {}, {init}, nullptr));
  for (const std::string& name : TextsOf(part_, "feeds")) feeds->push_back(name);
  for (const std::string& name : TextsOf(part_, "fetches")) fetches->push_back(name);
  return absl::OkStatus();
}

absl::Status PartHere::LoadModel(Names* feeds, Names* fetches) {
  Graph graph;
  TROUPE_ASSIGN_OR_RETURN(train::SavedModel model, train::ReadSavedModel(TextOf(part_, "saved_model"), &graph));
  TROUPE_RETURN_IF_ERROR(session_->Extend(graph));
  TROUPE_RETURN_IF_ERROR(model.Load(*session_));
  TROUPE_ASSIGN_OR_RETURN(const train::ModelSignature* const signature,
                          ChooseSignature(model, TextOf(part_, "signature")));
  TROUPE_ASSIGN_OR_RETURN(*feeds, TensorsOf(signature->inputs, TextsOf(part_, "feeds")));
  TROUPE_ASSIGN_OR_RETURN(*fetches, TensorsOf(signature->outputs, TextsOf(part_, "fetches")));
  return absl::OkStatus();
}

absl::Status PartHere::StartBatcher() {
  RuntimeOptions runtime;
  runtime.threads = static_cast<int>(CountOf(part_, "threads", 0));
  runtime.memory_limit = BytesOf(part_, "memory", 0);
  TROUPE_ASSIGN_OR_RETURN(runtime_, StartRuntimeIn(*system_, runtime));
  SessionOptions session;
  session.runtime = runtime_;
  TROUPE_ASSIGN_OR_RETURN(session_, Session::Create(session));
  BatcherOptions options;
  TROUPE_RETURN_IF_ERROR(part_.Find("graph") != nullptr ? LoadGraph(&options.feeds, &options.fetches)
                                                        : LoadModel(&options.feeds, &options.fetches));
  options.max_batch = CountOf(part_, "max_batch", options.max_batch);
  for (const std::string& size : TextsOf(part_, "allowed_batch_sizes"))
    options.allowed_batch_sizes.push_back(std::stoll(size));
  options.max_delay_us = DurationOf(part_, "max_delay", std::chrono::microseconds(options.max_delay_us)).count();
  options.max_waiting = CountOf(part_, "max_waiting", options.max_waiting);
  options.max_steps = static_cast<int>(CountOf(part_, "max_steps", options.max_steps));
  options.timeout_ms = DurationOf(part_, "timeout", {}).count() / 1000;
  TROUPE_ASSIGN_OR_RETURN(batcher_, SpawnBatcher(*system_, session_, options));
  // Stop ends it by user_shutdown.
  batcher_->attach_functor([over = over_](const caf::error& why) {
    if (over != nullptr && why != caf::exit_reason::user_shutdown) over(absl::AbortedError("the batcher has ended"));
  });
  return PublishHere(batcher_);
}

absl::Status PartHere::StartActor() {
  TROUPE_RETURN_IF_ERROR(FindRole(TextOf(part_, "factory")).status());
  KeptActor kept = Kept(part_);
  // Its process is what is started again.
  kept.policy.restart = Restart::kNever;
  kept.policy.escalate = kept.whole = true;
  TROUPE_ASSIGN_OR_RETURN(const caf::actor actor, kept.make(1));
  if (!actor) return Internal("its factory made no actor");
  TROUPE_RETURN_IF_ERROR(PublishHere(actor));
  kept.make = [actor](uint64_t) { return actor; };
  std::vector<KeptPeer> peers;
  AddPeers(kept.uses, &peers);
  KeepActors({std::move(kept)}, std::move(peers));
  return absl::OkStatus();
}

KeptActor PartHere::Kept(const Part& actor) const {
  KeptActor kept;
  kept.name = actor.name;
  kept.policy = PolicyOf(actor);
  kept.uses = TextsOf(actor, "uses");
  std::map<std::string, std::string> with;
  for (auto& [key, value] : PairsOf(actor, "with")) with[key] = value;
  kept.make = [system = system_.get(), runtime = HasProcess(actor) ? nullptr : runtime_, name = actor.name,
               factory = TextOf(actor, "factory"), with](uint64_t incarnation) -> absl::StatusOr<caf::actor> {
    TROUPE_ASSIGN_OR_RETURN(const RoleFactory role, FindRole(factory));
    return role({*system, runtime, name, with, incarnation});
  };
  return kept;
}

HostPort PartHere::Address(const std::string& part) const {
  const auto address = HostPort::Parse(AddressOf(*topology_.Find(part), 0));
  return address.ok() ? *address : HostPort{};
}

void PartHere::AddPeers(const std::vector<std::string>& names, std::vector<KeptPeer>* peers) const {
  for (const std::string& name : names) {
    const bool there = std::any_of(peers->begin(), peers->end(),
                                   [&](const KeptPeer& p) { return p.name == name && p.named == nullptr; });
    if (!there) peers->push_back({name, Address(name), nullptr});
  }
}

void PartHere::KeepActors(std::vector<KeptActor> actors, std::vector<KeptPeer> peers) {
  KeeperOptions options;
  options.actors = std::move(actors);
  options.peers = std::move(peers);
  options.dial = DialByNetwork(*system_, probes_, kDialTime);
  options.over = over_;
  keeper_ = SpawnKeeper(*system_, std::move(options));
  // The actors of this process have their names when it says that it is ready.
  caf::scoped_actor self(*system_);
  self->request(keeper_, caf::infinite, begin_keeping{}).receive([] {}, [](const caf::error&) {});
}

absl::Status PartHere::PublishHere(const caf::actor& actor) {
  TROUPE_ASSIGN_OR_RETURN(const HostPort own, HostPort::Parse(address_));
  const std::string at = !own.IsLoopback() ? "" : own.host == "localhost" ? "127.0.0.1" : own.host;
  auto gate = Gate::Open(at, own.port, nullptr, [system = system_.get(), actor, port = own.port](auto link) {
    Admit(*system, std::move(link), port, actor);
  });
  if (!gate.ok()) return Annotate(gate.status(), StrCat("cannot listen at ", address_));
  gate_ = *std::move(gate);
  return absl::OkStatus();
}

absl::Status PartHere::Stop(milliseconds at_most) {
  if (system_ == nullptr) return absl::OkStatus();
  NoLoggerAfter restore;
  absl::Status status;
  gate_ = nullptr;
  for (caf::actor* actor : {&keeper_, &batcher_}) {
    if (*actor) caf::anon_send_exit(*actor, caf::exit_reason::user_shutdown);
  }
  // It gives actors their names, in the runtime.
  if (keeper_) caf::scoped_actor(*system_)->wait_for(keeper_);
  // A call that is under way uses the actor system.
  if (probes_ != nullptr) (void)probes_->Close(kDialTime + milliseconds(500));
  keeper_ = batcher_ = nullptr;
  if (server_ != nullptr) status = server_->Stop(at_most);
  if (session_ != nullptr) status.Update(session_->Close());
  session_ = nullptr;
  server_ = nullptr;
  runtime_ = nullptr;
  system_ = nullptr;
  return status;
}

}  // namespace troupe::play
