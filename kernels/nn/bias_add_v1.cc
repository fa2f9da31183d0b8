// BiasAddV1: BiasAdd as it was before data formats, kept for old graphs.
#include "kernels/nn/bias_add.h"
#include "troupe/gradient_function.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("BiasAddV1")
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Shape([](InferenceContext& c) { return BiasAddShape(c, false); })
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      g.Set(1, g.Op("BiasAddGrad", {g.Grad(0)}));
      return g.status();
    })
    .Doc("Adds the vector bias to value along its last dimension.");

struct Kernel : BiasAddKernel {
  explicit Kernel(KernelInit& init) : BiasAddKernel(init, false) {}
};
TROUPE_KERNEL("BiasAddV1")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, std::complex<float>, int64_t, BFloat16, uint16_t,
          std::complex<double>, Half, uint32_t, uint64_t>("T")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
