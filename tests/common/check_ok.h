// Checks that a status is OK, and tells expression and status when it is not: CHECK_OK goes on,
// REQUIRE_OK ends the test case.
#ifndef TROUPE_TESTS_COMMON_CHECK_OK_H_
#define TROUPE_TESTS_COMMON_CHECK_OK_H_

#include <boost/test/unit_test.hpp>

#include "troupe/status.h"

#define CHECK_OK(expr)                                 \
  do {                                                 \
    const absl::Status s_ = (expr);                    \
    BOOST_CHECK_MESSAGE(s_.ok(), #expr << ": " << s_); \
  } while (false)
#define REQUIRE_OK(expr)                                 \
  do {                                                   \
    const absl::Status s_ = (expr);                      \
    BOOST_REQUIRE_MESSAGE(s_.ok(), #expr << ": " << s_); \
  } while (false)

#endif  // TROUPE_TESTS_COMMON_CHECK_OK_H_
