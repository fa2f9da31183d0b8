// float32 convolutions by oneDNN, on the calling thread.
//
// Making a primitive costs 140 us, running a kept one no more than its work. So a DnnlConv, which
// is part of a node's kernel, keeps plans: primitive, argument maps, a constant filter in the
// library's own layout; a call leases one for its shape and gives it back. Other weights in that
// layout and scratch memory are there during a call only. Activations are NHWC as they are; weights
// are reordered to and from HWIO (1 us for small layers, as long as the convolution itself for 512
// channels and 49 pixels; pinning the library to HWIO would cost a factor of 2 to 6). A constant
// filter is reordered once for all plans that want one layout.
//
// Thread rule: Run may be called from several threads at once; each gets a plan of its own.
#ifndef TROUPE_KERNELS_NN_DNNL_CONV_H_
#define TROUPE_KERNELS_NN_DNNL_CONV_H_

#include <memory>
#include <string>

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"
#include "kernels/nn/folded_filter.h"

namespace troupe {

// Outputs of which an activation is taken while they are still in the second-level cache.
inline constexpr int64_t kNearConvOutputs = 128 << 10;

class DnnlConv {
 public:
  // `constant_filter`: all calls have the same filter, wherever it lies. It is put into the
  // library's layout once, and not in every call. For the two passes that read one.
  explicit DnnlConv(ConvPass pass, bool constant_filter = false);
  ~DnnlConv();
  DnnlConv(const DnnlConv&) = delete;
  DnnlConv& operator=(const DnnlConv&) = delete;

  // a, b and out as ConvPass says, and what `epilogue` asks for: the bias inside the library's
  // loops, the rest after them. False when the library has nothing for the shape; then
  // nothing was written. REQUIRES: no dimension is 0. `folded`, of a constant filter: in the place
  // of b in the forward pass.
  bool Run(const ConvShape& shape, const float* a, const float* b, float* out, const ConvEpilogue<float>& epilogue = {},
           FoldedFilter* folded = nullptr);
  // Frees the plans that no call uses now.
  void DropIdle();
  // The library's name of the implementation it would use ("jit:avx512_core", "gemm:jit", ...); ""
  // when it has none.
  std::string Implementation(const ConvShape& shape);

 private:
  struct Plan;
  struct PlanKey;
  std::unique_ptr<Plan> Lease(const PlanKey& key);
  void GiveBack(std::unique_ptr<Plan> plan);
  void UseKeptFilter(Plan* plan, const float* filter, FoldedFilter* folded);

  struct Idle;
  const ConvPass pass_;
  const bool constant_filter_;
  std::unique_ptr<Idle> idle_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_DNNL_CONV_H_
