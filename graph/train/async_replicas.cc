#include "troupe/train/async_replicas.h"

#include "graph/train/build.h"
#include "troupe/group.h"

namespace troupe::train {

AsyncReplicas::AsyncReplicas(const ScopeAt& at, Optimizer& optimizer, const std::vector<GradAndVar>& grads,
                             const Output& loss, const Variable& global_step, const AsyncReplicasOptions& options)
    : options_(options), loss_(loss) {
  const Scope s = at.Sub("async");
  const Operation applied = optimizer.ApplyGradients(s, grads, global_step);
  if (!s.ok()) return;
  state_ = ServerState(s, global_step, {.undo = false});
  if (!s.ok()) return;
  const Scope after = s.WithControlDependencies(applied);
  std::vector<Operation> done{applied};
  for (const ServerState::Server& server : state_.servers()) {
    const Scope here = after.ColocateWith(server.mark.handle());
    done.emplace_back(server.mark.AssignAdd(here, int64_t{1}));
  }
  update_ = Group(s.WithOpName("update"), done);
  step_after_ = CastTo(s, global_step.Read(after.ColocateWith(global_step.handle())), DType::kInt64);
}

}  // namespace troupe::train
