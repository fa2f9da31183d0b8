// A right operand of a product that is a constant of the graph, kept in the order in which the
// loops read it.
//
// Problem: a product with few rows reads its right operand once, and in place that is slow: each
// panel of columns jumps from row to row. The library packs the operand first, in every step, which
// takes longer than such a product.
//
// Contract: the copy is made when a product of the node first profits from it, out of the device's
// memory, and lives as long as the kernel. The operand then lies in memory twice.
//
// Thread rule: Panels may be called from several threads.
#ifndef TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_
#define TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_

#include <memory>
#include <mutex>

#include "kernels/product/gemm.h"
#include "troupe/kernel.h"

namespace troupe {

class ConstantMatrix {
 public:
  // Of input 1 of `node`: a constant, also one that a loop takes in.
  explicit ConstantMatrix(const Node& node);
  // What Gemm and GemmBiasActivation take as `panels` for the operand `b` of a product `s`; null
  // when they do without.
  const float* Panels(KernelContext& ctx, const GemmShape& s, const Tensor& b);

 private:
  const bool constant_;
  std::mutex mu_;
  Tensor source_, panels_;  // set once, under mu_
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_
