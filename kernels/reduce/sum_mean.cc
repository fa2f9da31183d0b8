// Reductions that add elements up: Sum, Mean, and with squares EuclideanNorm.
#include <cmath>
#include <complex>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce_grad.h"
#include "kernels/reduce/reduction.h"

namespace troupe::math {
namespace {

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

struct SumOp : Adding {
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return static_cast<T>(a);
  }
};

// Integers are added in 64 bits and keep their low bits: what wrapping around at every step gives.
const ReduceTable& SumTable() {
  static const ReduceTable table = [] {
    ReduceTable t;
    AddFloatSums<SumOp>(&t);
    AddReducers<SumOp, uint64_t, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.6f);
    return t;
  }();
  return table;
}

const OpRegistrar sum = ReductionOp("Sum")
                            .Gradient([](GradientContext& g) { return SetUnary(g, SpreadOverInput(g, Grad(g))); })
                            .Doc("The sum over the axes in reduction_indices; 0 where there is nothing to add.");

TROUPE_KERNEL("Sum")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("reduction_indices")
    .Factory(ReductionFactory<SumTable>);

struct MeanOp : Adding {
  template <class T, class Acc>
  static T Finish(Acc a, int64_t count) {
    if constexpr (std::is_integral_v<Acc>) {
      return count == 0 ? T(0) : static_cast<T>(a / static_cast<Acc>(count));
    } else {
      // As TensorFlow has it, complex numbers give zero here.
      if constexpr (!std::is_floating_point_v<Acc>) {
        if (count == 0) return T(0);
      }
      return static_cast<T>(a / static_cast<double>(count));
    }
  }
};

const ReduceTable& MeanTable() {
  static const ReduceTable table = [] {
    ReduceTable t;
    AddFloatSums<MeanOp>(&t);
    AddReducers<MeanOp, int64_t, int8_t, int16_t, int32_t, int64_t>(&t, 0.6f);
    AddReducers<MeanOp, uint64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.6f);
    return t;
  }();
  return table;
}

const OpRegistrar mean = ReductionOp("Mean")
                             .Gradient([](GradientContext& g) -> absl::Status {
                               const Value dx = SpreadOverInput(g, Grad(g));
                               return SetUnary(g, dx / ReducedCount(g, dx));
                             })
                             .Doc(
                                 "The mean over the axes in reduction_indices. Of no elements it is NaN, for integers "
                                 "0; a mean of integers is truncated towards zero.");

TROUPE_KERNEL("Mean")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("reduction_indices")
    .Factory(ReductionFactory<MeanTable>);

struct EuclideanNormOp : Adding {
  template <class Acc, class T>
  static Acc Load(T x) {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<Acc>(x) * static_cast<Acc>(x);
    } else {
      return std::norm(std::complex<double>(x));
    }
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return static_cast<T>(std::sqrt(a));
  }
};

const ReduceTable& EuclideanNormTable() {
  static const ReduceTable table = [] {
    ReduceTable t;
    t.one_is_itself = false;
    AddReducers<EuclideanNormOp, double, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                uint64_t, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

const OpRegistrar euclidean_norm = ReductionOp("EuclideanNorm")
                                       .Gradient([](GradientContext& g) -> absl::Status {
                                         const Value y = KeepDims(g, Out(g)), dy = KeepDims(g, Grad(g));
                                         return SetUnary(g, In(g, 0) / (y / dy));
                                       })
                                       .Doc(
                                           "The square root of the sum of squared magnitudes over the axes in "
                                           "reduction_indices; integers are truncated.");

TROUPE_KERNEL("EuclideanNorm")
    .Device("CPU")
    .Types("T", kNumbers)
    .HostMemory("reduction_indices")
    .Factory(ReductionFactory<EuclideanNormTable>);

}  // namespace
}  // namespace troupe::math
