// What the convolution ops (Conv2D and DepthwiseConv2dNative with their backward halves) share.
//
// Source of the semantics: TensorFlow's ops of these names; docs/convolutions.md tells which loops
// compute them. Thread rule: as for all kernels (troupe/kernel.h).
#ifndef TROUPE_KERNELS_NN_CONV_H_
#define TROUPE_KERNELS_NN_CONV_H_

#include <atomic>
#include <initializer_list>
#include <string_view>

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"
#include "kernels/nn/conv_ways.h"
#include "kernels/nn/dnnl_conv.h"
#include "kernels/nn/folded_filter.h"
#include "kernels/nn/window.h"
#include "kernels/replaced_nodes.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

// The shape function of a forward convolution, of one that gives the input's gradient (input 0 =
// its shape), and of one that gives the filter's (input 1).
absl::Status ConvOutputShape(InferenceContext& c, bool depthwise);
absl::Status ConvBackpropInputShape(InferenceContext& c);
absl::Status ConvBackpropFilterShape(InferenceContext& c);
// The definition of a convolution with these inputs, without shape function, gradient and doc.
// `types`: the allowed ones.
OpBuilder ConvOp(std::string_view name, std::initializer_list<std::string_view> inputs, bool depthwise = false,
                 std::string_view types = "{half, bfloat16, float, double}");
// Copies the attrs that say how the windows slide from a convolution to one of its backward halves.
AttrMap ConvAttrs(GradientContext& g);

// What a fused op adds to a convolution: ConvEpilogue's fields as tensors of the op's type and
// data_format. Invalid tensors mean "without".
struct ConvFusion {
  FoldedFilter* filter = nullptr;  // forward, float32: in the place of a constant input 1 in every call
  Tensor bias;                     // forward: [output channels]
  ConvActivation activation = ConvActivation::kNone;
  const ChannelNorm* norm = nullptr;  // forward, in float32: behind the bias, for the output channels
  Tensor addend;                      // forward: behind that, the shape of the output
  Tensor relu_output;                 // backward input: the shape of the input
  bool bias_gradient = false;         // backward filter: output 1 becomes the gradient [output channels]
};

// The kernel of all six ops, and of the fused ones: pass and depthwise choose one. Inputs 0, 1, 2
// and output 0 are those of the plain op.
class ConvKernel {
 public:
  ConvKernel(KernelInit& init, ConvPass pass, bool depthwise);
  absl::Status Compute(KernelContext& ctx) { return Compute(ctx, {}); }
  absl::Status Compute(KernelContext& ctx, const ConvFusion& fusion);
  // Of the forward pass; what Compute says when the inputs do not fit.
  absl::StatusOr<TensorShape> OutputShape(const KernelContext& ctx) const;

 private:
  struct Problem;  // what the inputs of a node ask for
  template <class T>
  struct Part;  // operands and result of some of the images
  template <class T>
  struct Plan;  // how a convolution is computed

  // The sizes for an input and a filter of these shapes; INVALID_ARGUMENT says what does not fit.
  absl::StatusOr<ConvShape> Sizes(const TensorShape& input, const TensorShape& filter) const;
  absl::StatusOr<Problem> Read(const KernelContext& ctx, const ConvFusion& fusion) const;
  template <class T>
  Plan<T> PlanByRule(int threads, const Part<T>& whole) const;
  Plan<float> PlanOf(const ConvWay& way, const ConvShape& s) const;
  template <class T>
  void Run(ComputeThreads* threads, const Part<T>& whole);
  template <class T>
  void RunPlan(ComputeThreads* threads, const Part<T>& whole, const Plan<T>& plan);
  void RunTuned(ComputeThreads* threads, const Part<float>& whole);

  // Units [begin, end) of a plan with several bands.
  template <class T>
  void RunBands(const Plan<T>& plan, const Part<T>& whole, int64_t begin, int64_t end);
  // The ways of computing, each of units [begin, end) of the plan.
  void RunHalves(const Part<float>& whole, int64_t begin, int64_t end);
  void RunDirect(const Part<float>& whole, int64_t begin, int64_t end);
  void RunPointwise(const Part<float>& whole, int64_t begin, int64_t end);
  void RunLibrary(const Part<float>& whole, int64_t begin, int64_t end);
  int64_t RowsAtATime(const ConvShape& s, const ConvEpilogue<float>& e) const;
  template <class T>
  void RunGeneric(const Part<T>& whole, int64_t begin, int64_t end);

  const ConvPass pass_;
  const bool depthwise_;
  const DType dtype_;
  const bool constant_filter_;
  WindowAttrs attrs_;
  DnnlConv dnnl_;
  std::atomic<bool> has_tried_{false};  // ways of which it will take but one
};

// A convolution that stands for several nodes: its errors have the address of the one that the user
// wrote.
class FusedConvKernel {
 protected:
  FusedConvKernel(KernelInit& init, ConvPass pass, bool depthwise = false)
      : conv_(init, pass, depthwise), replaced_(init.node()) {}
  // `op`: of the convolution among those nodes.
  absl::Status Run(KernelContext& ctx, const ConvFusion& fusion, std::string_view op) {
    return replaced_.At(conv_.Compute(ctx, fusion), op, ctx.node());
  }
  absl::StatusOr<TensorShape> OutputShape(const KernelContext& ctx) const { return conv_.OutputShape(ctx); }
  const ReplacedNodes& replaced() const { return replaced_; }

 private:
  ConvKernel conv_;
  const ReplacedNodes replaced_;
};

template <ConvPass kPass, bool kDepthwise>
struct ConvKernelOf : ConvKernel {
  explicit ConvKernelOf(KernelInit& init) : ConvKernel(init, kPass, kDepthwise) {}
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_H_
