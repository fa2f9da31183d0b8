// Precompiled for the command-line program.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "troupe/import_export.h"
#include "troupe/troupe.h"
