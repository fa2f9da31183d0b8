// ComputeAccidentalHits: where a class that was sampled is a true class of an example.
#include <limits>
#include <unordered_map>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::random {
namespace {

TROUPE_OP("ComputeAccidentalHits")
    .Input("true_classes: int64")
    .Input("sampled_candidates: int64")
    .Output("indices: int32")
    .Output("ids: int64")
    .Output("weights: float")
    .Attr("num_true: int")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape true_classes, c.WithRank(0, 2));
      TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
      if (true_classes.dim(1) >= 0 && true_classes.dim(1) != num_true) {
        return InvalidArgument("true_classes must have ", num_true, " columns, but have shape ",
                               true_classes.DebugString());
      }
      for (int i = 0; i < 3; ++i) c.set_output(i, PartialTensorShape({-1}));
      return absl::OkStatus();
    })
    .NotDifferentiable("its inputs are integers")
    .Doc(
        "For each true class of row `indices[k]` that was sampled: its place `ids[k]` among the candidates, and the "
        "lowest float as `weights[k]`, which added to a logit takes it out.");

class AccidentalHitsKernel {
 public:
  explicit AccidentalHitsKernel(KernelInit& init) : num_true_(init.Attr<int64_t>("num_true")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor &known = ctx.input(0), &sampled = ctx.input(1);
    if (known.rank() != 2 || known.dim(1) != num_true_) {
      return InvalidArgument("true_classes must be a matrix with ", num_true_, " columns, but have shape ",
                             known.shape().DebugString());
    }
    if (sampled.rank() != 1)
      return InvalidArgument("sampled_candidates must be a vector, but have shape ", sampled.shape().DebugString());
    // Of a class that was sampled twice, the last place.
    std::unordered_map<int64_t, int64_t> place;
    for (int64_t i = 0; i < sampled.num_elements(); ++i) place[sampled.data<int64_t>()[i]] = i;
    std::vector<std::pair<int32_t, int64_t>> hits;
    for (int64_t i = 0; i < known.num_elements(); ++i) {
      const auto found = place.find(known.data<int64_t>()[i]);
      if (found != place.end()) hits.emplace_back(static_cast<int32_t>(i / num_true_), found->second);
    }
    const TensorShape shape({static_cast<int64_t>(hits.size())});
    TROUPE_ASSIGN_OR_RETURN(Tensor* const indices, ctx.AllocateOutput(0, shape));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const ids, ctx.AllocateOutput(1, shape));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const weights, ctx.AllocateOutput(2, shape));
    for (size_t i = 0; i < hits.size(); ++i) {
      indices->data<int32_t>()[i] = hits[i].first;
      ids->data<int64_t>()[i] = hits[i].second;
      weights->data<float>()[i] = -std::numeric_limits<float>::max();
    }
    return absl::OkStatus();
  }

 private:
  const int64_t num_true_;
};
TROUPE_KERNEL("ComputeAccidentalHits").Device("CPU").Class<AccidentalHitsKernel>();

}  // namespace
}  // namespace troupe::random
