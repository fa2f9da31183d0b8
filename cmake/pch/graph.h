// Precompiled for graph/: what nearly every file there includes anyway.
#include <algorithm>

#include "troupe/graph/api/emit.h"
#include "troupe/graph/autodiff/gradients.h"
#include "troupe/graph/ir/gradient.h"
#include "troupe/graph/ir/import_export.h"
#include "troupe/graph/ir/node_builder.h"
#include "troupe/graph/ir/op_def.h"
#include "troupe/graph/ir/shape_inference.h"
