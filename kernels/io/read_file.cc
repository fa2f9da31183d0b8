// ReadFile, WriteFile and MatchingFiles.
#include "kernels/io/blocking.h"
#include "troupe/files.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::io {
namespace {

// Stateful, other than TensorFlow's: a file is read in each step, not once when it is compiled.
TROUPE_OP("ReadFile")
    .Input("filename: string")
    .Output("contents: string")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      return shape_fn::Scalar(c);
    })
    .NotDifferentiable("it reads a file")
    .Doc("The bytes of a file.");

class ReadFileKernel {
 public:
  explicit ReadFileKernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string path, StringInput(ctx, 0, "filename"));
    TROUPE_ASSIGN_OR_RETURN(std::string bytes, files::Read(path));
    ctx.set_output(0, Tensor::Scalar(std::move(bytes)));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("ReadFile").Device("CPU").Class<Blocking<ReadFileKernel>>();

TROUPE_OP("WriteFile")
    .Input("filename: string")
    .Input("contents: string")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      return c.WithRank(1, 0).status();
    })
    .NotDifferentiable("it writes a file")
    .Doc(
        "Makes a file of `contents`, and the folders above it where they are missing. A file that is there is replaced "
        "in one step.");

class WriteFileKernel {
 public:
  explicit WriteFileKernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string path, StringInput(ctx, 0, "filename"));
    TROUPE_ASSIGN_OR_RETURN(const std::string bytes, StringInput(ctx, 1, "contents"));
    const std::string folder = files::DirectoryOf(path);
    if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
    return files::Write(path, bytes);
  }
};
TROUPE_KERNEL("WriteFile").Device("CPU").Class<Blocking<WriteFileKernel>>();

// Stateful as ReadFile.
TROUPE_OP("MatchingFiles")
    .Input("pattern: string")
    .Output("filenames: string")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      if (c.input(0).known_rank() && c.input(0).rank() > 1) {
        return InvalidArgument("pattern must be a scalar or a vector, but has shape ", c.input(0).DebugString());
      }
      c.set_output(0, PartialTensorShape{-1});
      return absl::OkStatus();
    })
    .NotDifferentiable("its output is text")
    .Doc(
        "The paths of the files that fit one of the patterns, sorted: '*' and '?' stand for any characters but '/', "
        "\"[a-c]\" for one of a set. Nothing fitting is no error.");

class MatchingFilesKernel {
 public:
  explicit MatchingFilesKernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    if (ctx.input(0).rank() > 1) {
      return InvalidArgument("pattern must be a scalar or a vector, but has shape ",
                             ctx.input(0).shape().DebugString());
    }
    std::vector<std::string> all;
    for (const std::string& pattern : ctx.input(0).flat<std::string>()) {
      TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> some, files::Match(pattern));
      all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({static_cast<int64_t>(all.size())})));
    std::move(all.begin(), all.end(), out->data<std::string>());
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("MatchingFiles").Device("CPU").Class<Blocking<MatchingFilesKernel>>();

}  // namespace
}  // namespace troupe::io
