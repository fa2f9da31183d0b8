#include "actors/threads/actor_thread.h"

#include <pthread.h>

#include <caf/actor_system.hpp>
#include <caf/logger.hpp>
#include <cstring>

namespace troupe {
namespace {

// Trivial, so that it can be read after the thread's other variables are gone.
thread_local bool thread_ended = false;

struct Sentinel {
  ~Sentinel() { thread_ended = true; }
  bool used = false;
};
thread_local Sentinel sentinel;

thread_local int no_blocking = 0;

// CAF names the threads of its schedulers. Threads that they start inherit the name, but not the
// actor system, unless they use one themselves.
bool LooksLikeWorker() {
  char name[32] = "";
  return caf::logger::current_logger() != nullptr && pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
         std::strcmp(name, "caf.multiplexer") == 0;
}

}  // namespace

bool OnSchedulerThread() {
  // A thread is one from its start to its end, or never becomes one.
  thread_local const bool worker = LooksLikeWorker();
  return worker;
}

NoBlockingHere::NoBlockingHere() { ++no_blocking; }
NoBlockingHere::~NoBlockingHere() { --no_blocking; }
bool MustNotBlockHere() { return no_blocking > 0; }

NoLoggerAfter::NoLoggerAfter() : before_(caf::logger::current_logger()) {
  // What kind of thread this is, is seen by its logger; so it is looked at before that may go.
  (void)OnSchedulerThread();
}
NoLoggerAfter::~NoLoggerAfter() {
  if (caf::logger::current_logger() != before_) caf::logger::set_current_actor_system(nullptr);
}

NoLoggerMeanwhile::NoLoggerMeanwhile(caf::actor_system* system)
    : system_(caf::logger::current_logger() == &system->logger() ? system : nullptr) {
  (void)OnSchedulerThread();  // as above
  if (system_ != nullptr) caf::logger::set_current_actor_system(nullptr);
}
NoLoggerMeanwhile::~NoLoggerMeanwhile() {
  if (system_ != nullptr) caf::logger::set_current_actor_system(system_);
}

void KnowThreadsEnd() { sentinel.used = true; }
bool ThreadEnded() { return thread_ended; }

}  // namespace troupe
