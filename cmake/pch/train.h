// Precompiled for graph/train/: the typed builders.
#include "troupe/graph/train/build.h"
#include "troupe/ops.h"
