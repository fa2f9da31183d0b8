// What a session does with its variables and its other state, beside running steps: Get and Set,
// Reset, snapshots.
#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/threads/inside_actor.h"
#include "actors/messages/ask.h"
#include "actors/messages/messages.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/worker_actor.h"
#include "actors/snapshot/restore_state.h"
#include "actors/session/session_impl.h"
#include "actors/session/set_nodes.h"
#include "actors/snapshot/step_cut.h"
#include "kernels/device/session_containers.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/variable.h"

namespace troupe {

namespace {

// A device whose named state a session may use: one of this process, or, through the worker of its
// task, one of another.
struct Place {
  std::string device;
  std::string task;  // of another process; empty: it is here
};

std::vector<Place> PlacesOf(const Session::Impl& session) {
  std::vector<Place> places;
  for (const auto& d : session.runtime->impl()->devices) places.push_back({d->name(), ""});
  for (auto& [device, task] : session.master->RemoteDevices()) places.push_back({std::move(device), std::move(task)});
  return places;
}

// Asks the container of a device; `heard` is called once.
template <class R, class Message>
void AskContainer(const Session::Impl& session, const Place& place, Message message, Reply<R> heard) {
  Runtime::Impl& runtime = *session.runtime->impl();
  caf::actor_system& system = *runtime.system;
  const std::string name = place.task.empty() ? "container:" + place.device : WorkerName(place.task);
  const caf::actor to = runtime.directory->Find(name);
  if (!to) {
    R down;
    down.status = runtime.directory->WhyDown(name);
    return heard(std::move(down));
  }
  const auto me_id = std::make_shared<caf::actor_id>(0);
  // What goes to another process is a value; CAF makes bytes of it unless this system has both.
  const bool bytes = session.options.wire_messages || (!place.task.empty() && to.node() == system.node());
  if (bytes) {
    absl::StatusOr<Message> copy = wire::ThroughBytes(system, message);
    if (!copy.ok()) {
      R wrong;
      wrong.status = copy.status();
      return heard(std::move(wrong));
    }
    message = *std::move(copy);
    heard = [&system, to_caller = std::make_shared<Reply<R>>(std::move(heard))](R reply) {
      absl::StatusOr<R> read = wire::ThroughBytes(system, reply);
      R wrong;
      wrong.status = read.status();
      (*to_caller)(read.ok() ? *std::move(read) : std::move(wrong));
    };
  }
  if (!place.task.empty()) {
    // CAF notes who asks another node until that ends, which a listener does not: it has no
    // mailbox.
    heard = [&system, me = me_id, to_caller = std::make_shared<Reply<R>>(std::move(heard))](R reply) {
      system.registry().erase(*me);
      (*to_caller)(std::move(reply));
    };
  }
  const caf::strong_actor_ptr me = NewListener<R>(system, std::move(heard));
  *me_id = me->id();
  const auto id = caf::message_id(1).with_normal_priority();
  caf::mailbox_element_ptr request =
      place.task.empty() ? caf::make_mailbox_element(me, id, {}, std::move(message))
                         : caf::make_mailbox_element(me, id, {}, to_container{place.device}, std::move(message));
  EnqueueSurely(system, caf::actor_cast<caf::abstract_actor*>(to), std::move(request));
}

// The same for a caller that waits. No answer comes from a process that has gone, so it is looked
// now and then whether it is there.
template <class R, class Message>
absl::StatusOr<R> AskElsewhereAndWait(const Session::Impl& session, const Place& place, Message message,
                                      const Deadline& deadline, std::string_view late) {
  constexpr std::chrono::milliseconds kLook{20};
  auto promise = std::make_shared<std::promise<R>>();
  std::future<R> answer = promise->get_future();
  const RemoteTasks& tasks = *session.runtime->impl()->remote;
  const RemoteTask asked = tasks.Find(place.task);
  AskContainer<R>(session, place, std::move(message), Reply<R>([promise](R r) { promise->set_value(std::move(r)); }));
  while (answer.wait_for(kLook) != std::future_status::ready) {
    if (session.master->closed()) return session.master->end();
    const RemoteTask now = tasks.Find(place.task);
    if (!now.worker || now.worker != asked.worker)
      return Unavailable("task '", place.task, "' went before it answered for device '", place.device, "'");
    if (std::chrono::steady_clock::now() > deadline.at) return DeadlineExceeded(late, " within ", deadline.ms, " ms");
  }
  R reply = answer.get();
  TROUPE_RETURN_IF_ERROR(reply.status);
  return reply;
}

// The same of a place anywhere: until the session ends, if `until_end`.
template <class R, class Message>
absl::StatusOr<R> AskContainerAndWait(const Session::Impl& session, const Place& place, Message message, bool until_end,
                                      const Deadline& deadline = {}, std::string_view late = "") {
  if (!place.task.empty()) return AskElsewhereAndWait<R>(session, place, std::move(message), deadline, late);
  auto wait = std::make_shared<CallWait<R>>();
  AskContainer<R>(session, place, std::move(message), Reply<R>([wait](R r) { wait->Set(std::move(r)); }));
  R reply = wait->Wait(deadline, until_end ? &session.master->ended() : nullptr, late);
  if (until_end && absl::IsCancelled(reply.status) && session.master->closed()) return session.master->end();
  TROUPE_RETURN_IF_ERROR(reply.status);
  return reply;
}

}  // namespace

absl::StatusOr<Tensor> Session::Get(const GraphName& tensor) {
  if (InsideActor()) return RefuseInActor("Get");
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(Run({}, {tensor}, {}, &out));
  if (out[0].dtype() == DType::kResource) {
    const std::string_view name = std::string_view(tensor.text()).substr(0, tensor.text().find(':'));
    return InvalidArgument("Get of '", name, "': this is a resource handle, not a value; to get the value of a ",
                           "variable, give Get the Variable, or the name of a node that reads it ('", name,
                           "/Read' when a Variable built it)");
  }
  return std::move(out[0]);
}

absl::Status Session::Set(const Variable& variable, const Tensor& value) {
  TROUPE_RETURN_IF_ERROR(impl_->MayAsk("Set"));
  TROUPE_RETURN_IF_ERROR(CheckSet(variable, value));
  const std::string name = variable.variable_name();
  const SetNodes nodes(variable);
  {
    std::lock_guard<std::mutex> lock(impl_->set_mu);
    if (!impl_->set_nodes.contains(nodes.assign)) {
      const absl::Status added = Extend(nodes.Graph());
      if (absl::IsInvalidArgument(added)) {
        return NotFound("Set of '", name, "': the session has no such variable (", added.message(),
                        "); call Extend with the variable's graph first");
      }
      TROUPE_RETURN_IF_ERROR(Annotate(added, StrCat("Set of '", name, "'")));
      impl_->set_nodes.insert(nodes.assign);
    }
  }
  // The variable may keep what it is given, which the memory limit counts.
  Tensor copy = value.Clone(impl_->runtime->impl()->allocator.get());
  if (!copy.valid()) return ResourceExhausted("Set of '", name, "': no memory for ", value.shape().DebugString());
  return Run({{nodes.value, std::move(copy)}}, {}, {nodes.assign}, nullptr);
}

absl::Status Session::Reset(const std::vector<std::string>& containers) {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  if (InsideActor()) return RefuseInActor("Reset");
  if (impl_->elsewhere != nullptr) return impl_->elsewhere->Reset(containers);
  for (const Place& place : PlacesOf(*impl_)) {
    reset_resources request{containers};
    if (std::find(containers.begin(), containers.end(), "") != containers.end())
      request.containers.push_back(OwnVariables(impl_->id));
    TROUPE_RETURN_IF_ERROR(
        AskContainerAndWait<resources_reset>(*impl_, place, std::move(request), !place.task.empty()).status());
  }
  return absl::OkStatus();
}

namespace {

// Names of the session's own containers in a snapshot, which is of no session, and on a device.
std::string OnDevice(const std::string& container, const std::string& session) {
  return container == kOwnVariablesContainer ? OwnVariables(session)
         : container == kOwnStateContainer   ? OwnState(session)
                                             : container;
}
std::string InSnapshot(const std::string& container, const std::string& session) {
  return container == OwnVariables(session) ? kOwnVariablesContainer
         : container == OwnState(session)   ? kOwnStateContainer
                                            : container;
}

absl::Status CheckContainers(const std::vector<std::string>& containers, bool own) {
  for (const std::string& c : containers) {
    if (!c.empty() && c[0] == '/' && !(own && (c == kOwnVariablesContainer || c == kOwnStateContainer)))
      return InvalidArgument("container '", c, "' is no name for a container: it begins with '/'");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateSnapshot> Session::SnapshotState(const SnapshotOptions& options) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  if (InsideActor()) return RefuseInActor("SnapshotState");
  TROUPE_RETURN_IF_ERROR(CheckContainers(options.containers, false));
  StateSnapshot snapshot;
  snapshot.containers = options.containers;
  snapshot.containers.push_back(kOwnVariablesContainer);
  snapshot.containers.push_back(kOwnStateContainer);
  const int64_t ms = options.timeout_ms != 0 ? options.timeout_ms : impl_->options.operation_timeout_ms;
  // One time for the gate and all devices together.
  const Deadline deadline = Deadline::In(ms, std::chrono::steady_clock::now());
  const SessionMaster& master = *impl_->master;
  snapshot_resources request;
  for (const std::string& c : snapshot.containers) request.containers.push_back(OnDevice(c, impl_->id));
  const auto take = [&]() -> absl::Status {
    for (const Place& place : PlacesOf(*impl_)) {
      TROUPE_ASSIGN_OR_RETURN(resource_snapshot reply,
                              AskContainerAndWait<resource_snapshot>(*impl_, place, request, true, deadline,
                                                                     "updates of variables did not end"));
      for (resource_snapshot::Entry& e : reply.entries) {
        snapshot.entries.push_back({place.device, InSnapshot(e.container, impl_->id), std::move(e.name),
                                    std::move(e.kind), std::move(e.tensors)});
      }
    }
    return absl::OkStatus();
  };
  StepCut cut(&master.gate(), [&] { return master.Living(); });
  TROUPE_RETURN_IF_ERROR(options.between_steps ? master.gate().WhileShut(
                                                     deadline.at, [&] { return cut.Busy(); }, take)
                                               : take());
  return snapshot;
}

absl::Status Session::RestoreState(const StateSnapshot& snapshot) {
  return troupe::RestoreState(*this, snapshot, false);
}

absl::Status RestoreState(const Session& session, const StateSnapshot& snapshot, bool only_check) {
  const Session::Impl* const impl = session.impl();
  TROUPE_RETURN_IF_ERROR(impl->Usable());
  if (InsideActor()) return RefuseInActor("RestoreState");
  TROUPE_RETURN_IF_ERROR(CheckContainers(snapshot.containers, true));
  const std::vector<Place> places = PlacesOf(*impl);
  std::map<std::string, restore_resources> requests;  // by device
  for (const Place& place : places) {
    for (const std::string& c : snapshot.containers) requests[place.device].whole.push_back(OnDevice(c, impl->id));
  }
  for (const StateSnapshot::Entry& e : snapshot.entries) {
    TROUPE_RETURN_IF_ERROR(CheckContainers({e.container}, true));
    const bool known = std::any_of(places.begin(), places.end(), [&](const Place& p) { return p.device == e.device; });
    if (!known)
      return NotFound("'", e.name, "' was saved on device '", e.device, "', which this runtime does not have");
    requests[e.device].entries.push_back({OnDevice(e.container, impl->id), e.name, e.kind, e.tensors});
  }
  std::vector<std::string> changed;
  const auto ask = [&](bool check) -> absl::Status {
    for (auto& each : requests) {
      const std::string& device = each.first;
      restore_resources& request = each.second;
      request.only_check = check;
      const auto place = std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.device == device; });
      TROUPE_RETURN_IF_ERROR(
          AskContainerAndWait<resources_restored>(*impl, *place, request, !place->task.empty()).status());
      if (!check) changed.push_back(device);
    }
    return absl::OkStatus();
  };
  // What another call restores between the check and the change might no longer fit.
  const std::lock_guard<std::mutex> one(impl->runtime->impl()->restoring);
  // Nothing is changed on one device when another refuses. Of one its actor sees to that.
  if (only_check || requests.size() > 1) TROUPE_RETURN_IF_ERROR(ask(true));
  if (only_check) return absl::OkStatus();
  absl::Status s = ask(false);
  if (s.ok() || changed.empty()) return s;
  // A step, or a death, has come in between.
  return Annotate(s, StrCat("after the check and the state of ", StrJoin(changed, ", "),
                            " had been replaced, that of the others not"));
}

}  // namespace troupe
