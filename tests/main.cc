// The runner of every test program, compiled once: Boost.Test's included form takes ten times as long to compile as a file of tests.
#define BOOST_TEST_MODULE troupe
#include <boost/test/included/unit_test.hpp>
