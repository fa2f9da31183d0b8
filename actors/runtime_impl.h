// The inside of a Runtime: CAF types allowed.
#ifndef TROUPE_ACTORS_RUNTIME_IMPL_H_
#define TROUPE_ACTORS_RUNTIME_IMPL_H_

#include <caf/all.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/step_clock.h"
#include "actors/supervisor.h"
#include "actors/turn_threads.h"
#include "troupe/actors.h"
#include "troupe/device.h"

namespace troupe {

// Keeps an actor system from its end, as an actor that runs would; lets go of it on any thread.
struct RunningIn {
  caf::actor_system* system = nullptr;
  ~RunningIn();
};

struct Runtime::Impl {
  // In the caller's system: whoever drops the last share of the runtime may have another thread end
  // it, and the caller cannot know when that is done. The last to go.
  RunningIn running_in;
  RuntimeOptions options;
  // Either ours or the caller's; ours dies last.
  std::unique_ptr<caf::actor_system_config> config;
  std::unique_ptr<caf::actor_system> own_system;
  caf::actor_system* system = nullptr;
  int process = 0;  // which one made it (process.h)
  // Long work has threads of its own. Not with a clock of a test's, whose scheduler has all of it
  // in its turns.
  bool aside = true;
  std::shared_ptr<ComputeThreads> compute;  // of all devices
  std::unique_ptr<TurnThreads> turns;       // where executors run that no lane has; null: under the scheduler
  std::shared_ptr<StepClock> clock;         // of deadlines
  std::shared_ptr<Allocator> allocator;  // set when there is a limit; the devices have shares
  std::vector<std::shared_ptr<Device>> devices;
  std::shared_ptr<Directory> directory;  // "worker", "device:<name>", "container:<name>" -> the living actor
  caf::actor supervisor;

  // Called when a device or container actor died: steps that run fail with this status. By session.
  std::mutex mu;
  std::map<const void*, std::function<void(const absl::Status&)>> on_failure;
  void TellFailure(const absl::Status& status);

  // Ends the actors and threads, then the rest. What a compute thread is still at uses all of it: a
  // callback in the last turn of a step, or a kernel whose executor was killed. After a second that
  // is waited for elsewhere, and the rest, with the actor system, goes when it has returned.
  static void End(std::unique_ptr<Impl> impl);
};

// As StartRuntimeIn of troupe/actors.h without threads of its own for steps and deadlines:
// executors run under the system's scheduler, and `clock` looks for what is due. So a test that has
// both in its hand decides what happens next.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        std::shared_ptr<StepClock> clock);

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_IMPL_H_
