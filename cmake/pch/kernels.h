// Precompiled for kernels/: what an op file includes anyway.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "troupe/graph/ir/gradient.h"
#include "troupe/graph/ir/op_def.h"
#include "troupe/graph/ir/shape_inference.h"
#include "troupe/kernels/array/op_file.h"
#include "troupe/kernels/array/strided_copy.h"
#include "troupe/kernels/kernel.h"
#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"
