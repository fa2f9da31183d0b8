// Precompiled for actors/: CAF and the contracts of the floors below.
#include <algorithm>
#include <caf/all.hpp>

#include "troupe/graph/ir/import_export.h"
#include "troupe/kernels/kernel.h"
#include "troupe/actors/messages.h"
