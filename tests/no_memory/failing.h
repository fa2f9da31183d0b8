// Memory that runs out at a chosen place, and for a chosen number of attempts or time.
//
//   Failing no_memory(2, 20);   // of this thread: two allocations succeed, the next 20 throw std::bad_alloc
//   ...
//   more = no_memory.failed() > 0;   // it got as far as that
//
// For programs and test groups that compile failing.cc, which has their operator new.
//
// Thread rule: all of it is about the calling thread. There is one Failing at a time on a thread.
#ifndef TROUPE_TESTS_NO_MEMORY_FAILING_H_
#define TROUPE_TESTS_NO_MEMORY_FAILING_H_

#include <chrono>

namespace troupe::testing {

// Where it is not known when the failing is to end, as in a kernel.
void Fail(long after, long count);
// All that come within the time after the first that failed, and that one.
void FailFor(long after, std::chrono::milliseconds time);
void FailNone();
// How many allocations have failed since the last Fail or FailFor.
long Failed();

class Failing {
 public:
  Failing(long after, long count) { Fail(after, count); }
  ~Failing() { FailNone(); }
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
  static long failed() { return Failed(); }
};

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_NO_MEMORY_FAILING_H_
