// Precompiled for the tests: the test library and what a user of Troupe includes.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "troupe/evaluate.h"
#include "troupe/import_export.h"
#include "troupe/troupe.h"
