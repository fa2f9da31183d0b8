// Precompiled for actors/: CAF and the contracts of the floors below.
#include <algorithm>
#include <caf/all.hpp>

#include "troupe/import_export.h"
#include "troupe/kernel.h"
#include "actors/messages/messages.h"
