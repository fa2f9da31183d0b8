#include "actors/signature/remote_plan.h"

#include "actors/messages/messages.h"

namespace troupe {

RemotePlan::~RemotePlan() {
  for (const Task& task : tasks) {
    remote->WhenThere(NameOf(task), task.incarnation,
                      [system = system, drop = drop_graph{master, task.handle}](const caf::actor& worker) {
                        SendRemote(*system, worker, drop).IgnoreError();
                      });
  }
}

}  // namespace troupe
