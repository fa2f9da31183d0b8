#define BOOST_TEST_MODULE ops
#include <boost/test/included/unit_test.hpp>
