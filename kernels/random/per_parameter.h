// Ops that draw a tensor of samples for each element of a parameter: output [shape..., parameter's
// shape...].
//
// Sample s of parameter p is number p * samples + s of the op: it has a place of its own in the
// random stream, 256 results wide, so that it does not depend on how the work is split. In the
// output it stands at s * parameters + p.
//
// Thread rule: as for all kernels (troupe/kernel.h); a SampleStream belongs to one thread.
#ifndef TROUPE_KERNELS_RANDOM_PER_PARAMETER_H_
#define TROUPE_KERNELS_RANDOM_PER_PARAMETER_H_

#include "kernels/random/distributions.h"
#include "kernels/random/random_state.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::random {

// The numbers of one sample. Both distributions give two numbers at a time, of which the second is
// used first.
class SampleStream {
 public:
  explicit SampleStream(const Philox& philox) : philox_(philox) {}
  double Uniform() {
    if (uniform_left_ == 0) {
      const Philox::Words x = philox_();
      for (int i = 0; i < 2; ++i) uniform_[i] = UniformDouble(x[2 * i], x[2 * i + 1]);
      uniform_left_ = 2;
    }
    return uniform_[--uniform_left_];
  }
  double Normal() {
    if (normal_left_ == 0) {
      const Philox::Words x = philox_();
      BoxMuller(x[0], x[1], x[2], x[3], &normal_[0], &normal_[1]);
      normal_left_ = 2;
    }
    return normal_[--normal_left_];
  }

 private:
  Philox philox_;
  double uniform_[2], normal_[2];
  int uniform_left_ = 0, normal_left_ = 0;
};

// Shape function: the shape at input 0 and then the shape of input 1.
absl::Status PerParameterShape(InferenceContext& c);

// Output 0, allocated, and the place of its first number. Input 0 is the shape, input 1 the
// parameter.
struct PerParameter {
  Tensor* out = nullptr;
  Philox start;
  int64_t samples = 0, parameters = 0;
};
absl::StatusOr<PerParameter> AllocatePerParameter(KernelContext& ctx, RandomSource* source);

// Fills `out` of U by draw(parameter, stream) for a parameter of type T.
template <class T, class U, class Draw>
void FillPerParameter(KernelContext& ctx, const PerParameter& p, const Draw& draw) {
  const T* parameter = ctx.input(1).data<T>();
  U* const out = p.out->data<U>();
  ctx.threads()->ParallelFor(p.samples * p.parameters, 100, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Philox place = p.start;
      place.Skip(static_cast<uint64_t>(i) * kReserved);
      SampleStream stream(place);
      out[i % p.samples * p.parameters + i / p.samples] = draw(static_cast<double>(parameter[i / p.samples]), stream);
    }
  });
}

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_PER_PARAMETER_H_
