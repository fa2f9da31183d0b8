#include "kernels/parse/features.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "graph/core/hash_map.h"
#include "kernels/common/elements.h"

namespace troupe::parse {
namespace {

// Calls f.template operator()<T>() with the C++ type of a feature's values.
template <class F>
auto VisitType(DType type, const F& f) {
  switch (type) {
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    default:
      return f.template operator()<std::string>();
  }
}

// Which specs want a key.
class Wanted {
 public:
  explicit Wanted(absl::Span<const FeatureSpec> specs) : next_(specs.size(), -1) {
    for (size_t i = specs.size(); i-- > 0;) {
      const auto [at, added] = first_.try_emplace(AbslView(specs[i].key), static_cast<int>(i));
      if (added) continue;
      next_[i] = at->second;
      at->second = static_cast<int>(i);
    }
  }
  // The first spec; -1 for none.
  int First(std::string_view key) const {
    const auto at = first_.find(AbslView(key));
    return at == first_.end() ? -1 : at->second;
  }
  int Next(int spec) const { return next_[static_cast<size_t>(spec)]; }

 private:
  HashMap<absl::string_view, int> first_;
  std::vector<int> next_;
};

// The error of the first Example that has one, whichever thread met one first.
class FirstError {
 public:
  void Add(int64_t example, absl::Status status) {
    const std::lock_guard lock(mu_);
    if (example >= example_) return;
    example_ = example;
    status_ = std::move(status);
  }
  absl::Status status() const { return status_; }

 private:
  std::mutex mu_;
  int64_t example_ = std::numeric_limits<int64_t>::max();
  absl::Status status_;
};

// Where an error is: "Example 3 'name', feature 'age'".
std::string Place(const Messages& m, int64_t example, const FeatureSpec* spec) {
  std::string place = StrCat("Example ", example);
  if (!m.names.empty()) StrAppend(&place, " '", CEscape(m.names[static_cast<size_t>(example)]), "'");
  if (spec != nullptr) StrAppend(&place, ", feature '", CEscape(spec->key), "'");
  return place;
}
absl::Status Damaged(const Messages& m, int64_t example, const FeatureSpec* spec, size_t at) {
  return InvalidArgument(Place(m, example, spec), ": the bytes are damaged at byte ", at, " of ",
                         m.serialized[static_cast<size_t>(example)].size());
}
absl::Status WrongType(const Messages& m, int64_t example, const FeatureSpec& spec, const FeatureValues& values) {
  return InvalidArgument(Place(m, example, &spec), " at byte ", values.list.offset, ": its values are of type ",
                         Name(values.type), " instead of ", Name(spec.type));
}

// Runs f(example), which returns a status, for every Example.
template <class F>
absl::Status ForEachExample(KernelContext& ctx, const Messages& m, size_t features, const F& f) {
  FirstError error;
  size_t bytes = 0;
  for (const std::string& s : m.serialized) bytes += s.size();
  const auto n = static_cast<int64_t>(m.serialized.size());
  const double each =
      n == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(n) + 20 * static_cast<double>(features);
  ctx.threads()->ParallelFor(n, each, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      absl::Status s = f(b);
      if (s.ok()) continue;
      error.Add(b, std::move(s));
      return;
    }
  });
  return error.status();
}

// The values that field `number` of a message, a map, has for the wanted keys, into found[spec].
absl::Status FindEntries(const Messages& m, int64_t example, uint32_t number, const Wanted& wanted,
                         absl::Span<const FeatureSpec> specs, absl::Span<Part> found) {
  const Part whole = {m.serialized[static_cast<size_t>(example)], 0};
  Fields fields(whole);
  while (fields.Next()) {
    if (!fields.Is(number, Fields::kBytes)) continue;
    Fields entries(fields.part());
    while (entries.Next()) {
      if (!entries.Is(1, Fields::kBytes)) continue;
      std::string_view key;
      Part value;
      size_t bad = 0;
      if (!ReadEntry(entries.part(), &key, &value, &bad)) return Damaged(m, example, nullptr, bad);
      for (int s = wanted.First(key); s >= 0; s = wanted.Next(s)) found[static_cast<size_t>(s)] = value;
    }
    if (entries.damaged()) return Damaged(m, example, nullptr, entries.offset());
  }
  if (fields.damaged()) return Damaged(m, example, nullptr, fields.offset());
  return absl::OkStatus();
}

