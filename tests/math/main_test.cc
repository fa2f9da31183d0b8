#define BOOST_TEST_MODULE math
#include <boost/test/included/unit_test.hpp>
