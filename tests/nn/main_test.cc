#define BOOST_TEST_MODULE nn
#include <boost/test/included/unit_test.hpp>
