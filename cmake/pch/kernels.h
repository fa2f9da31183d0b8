// Precompiled for kernels/: what an op file includes anyway.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "troupe/gradient_function.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"
#include "troupe/kernel.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/common/grad_math.h"
