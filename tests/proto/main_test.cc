#define BOOST_TEST_MODULE proto
#include <boost/test/included/unit_test.hpp>
