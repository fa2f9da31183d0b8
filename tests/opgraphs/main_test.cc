#define BOOST_TEST_MODULE opgraphs
#include <boost/test/included/unit_test.hpp>