// A feature of one Example whose values are counted, and have the wanted type.
struct Cell {
  FeatureValues values;
  int64_t count = 0;
};
absl::Status ReadCell(const Messages& m, int64_t example, const FeatureSpec& spec, const Part& feature, Cell* cell) {
  size_t bad = 0;
  if (!ReadFeature(feature, &cell->values, &bad)) return Damaged(m, example, &spec, bad);
  if (cell->values.type == DType::kInvalid) return absl::OkStatus();
  if (cell->values.type != spec.type) return WrongType(m, example, spec, cell->values);
  cell->count = CountValues(cell->values, &bad);
  if (cell->count < 0) return Damaged(m, example, &spec, bad);
  return absl::OkStatus();
}
// Writes the values to `to`, of element `at` on. REQUIRES: ReadCell has read the cell.
void WriteCell(const Cell& cell, Tensor* to, int64_t at) {
  if (cell.count == 0) return;
  VisitType(cell.values.type, [&]<class T>() {
    size_t bad = 0;
    ReadValues<T>(cell.values, to->data<T>() + at, cell.count, &bad);
  });
}

absl::Status WrongCount(const Messages& m, int64_t example, const FeatureSpec& spec, const Cell& cell) {
  return InvalidArgument(Place(m, example, &spec), " at byte ", cell.values.list.offset, ": it has ", cell.count,
                         " values, but the shape ", spec.shape.DebugString(), " needs ", spec.shape.num_elements());
}

absl::StatusOr<Tensor> Make(KernelContext& ctx, DType type, std::initializer_list<int64_t> dims,
                            const TensorShape& tail = TensorShape()) {
  std::vector<int64_t> all(dims);
  all.insert(all.end(), tail.dims().begin(), tail.dims().end());
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(all));
  return ctx.AllocateTemp(type, shape);
}

// Row splits of counts[0], counts[1], ...; INVALID_ARGUMENT when they do not fit their type.
template <class F>
absl::StatusOr<Tensor> Splits(KernelContext& ctx, const FeatureSpec& spec, int64_t rows, const F& count) {
  TROUPE_ASSIGN_OR_RETURN(Tensor splits, Make(ctx, spec.splits, {rows + 1}));
  int64_t sum = 0;
  for (int64_t i = 0; i <= rows; ++i) {
    if (spec.splits == DType::kInt64) {
      splits.data<int64_t>()[i] = sum;
    } else if (sum > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("feature '", CEscape(spec.key), "' has too many values for row splits of int32");
    } else {
      splits.data<int32_t>()[i] = static_cast<int32_t>(sum);
    }
    if (i < rows) sum += count(i);
  }
  return splits;
}

// A dense feature of one Example, to its place in `to`; the default where the Example has none.
absl::Status ReadDense(KernelContext& ctx, const Messages& m, int64_t b, const FeatureSpec& spec, const Part& feature,
                       Cell* cell, Tensor* to) {
  size_t bad = 0;
  if (!ReadFeature(feature, &cell->values, &bad)) return Damaged(m, b, &spec, bad);
  const int64_t want = spec.shape.num_elements();
  if (cell->values.type == DType::kInvalid) {
    if (!spec.default_value.valid() || spec.default_value.num_elements() == 0) {
      return InvalidArgument(Place(m, b, &spec), ": it is missing, and has no default");
    }
    array::CopyElements(ctx.threads(), spec.type, array::ElementAt(spec.type, to->raw(), b * want),
                        spec.default_value.raw(), want);
    return absl::OkStatus();
  }
  if (cell->values.type != spec.type) return WrongType(m, b, spec, cell->values);
  cell->count = VisitType(spec.type,
                          [&]<class T>() { return ReadValues<T>(cell->values, to->data<T>() + b * want, want, &bad); });
  if (cell->count < 0) return Damaged(m, b, &spec, bad);
  if (cell->count != want) return WrongCount(m, b, spec, *cell);
  return absl::OkStatus();
}

// A feature of the form kVariable: cell(b) holds the values of Example b, at most `most`. What lies
// behind them is filled up.
template <class F>
absl::Status MakeVariable(KernelContext& ctx, const Messages& m, const FeatureSpec& spec, int64_t n, int64_t most,
                          const F& cell, Tensor* out) {
  const int64_t row = spec.shape.num_elements(), rows = row == 0 ? 0 : most / row;
  TROUPE_ASSIGN_OR_RETURN(
      *out, m.single ? Make(ctx, spec.type, {rows}, spec.shape) : Make(ctx, spec.type, {n, rows}, spec.shape));
  const bool has_default = spec.default_value.valid() && spec.default_value.num_elements() > 0;
  for (int64_t b = 0; b < n; ++b) {
    WriteCell(cell(b), out, b * most);
    void* const rest = array::ElementAt(spec.type, out->raw(), b * most + cell(b).count);
    const int64_t left = most - cell(b).count;
    if (left == 0) continue;
    if (has_default) {
      array::FillElements(ctx.threads(), spec.type, rest, spec.default_value.raw(), left);
    } else {
      array::ZeroElements(ctx.threads(), spec.type, rest, left);
    }
  }
  return absl::OkStatus();
}

