// What a session does with its variables and its other state, beside running steps: Get and Set,
// Reset, snapshots.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/threads/inside_actor.h"
#include "actors/messages/ask.h"
#include "actors/messages/messages.h"
#include "actors/snapshot/restore_state.h"
#include "actors/session/session_impl.h"
#include "actors/session/set_nodes.h"
#include "actors/snapshot/step_cut.h"
#include "kernels/device/session_containers.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/variable.h"

namespace troupe {

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
  Runtime::Impl& runtime = *impl_->runtime->impl();
  for (const auto& device : runtime.devices) {
    const caf::actor actor = runtime.directory->Find("container:" + device->name());
    if (!actor) return runtime.directory->WhyDown("container:" + device->name());
    reset_resources request{containers};
    if (std::find(containers.begin(), containers.end(), "") != containers.end())
      request.containers.push_back(OwnVariables(impl_->id));
    TROUPE_ASSIGN_OR_RETURN(
        const resources_reset reply,
        Ask<resources_reset>(*runtime.system, actor, std::move(request), impl_->options.wire_messages));
    TROUPE_RETURN_IF_ERROR(reply.status);
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

// Of one container, unless the session ends before.
absl::StatusOr<resource_snapshot> AskForSnapshot(const SessionMaster& master, const caf::actor& container,
                                                 snapshot_resources request, const Deadline& deadline) {
  if (master.wire_messages()) {
    TROUPE_ASSIGN_OR_RETURN(request, wire::ThroughBytes(master.system(), request));
  }
  auto wait = std::make_shared<CallWait<resource_snapshot>>();
  AskThen<resource_snapshot>(master.system(), container, std::move(request),
                             Reply<resource_snapshot>([wait](resource_snapshot r) { wait->Set(std::move(r)); }));
  resource_snapshot reply = wait->Wait(deadline, &master.ended(), "updates of variables did not end");
  if (absl::IsCancelled(reply.status) && master.closed()) return master.end();
  TROUPE_RETURN_IF_ERROR(reply.status);
  if (master.wire_messages()) return wire::ThroughBytes(master.system(), reply);
  return reply;
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
  Runtime::Impl& runtime = *impl_->runtime->impl();
  snapshot_resources request;
  for (const std::string& c : snapshot.containers) request.containers.push_back(OnDevice(c, impl_->id));
  const auto take = [&]() -> absl::Status {
    for (const auto& device : runtime.devices) {
      const caf::actor actor = runtime.directory->Find("container:" + device->name());
      if (!actor) return runtime.directory->WhyDown("container:" + device->name());
      TROUPE_ASSIGN_OR_RETURN(resource_snapshot reply, AskForSnapshot(master, actor, request, deadline));
      for (resource_snapshot::Entry& e : reply.entries) {
        snapshot.entries.push_back({device->name(), InSnapshot(e.container, impl_->id), std::move(e.name),
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
  Runtime::Impl& runtime = *impl->runtime->impl();
  std::map<std::string, restore_resources> requests;  // by device
  for (const auto& device : runtime.devices) {
    for (const std::string& c : snapshot.containers) requests[device->name()].whole.push_back(OnDevice(c, impl->id));
  }
  for (const StateSnapshot::Entry& e : snapshot.entries) {
    TROUPE_RETURN_IF_ERROR(CheckContainers({e.container}, true));
    const bool known = std::any_of(runtime.devices.begin(), runtime.devices.end(),
                                   [&](const auto& d) { return d->name() == e.device; });
    if (!known)
      return NotFound("'", e.name, "' was saved on device '", e.device, "', which this runtime does not have");
    requests[e.device].entries.push_back({OnDevice(e.container, impl->id), e.name, e.kind, e.tensors});
  }
  std::vector<std::string> changed;
  const auto ask = [&](bool check) -> absl::Status {
    for (auto& [device, request] : requests) {
      const caf::actor actor = runtime.directory->Find("container:" + device);
      if (!actor) return runtime.directory->WhyDown("container:" + device);
      request.only_check = check;
      TROUPE_ASSIGN_OR_RETURN(const resources_restored reply,
                              Ask<resources_restored>(*runtime.system, actor, request, impl->options.wire_messages));
      TROUPE_RETURN_IF_ERROR(reply.status);
      if (!check) changed.push_back(device);
    }
    return absl::OkStatus();
  };
  // What another call restores between the check and the change might no longer fit.
  const std::lock_guard<std::mutex> one(runtime.restoring);
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
