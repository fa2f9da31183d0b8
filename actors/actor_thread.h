// What the calling thread is: one that runs actors, or one that is past its end.
//
// A blocking call on a thread of an actor system's scheduler holds up the actors that wait for that
// thread, and may wait for them: it is refused. A detached or a blocking actor has a thread of its
// own, and may block.
//
// CAF keeps a share of the actor system's logger in a thread-local variable. A thread that has one
// takes a lock of that logger, which all threads share, twice whenever it resumes an actor; so a
// plain thread that spawned something is left without, as it was before, and a lane does without
// for the time of a step. At the exit of a program these are gone before objects with static
// storage are, and CAF in a destructor of such an object would use the dead variable: there it is
// called by a thread of its own.
#ifndef TROUPE_ACTORS_ACTOR_THREAD_H_
#define TROUPE_ACTORS_ACTOR_THREAD_H_

#include <system_error>
#include <thread>

namespace caf {
class actor_system;
}

namespace troupe {

// True on the scheduler's threads of any actor system of this process, whoever made it.
bool OnSchedulerThread();

// This thread belongs to a runtime for the time of its life: others wait for it, so that nothing
// may block it either.
class NoBlockingHere {
 public:
  NoBlockingHere();
  ~NoBlockingHere();
  NoBlockingHere(const NoBlockingHere&) = delete;
  NoBlockingHere& operator=(const NoBlockingHere&) = delete;
};
bool MustNotBlockHere();

// From now on ThreadEnded is right on this thread. Before a thread calls CAF for an object that may
// be destroyed at exit.
void KnowThreadsEnd();
// True when the thread-local variables of this thread have been destroyed.
bool ThreadEnded();

// A thread that had no logger of CAF before has none after. One that had another actor system's,
// which cannot be set again, has none either: it would keep the logger that it got instead, and an
// actor system does not end before its logger is gone.
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

#endif  // TROUPE_ACTORS_ACTOR_THREAD_H_
