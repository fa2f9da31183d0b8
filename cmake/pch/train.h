// Precompiled for graph/train/: the typed builders.
#include "graph/train/build.h"
#include "troupe/ops.h"
