// A right operand of a product that is a constant of the graph, kept in the order in which the
// loops read it.
//
// Problem: a product with few rows reads its right operand once, and in place that is slow: each
// panel of columns jumps from row to row. The library packs the operand first, in every step, which
// takes longer than such a product. A session compiles a graph anew for each set of feeds and
// fetches, and a model is served in many sessions: with a copy for each node of each of them, a
// constant would lie in memory as often.
//
// Contract: the copy is made when a product first profits from it, out of the device's memory. All
// products of the device with this constant, which is the same if it is the same buffer, have one
// copy. It lives as long as the last of their kernels, and so does the constant: the operand then
// lies in memory twice. Who finds no memory for it does without, and tries again.
//
// Thread rule: Panels may be called from several threads.
#ifndef TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_
#define TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_

#include <atomic>
#include <memory>
#include <mutex>

#include "kernels/product/gemm.h"
#include "troupe/kernel.h"

namespace troupe {

// The copy.
struct ConstantPanels;

class ConstantMatrix {
 public:
  // Of input 1 of `node`: a constant, also one that a loop takes in.
  explicit ConstantMatrix(const Node& node);
  // What Gemm and GemmBiasActivation take as `panels` for the operand `b` of a product `s`; null
  // when they do without.
  const float* Panels(KernelContext& ctx, const GemmShape& s, const Tensor& b) {
    if (!constant_ || !GemmTakesPanels(s)) return nullptr;
    const void* const source = source_.load(std::memory_order_acquire);
    if (source == nullptr) [[unlikely]]
      return Make(ctx, s, b);
    return source == b.raw() ? panels_ : nullptr;
  }

 private:
  const float* Make(KernelContext& ctx, const GemmShape& s, const Tensor& b);

  const bool constant_;
  std::mutex mu_;
  std::shared_ptr<const ConstantPanels> shared_;  // under mu_
  const float* panels_ = nullptr;                 // set once, before source_
  std::atomic<const void*> source_{nullptr};      // of which operand they are
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_CONSTANT_MATRIX_H_
