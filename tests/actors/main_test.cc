#define BOOST_TEST_MODULE actors
#include <boost/test/included/unit_test.hpp>
