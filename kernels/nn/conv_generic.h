// Convolutions of any type by matrix products over unrolled patches: what float64 and int32 use,
// and float32 where the library has nothing.
//
// Thread rule: a pure function, on the calling thread.
#ifndef TROUPE_KERNELS_NN_CONV_GENERIC_H_
#define TROUPE_KERNELS_NN_CONV_GENERIC_H_

#include "kernels/nn/conv_shape.h"

namespace troupe {

// a, b and out as ConvPass says, NHWC and HWIO; out is overwritten. T: float, double, uint32_t
// (integers modulo 2^32).
template <class T>
void GenericConv(ConvPass pass, const ConvShape& shape, const T* a, const T* b, T* out);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_GENERIC_H_
