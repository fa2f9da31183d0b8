#include "actors/signature/remote_plan.h"

#include "actors/messages/messages.h"
#include "graph/core/log.h"

namespace troupe {

RemotePlan::~RemotePlan() {
  // It goes with the last share of a signature, perhaps where there is no memory.
  try {
    for (const Task& task : tasks) {
      remote->WhenThere(NameOf(task), task.incarnation,
                        [system = system, drop = drop_graph{master, task.handle}](const caf::actor& worker) {
                          SendRemote(*system, worker, drop).IgnoreError();
                        });
    }
  } catch (const std::bad_alloc&) {
    LogError("no memory is left to let go of a graph elsewhere; it stays until this process ends");
  }
}

}  // namespace troupe
