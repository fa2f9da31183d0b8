#define BOOST_TEST_MODULE api
#include <boost/test/included/unit_test.hpp>
