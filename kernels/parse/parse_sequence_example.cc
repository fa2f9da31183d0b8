// ParseSequenceExample, ParseSequenceExampleV2 and ParseSingleSequenceExample: the features of
// SequenceExamples as tensors, of their context as those of Examples, and of their feature lists
// with one more dimension, the steps (features.h tells the forms).
#include <algorithm>

#include "kernels/common/op_file.h"
#include "kernels/parse/features.h"

namespace troupe::parse {
namespace {

#define FEATURE_TYPES "{float, int64, string}"
constexpr char kSequencesAreText[] = "its input is text";

PartialTensorShape InFront(PartialTensorShape head, const PartialTensorShape& tail) {
  if (!head.known_rank() || !tail.known_rank()) return PartialTensorShape();
  for (int d = 0; d < tail.rank(); ++d) head.AddDim(tail.dim(d));
  return head;
}

// The attrs that the three ops share.
struct Attrs {
  std::vector<DType> context_sparse, context_dense, list_sparse, list_dense;
  std::vector<DType> context_ragged, context_splits, list_ragged, list_splits;
  std::vector<PartialTensorShape> context_shapes, list_shapes;
  int64_t numbers[4] = {};  // as the attrs say: of context sparse, context dense, list sparse, list dense

  absl::Status Check() const {
    const size_t sizes[] = {context_sparse.size(), context_dense.size(), list_sparse.size(), list_dense.size()};
    for (int i = 0; i < 4; ++i) {
      if (numbers[i] != static_cast<int64_t>(sizes[i])) return InvalidArgument("numbers of keys and of types differ");
    }
    if (context_shapes.size() != sizes[1] || list_shapes.size() != sizes[3]) {
      return InvalidArgument("numbers of dense shapes and of types differ");
    }
    if (context_ragged.size() != context_splits.size() || list_ragged.size() != list_splits.size()) {
      return InvalidArgument("numbers of ragged values and of row splits differ");
    }
    for (const PartialTensorShape& shape : list_shapes) {
      if (!shape.IsFullyDefined()) {
        return InvalidArgument("the shape ", shape.DebugString(), " of a step of a dense feature list is not known");
      }
    }
    return absl::OkStatus();
  }
};

// `get(name, &field)` reads one attr.
template <class Get>
absl::Status ReadAttrs(Attrs* a, bool ragged, const Get& get) {
  TROUPE_RETURN_IF_ERROR(get("Ncontext_sparse", &a->numbers[0]));
  TROUPE_RETURN_IF_ERROR(get("Ncontext_dense", &a->numbers[1]));
  TROUPE_RETURN_IF_ERROR(get("Nfeature_list_sparse", &a->numbers[2]));
  TROUPE_RETURN_IF_ERROR(get("Nfeature_list_dense", &a->numbers[3]));
  TROUPE_RETURN_IF_ERROR(get("context_sparse_types", &a->context_sparse));
  TROUPE_RETURN_IF_ERROR(get("Tcontext_dense", &a->context_dense));
  TROUPE_RETURN_IF_ERROR(get("feature_list_sparse_types", &a->list_sparse));
  TROUPE_RETURN_IF_ERROR(get("feature_list_dense_types", &a->list_dense));
  TROUPE_RETURN_IF_ERROR(get("context_dense_shapes", &a->context_shapes));
  TROUPE_RETURN_IF_ERROR(get("feature_list_dense_shapes", &a->list_shapes));
  if (ragged) {
    TROUPE_RETURN_IF_ERROR(get("context_ragged_value_types", &a->context_ragged));
    TROUPE_RETURN_IF_ERROR(get("context_ragged_split_types", &a->context_splits));
    TROUPE_RETURN_IF_ERROR(get("feature_list_ragged_value_types", &a->list_ragged));
    TROUPE_RETURN_IF_ERROR(get("feature_list_ragged_split_types", &a->list_splits));
  }
  return a->Check();
}

// V2 has no attr for the number of dense context features: their types tell it.
template <bool kRagged>
absl::Status ReadAttrs(Attrs* a, const Node& node) {
  const auto get = [&]<class T>(std::string_view name, T* value) -> absl::Status {
    if (kRagged && name == "Ncontext_dense") return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(*value, node.Attr<T>(name));
    if constexpr (kRagged && std::is_same_v<T, std::vector<DType>>) {
      if (name == "Tcontext_dense") a->numbers[1] = static_cast<int64_t>(value->size());
    }
    return absl::OkStatus();
  };
  return ReadAttrs(a, kRagged, get);
}

template <bool kRagged, bool kLengths>
absl::Status SequenceShape(InferenceContext& c) {
  Attrs a;
  TROUPE_RETURN_IF_ERROR(ReadAttrs<kRagged>(&a, c.node()));
  const PartialTensorShape& batch = c.input(0);
  if (batch.known_rank() && batch.rank() > 1) {
    return InvalidArgument("serialized must be a scalar or a vector, but has shape ", batch.DebugString());
  }
  if (!kRagged && batch.known_rank() && batch.rank() != (kLengths ? 1 : 0)) {
    return InvalidArgument("serialized has shape ", batch.DebugString(), ", but must be a ",
                           kLengths ? "vector" : "scalar");
  }
  const int64_t width = batch.known_rank() ? batch.rank() + 1 : -1;
  int at = 0;
  const auto sparse = [&](size_t n, int64_t columns) {
    for (size_t i = 0; i < n; ++i) c.set_output(at++, PartialTensorShape{-1, columns});
    for (size_t i = 0; i < n; ++i) c.set_output(at++, PartialTensorShape{-1});
    for (size_t i = 0; i < n; ++i) c.set_output(at++, PartialTensorShape{columns});
  };
  const auto vectors = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) c.set_output(at++, PartialTensorShape{-1});
  };
  sparse(a.context_sparse.size(), width);
  for (const PartialTensorShape& shape : a.context_shapes) c.set_output(at++, InFront(batch, shape));
  vectors(2 * a.context_ragged.size());
  sparse(a.list_sparse.size(), width < 0 ? -1 : width + 1);
  for (const PartialTensorShape& shape : a.list_shapes) c.set_output(at++, InFront(InFront(batch, {-1}), shape));
  if (kLengths) {
    for (size_t i = 0; i < a.list_shapes.size(); ++i) c.set_output(at++, batch);
  }
  vectors(3 * a.list_ragged.size());
  return absl::OkStatus();
}

