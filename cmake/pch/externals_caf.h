// As externals.h, for the headers of actors/ and net/: CAF besides.
#include "cmake/pch/externals.h"

#include <caf/all.hpp>
