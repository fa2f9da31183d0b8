// What reductions that add elements up share (reduction.h): Sum, Mean, and with squares
// EuclideanNorm.
#ifndef TROUPE_KERNELS_REDUCE_ADDING_H_
#define TROUPE_KERNELS_REDUCE_ADDING_H_

#include <complex>

#include "kernels/reduce/reduction.h"

namespace troupe::math {

struct Adding {
  template <class Acc>
  static Acc Identity() {
    return Acc(0);
  }
  template <class Acc, class T>
  static Acc Load(T x) {
    return static_cast<Acc>(x);
  }
  template <class Acc>
  static Acc Combine(Acc a, Acc b) {
    return a + b;
  }
};

// The reducers of floats, with the hot loops, and of complex numbers, of an Op that only finishes
// otherwise.
template <class Op>
void AddFloatSums(ReduceTable* t) {
  AddReducers<Op, double, float, double>(t, 0.3f);
  (*t)[DType::kFloat].loops = HotReduceLoops(HotReduce::kSum, 0);
  (*t)[DType::kDouble].loops = HotReduceLoops(HotReduce::kSum, 1);
  AddReducers<Op, std::complex<double>, std::complex<float>, std::complex<double>>(t, 1.5f);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_REDUCE_ADDING_H_
