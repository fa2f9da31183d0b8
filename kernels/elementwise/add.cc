#include "kernels/common/grad_math.h"
#include "kernels/elementwise/add_loops.h"

namespace troupe {
namespace {

const std::vector<DType> kTypes = {DType::kHalf,  DType::kBfloat16, DType::kFloat,     DType::kDouble,
                                   DType::kUint8, DType::kInt8,     DType::kInt16,     DType::kInt32,
                                   DType::kInt64, DType::kString,   DType::kComplex64, DType::kComplex128};

}  // namespace

TROUPE_OP("Add")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return math::SetBroadcast(g, math::Grad(g), math::Grad(g)); })
    .Doc("x + y with broadcasting; integers wrap around, strings are put one behind the other.");

TROUPE_KERNEL("Add").Device("CPU").Types("T", kTypes).Factory(math::BinaryFactory<math::AddTable>);

}  // namespace troupe
