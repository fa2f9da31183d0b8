// DecodeRaw: the bytes of strings as numbers.
#include <algorithm>
#include <cstring>

#include "kernels/common/op_file.h"
#include "kernels/common/types.h"

namespace troupe::parse {
namespace {

TROUPE_OP("DecodeRaw")
    .Input("bytes: string")
    .Output("output: out_type")
    .Attr(
        "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, bool, "
        "bfloat16}")
    .Attr("little_endian: bool = true")
    .Shape([](InferenceContext& c) -> absl::Status {
      PartialTensorShape out = c.input(0);
      if (out.known_rank()) out.AddDim(-1);
      c.set_output(0, out);
      return absl::OkStatus();
    })
    .NotDifferentiable("its input is text")
    .Doc("The bytes of each string as numbers, in a dimension behind the others. All strings have one length.");

class DecodeRawKernel {
 public:
  explicit DecodeRawKernel(KernelInit& init)
      : type_(init.output_type(0)), little_endian_(init.Attr<bool>("little_endian")) {}

  absl::Status Compute(KernelContext& ctx) {
    const auto texts = ctx.input(0).flat<std::string>();
    TensorShape shape = ctx.input(0).shape();
    const size_t length = texts.empty() ? 0 : texts[0].size(), each = SizeOf(type_);
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].size() != length) {
        return InvalidArgument("all strings must have the same size, but element ", i, " has ", texts[i].size(),
                               " bytes and element 0 has ", length);
      }
    }
    if (length % each != 0) {
      return InvalidArgument("strings of ", length, " bytes are no whole number of ", Name(type_), "s of ", each,
                             " bytes");
    }
    shape.AddDim(static_cast<int64_t>(length / each));
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    if (length == 0) return absl::OkStatus();
    char* to = static_cast<char*>(out->raw());
    // Complex numbers are two numbers, each turned by itself.
    const size_t part = IsComplex(type_) ? each / 2 : each;
    for (const std::string& text : texts) {
      std::memcpy(to, text.data(), length);
      if (!little_endian_ && part > 1) {
        for (size_t i = 0; i < length; i += part) std::reverse(to + i, to + i + part);
      }
      // A bool is 0 or 1, whatever the byte.
      if (type_ == DType::kBool) {
        for (size_t i = 0; i < length; ++i) to[i] = to[i] != 0;
      }
      to += length;
    }
    return absl::OkStatus();
  }

 private:
  const DType type_;
  const bool little_endian_;
};
TROUPE_KERNEL("DecodeRaw").Device("CPU").Class<DecodeRawKernel>();

}  // namespace
}  // namespace troupe::parse
