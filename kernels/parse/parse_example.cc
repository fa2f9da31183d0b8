// ParseExample, ParseExampleV2 and ParseSingleExample: the features of Examples as tensors
// (features.h tells the forms).
#include <algorithm>

#include "kernels/common/op_file.h"
#include "kernels/parse/features.h"

namespace troupe::parse {
namespace {

#define FEATURE_TYPES "{float, int64, string}"
constexpr char kExamplesAreText[] = "its input is text";

// `tail` behind `head`; unknown when one of them is.
PartialTensorShape Behind(const PartialTensorShape& head, const PartialTensorShape& tail) {
  if (!head.known_rank() || !tail.known_rank()) return PartialTensorShape();
  PartialTensorShape out = head;
  for (int d = 0; d < tail.rank(); ++d) out.AddDim(tail.dim(d));
  return out;
}

// Sets the shapes of `sparse` indices, values and shapes each, of dense values behind them, and of
// ragged values and splits. `batch`: the shape of `serialized`.
absl::Status SetShapes(InferenceContext& c, const PartialTensorShape& batch, int64_t sparse,
                       const std::vector<PartialTensorShape>& dense, int64_t ragged) {
  const int64_t width = batch.known_rank() ? batch.rank() + 1 : -1;
  int at = 0;
  for (int64_t i = 0; i < sparse; ++i) c.set_output(at++, PartialTensorShape{-1, width});
  for (int64_t i = 0; i < sparse; ++i) c.set_output(at++, PartialTensorShape{-1});
  for (int64_t i = 0; i < sparse; ++i) c.set_output(at++, PartialTensorShape{width});
  for (const PartialTensorShape& shape : dense) {
    FeatureSpec spec;
    TROUPE_RETURN_IF_ERROR(SetDenseShape(shape, &spec));
    c.set_output(at++, Behind(batch, shape));
  }
  for (int64_t i = 0; i < ragged; ++i) c.set_output(at++, PartialTensorShape{-1});
  for (int64_t i = 0; i < ragged; ++i) {
    PartialTensorShape splits{-1};
    if (batch.rank() == 0) splits.set_dim(0, 0);
    if (batch.rank() == 1 && batch.dim(0) >= 0) splits.set_dim(0, batch.dim(0) + 1);
    c.set_output(at++, splits);
  }
  return absl::OkStatus();
}

TROUPE_OP("ParseExample")
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: Nsparse * string")
    .Input("dense_keys: Ndense * string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: Nsparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: Nsparse * int64")
    .Output("dense_values: Tdense")
    .Attr("Nsparse: int >= 0")
    .Attr("Ndense: int >= 0")
    .Attr("sparse_types: list(" FEATURE_TYPES ") >= 0")
    .Attr("Tdense: list(" FEATURE_TYPES ") >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const int64_t sparse, c.Attr<int64_t>("Nsparse"));
      TROUPE_ASSIGN_OR_RETURN(const auto types, c.Attr<std::vector<DType>>("sparse_types"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense_types, c.Attr<std::vector<DType>>("Tdense"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense, c.Attr<std::vector<PartialTensorShape>>("dense_shapes"));
      TROUPE_ASSIGN_OR_RETURN(const int64_t keys, c.Attr<int64_t>("Ndense"));
      if (sparse != static_cast<int64_t>(types.size()))
        return InvalidArgument("Nsparse is not the number of sparse_types");
      if (keys != static_cast<int64_t>(dense_types.size()) || dense.size() != dense_types.size()) {
        return InvalidArgument("Ndense, Tdense and dense_shapes differ in number");
      }
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape batch, c.WithRank(0, 1));
      TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
      return SetShapes(c, batch, sparse, dense, 0);
    })
    .NotDifferentiable(kExamplesAreText)
    .Doc(
        "The features of Examples. Those with sparse_keys become sparse tensors; those with dense_keys tensors of "
        "dense_shapes, whose first dimension may be unknown. A dense feature that is missing becomes its default, and "
        "is required when that has no elements.");

TROUPE_OP("ParseExampleV2")
    .Input("serialized: string")
    .Input("names: string")
    .Input("sparse_keys: string")
    .Input("dense_keys: string")
    .Input("ragged_keys: string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Output("ragged_values: ragged_value_types")
    .Output("ragged_row_splits: ragged_split_types")
    .Attr("Tdense: list(" FEATURE_TYPES ") >= 0")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_types: list(" FEATURE_TYPES ") >= 0")
    .Attr("ragged_value_types: list(" FEATURE_TYPES ") >= 0")
    .Attr("ragged_split_types: list({int32, int64}) >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const int64_t sparse, c.Attr<int64_t>("num_sparse"));
      TROUPE_ASSIGN_OR_RETURN(const auto types, c.Attr<std::vector<DType>>("sparse_types"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense_types, c.Attr<std::vector<DType>>("Tdense"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense, c.Attr<std::vector<PartialTensorShape>>("dense_shapes"));
      TROUPE_ASSIGN_OR_RETURN(const auto ragged, c.Attr<std::vector<DType>>("ragged_value_types"));
      TROUPE_ASSIGN_OR_RETURN(const auto splits, c.Attr<std::vector<DType>>("ragged_split_types"));
      if (sparse != static_cast<int64_t>(types.size()))
        return InvalidArgument("num_sparse is not the number of sparse_types");
      if (dense.size() != dense_types.size()) return InvalidArgument("Tdense and dense_shapes differ in number");
      if (ragged.size() != splits.size()) {
        return InvalidArgument("ragged_value_types and ragged_split_types differ in number");
      }
      if (c.input(0).known_rank() && c.input(0).rank() > 1) {
        return InvalidArgument("serialized must be a scalar or a vector, but has shape ", c.input(0).DebugString());
      }
      for (int i = 2; i < 5; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 1).status());
      return SetShapes(c, c.input(0), sparse, dense, static_cast<int64_t>(ragged.size()));
    })
    .NotDifferentiable(kExamplesAreText)
    .Doc(
        "As ParseExample, with the keys in vectors, with features that become ragged tensors, and also for one "
        "Example: then no output has a dimension of Examples.");

TROUPE_OP("ParseSingleExample")
    .Input("serialized: string")
    .Input("dense_defaults: Tdense")
    .Output("sparse_indices: num_sparse * int64")
    .Output("sparse_values: sparse_types")
    .Output("sparse_shapes: num_sparse * int64")
    .Output("dense_values: Tdense")
    .Attr("num_sparse: int >= 0")
    .Attr("sparse_keys: list(string) >= 0")
    .Attr("dense_keys: list(string) >= 0")
    .Attr("sparse_types: list(" FEATURE_TYPES ") >= 0")
    .Attr("Tdense: list(" FEATURE_TYPES ") >= 0")
    .Attr("dense_shapes: list(shape) >= 0")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const int64_t sparse, c.Attr<int64_t>("num_sparse"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense, c.Attr<std::vector<PartialTensorShape>>("dense_shapes"));
      TROUPE_ASSIGN_OR_RETURN(const auto types, c.Attr<std::vector<DType>>("sparse_types"));
      TROUPE_ASSIGN_OR_RETURN(const auto keys, c.Attr<std::vector<std::string>>("sparse_keys"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense_types, c.Attr<std::vector<DType>>("Tdense"));
      TROUPE_ASSIGN_OR_RETURN(const auto dense_keys, c.Attr<std::vector<std::string>>("dense_keys"));
      if (sparse != static_cast<int64_t>(types.size()) || keys.size() != types.size()) {
        return InvalidArgument("num_sparse, sparse_keys and sparse_types differ in number");
      }
      if (dense.size() != dense_types.size() || dense_keys.size() != dense_types.size()) {
        return InvalidArgument("dense_keys, Tdense and dense_shapes differ in number");
      }
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape batch, c.WithRank(0, 0));
      return SetShapes(c, batch, sparse, dense, 0);
    })
    .NotDifferentiable(kExamplesAreText)
    .Doc("The features of one Example, as ParseExample does it for many; no output has a dimension of Examples.");

// What the three kernels share: specs of sparse, dense and ragged features in this order, whose
// keys and defaults come with each call, or with the node.
class ExampleParser {
 public:
  explicit ExampleParser(KernelInit& init, bool has_ragged) {
    for (const DType type : init.Attr<std::vector<DType>>("sparse_types")) specs_.push_back({.type = type});
    sparse_ = specs_.size();
    const auto types = init.Attr<std::vector<DType>>("Tdense");
    const auto shapes = init.Attr<std::vector<PartialTensorShape>>("dense_shapes");
    dense_ = types.size();
    if (shapes.size() != dense_) {
      init.Fail(InvalidArgument("Tdense and dense_shapes differ in number"));
      return;
    }
    for (size_t i = 0; i < dense_; ++i) {
      FeatureSpec spec{.key = StrCat("number ", i), .type = types[i]};
      if (absl::Status s = SetDenseShape(shapes[i], &spec); !s.ok()) {
        init.Fail(s);
        return;
      }
      specs_.push_back(std::move(spec));
    }
    if (!has_ragged) return;
    const auto values = init.Attr<std::vector<DType>>("ragged_value_types");
    const auto splits = init.Attr<std::vector<DType>>("ragged_split_types");
    if (values.size() != splits.size()) {
      init.Fail(InvalidArgument("ragged_value_types and ragged_split_types differ in number"));
      return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      specs_.push_back({.type = values[i], .form = Form::kRagged, .splits = splits[i]});
    }
  }

