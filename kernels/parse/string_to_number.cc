// StringToNumber: texts as numbers.
#include "kernels/common/op_file.h"
#include "kernels/common/types.h"
#include "kernels/parse/text_numbers.h"

namespace troupe::parse {
namespace {

TROUPE_OP("StringToNumber")
    .Input("string_tensor: string")
    .Output("output: out_type")
    .Attr("out_type: {float, double, int32, int64, uint32, uint64} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its input is text")
    .Doc("The number that each text says.");

template <class T>
absl::Status ToNumbers(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
  const auto texts = ctx.input(0).flat<std::string>();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!TextToNumber(texts[i], out->data<T>() + i)) {
      return InvalidArgument("element ", i, " is no ", Name(kDTypeOf<T>), ": '", CEscape(texts[i].substr(0, 60)), "'");
    }
  }
  return absl::OkStatus();
}
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<float>("out_type").Function<ToNumbers<float>>();
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<double>("out_type").Function<ToNumbers<double>>();
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<int32_t>("out_type").Function<ToNumbers<int32_t>>();
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<int64_t>("out_type").Function<ToNumbers<int64_t>>();
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<uint32_t>("out_type").Function<ToNumbers<uint32_t>>();
TROUPE_KERNEL("StringToNumber").Device("CPU").Type<uint64_t>("out_type").Function<ToNumbers<uint64_t>>();

}  // namespace
}  // namespace troupe::parse
