// The op ReadDigits: the images of a worker for a step, read where the op stands.
#include <map>
#include <mutex>
#include <optional>

#include "net.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace cluster_mnist {
namespace {

using namespace troupe;  // NOLINT: an example reads better with it

// Test images are fed in place of them, as many as there are.
absl::Status ImagesAndLabels(InferenceContext& c) {
  c.set_output(0, PartialTensorShape({-1, mnist::kSide, mnist::kSide, 1}));
  c.set_output(1, PartialTensorShape({-1, mnist::kClasses}));
  return absl::OkStatus();
}

TROUPE_OP("ReadDigits")
    .Input("step: int64")
    .Output("images: float")
    .Output("labels: float")
    .Attr("data: string")
    .Attr("digits: string")
    .Attr("batch: int >= 1")
    .Attr("workers: int >= 1")
    .Attr("worker: int")
    .Attr("seed: int")
    .Stateful()
    .Shape(ImagesAndLabels)
    .NotDifferentiable("images are no variables")
    .Doc("The images of `worker` for `step`, from files that its process reads.");

class ReadDigits {
 public:
  explicit ReadDigits(KernelInit& init) {
    auto digits = DigitsOf(init.Attr<std::string>("data"), init.Attr<std::string>("digits"));
    if (!digits.ok()) {
      init.Fail(digits.status());
      return;
    }
    digits_ = *std::move(digits);
    worker_ = static_cast<int>(init.Attr<int64_t>("worker"));
    share_.emplace(&digits_->train, init.Attr<int64_t>("batch"), static_cast<int>(init.Attr<int64_t>("workers")),
                   init.Attr<int64_t>("seed"));
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor step = ctx.input(0);
    if (step.rank() != 0) return InvalidArgument("the step is no scalar: ", step.TypeAndShape());
    if (step.scalar<int64_t>() < 0) return InvalidArgument("there is no step ", step.scalar<int64_t>());
    Tensor images, labels;
    {
      // It remembers the order of an epoch.
      const std::lock_guard<std::mutex> lock(mu_);
      share_->Take(step.scalar<int64_t>(), worker_, &images, &labels);
    }
    ctx.set_output(0, std::move(images));
    ctx.set_output(1, std::move(labels));
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<const mnist::Digits> digits_;
  int worker_ = 0;
  std::mutex mu_;
  std::optional<Share> share_;  // guarded by mu_
};
TROUPE_KERNEL("ReadDigits").Device("CPU").Class<ReadDigits>();

}  // namespace

absl::StatusOr<std::shared_ptr<const mnist::Digits>> DigitsOf(const std::string& data, const std::string& digits) {
  static std::mutex mu;
  static auto* const known = new std::map<std::pair<std::string, std::string>, std::shared_ptr<const mnist::Digits>>;
  const std::lock_guard<std::mutex> lock(mu);
  std::shared_ptr<const mnist::Digits>& its = (*known)[{data, digits}];
  if (its == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(mnist::Digits read, data.empty() ? mnist::ReadSmallDigits(digits) : mnist::ReadIdx(data));
    its = std::make_shared<const mnist::Digits>(std::move(read));
  }
  return its;
}

Inputs ReadInputs(const Scope& on, const Output& step, const Output& keep, const Source& source) {
  const Operation read = EmitOp(on.WithOpName("read"), "ReadDigits", {step},
                                {{"data", source.data},
                                 {"digits", source.digits},
                                 {"batch", source.batch},
                                 {"workers", static_cast<int64_t>(source.workers)},
                                 {"worker", static_cast<int64_t>(source.worker)},
                                 {"seed", source.seed}});
  Inputs in;
  in.images = read.output(0);
  in.labels = read.output(1);
  in.noise = ops::Pack(on.WithOpName("noise"), {ops::Const(on, source.seed * 1000 + source.worker), step});
  in.keep = keep;
  return in;
}

}  // namespace cluster_mnist
