#include "actors/threads/inside_actor.h"

#include "actors/threads/actor_thread.h"
#include "actors/threads/lane.h"
#include "troupe/compute_threads.h"

namespace troupe {

bool InsideActor() { return InsideLane() || MustNotBlockHere() || ComputeThreads::OnWorker() || OnSchedulerThread(); }

}  // namespace troupe