  size_t num_sparse() const { return sparse_; }
  size_t num_dense() const { return dense_; }
  size_t num_ragged() const { return specs_.size() - sparse_ - dense_; }
  const std::vector<FeatureSpec>& specs() const { return specs_; }

  // `specs`: with their keys. Input `first_default` and those behind it are the defaults.
  absl::Status Parse(KernelContext& ctx, const Messages& messages, std::vector<FeatureSpec> specs,
                     int first_default) const {
    for (size_t i = 0; i < dense_; ++i) {
      TROUPE_RETURN_IF_ERROR(SetDefault(ctx.input(first_default + static_cast<int>(i)), &specs[sparse_ + i]));
    }
    TROUPE_ASSIGN_OR_RETURN(std::vector<FeatureTensors> tensors, ParseFeatures(ctx, messages, specs));
    int at = 0;
    for (int part = 0; part < 3; ++part) {
      for (size_t i = 0; i < sparse_; ++i) ctx.set_output(at++, std::move(tensors[i].parts[part]));
    }
    for (size_t i = 0; i < dense_; ++i) ctx.set_output(at++, std::move(tensors[sparse_ + i].parts[0]));
    for (int part = 0; part < 2; ++part) {
      for (size_t i = sparse_ + dense_; i < specs.size(); ++i) {
        ctx.set_output(at++, std::move(tensors[i].parts[part]));
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t sparse_ = 0, dense_ = 0;
  std::vector<FeatureSpec> specs_;
};

absl::Status CheckNames(const Tensor& serialized, const Tensor& names) {
  if (names.num_elements() == 0 || names.SameShape(serialized)) return absl::OkStatus();
  return InvalidArgument("names must be empty or have a name for each Example, but has shape ",
                         names.shape().DebugString(), " for ", serialized.shape().DebugString());
}

class ParseExampleKernel {
 public:
  explicit ParseExampleKernel(KernelInit& init) : parser_(init, false) {
    if (init.Attr<int64_t>("Nsparse") != static_cast<int64_t>(parser_.num_sparse()) ||
        init.Attr<int64_t>("Ndense") != static_cast<int64_t>(parser_.num_dense())) {
      init.Fail(InvalidArgument("Nsparse is not the number of sparse_types, or Ndense not that of Tdense"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 1) {
      return InvalidArgument("serialized must be a vector, but has shape ", ctx.input(0).shape().DebugString());
    }
    TROUPE_RETURN_IF_ERROR(CheckNames(ctx.input(0), ctx.input(1)));
    std::vector<FeatureSpec> specs = parser_.specs();
    for (size_t i = 0; i < specs.size(); ++i) {
      const Tensor& key = ctx.input(2 + static_cast<int>(i));
      if (key.rank() != 0) return InvalidArgument("a key must be a scalar, but has shape ", key.shape().DebugString());
      specs[i].key = key.scalar<std::string>();
    }
    const Messages messages = {ctx.input(0).flat<std::string>(), ctx.input(1).flat<std::string>()};
    const int first_default = 2 + static_cast<int>(specs.size());
    return parser_.Parse(ctx, messages, std::move(specs), first_default);
  }

 private:
  const ExampleParser parser_;
};
TROUPE_KERNEL("ParseExample").Device("CPU").Class<ParseExampleKernel>();

class ParseExampleV2Kernel {
 public:
  explicit ParseExampleV2Kernel(KernelInit& init) : parser_(init, true) {
    if (init.Attr<int64_t>("num_sparse") != static_cast<int64_t>(parser_.num_sparse())) {
      init.Fail(InvalidArgument("num_sparse is not the number of sparse_types"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() > 1) {
      return InvalidArgument("serialized must be a scalar or a vector, but has shape ",
                             ctx.input(0).shape().DebugString());
    }
    TROUPE_RETURN_IF_ERROR(CheckNames(ctx.input(0), ctx.input(1)));
    std::vector<FeatureSpec> specs = parser_.specs();
    size_t at = 0;
    const size_t counts[] = {parser_.num_sparse(), parser_.num_dense(), parser_.num_ragged()};
    for (int i = 0; i < 3; ++i) {
      const Tensor& keys = ctx.input(2 + i);
      if (keys.rank() != 1 || keys.dim(0) != static_cast<int64_t>(counts[i])) {
        return InvalidArgument("input ", 2 + i, " must have ", counts[i], " keys, but has shape ",
                               keys.shape().DebugString());
      }
      for (const std::string& key : keys.flat<std::string>()) specs[at++].key = key;
    }
    const Messages messages = {ctx.input(0).flat<std::string>(), ctx.input(1).flat<std::string>(),
                               ctx.input(0).rank() == 0};
    return parser_.Parse(ctx, messages, std::move(specs), 5);
  }

 private:
  const ExampleParser parser_;
};
TROUPE_KERNEL("ParseExampleV2").Device("CPU").Class<ParseExampleV2Kernel>();

class ParseSingleExampleKernel {
 public:
  explicit ParseSingleExampleKernel(KernelInit& init) : parser_(init, false), specs_(parser_.specs()) {
    auto keys = init.Attr<std::vector<std::string>>("sparse_keys");
    const auto dense = init.Attr<std::vector<std::string>>("dense_keys");
    if (keys.size() != parser_.num_sparse() || dense.size() != parser_.num_dense() ||
        init.Attr<int64_t>("num_sparse") != static_cast<int64_t>(parser_.num_sparse())) {
      init.Fail(InvalidArgument("keys and types differ in number"));
      return;
    }
    keys.insert(keys.end(), dense.begin(), dense.end());
    for (size_t i = 0; i < keys.size() && i < specs_.size(); ++i) specs_[i].key = keys[i];
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0) {
      return InvalidArgument("serialized must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    }
    return parser_.Parse(ctx, {ctx.input(0).flat<std::string>(), {}, true}, specs_, 1);
  }

 private:
  const ExampleParser parser_;
  std::vector<FeatureSpec> specs_;
};
TROUPE_KERNEL("ParseSingleExample").Device("CPU").Class<ParseSingleExampleKernel>();

#undef FEATURE_TYPES

}  // namespace
}  // namespace troupe::parse
