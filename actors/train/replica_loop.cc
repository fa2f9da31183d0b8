#include "actors/train/replica_loop.h"

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"

namespace troupe::train {

bool HasLeftCluster(const Runtime& runtime) {
  const std::shared_ptr<RemoteTasks>& remote = runtime.impl()->remote;
  return remote != nullptr && remote->left();
}

void AwaitOthers(Session& session, const ServerState& state, int workers, std::chrono::steady_clock::time_point end) {
  constexpr std::chrono::milliseconds kLook{20};
  while (std::chrono::steady_clock::now() < end) {
    const absl::StatusOr<Tensor> ended = session.Get(state.ended());
    if (!ended.ok() || ended->scalar<int64_t>() >= workers - 1) return;
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace troupe::train
