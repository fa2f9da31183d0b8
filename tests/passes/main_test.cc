#define BOOST_TEST_MODULE passes
#include <boost/test/included/unit_test.hpp>
