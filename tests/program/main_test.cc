#define BOOST_TEST_MODULE program
#include <boost/test/included/unit_test.hpp>
