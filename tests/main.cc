// The runner of every test program, compiled once. It is the one of Boost.Test's shared library:
// with the included form beside it, which the groups link as well, a program had every global of
// the library twice, and destroyed one of them two times.
#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE troupe
#include <boost/test/unit_test.hpp>
