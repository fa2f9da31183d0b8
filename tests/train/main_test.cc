#define BOOST_TEST_MODULE train
#include <boost/test/included/unit_test.hpp>
