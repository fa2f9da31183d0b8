// A trial that is made again and again, each time with another allocation that fails.
//
// Thread rule: that of failing.h.
#ifndef TROUPE_TESTS_NO_MEMORY_EACH_ALLOCATION_H_
#define TROUPE_TESTS_NO_MEMORY_EACH_ALLOCATION_H_

#include <boost/test/unit_test.hpp>
#include <new>

#include "tests/no_memory/failing.h"

namespace troupe::testing {

// Calls trial(k) with k = 0, 1 ... while it says that its allocation k has failed; from `dense` on
// with every seventh k only.
template <class F>
void AtEachAllocation(F trial, long at_most = 100, long dense = 200) {
  long k = 0;
  for (; trial(k); k += k < dense ? 1 : 7) BOOST_REQUIRE(k < at_most);
  BOOST_TEST(k > 0);
}

// Whether f threw std::bad_alloc because allocation k failed.
template <class F>
bool Throws(long k, F f) {
  bool thrown = false;
  long failed = 0;
  {
    const Failing no_memory(k, 1);
    try {
      f();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    failed = Failing::failed();
  }
  BOOST_TEST(thrown == (failed > 0));
  return thrown;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_NO_MEMORY_EACH_ALLOCATION_H_