// Indices and shape of a sparse feature with `total` values, of one Example at most `most`.
template <class F>
absl::Status MakeIndices(KernelContext& ctx, const Messages& m, int64_t n, int64_t total, int64_t most, const F& cell,
                         Tensor* parts) {
  const int64_t width = m.single ? 1 : 2;
  TROUPE_ASSIGN_OR_RETURN(parts[0], Make(ctx, DType::kInt64, {total, width}));
  TROUPE_ASSIGN_OR_RETURN(parts[2], Make(ctx, DType::kInt64, {width}));
  int64_t* at = parts[0].data<int64_t>();
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t i = 0; i < cell(b).count; ++i) {
      if (!m.single) *at++ = b;
      *at++ = i;
    }
  }
  if (!m.single) parts[2].data<int64_t>()[0] = n;
  parts[2].data<int64_t>()[width - 1] = most;
  return absl::OkStatus();
}

// A dense feature list: steps(b) are those of Example b, at most `most_steps`, with zeros behind
// them; and the number of steps of each Example.
template <class F>
absl::Status MakeDenseList(KernelContext& ctx, const Messages& m, const FeatureSpec& spec, int64_t n,
                           int64_t most_steps, const F& steps, Tensor* parts) {
  const int64_t row = spec.shape.num_elements();
  TROUPE_ASSIGN_OR_RETURN(parts[0], m.single ? Make(ctx, spec.type, {most_steps}, spec.shape)
                                             : Make(ctx, spec.type, {n, most_steps}, spec.shape));
  TROUPE_ASSIGN_OR_RETURN(parts[1], m.single ? Make(ctx, DType::kInt64, {}) : Make(ctx, DType::kInt64, {n}));
  for (int64_t b = 0; b < n; ++b) {
    int64_t at = b * most_steps * row;
    for (const Cell& c : steps(b)) {
      WriteCell(c, &parts[0], at);
      at += c.count;
    }
    const int64_t end = (b + 1) * most_steps * row;
    array::ZeroElements(ctx.threads(), spec.type, array::ElementAt(spec.type, parts[0].raw(), at), end - at);
    parts[1].data<int64_t>()[b] = static_cast<int64_t>(steps(b).size());
  }
  return absl::OkStatus();
}

// Row splits of a ragged feature list: of the steps in Examples, and of the values in steps.
template <class F>
absl::Status MakeListSplits(KernelContext& ctx, const Messages& m, const FeatureSpec& spec, int64_t n, const F& steps,
                            Tensor* parts) {
  std::vector<int64_t> counts;
  for (int64_t b = 0; b < n; ++b) {
    for (const Cell& c : steps(b)) counts.push_back(c.count);
  }
  if (m.single) {
    TROUPE_ASSIGN_OR_RETURN(parts[1], Make(ctx, spec.splits, {0}));
  } else {
    TROUPE_ASSIGN_OR_RETURN(parts[1],
                            Splits(ctx, spec, n, [&](int64_t b) { return static_cast<int64_t>(steps(b).size()); }));
  }
  TROUPE_ASSIGN_OR_RETURN(parts[2], Splits(ctx, spec, static_cast<int64_t>(counts.size()),
                                           [&](int64_t i) { return counts[static_cast<size_t>(i)]; }));
  return absl::OkStatus();
}

// Indices and shape of a sparse feature list.
template <class F>
absl::Status MakeListIndices(KernelContext& ctx, const Messages& m, int64_t n, int64_t total, int64_t most_steps,
                             int64_t most_values, const F& steps, Tensor* parts) {
  const int64_t width = m.single ? 2 : 3;
  TROUPE_ASSIGN_OR_RETURN(parts[0], Make(ctx, DType::kInt64, {total, width}));
  TROUPE_ASSIGN_OR_RETURN(parts[2], Make(ctx, DType::kInt64, {width}));
  int64_t* index = parts[0].data<int64_t>();
  for (int64_t b = 0; b < n; ++b) {
    for (size_t t = 0; t < steps(b).size(); ++t) {
      for (int64_t i = 0; i < steps(b)[t].count; ++i) {
        if (!m.single) *index++ = b;
        *index++ = static_cast<int64_t>(t);
        *index++ = i;
      }
    }
  }
  int64_t* const shape = parts[2].data<int64_t>();
  if (!m.single) shape[0] = n;
  shape[width - 2] = most_steps;
  shape[width - 1] = most_values;
  return absl::OkStatus();
}

}  // namespace

