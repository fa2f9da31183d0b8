#include "graph/train/gradient_places.h"

#include <optional>
#include <utility>

#include "graph/train/build.h"
#include "graph/train/set.h"
#include "troupe/const.h"
#include "troupe/group.h"

namespace troupe::train {
namespace {

class PlacesOfWorkers : public GradientPlaces {
 public:
  // `dims` are the gradient's; of slices, those of the variable.
  PlacesOfWorkers(const Scope& top, const std::string& name, const GradAndVar& grad,
                  const std::optional<IndexedSlices>& slices, const std::vector<int64_t>& dims, int workers)
      : GradientPlaces(grad.var) {
    const Scope beside = top.ColocateWith(grad.var.handle());
    const DType dtype = grad.var.variable_dtype();
    VariableOptions options{.trainable = false, .collections = {}};
    const auto make = [&](const std::string& of, DType type, const std::vector<int64_t>& first,
                          const PartialTensorShape& shape) {
      options.name = StrCat(name, "/", grad.var.variable_name(), "/", of);
      options.shape = shape;
      const Scope below = beside.NewSubScope(StrCat(options.name, "/Initializer"));
      const Output zeros =
          Build(below.WithOpName("zeros"), "Fill",
                {Const(below, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(first)))), Const(below, 0, type)},
                {{"index_type", DType::kInt64}});
      return Variable(beside, zeros, options);
    };
    for (int w = 0; w < workers && beside.ok(); ++w) {
      if (!slices) {
        dense_.push_back(make(StrCat(w), dtype, dims, grad.var.variable_shape()));
        continue;
      }
      std::vector<int64_t> rows = dims, any = dims;
      rows[0] = 0;
      any[0] = -1;
      indices_.push_back(make(StrCat(w, "/indices"), slices->indices.dtype(), {0}, PartialTensorShape({-1})));
      values_.push_back(make(StrCat(w, "/values"), dtype, rows, PartialTensorShape(any)));
    }
  }
  std::vector<Operation> initializers() const override {
    std::vector<Operation> made;
    for (const auto* list : {&dense_, &indices_, &values_}) {
      for (const Variable& v : *list) made.push_back(v.initializer());
    }
    return made;
  }
  std::vector<Operation> Put(const Scope& s, const Output& grad, int worker, const Output&) const override {
    const Scope here = s.ColocateWith(variable().handle());
    const DType dtype = variable().variable_dtype();
    const auto its = static_cast<size_t>(worker);
    if (!dense_.empty()) return {SetTo(here, dense_[its], CastTo(s, grad, dtype))};
    const std::optional<IndexedSlices> slices = SlicesOf(s, grad);
    if (!slices) return {};  // the scope has an error
    return {Group(here, {SetTo(here, indices_[its], slices->indices),
                         SetTo(here, values_[its], CastTo(s, slices->values, dtype))})};
  }
  Gradients Take(const Scope& here, const std::vector<Output>&) const override {
    Gradients read;
    for (const Variable& v : dense_) read.dense.push_back(v.Read(here));
    for (const Variable& v : indices_) read.indices.push_back(v.Read(here));
    for (const Variable& v : values_) read.values.push_back(v.Read(here));
    return read;
  }

 private:
  std::vector<Variable> dense_, indices_, values_;  // by worker
};

class PlacesOfParts : public GradientPlaces {
 public:
  PlacesOfParts(const std::string& name, const GradAndVar& grad, const std::optional<IndexedSlices>& slices,
                std::vector<int64_t> dims, int parts)
      : GradientPlaces(grad.var), types_({grad.var.variable_dtype()}), shapes_({grad.var.variable_shape()}) {
    for (int p = 0; p < parts; ++p) names_.push_back(StrCat(name, "/", grad.var.variable_name(), "/", p));
    if (!slices) return;
    dims[0] = -1;
    types_ = {slices->indices.dtype(), grad.var.variable_dtype()};
    shapes_ = {PartialTensorShape({-1}), PartialTensorShape(dims)};
  }
  // They come with what is left there.
  std::vector<Operation> initializers() const override { return {}; }
  std::vector<Operation> Put(const Scope& s, const Output& grad, int, const Output& number) const override {
    const Scope here = s.ColocateWith(variable().handle()).WithOpName("put");
    const DType dtype = variable().variable_dtype();
    const std::optional<IndexedSlices> slices = SlicesOf(s, grad);
    std::vector<Input> values;
    if (slices) values = {slices->indices, CastTo(s, slices->values, dtype)};
    if (!slices) values = {CastTo(s, grad, dtype)};
    std::vector<Operation> put;
    for (const std::string& name : names_) {
      put.push_back(
          EmitLists(here, "_PutNumbered", {InputList({Input(number)}), InputList(values)}, {{"shared_name", name}}));
    }
    return put;
  }
  Gradients Take(const Scope& here, const std::vector<Output>& numbers) const override {
    Gradients read;
    for (size_t p = 0; p < names_.size(); ++p) {
      const Operation taken = EmitOp(here.WithOpName("take"), "_TakeNumbered", {numbers[p]},
                                     {{"T", types_}, {"shapes", shapes_}, {"shared_name", names_[p]}});
      if (!taken.valid()) return {};
      if (types_.size() == 1) {
        read.dense.push_back(taken.output(0));
      } else {
        read.indices.push_back(taken.output(0));
        read.values.push_back(taken.output(1));
      }
    }
    return read;
  }

 private:
  std::vector<std::string> names_;  // by part
  // Of what each holds: a gradient, or indices and values.
  std::vector<DType> types_;
  std::vector<PartialTensorShape> shapes_;
};

}  // namespace

std::unique_ptr<GradientPlaces> MakeGradientPlaces(const Scope& top, const std::string& name, const GradAndVar& grad,
                                                   int workers, int parts) {
  const Scope beside = top.ColocateWith(grad.var.handle());
  const PartialTensorShape& shape = grad.var.variable_shape();
  const std::optional<IndexedSlices> slices = SlicesOf(beside, grad.grad);
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  const bool known = slices ? shape.rank() > 0 : shape.IsFullyDefined();
  for (size_t i = 1; slices && i < dims.size(); ++i) {
    if (dims[i] < 0) beside.UpdateStatus(InvalidArgument("the rows of '", grad.var.variable_name(), "' have no shape"));
  }
  if (!known) {
    beside.UpdateStatus(InvalidArgument("SyncReplicas has no place for the gradient of '", grad.var.variable_name(),
                                        "': its shape is ", shape.DebugString()));
  }
  if (!beside.ok()) return nullptr;
  if (parts > 0) return std::make_unique<PlacesOfParts>(name, grad, slices, std::move(dims), parts);
  return std::make_unique<PlacesOfWorkers>(top, name, grad, slices, dims, workers);
}

}  // namespace troupe::train
