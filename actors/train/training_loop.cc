#include "actors/train/training_loop.h"

#include "actors/runtime/remote_tasks.h"
#include "troupe/files.h"

namespace troupe::train {

bool TrainingLoop::left() const {
  return options.session.runtime != nullptr && HasLeftCluster(*options.session.runtime);
}

absl::Status CheckOptions(const TrainingOptions& options) {
  if (options.last_step < 0) return InvalidArgument("TrainingOptions.last_step is ", options.last_step, ": below 0");
  const std::string& folder = options.checkpoints.folder;
  if (folder.empty()) return absl::OkStatus();
  // Later it would say FAILED_PRECONDITION, as a server that has lost its variables does.
  const absl::StatusOr<files::FileStat> stat = files::Stat(folder);
  if (absl::IsFailedPrecondition(stat.status()) || (stat.ok() && !stat->is_directory)) {
    return InvalidArgument("TrainingOptions.checkpoints.folder '", folder, "' is no folder",
                           stat.ok() ? "" : StrCat(": ", stat.status().message()));
  }
  return absl::OkStatus();
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
