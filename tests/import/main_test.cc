#define BOOST_TEST_MODULE import
#include <boost/test/included/unit_test.hpp>
