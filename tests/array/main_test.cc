#define BOOST_TEST_MODULE array
#include <boost/test/included/unit_test.hpp>
