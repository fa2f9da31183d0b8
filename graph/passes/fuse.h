// Fusing: replaces several nodes that one kernel can compute together by one node.
//
//   MatMul + BiasAdd (or + a vector) + activation      _FusedMatMul    (TensorFlow's ops and attrs)
//   Conv2D + BiasAdd + batch normalisation + Add of    _FusedConv2D: each of the last four may be
//   an image + activation                              missing, but not all before Relu, Relu6 or
//                                                      Elu; the normalisation is that of inference,
//                                                      float32; x * sigmoid(x) is an activation, too
//   the same of DepthwiseConv2dNative                  _FusedDepthwiseConv2dNative
//   FusedBatchNorm of images + Relu or Relu6           _FusedBatchNormEx (float32)
//   ReluGrad or Relu6Grad + FusedBatchNormGrad of one  _FusedBatchNormGradEx
//   ReluGrad of a Conv2DBackpropInput                  _Conv2DBackpropInputReluGrad
//   Conv2DBackpropFilter and BiasAddGrad of the same   _Conv2DBackpropFilterBias (float32)
//   AddN of MatMuls of transposed left operands        _SumOfProducts (float32): the gradient of a
//                                                      matrix that is multiplied again and again
//   trees of element-wise nodes, sums and means over   _FusedElementwise
//   the last dimension among them (layer normalisation)
//
// Which ops these are is told by their names: each row above is about certain ops, for which one
// certain kernel was written. An op of another name is left alone, though it may compute the same.
// The element-wise ops are those for which the fused kernel has loops.
//
// A fused node gives the same bits as the separate nodes, except the bias gradient of
// _Conv2DBackpropFilterBias and _SumOfProducts, which are summed in another order, and a
// convolution whose filter and normalisation are constants: the factors are multiplied into the
// filter.
//
// Only a value that no other node needs may vanish: a node that is fetched, read twice, or waited
// for by a control edge stays. So the pass runs on a part as it is executed, where fetches are
// nodes. A fused node has the name of the node whose value it gives, waits for whatever its parts
// waited for, and says in attrs "_replaces" (names) and "_replaced_ops" what it stands for, and in
// "_replaced_at" ("file:line", "" where it is not known) where these were made, unless all were
// made where it says itself; its kernel's errors name those.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_FUSE_H_
#define TROUPE_GRAPH_PASSES_FUSE_H_

#include "graph/passes/device_set.h"
#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"

namespace troupe {

inline constexpr char kReplacesAttr[] = "_replaces";
inline constexpr char kReplacedOpsAttr[] = "_replaced_ops";
inline constexpr char kReplacedAtAttr[] = "_replaced_at";
// Of a product with a bias: in the Add that is replaced, the bias is the first summand.
inline constexpr char kBiasFirstAttr[] = "_bias_first";

// Fuses in place and returns how many nodes vanished. A fused node is made only where `kernels` has
// a kernel for it on its device. Errors are those of the graph's own operations, and that of
// `wanted`.
absl::StatusOr<int> FuseNodes(Graph* graph, const KernelLookup& kernels, StillWanted wanted = nullptr);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_FUSE_H_
