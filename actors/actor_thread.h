// What the calling thread is: one that runs actors, or one that is past its end.
//
// A blocking call on a thread of an actor system's scheduler holds up the actors that wait for that thread, and may wait for them: it is refused. A detached or
// a blocking actor has a thread of its own, and may block.
//
// CAF keeps a share of the actor system's logger in a thread-local variable. At the exit of a program these are gone before objects with static storage are, and
// CAF in a destructor of such an object would use the dead variable: there it is called by a thread of its own.
#ifndef TROUPE_ACTORS_ACTOR_THREAD_H_
#define TROUPE_ACTORS_ACTOR_THREAD_H_

#include <thread>

namespace troupe {

// True on the scheduler's threads of any actor system of this process, whoever made it.
bool OnSchedulerThread();

// From now on ThreadEnded is right on this thread. Before a thread calls CAF for an object that may be destroyed at exit.
void KnowThreadsEnd();
// True when the thread-local variables of this thread have been destroyed.
bool ThreadEnded();

// Calls f here, or by a thread that can call CAF when this one cannot any more, and waits for it.
template <class F>
void OnSoundThread(F f) {
  if (ThreadEnded()) {
    std::thread(f).join();
  } else {
    f();
  }
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_ACTOR_THREAD_H_