absl::Status SetDenseShape(const PartialTensorShape& shape, FeatureSpec* spec) {
  if (!shape.known_rank()) return InvalidArgument("the shape of dense feature '", CEscape(spec->key), "' has no rank");
  spec->form = Form::kDense;
  spec->shape = TensorShape();
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) >= 0) {
      spec->shape.AddDim(shape.dim(d));
    } else if (d == 0) {
      spec->form = Form::kVariable;
    } else {
      return InvalidArgument("the shape ", shape.DebugString(), " of dense feature '", CEscape(spec->key),
                             "' leaves another dimension open than the first");
    }
  }
  if (TensorShape::Make(spec->shape.dims()).ok()) return absl::OkStatus();
  return InvalidArgument("the shape ", shape.DebugString(), " of dense feature '", CEscape(spec->key),
                         "' is too large");
}

absl::Status SetDefault(const Tensor& value, FeatureSpec* spec) {
  const bool variable = spec->form == Form::kVariable;
  if (value.dtype() != spec->type) {
    return InvalidArgument("the default of feature '", CEscape(spec->key), "' is of type ", Name(value.dtype()),
                           " instead of ", Name(spec->type));
  }
  const int64_t n = value.num_elements();
  if (n > 0 && (variable ? n != 1 : value.shape() != spec->shape)) {
    return InvalidArgument(
        "the default of feature '", CEscape(spec->key), "' has shape ", value.shape().DebugString(),
        variable ? ", but must have one element to fill up with" : StrCat(" instead of ", spec->shape.DebugString()));
  }
  spec->default_value = value;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FeatureTensors>> ParseFeatures(KernelContext& ctx, const Messages& m,
                                                          absl::Span<const FeatureSpec> specs) {
  const Wanted wanted(specs);
  const auto n = static_cast<int64_t>(m.serialized.size());
  const size_t k = specs.size();
  std::vector<FeatureTensors> out(k);
  // Dense features go to their places at once; of others the sizes are not known yet.
  for (size_t f = 0; f < k; ++f) {
    if (specs[f].form != Form::kDense) continue;
    TROUPE_ASSIGN_OR_RETURN(out[f].parts[0], m.single ? Make(ctx, specs[f].type, {}, specs[f].shape)
                                                      : Make(ctx, specs[f].type, {n}, specs[f].shape));
  }
  std::vector<Cell> cells(static_cast<size_t>(n) * k);
  TROUPE_RETURN_IF_ERROR(ForEachExample(ctx, m, k, [&](int64_t b) -> absl::Status {
    absl::InlinedVector<Part, 16> found(k);
    TROUPE_RETURN_IF_ERROR(FindEntries(m, b, 1, wanted, specs, absl::MakeSpan(found)));
    for (size_t f = 0; f < k; ++f) {
      const FeatureSpec& spec = specs[f];
      Cell& cell = cells[static_cast<size_t>(b) * k + f];
      if (spec.form == Form::kDense) {
        TROUPE_RETURN_IF_ERROR(ReadDense(ctx, m, b, spec, found[f], &cell, &out[f].parts[0]));
        continue;
      }
      TROUPE_RETURN_IF_ERROR(ReadCell(m, b, spec, found[f], &cell));
      if (spec.form == Form::kVariable) {
        const int64_t row = spec.shape.num_elements();
        if (row == 0 ? cell.count != 0 : cell.count % row != 0) {
          return InvalidArgument(Place(m, b, &spec), " at byte ", cell.values.list.offset, ": its ", cell.count,
                                 " values are no multiple of the ", row, " of a row");
        }
      }
    }
    return absl::OkStatus();
  }));
  for (size_t f = 0; f < k; ++f) {
    const FeatureSpec& spec = specs[f];
    if (spec.form == Form::kDense) continue;
    const auto cell = [&](int64_t b) -> const Cell& { return cells[static_cast<size_t>(b) * k + f]; };
    std::vector<int64_t> starts(static_cast<size_t>(n) + 1);
    int64_t most = 0;
    for (int64_t b = 0; b < n; ++b) {
      starts[static_cast<size_t>(b) + 1] = starts[static_cast<size_t>(b)] + cell(b).count;
      most = std::max(most, cell(b).count);
    }
    const int64_t total = starts.back();
    Tensor* const parts = out[f].parts;
    if (spec.form == Form::kVariable) {
      TROUPE_RETURN_IF_ERROR(MakeVariable(ctx, m, spec, n, most, cell, &parts[0]));
      continue;
    }
    const int values = spec.form == Form::kSparse ? 1 : 0;
    TROUPE_ASSIGN_OR_RETURN(parts[values], Make(ctx, spec.type, {total}));
    for (int64_t b = 0; b < n; ++b) WriteCell(cell(b), &parts[values], starts[static_cast<size_t>(b)]);
    if (spec.form == Form::kRagged) {
      if (m.single) {
        TROUPE_ASSIGN_OR_RETURN(parts[1], Make(ctx, spec.splits, {0}));
      } else {
        TROUPE_ASSIGN_OR_RETURN(parts[1], Splits(ctx, spec, n, [&](int64_t b) { return cell(b).count; }));
      }
      continue;
    }
    TROUPE_RETURN_IF_ERROR(MakeIndices(ctx, m, n, total, most, cell, parts));
  }
  return out;
}

absl::StatusOr<std::vector<FeatureTensors>> ParseFeatureLists(KernelContext& ctx, const Messages& m,
                                                              absl::Span<const FeatureSpec> specs) {
  const Wanted wanted(specs);
  const auto n = static_cast<int64_t>(m.serialized.size());
  const size_t k = specs.size();
  // The steps of each (Example, feature).
  std::vector<std::vector<Cell>> lists(static_cast<size_t>(n) * k);
  TROUPE_RETURN_IF_ERROR(ForEachExample(ctx, m, k, [&](int64_t b) -> absl::Status {
    absl::InlinedVector<Part, 16> found(k);
    TROUPE_RETURN_IF_ERROR(FindEntries(m, b, 2, wanted, specs, absl::MakeSpan(found)));
    for (size_t f = 0; f < k; ++f) {
      const FeatureSpec& spec = specs[f];
      if (found[f].bytes.data() == nullptr) {
        if (spec.form != Form::kDense || spec.missing_is_empty) continue;
        return InvalidArgument(Place(m, b, &spec), ": the feature list is missing, and is not assumed to be empty");
      }
      std::vector<Cell>& steps = lists[static_cast<size_t>(b) * k + f];
      Fields features(found[f]);
      while (features.Next()) {
        if (!features.Is(1, Fields::kBytes)) continue;
        TROUPE_RETURN_IF_ERROR(ReadCell(m, b, spec, features.part(), &steps.emplace_back()));
        if (spec.form == Form::kDense && steps.back().count != spec.shape.num_elements()) {
          absl::Status wrong = WrongCount(m, b, spec, steps.back());
          return Annotate(wrong, StrCat("step ", steps.size() - 1));
        }
      }
      if (features.damaged()) return Damaged(m, b, &spec, features.offset());
    }
    return absl::OkStatus();
  }));
  std::vector<FeatureTensors> out(k);
  for (size_t f = 0; f < k; ++f) {
    const FeatureSpec& spec = specs[f];
    const auto steps = [&](int64_t b) -> const std::vector<Cell>& { return lists[static_cast<size_t>(b) * k + f]; };
    int64_t total = 0, most_steps = 0, most_values = 0;
    for (int64_t b = 0; b < n; ++b) {
      most_steps = std::max(most_steps, static_cast<int64_t>(steps(b).size()));
      for (const Cell& c : steps(b)) {
        total += c.count;
        most_values = std::max(most_values, c.count);
      }
    }
    Tensor* const parts = out[f].parts;
    if (spec.form == Form::kDense) {
      TROUPE_RETURN_IF_ERROR(MakeDenseList(ctx, m, spec, n, most_steps, steps, parts));
      continue;
    }
    const int values = spec.form == Form::kSparse ? 1 : 0;
    TROUPE_ASSIGN_OR_RETURN(parts[values], Make(ctx, spec.type, {total}));
    int64_t at = 0;
    for (int64_t b = 0; b < n; ++b) {
      for (const Cell& c : steps(b)) {
        WriteCell(c, &parts[values], at);
        at += c.count;
      }
    }
    if (spec.form == Form::kRagged) {
      TROUPE_RETURN_IF_ERROR(MakeListSplits(ctx, m, spec, n, steps, parts));
      continue;
    }
    TROUPE_RETURN_IF_ERROR(MakeListIndices(ctx, m, n, total, most_steps, most_values, steps, parts));
  }
  return out;
}

}  // namespace troupe::parse
