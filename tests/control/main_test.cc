#define BOOST_TEST_MODULE control
#include <boost/test/included/unit_test.hpp>
