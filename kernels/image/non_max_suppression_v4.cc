// NonMaxSuppressionV4: boxes that do not overlap, in a vector of a fixed length on request.
#include "kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

class NonMaxSuppressionV4 {
 public:
  explicit NonMaxSuppressionV4(KernelInit& init) : pad_(init.Attr<bool>("pad_to_max_output_size")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const valid, ctx.AllocateOutput(1, TensorShape()));
    *valid->data<int32_t>() = static_cast<int32_t>(selected.size());
    return SetSelected(ctx, selected, pad_ ? ctx.input(2).scalar<int32_t>() : -1);
  }

 private:
  const bool pad_;
};

const OpRegistrar op =
    SelectionOp("NonMaxSuppressionV4", true)
        .Output("valid_outputs: int32")
        .Attr("pad_to_max_output_size: bool = false")
        .Shape(PaddedSelectionShape)
        .Doc(
            "As NonMaxSuppressionV3, with the number of selected boxes; with pad_to_max_output_size zeros stand behind "
            "their indices.");
TROUPE_KERNEL("NonMaxSuppressionV4")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Class<NonMaxSuppressionV4>();

}  // namespace
}  // namespace troupe::image
