#define BOOST_TEST_MODULE autodiff
#include <boost/test/included/unit_test.hpp>
