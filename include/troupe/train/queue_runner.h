// Runs the queue runners of a graph (troupe/queues.h), also of one that was imported from a
// MetaGraph.
//
// Each enqueue op is run again and again, until it says that there is nothing more (OUT_OF_RANGE):
// when all of a runner's ops have said so, its queue is closed. An op that fails with another error
// asks the coordinator to stop. When the coordinator stops, the queue is closed, and what waits to
// enqueue is cancelled. A runner is a member of the coordinator until none of its steps runs.
//
// A runner is an actor of the session's runtime, and has no thread: it starts its steps
// asynchronously. If the actor is killed, the next one goes on.
//
// Source of the semantics: tf.train.start_queue_runners.
//
// Thread rule: thread safe. The session may end before the runners; their steps are cancelled then.
#ifndef TROUPE_TRAIN_QUEUE_RUNNER_H_
#define TROUPE_TRAIN_QUEUE_RUNNER_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/queues.h"
#include "troupe/train/coordinator.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// All or none are started. Refused where Session::Prepare is.
absl::Status StartQueueRunners(Session& session, Coordinator& coordinator, const std::vector<QueueRunner>& runners);
// Those of the graph's collection.
absl::Status StartQueueRunners(Session& session, Coordinator& coordinator, const Graph& graph);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_QUEUE_RUNNER_H_
