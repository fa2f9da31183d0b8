// Print: passes a value on and writes others to stderr; PrintV2: writes a string to a stream.
#include <atomic>
#include <cstdio>

#include "kernels/control/flow_op.h"
#include "kernels/control/summarize.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::control {
namespace {

TROUPE_OP("Print")
    .Input("input: T")
    .Input("data: U")
    .Output("output: T")
    .Attr("T: type")
    .Attr("U: list(type) >= 0")
    .Attr("message: string = ''")
    .Attr("first_n: int = -1")
    .Attr("summarize: int = 3")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      return g.status();
    })
    .Doc(
        "Passes `input` on and writes `message` and the first `summarize` values of each of `data` to stderr, the "
        "first `first_n` times (always when "
        "negative).");

// How often a node has printed: shared by all steps of its session.
constexpr char kCounter[] = "counter";
class PrintCount : public Resource {
 public:
  explicit PrintCount(int64_t count = 0) : count_(count) {}
  // False when the node has printed `limit` times.
  bool Take(int64_t limit) { return count_.fetch_add(1, std::memory_order_relaxed) < limit; }
  std::string DebugString() const override { return "print counter"; }
  void Save(const StateVisitor& visit) const override {
    visit(ResourceState{kCounter, {{"count", Tensor::Scalar(count_.load(std::memory_order_relaxed))}}});
  }

 private:
  std::atomic<int64_t> count_;
};
const ResourceKind counter(
    kCounter, [](const std::string&, const ResourceState& state) -> absl::StatusOr<std::shared_ptr<Resource>> {
      TROUPE_ASSIGN_OR_RETURN(const Tensor count, state.Get("count", DType::kInt64, TensorShape()));
      return std::make_shared<PrintCount>(count.scalar<int64_t>());
    });

class PrintKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit PrintKernel(KernelInit& init)
      : message_(init.Attr<std::string>("message")),
        first_n_(init.Attr<int64_t>("first_n")),
        summarize_(init.Attr<int64_t>("summarize")),
        key_(init.ResourceKey(/*per_session=*/true)) {}
  absl::Status Compute(KernelContext& ctx) {
    bool print = true;
    if (first_n_ >= 0) {
      TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<PrintCount> count,
                              count_.Get(ctx.device()->containers(), key_.first, key_.second,
                                         [] { return std::make_shared<PrintCount>(); }));
      print = count->Take(first_n_);
    }
    if (print) {
      std::string line = message_;
      for (int i = 1; i < ctx.num_inputs(); ++i) StrAppend(&line, "[", Summarize(ctx.input(i), summarize_), "]");
      line.push_back('\n');
      std::fwrite(line.data(), 1, line.size(), stderr);  // one call: lines of several threads do not mix
    }
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  const std::string message_;
  const int64_t first_n_, summarize_;
  const std::pair<std::string, std::string> key_;
  ResourceCache<PrintCount> count_;
};
TROUPE_KERNEL("Print").Device("CPU").Class<PrintKernel>();

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
}  // namespace troupe::control
