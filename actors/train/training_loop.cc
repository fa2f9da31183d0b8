#include "actors/train/training_loop.h"

#include "actors/runtime/remote_tasks.h"

namespace troupe::train {

bool TrainingLoop::left() const {
  return options.session.runtime != nullptr && HasLeftCluster(*options.session.runtime);
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
