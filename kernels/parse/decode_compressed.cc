// DecodeCompressed: strings that zlib has compressed, as they were.
#include <algorithm>

#include <zlib.h>

#include "kernels/common/op_file.h"

namespace troupe::parse {
namespace {

TROUPE_OP("DecodeCompressed")
    .Input("bytes: string")
    .Output("output: string")
    .Attr("compression_type: string = ''")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its input is text")
    .Doc(
        "Each string decompressed; compression_type is \"ZLIB\", \"GZIP\" or \"\" (nothing to do). "
        "An empty string stays empty.");

// `bits`: zlib's number for the form.
absl::Status Inflate(KernelContext& ctx, const std::string& from, int bits, std::string* to) {
  z_stream z = {};
  if (inflateInit2(&z, bits) != Z_OK) return ResourceExhausted("no memory to decompress");
  size_t made = 0, taken = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    if (ctx.cancelled()) break;
    // What is left when the string has more than 4 GiB comes in the next rounds.
    if (z.avail_in == 0 && taken < from.size()) {
      const size_t some = std::min<size_t>(from.size() - taken, size_t{1} << 30);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data() + taken));
      z.avail_in = static_cast<uInt>(some);
      taken += some;
    }
    const size_t room = std::clamp<size_t>(2 * made, 4096, size_t{1} << 24);
    to->resize(made + room);
    z.next_out = reinterpret_cast<Bytef*>(to->data() + made);
    z.avail_out = static_cast<uInt>(room);
    result = inflate(&z, Z_NO_FLUSH);
    made += room - z.avail_out;
    if (result == Z_BUF_ERROR && (z.avail_in > 0 || taken < from.size())) result = Z_OK;
  }
  const size_t at = taken - z.avail_in;
  const std::string why = z.msg != nullptr ? z.msg : "the bytes are cut off";
  inflateEnd(&z);
  to->resize(made);
  if (ctx.cancelled()) return Cancelled("the step was told to end");
  if (result != Z_STREAM_END) return DataLoss("the compressed bytes are damaged at byte ", at, ": ", why);
  if (at != from.size()) return DataLoss("the compressed bytes end at byte ", at, ", but more follow");
  return absl::OkStatus();
}

class DecodeCompressedKernel {
 public:
  explicit DecodeCompressedKernel(KernelInit& init) {
    const auto form = init.Attr<std::string>("compression_type");
    if (form == "ZLIB") {
      bits_ = 15;
    } else if (form == "GZIP") {
      bits_ = 15 + 16;
    } else if (!form.empty()) {
      init.Fail(InvalidArgument("compression_type must be \"\", \"ZLIB\" or \"GZIP\", but is \"", CEscape(form), "\""));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    if (bits_ == 0) return array::PassOn(ctx);
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
    const auto texts = ctx.input(0).flat<std::string>();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) continue;  // of nothing, as in TensorFlow, nothing comes
      absl::Status done = Inflate(ctx, texts[i], bits_, out->data<std::string>() + i);
      if (!done.ok()) return Annotate(done, StrCat("element ", i));
    }
    return absl::OkStatus();
  }

 private:
  int bits_ = 0;
};
TROUPE_KERNEL("DecodeCompressed").Device("CPU").Class<DecodeCompressedKernel>();

}  // namespace
}  // namespace troupe::parse