TROUPE_OP("ParseSequenceExample")
    .Input("serialized: string")
    .Input("debug_name: string")
    .Input("context_dense_defaults: Tcontext_dense")
    .Output("context_sparse_indices: Ncontext_sparse * int64")
    .Output("context_sparse_values: context_sparse_types")
    .Output("context_sparse_shapes: Ncontext_sparse * int64")
    .Output("context_dense_values: Tcontext_dense")
    .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
    .Output("feature_list_sparse_values: feature_list_sparse_types")
    .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
    .Output("feature_list_dense_values: feature_list_dense_types")
    .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
    .Attr("feature_list_dense_missing_assumed_empty: list(string) >= 0")
    .Attr("context_sparse_keys: list(string) >= 0")
    .Attr("context_dense_keys: list(string) >= 0")
    .Attr("feature_list_sparse_keys: list(string) >= 0")
    .Attr("feature_list_dense_keys: list(string) >= 0")
    .Attr("Ncontext_sparse: int >= 0 = 0")
    .Attr("Ncontext_dense: int >= 0 = 0")
    .Attr("Nfeature_list_sparse: int >= 0 = 0")
    .Attr("Nfeature_list_dense: int >= 0 = 0")
    .Attr("context_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("Tcontext_dense: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_dense_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("context_dense_shapes: list(shape) >= 0 = []")
    .Attr("feature_list_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
    .Shape(SequenceShape<false, true>)
    .NotDifferentiable(kSequencesAreText)
    .Doc(
        "The features of SequenceExamples: of the context as ParseExample gives them; sparse feature lists with "
        "indices (Example, step, place); dense ones with a dimension of steps, zeros behind the last one, and the "
        "numbers of steps.");

TROUPE_OP("ParseSequenceExampleV2")
    .Input("serialized: string")
    .Input("debug_name: string")
    .Input("context_sparse_keys: string")
    .Input("context_dense_keys: string")
    .Input("context_ragged_keys: string")
    .Input("feature_list_sparse_keys: string")
    .Input("feature_list_dense_keys: string")
    .Input("feature_list_ragged_keys: string")
    .Input("feature_list_dense_missing_assumed_empty: bool")
    .Input("context_dense_defaults: Tcontext_dense")
    .Output("context_sparse_indices: Ncontext_sparse * int64")
    .Output("context_sparse_values: context_sparse_types")
    .Output("context_sparse_shapes: Ncontext_sparse * int64")
    .Output("context_dense_values: Tcontext_dense")
    .Output("context_ragged_values: context_ragged_value_types")
    .Output("context_ragged_row_splits: context_ragged_split_types")
    .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
    .Output("feature_list_sparse_values: feature_list_sparse_types")
    .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
    .Output("feature_list_dense_values: feature_list_dense_types")
    .Output("feature_list_dense_lengths: Nfeature_list_dense * int64")
    .Output("feature_list_ragged_values: feature_list_ragged_value_types")
    .Output("feature_list_ragged_outer_splits: feature_list_ragged_split_types")
    .Output("feature_list_ragged_inner_splits: feature_list_ragged_split_types")
    .Attr("Ncontext_sparse: int >= 0 = 0")
    .Attr("Tcontext_dense: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("context_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("context_ragged_value_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("context_ragged_split_types: list({int32, int64}) >= 0 = []")
    .Attr("context_dense_shapes: list(shape) >= 0 = []")
    .Attr("Nfeature_list_sparse: int >= 0 = 0")
    .Attr("Nfeature_list_dense: int >= 0 = 0")
    .Attr("feature_list_dense_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_ragged_value_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_ragged_split_types: list({int32, int64}) >= 0 = []")
    .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
    .Shape(SequenceShape<true, true>)
    .NotDifferentiable(kSequencesAreText)
    .Doc(
        "As ParseSequenceExample, with the keys in vectors, with features that become ragged tensors, and also for one "
        "SequenceExample: then no output has a dimension of Examples.");

TROUPE_OP("ParseSingleSequenceExample")
    .Input("serialized: string")
    .Input("feature_list_dense_missing_assumed_empty: string")
    .Input("context_sparse_keys: Ncontext_sparse * string")
    .Input("context_dense_keys: Ncontext_dense * string")
    .Input("feature_list_sparse_keys: Nfeature_list_sparse * string")
    .Input("feature_list_dense_keys: Nfeature_list_dense * string")
    .Input("context_dense_defaults: Tcontext_dense")
    .Input("debug_name: string")
    .Output("context_sparse_indices: Ncontext_sparse * int64")
    .Output("context_sparse_values: context_sparse_types")
    .Output("context_sparse_shapes: Ncontext_sparse * int64")
    .Output("context_dense_values: Tcontext_dense")
    .Output("feature_list_sparse_indices: Nfeature_list_sparse * int64")
    .Output("feature_list_sparse_values: feature_list_sparse_types")
    .Output("feature_list_sparse_shapes: Nfeature_list_sparse * int64")
    .Output("feature_list_dense_values: feature_list_dense_types")
    .Attr("Ncontext_sparse: int >= 0 = 0")
    .Attr("Ncontext_dense: int >= 0 = 0")
    .Attr("Nfeature_list_sparse: int >= 0 = 0")
    .Attr("Nfeature_list_dense: int >= 0 = 0")
    .Attr("context_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("Tcontext_dense: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_dense_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("context_dense_shapes: list(shape) >= 0 = []")
    .Attr("feature_list_sparse_types: list(" FEATURE_TYPES ") >= 0 = []")
    .Attr("feature_list_dense_shapes: list(shape) >= 0 = []")
    .Shape(SequenceShape<false, false>)
    .NotDifferentiable(kSequencesAreText)
    .Doc("The features of one SequenceExample: as ParseSequenceExample, without a dimension of Examples.");

#undef FEATURE_TYPES

class SequenceParser {
 public:
  explicit SequenceParser(const Attrs& a) {
    for (const DType t : a.context_sparse) context_.push_back({.type = t});
    AddDense(a.context_dense, a.context_shapes, &context_);
    AddRagged(a.context_ragged, a.context_splits, &context_);
    for (const DType t : a.list_sparse) lists_.push_back({.type = t});
    AddDense(a.list_dense, a.list_shapes, &lists_);
    AddRagged(a.list_ragged, a.list_splits, &lists_);
    counts_[0] = a.context_sparse.size();
    counts_[1] = a.context_dense.size();
    counts_[2] = a.context_ragged.size();
    counts_[3] = a.list_sparse.size();
    counts_[4] = a.list_dense.size();
    counts_[5] = a.list_ragged.size();
  }
  const absl::Status& status() const { return status_; }

  // Of context sparse, dense and ragged features, then of the lists'.
  size_t count(int group) const { return counts_[group]; }
  struct Specs {
    std::vector<FeatureSpec> context, lists;
    // Number `i` of a group.
    FeatureSpec& At(const SequenceParser& parser, int group, size_t i) {
      const int first = group < 3 ? 0 : 3;
      for (int g = first; g < group; ++g) i += parser.counts_[g];
      return (group < 3 ? context : lists)[i];
    }
    // The feature lists of these keys may be missing: they are empty then.
    void AssumeEmpty(absl::Span<const std::string> keys) {
      for (FeatureSpec& spec : lists)
        spec.missing_is_empty = std::find(keys.begin(), keys.end(), spec.key) != keys.end();
    }
  };
  Specs specs() const { return {context_, lists_}; }

  absl::Status Parse(KernelContext& ctx, const Messages& messages, Specs specs, int first_default, bool lengths) const {
    for (size_t i = 0; i < counts_[1]; ++i) {
      TROUPE_RETURN_IF_ERROR(SetDefault(ctx.input(first_default + static_cast<int>(i)), &specs.At(*this, 1, i)));
    }
    TROUPE_ASSIGN_OR_RETURN(std::vector<FeatureTensors> context, ParseFeatures(ctx, messages, specs.context));
    TROUPE_ASSIGN_OR_RETURN(std::vector<FeatureTensors> lists, ParseFeatureLists(ctx, messages, specs.lists));
    int at = 0;
    const auto give = [&](std::vector<FeatureTensors>& from, size_t first, size_t n, int parts) {
      for (int part = 0; part < parts; ++part) {
        for (size_t i = first; i < first + n; ++i) ctx.set_output(at++, std::move(from[i].parts[part]));
      }
    };
    give(context, 0, counts_[0], 3);
    give(context, counts_[0], counts_[1], 1);
    give(context, counts_[0] + counts_[1], counts_[2], 2);
    give(lists, 0, counts_[3], 3);
    give(lists, counts_[3], counts_[4], lengths ? 2 : 1);
    give(lists, counts_[3] + counts_[4], counts_[5], 3);
    return absl::OkStatus();
  }

 private:
  void AddDense(const std::vector<DType>& types, const std::vector<PartialTensorShape>& shapes,
                std::vector<FeatureSpec>* specs) {
    for (size_t i = 0; i < types.size() && i < shapes.size(); ++i) {
      FeatureSpec spec{.key = StrCat("number ", i), .type = types[i]};
      if (absl::Status s = SetDenseShape(shapes[i], &spec); !s.ok()) status_ = s;
      specs->push_back(std::move(spec));
    }
  }
  static void AddRagged(const std::vector<DType>& types, const std::vector<DType>& splits,
                        std::vector<FeatureSpec>* specs) {
    for (size_t i = 0; i < types.size() && i < splits.size(); ++i) {
      specs->push_back({.type = types[i], .form = Form::kRagged, .splits = splits[i]});
    }
  }

  absl::Status status_;
  size_t counts_[6] = {};
  std::vector<FeatureSpec> context_, lists_;
};

template <bool kRagged>
SequenceParser MakeParser(KernelInit& init) {
  Attrs a;
  if (absl::Status s = ReadAttrs<kRagged>(&a, init.node()); !s.ok()) {
    init.Fail(s);
    a = Attrs();
  }
  SequenceParser parser(a);
  if (!parser.status().ok()) init.Fail(parser.status());
  return parser;
}

absl::Status CheckDebugNames(const Tensor& serialized, const Tensor& names) {
  if (names.num_elements() == 0 || names.SameShape(serialized)) return absl::OkStatus();
  return InvalidArgument("debug_name must be empty or have a name for each Example, but has shape ",
                         names.shape().DebugString(), " for ", serialized.shape().DebugString());
}

class ParseSequenceExampleKernel {
 public:
  explicit ParseSequenceExampleKernel(KernelInit& init) : parser_(MakeParser<false>(init)), specs_(parser_.specs()) {
    constexpr std::pair<const char*, int> kKeys[] = {{"context_sparse_keys", 0},
                                                     {"context_dense_keys", 1},
                                                     {"feature_list_sparse_keys", 3},
                                                     {"feature_list_dense_keys", 4}};
    for (const auto& [attr, group] : kKeys) {
      const auto keys = init.Attr<std::vector<std::string>>(attr);
      if (keys.size() != parser_.count(group)) {
        init.Fail(InvalidArgument(attr, " has ", keys.size(), " keys instead of ", parser_.count(group)));
        return;
      }
      for (size_t i = 0; i < keys.size(); ++i) specs_.At(parser_, group, i).key = keys[i];
    }
    specs_.AssumeEmpty(init.Attr<std::vector<std::string>>("feature_list_dense_missing_assumed_empty"));
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 1) {
      return InvalidArgument("serialized must be a vector, but has shape ", ctx.input(0).shape().DebugString());
    }
    TROUPE_RETURN_IF_ERROR(CheckDebugNames(ctx.input(0), ctx.input(1)));
    return parser_.Parse(ctx, {ctx.input(0).flat<std::string>(), ctx.input(1).flat<std::string>()}, specs_, 2, true);
  }

 private:
  const SequenceParser parser_;
  SequenceParser::Specs specs_;
};
TROUPE_KERNEL("ParseSequenceExample").Device("CPU").Class<ParseSequenceExampleKernel>();

class ParseSequenceExampleV2Kernel {
 public:
  explicit ParseSequenceExampleV2Kernel(KernelInit& init) : parser_(MakeParser<true>(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() > 1) {
      return InvalidArgument("serialized must be a scalar or a vector, but has shape ",
                             ctx.input(0).shape().DebugString());
    }
    TROUPE_RETURN_IF_ERROR(CheckDebugNames(ctx.input(0), ctx.input(1)));
    SequenceParser::Specs specs = parser_.specs();
    for (int group = 0; group < 6; ++group) {
      const Tensor& keys = ctx.input(2 + group);
      const size_t n = parser_.count(group);
      if (keys.num_elements() != static_cast<int64_t>(n)) {
        return InvalidArgument("input ", 2 + group, " must have ", n, " keys, but has shape ",
                               keys.shape().DebugString());
      }
      for (size_t i = 0; i < n; ++i) specs.At(parser_, group, i).key = keys.data<std::string>()[i];
    }
    const Tensor& empty = ctx.input(8);
    if (empty.num_elements() != static_cast<int64_t>(parser_.count(4))) {
      return InvalidArgument("feature_list_dense_missing_assumed_empty must have ", parser_.count(4),
                             " elements, but has shape ", empty.shape().DebugString());
    }
    for (size_t i = 0; i < parser_.count(4); ++i) specs.At(parser_, 4, i).missing_is_empty = empty.data<bool>()[i];
    const Messages messages = {ctx.input(0).flat<std::string>(), ctx.input(1).flat<std::string>(),
                               ctx.input(0).rank() == 0};
    return parser_.Parse(ctx, messages, std::move(specs), 9, true);
  }

 private:
  const SequenceParser parser_;
};
TROUPE_KERNEL("ParseSequenceExampleV2").Device("CPU").Class<ParseSequenceExampleV2Kernel>();

class ParseSingleSequenceExampleKernel {
 public:
  explicit ParseSingleSequenceExampleKernel(KernelInit& init) : parser_(MakeParser<false>(init)) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0) {
      return InvalidArgument("serialized must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    }
    if (ctx.input(1).rank() > 1) return InvalidArgument("feature_list_dense_missing_assumed_empty must be a vector");
    const Tensor& name = ctx.input(ctx.num_inputs() - 1);
    TROUPE_RETURN_IF_ERROR(CheckDebugNames(ctx.input(0), name));
    SequenceParser::Specs specs = parser_.specs();
    int at = 2;
    for (const int group : {0, 1, 3, 4}) {
      for (size_t i = 0; i < parser_.count(group); ++i, ++at) {
        const Tensor& key = ctx.input(at);
        if (key.rank() != 0)
          return InvalidArgument("a key must be a scalar, but has shape ", key.shape().DebugString());
        specs.At(parser_, group, i).key = key.scalar<std::string>();
      }
    }
    specs.AssumeEmpty(ctx.input(1).flat<std::string>());
    return parser_.Parse(ctx, {ctx.input(0).flat<std::string>(), name.flat<std::string>(), true}, std::move(specs), at,
                         false);
  }

 private:
  const SequenceParser parser_;
};
TROUPE_KERNEL("ParseSingleSequenceExample").Device("CPU").Class<ParseSingleSequenceExampleKernel>();

}  // namespace
}  // namespace troupe::parse
