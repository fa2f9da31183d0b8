// Precompiled for graph/: what nearly every file there includes anyway.
#include <algorithm>

#include "troupe/emit.h"
#include "troupe/gradients.h"
#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/node_builder.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
