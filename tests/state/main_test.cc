#define BOOST_TEST_MODULE state
#include <boost/test/included/unit_test.hpp>
