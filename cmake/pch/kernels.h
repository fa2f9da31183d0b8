// Precompiled for kernels/: what an op file includes anyway.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "troupe/gradient_function.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "kernels/array/op_file.h"
#include "kernels/array/strided_copy.h"
#include "troupe/kernel.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/grad_math.h"
