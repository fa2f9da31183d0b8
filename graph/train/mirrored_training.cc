#include "troupe/train/mirrored_training.h"

#include <algorithm>

#include "graph/api/scope_state.h"
#include "graph/train/build.h"
#include "graph/train/set.h"
#include "troupe/const.h"

namespace troupe::train {
namespace {

const std::string& DeviceOf(const Variable& v) { return v.handle().node()->requested_device(); }

}  // namespace

MirroredTraining::MirroredTraining(const ScopeAt& at, const InGraphReplicas& replicas, const Variable& global_step,
                                   const MirroredOptions& options)
    : options_(options), loss_(replicas.loss()), initializer_(replicas.initializer()) {
  if (!at.ok()) return;
  if (const absl::Status wrong = Check(at.scope(), replicas, global_step); !wrong.ok()) {
    at.Fail(wrong);
    return;
  }
  const Scope s = at.Sub(options_.name);
  std::vector<Variable> mirrors;
  const auto& variables = replicas.variables();
  const int n = replicas.replicas();
  for (size_t r = 1; r < variables.size(); ++r) mirrors.insert(mirrors.end(), variables[r].begin(), variables[r].end());
  state_ = ServerState(s, global_step, {.more = mirrors});
  if (!s.ok()) return;
  update_ = state_.KeepAfter(s, replicas.update());
  for (int r = 0; r < n; ++r) fills_.push_back(replicas.Copy(s, (r + n - 1) % n, r));
  const Scope beside = s.ColocateWith(global_step.handle());
  fed_step_ = train::Build(beside.WithOpName("step"), "Placeholder", {},
                           {{"dtype", DType::kInt64}, {"shape", PartialTensorShape(TensorShape())}});
  set_step_ =
      SetTo(beside.WithOpName("set_step"), global_step, CastTo(beside, fed_step_, global_step.variable_dtype()));
  // Each at its replica, so that who waits does so at home.
  const Scope top = Scope(internal::TopLevel(*at->state())).WithLocation(at.location());
  for (int r = 0; r < n; ++r) {
    tell_end_.emplace_back();
    await_end_.emplace_back();
    if (r == 0) continue;
    const Scope there = top.ColocateWith(variables[static_cast<size_t>(r)][0].handle());
    QueueOptions queue;
    queue.shared_name = StrCat(options_.name, "/end/", r);
    queue.shapes = {TensorShape()};
    queue.capacity = -1;  // nobody may wait for it
    const Queue end = Queue::Fifo(there.WithOpName(queue.shared_name), {DType::kInt64}, queue);
    const Scope here = s.ColocateWith(variables[static_cast<size_t>(r)][0].handle());
    tell_end_.back() = end.Enqueue(here.WithOpName("tell_end"), {Const(here, int64_t{1})});
    await_end_.back() = end.Dequeue(here.WithOpName("await_end")).at(0);
  }
}

absl::Status MirroredTraining::Check(const Scope& s, const InGraphReplicas& replicas,
                                     const Variable& global_step) const {
  if (replicas.options().variables != InGraphOptions::kMirrored)
    return InvalidArgument("MirroredTraining needs replicas with mirrored variables");
  const auto& variables = replicas.variables();
  if (!replicas.update().valid() || variables.empty() || !global_step.handle().valid())
    return InvalidArgument("MirroredTraining needs replicas that are updated, and a global step");
  std::vector<std::string> devices;
  for (size_t r = 0; r < variables.size(); ++r) {
    const std::string& device = DeviceOf(variables[r][0]);
    const auto elsewhere = [&](const Variable& v) { return DeviceOf(v) != device; };
    if (const auto v = std::find_if(variables[r].begin(), variables[r].end(), elsewhere); v != variables[r].end()) {
      return InvalidArgument("the variables of replica ", r, " stand on several devices: '", v->variable_name(),
                             "' on '", DeviceOf(*v), "', others on '", device, "'");
    }
    if (std::find(devices.begin(), devices.end(), device) != devices.end())
      return InvalidArgument("mirrored training needs a device for each replica, and '", device, "' has several");
    devices.push_back(device);
  }
  if (DeviceOf(global_step) != devices[0]) {
    return InvalidArgument("the global step is on '", DeviceOf(global_step), "', and not with replica 0 on '",
                           devices[0], "'");
  }
  for (const Variable& v : VariablesIn(s, kGlobalVariables)) {
    const auto same = [&](const Variable& own) { return own.handle().node() == v.handle().node(); };
    if (same(global_step) || std::any_of(variables[0].begin(), variables[0].end(), same)) continue;
    return InvalidArgument("'", v.variable_name(), "' belongs to no replica, and would be lost with its task");
  }
  return absl::OkStatus();
}

}  // namespace troupe::train
