// Print: passes a value on and writes others to stderr.
#include <atomic>
#include <cstdio>

#include "kernels/control/flow_op.h"
#include "kernels/control/summarize.h"
#include "troupe/gradient_function.h"

namespace troupe {
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
    .Shape(control::SameAsInput0)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      return g.status();
    })
    .Doc(
        "Passes `input` on and writes `message` and the first `summarize` values of each of `data` to stderr, the "
        "first `first_n` times (always when "
        "negative).");

// How often a node has printed: shared by all steps of its session.
class PrintCount : public Resource {
 public:
  // False when the node has printed `limit` times.
  bool Take(int64_t limit) { return count_.fetch_add(1, std::memory_order_relaxed) < limit; }
  std::string DebugString() const override { return "print counter"; }

 private:
  std::atomic<int64_t> count_{0};
};

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
      for (int i = 1; i < ctx.num_inputs(); ++i)
        StrAppend(&line, "[", control::Summarize(ctx.input(i), summarize_), "]");
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

}  // namespace
}  // namespace troupe
