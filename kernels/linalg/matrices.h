// Tensors as batches of matrices: the last two dimensions are rows and columns, those before them
// count the matrices.
//
// An op of linear algebra is defined for one matrix and runs on each of a batch, many side by side.
// A matrix that cannot be decomposed fails the whole op; of several the first in the batch is the
// one that is reported.
//
// Thread rule: pure functions; ForEachMatrix calls its function from several threads.
#ifndef TROUPE_KERNELS_LINALG_MATRICES_H_
#define TROUPE_KERNELS_LINALG_MATRICES_H_

#include <array>
#include <atomic>
#include <complex>
#include <cstdint>

#include "kernels/linalg/decompositions.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::linalg {

struct Matrices {
  int64_t count = 1, rows = 0, columns = 0;
  int64_t elements() const { return rows * columns; }
};
// INVALID_ARGUMENT "Input tensor 0 must have rank >= 2, got 1"; of SquareMatricesOf also
// "Input matrix must be square, got 2 != 3".
absl::StatusOr<Matrices> MatricesOf(const KernelContext& ctx, int input);
absl::StatusOr<Matrices> SquareMatricesOf(const KernelContext& ctx, int input);
// The dimensions in front of the matrices.
TensorShape BatchShape(const TensorShape& shape);

// The matrix of an operand with batch dimensions `from` that matrix `i` of the broadcast batch `to`
// reads.
int64_t SourceMatrix(const TensorShape& to, const TensorShape& from, int64_t i);

// Shape functions: the shape of square matrices at `input`, rows and columns merged; the same as
// output 0.
absl::StatusOr<PartialTensorShape> SquareShape(const InferenceContext& c, int input);
absl::Status SquareToSame(InferenceContext& c);
// Every output has one element for each matrix of input 0.
absl::Status SquareToBatch(InferenceContext& c);

// Calls f.template operator()<T>() with the C++ type of a float or complex dtype. UNIMPLEMENTED for
// others.
template <class F>
absl::Status VisitField(DType t, F&& f) {
  switch (t) {
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kDouble:
      return f.template operator()<double>();
    case DType::kComplex64:
      return f.template operator()<std::complex<float>>();
    case DType::kComplex128:
      return f.template operator()<std::complex<double>>();
    default:
      return Unimplemented("matrices of ", Name(t), " are not decomposed");
  }
}

// Calls ok = f(i) for every matrix i of `count`, each with some `operations` multiplications, on
// the compute threads. `failure` for the first that is false.
template <class F>
absl::Status ForEachMatrix(KernelContext& ctx, int64_t count, double operations, const char* failure, F&& f) {
  std::atomic<int64_t> failed{count};
  ctx.threads()->ParallelFor(count, 200 + 0.5 * operations, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && i < failed.load(std::memory_order_relaxed) && !ctx.cancelled(); ++i) {
      if (f(i)) continue;
      int64_t first = failed.load();
      while (i < first && !failed.compare_exchange_weak(first, i)) {
      }
    }
  });
  if (failed.load() == count) return absl::OkStatus();
  if (count == 1) return InvalidArgument(failure);
  return InvalidArgument(failure, " (matrix ", failed.load(), " of ", count, ")");
}

// For gradients: matrix products with adjoints, transposes and the shape [..., 1, 1] of a scalar
// for each matrix.
NodeOut Product(GradientContext& g, NodeOut a, NodeOut b, bool adjoint_a = false, bool adjoint_b = false);
NodeOut Adjoint(GradientContext& g, NodeOut a);
NodeOut PerMatrix(GradientContext& g, NodeOut scalars);
// Sets the gradients of inputs 0 and 1 to these, whose batch dimensions are those of the inputs
// broadcast, summed to the shape of each.
void SetSummedToBatches(GradientContext& g, NodeOut grad0, NodeOut grad1);

// The types of TensorFlow's kernels; and those of its definitions, which allow half, too.
inline constexpr std::array kFields = {DType::kFloat, DType::kDouble, DType::kComplex64, DType::kComplex128};
#define TROUPE_T_FIELDS "T: {double, float, half, complex64, complex128}"

}  // namespace troupe::linalg

#endif  // TROUPE_KERNELS_LINALG_MATRICES_H_
