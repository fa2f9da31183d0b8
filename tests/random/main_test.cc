#define BOOST_TEST_MODULE random
#include <boost/test/included/unit_test.hpp>
