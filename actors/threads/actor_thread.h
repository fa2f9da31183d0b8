// Tells what kind of thread the caller is on: a thread that runs actors, or one whose thread-local
// variables are destroyed.
//
// A blocking call on a thread of an actor system's scheduler delays the actors that need that
// thread, and may wait for one of them; such calls are refused. A detached or a blocking actor has
// a thread of its own and may block it.
//
// CAF keeps a reference to the actor system's logger in a thread-local variable. A thread that has
// such a reference takes a lock of the logger, which all threads share, twice whenever it resumes
// an actor. So a plain thread that spawned an actor is left without the reference, as it was
// before, and a lane does without it during a step. At the exit of a program thread-local variables
// are destroyed before objects with static storage. A destructor of such an object therefore calls
// CAF on a thread of its own.
//
// Thread rule: all functions concern the calling thread and may be called on any.
#ifndef TROUPE_ACTORS_THREADS_ACTOR_THREAD_H_
#define TROUPE_ACTORS_THREADS_ACTOR_THREAD_H_

#include <system_error>
#include <thread>

namespace caf {
class actor_system;
}

namespace troupe {

// True on the scheduler's threads of any actor system of this process, also of the program's own.
bool OnSchedulerThread();

// While an object of this class lives, its thread counts as a runtime's: other threads wait for it,
// so blocking calls are refused on it, too.
class NoBlockingHere {
 public:
  NoBlockingHere();
  ~NoBlockingHere();
  NoBlockingHere(const NoBlockingHere&) = delete;
  NoBlockingHere& operator=(const NoBlockingHere&) = delete;
};
bool MustNotBlockHere();

// Makes ThreadEnded() valid on this thread. To be called before this thread uses CAF for an object
// that may be destroyed at exit.
void KnowThreadsEnd();
// True when the thread-local variables of this thread have been destroyed.
bool ThreadEnded();

// On destruction, removes the logger that this thread has got from CAF meanwhile. If the thread had
// the logger of another actor system before, it has none afterwards: that logger cannot be set
// again, and an actor system does not end while a thread still refers to its logger.
class NoLoggerAfter {
 public:
  NoLoggerAfter();
  ~NoLoggerAfter();
  NoLoggerAfter(const NoLoggerAfter&) = delete;
  NoLoggerAfter& operator=(const NoLoggerAfter&) = delete;

 private:
  const void* const before_;
};
// This thread does without the logger of `system` for a while.
class NoLoggerMeanwhile {
 public:
  explicit NoLoggerMeanwhile(caf::actor_system* system);
  ~NoLoggerMeanwhile();
  NoLoggerMeanwhile(const NoLoggerMeanwhile&) = delete;
  NoLoggerMeanwhile& operator=(const NoLoggerMeanwhile&) = delete;

 private:
  caf::actor_system* const system_;  // null: there was none
};

// Calls f here, or by a thread that can call CAF when this one cannot any more, and waits for it.
// Not at all when there is no such thread to be had at the end of the program.
template <class F>
void OnSoundThread(F f) {
  if (ThreadEnded()) {
    try {
      std::thread(f).join();
    } catch (const std::system_error&) {
    }
  } else {
    f();
  }
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_ACTOR_THREAD_H_
