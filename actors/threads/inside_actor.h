// Whether a call may wait on this thread.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_THREADS_INSIDE_ACTOR_H_
#define TROUPE_ACTORS_THREADS_INSIDE_ACTOR_H_

namespace troupe {

// True on a thread that runs an actor's handler, as far as the runtime can tell, and on the
// runtime's own threads.
bool InsideActor();

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_INSIDE_ACTOR_H_
