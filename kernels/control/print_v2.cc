// PrintV2: writes a string to a stream.
#include <cstdio>

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("PrintV2")
    .Input("input: string")
    .Attr("output_stream: string = 'stderr'")
    .Attr("end: string = '\n'")
    .Stateful()
    .Shape([](InferenceContext& c) { return c.WithRank(0, 0).status(); })
    .NotDifferentiable("it has no outputs")
    .Doc(
        "Writes the scalar `input` and `end` to `output_stream`: stdout, stderr, log(info), log(warning), log(error) "
        "(all three stderr, with the level "
        "before the text), or file://PATH, which is appended to.");

class PrintV2Kernel {
 public:
  explicit PrintV2Kernel(KernelInit& init)
      : stream_(init.Attr<std::string>("output_stream")), end_(init.Attr<std::string>("end")) {
    if (stream_.rfind("log(", 0) == 0 && stream_.back() == ')') level_ = stream_.substr(4, stream_.size() - 5);
    const bool log = level_ == "info" || level_ == "warning" || level_ == "error";
    if (init.status().ok() && stream_ != "stdout" && stream_ != "stderr" && !log && !IsFile()) {
      init.Fail(InvalidArgument("unknown output stream '", stream_,
                                "': it must be stdout, stderr, log(info), log(warning), log(error) or file://PATH"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& input = ctx.input(0);
    if (input.rank() != 0)
      return InvalidArgument("the input must be a scalar, but has shape ", input.shape().DebugString());
    const std::string text = StrCat(level_.empty() ? "" : StrCat(level_, ": "), input.scalar<std::string>(), end_);
    if (!IsFile()) {
      std::FILE* const to = stream_ == "stdout" ? stdout : stderr;
      std::fwrite(text.data(), 1, text.size(), to);
      std::fflush(to);
      return absl::OkStatus();
    }
    const std::string path = stream_.substr(7);
    std::FILE* const file = std::fopen(path.c_str(), "ab");
    if (file == nullptr) return NotFound("cannot open '", path, "' for appending");
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    return written && closed ? absl::OkStatus() : DataLoss("cannot write to '", path, "'");
  }

 private:
  bool IsFile() const { return stream_.rfind("file://", 0) == 0; }
  const std::string stream_, end_;
  std::string level_;
};
TROUPE_KERNEL("PrintV2").Device("CPU").Class<PrintV2Kernel>();

}  // namespace
}  // namespace troupe
