#define BOOST_TEST_MODULE docs
#include <boost/test/included/unit_test.hpp>
