// _PutNumbered, _TakeNumbered, _ReadNumbered, _NumberThere: values that one step leaves on a device
// for another one, which must know by which number they were left.
//
// A place holds the values that came last, whoever left them, all of them at once; a take or read
// with another number fails. So a step that was given up, but goes on somewhere, can spoil what
// others have left, and is never taken for one of them. Elastic training leaves its gradients so
// (troupe/train/sync_replicas.h), and parameter servers leave replicas of their variables
// (troupe/train/server_state.h).
#include <mutex>
#include <utility>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/resource_container.h"
#include "troupe/shape_inference.h"

namespace troupe::state {
namespace {

TROUPE_OP("_PutNumbered")
    .Input("number: int64")
    .Input("values: T")
    .Attr("T: list(type) >= 1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape([](InferenceContext& c) { return c.WithRank(0, 0).status(); })
    .NotDifferentiable("it has no outputs")
    .Doc(
        "Leaves the `values` under `number` in the place `shared_name` of the node's device, instead of those that are "
        "there.");

// An op that gives the values of a place.
OpBuilder GivesValues(std::string_view name) {
  return OpBuilder(name)
      .Input("number: int64")
      .Output("values: T")
      .Attr("T: list(type) >= 1")
      .Attr("shapes: list(shape)")
      .Attr("container: string = ''")
      .Attr("shared_name: string = ''")
      .Stateful()
      .Shape([](InferenceContext& c) -> absl::Status {
        TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
        TROUPE_ASSIGN_OR_RETURN(const auto shapes, c.Attr<std::vector<PartialTensorShape>>("shapes"));
        if (shapes.size() != static_cast<size_t>(c.num_outputs()))
          return InvalidArgument("there are ", shapes.size(), " shapes of ", c.num_outputs(), " values");
        for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, shapes[static_cast<size_t>(i)]);
        return absl::OkStatus();
      })
      .NotDifferentiable("what is there was computed by another step");
}

const OpRegistrar take_numbered =
    GivesValues("_TakeNumbered")
        .Doc(
            "Takes the values away from the place where _PutNumbered left them. ABORTED when there are none, or under "
            "another number, which are then gone, too.");

const OpRegistrar read_numbered =
    GivesValues("_ReadNumbered").Doc("As _TakeNumbered, but the values stay in their place, also when it fails.");

TROUPE_OP("_NumberThere")
    .Output("number: int64")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("what is there was computed by another step")
    .Doc("The number under which _PutNumbered left what is in the place; -1 when it is empty.");

// Thread rule: thread safe.
class NumberedPlace : public Resource {
 public:
  explicit NumberedPlace(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  void Put(int64_t number, std::vector<Tensor> values) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      number_ = number;
      values_.swap(values);
    }
    // What was there is freed without the lock.
  }
  // Empty: ABORTED says why.
  absl::StatusOr<std::vector<Tensor>> Give(int64_t number, bool take) {
    std::unique_lock<std::mutex> lock(mu_);
    std::vector<Tensor> values = take ? std::exchange(values_, {}) : values_;
    const int64_t there = number_;
    lock.unlock();
    if (values.empty()) return Aborted("place '", name_, "' is empty; asked for number ", number);
    if (there != number) return Aborted("place '", name_, "' has values of number ", there, ", not of ", number);
    return values;
  }
  int64_t number() const {
    std::lock_guard<std::mutex> lock(mu_);
    return values_.empty() ? -1 : number_;
  }
  std::string DebugString() const override {
    std::lock_guard<std::mutex> lock(mu_);
    if (values_.empty()) return "place of numbered values, empty";
    std::string text = StrCat("place of numbered values, with those of number ", number_, ":");
    for (const Tensor& t : values_) StrAppend(&text, " ", t.TypeAndShape());
    return text;
  }
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const override {
    std::lock_guard<std::mutex> lock(mu_);
    for (const Tensor& t : values_) visit(t);
  }

 private:
  const std::string name_;
  mutable std::mutex mu_;
  int64_t number_ = 0;
  std::vector<Tensor> values_;
};

class PlaceKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit PlaceKernel(KernelInit& init) : key_(init.ResourceKey(/*per_session=*/false)) {}

 protected:
  absl::StatusOr<std::shared_ptr<NumberedPlace>> Place(const KernelContext& ctx) {
    return place_.Get(ctx.device()->containers(), key_.first, key_.second,
                      [this] { return std::make_shared<NumberedPlace>(key_.second); });
  }
  static absl::StatusOr<int64_t> NumberOf(const KernelContext& ctx) {
    if (ctx.input(0).rank() != 0)
      return InvalidArgument("number must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    return ctx.input(0).scalar<int64_t>();
  }

 private:
  const std::pair<std::string, std::string> key_;
  ResourceCache<NumberedPlace> place_;
};

class PutKernel : public PlaceKernel {
 public:
  using PlaceKernel::PlaceKernel;
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t number, NumberOf(ctx));
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<NumberedPlace> place, Place(ctx));
    std::vector<Tensor> values;
    for (int i = 1; i < ctx.num_inputs(); ++i) values.push_back(ctx.TakeInput(i));
    place->Put(number, std::move(values));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("_PutNumbered").Device("CPU").Class<PutKernel>();

template <bool kTake>
class GiveKernel : public PlaceKernel {
 public:
  explicit GiveKernel(KernelInit& init)
      : PlaceKernel(init), shapes_(init.Attr<std::vector<PartialTensorShape>>("shapes")) {
    if (shapes_.size() != static_cast<size_t>(init.node().num_outputs()))
      init.Fail(InvalidArgument("there are ", shapes_.size(), " shapes of ", init.node().num_outputs(), " values"));
  }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t number, NumberOf(ctx));
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<NumberedPlace> place, Place(ctx));
    TROUPE_ASSIGN_OR_RETURN(std::vector<Tensor> values, place->Give(number, kTake));
    // Another graph's node may have left them.
    const auto n = static_cast<size_t>(ctx.num_outputs());
    if (values.size() != n)
      return InvalidArgument("place '", place->name(), "' has ", values.size(), " values, not ", n);
    for (size_t i = 0; i < n; ++i) {
      const int o = static_cast<int>(i);
      if (values[i].dtype() != ctx.output_type(o) || !shapes_[i].IsCompatibleWith(values[i].shape())) {
        return InvalidArgument("value ", i, " in place '", place->name(), "' is ", values[i].TypeAndShape(), ", not ",
                               Name(ctx.output_type(o)), " ", shapes_[i].DebugString());
      }
    }
    for (size_t i = 0; i < n; ++i) ctx.set_output(static_cast<int>(i), std::move(values[i]));
    return absl::OkStatus();
  }

 private:
  const std::vector<PartialTensorShape> shapes_;
};
TROUPE_KERNEL("_TakeNumbered").Device("CPU").Class<GiveKernel<true>>();
TROUPE_KERNEL("_ReadNumbered").Device("CPU").Class<GiveKernel<false>>();

class NumberKernel : public PlaceKernel {
 public:
  using PlaceKernel::PlaceKernel;
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<NumberedPlace> place, Place(ctx));
    ctx.set_output(0, Tensor::Scalar(place->number()));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("_NumberThere").Device("CPU").Class<NumberKernel>();

}  // namespace
}  // namespace troupe::state
