// Memory that runs out at a chosen place, and for a chosen number of attempts.
//
//   Failing no_memory(2, 20);   // of this thread: two allocations succeed, the next 20 throw std::bad_alloc
//   ...
//   more = no_memory.failed() > 0;   // it got as far as that
//
// Thread rule: an object belongs to the thread that makes it; there is one at a time on a thread.
#ifndef TROUPE_TESTS_NO_MEMORY_FAILING_H_
#define TROUPE_TESTS_NO_MEMORY_FAILING_H_

namespace troupe::testing {

class Failing {
 public:
  Failing(long after, long count);
  ~Failing();
  Failing(const Failing&) = delete;
  Failing& operator=(const Failing&) = delete;
  // How many allocations have failed so far.
  static long failed();
};

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_NO_MEMORY_FAILING_H_
