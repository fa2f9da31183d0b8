#include "troupe/train/all_reduce.h"

#include <map>
#include <utility>

#include "graph/train/build.h"
#include "graph/train/exchange.h"
#include "graph/train/joined.h"
#include "troupe/const.h"
#include "troupe/indexed_slices.h"

namespace troupe::train {
namespace {

using Lists = std::vector<std::vector<Output>>;  // by replica, then by value

// The number of elements; -1 where it is known only when it runs.
int64_t ElementsOf(const PartialTensorShape& shape) {
  if (!shape.IsFullyDefined()) return -1;
  int64_t n = 1;
  for (int i = 0; i < shape.rank(); ++i) n *= shape.dim(i);
  return n;
}

absl::Status CheckLists(const Lists& values, const std::vector<std::string>& devices) {
  if (values.empty() || values.size() != devices.size()) {
    return InvalidArgument("an all-reduce needs a device for each replica, and was given values of ", values.size(),
                           " replicas and ", devices.size(), " devices");
  }
  for (size_t r = 0; r < values.size(); ++r) {
    if (values[r].size() != values[0].size()) {
      return InvalidArgument("replica ", r, " has ", values[r].size(), " values to reduce, but replica 0 has ",
                             values[0].size());
    }
  }
  return absl::OkStatus();
}

// Value i of all replicas: of one type, and of one shape as far as that is known.
absl::Status CheckValue(const Scope& s, const Lists& values, size_t i) {
  const Output& first = values[0][i];
  PartialTensorShape shape = first.valid() ? s.ShapeOf(first) : PartialTensorShape();
  for (size_t r = 0; r < values.size(); ++r) {
    const Output& v = values[r][i];
    if (v.valid() != first.valid()) {
      return InvalidArgument("value ", i, " to reduce is given by replica ", v.valid() ? r : 0, ", but not by replica ",
                             v.valid() ? 0 : r);
    }
    if (!v.valid()) continue;
    const DType type = v.dtype();
    if (!IsFloating(type) && !IsInteger(type) && !IsComplex(type))
      return InvalidArgument("'", v.name(), "' cannot be reduced: there is no sum of ", Name(type));
    if (type != first.dtype()) {
      return InvalidArgument("replicas cannot be reduced: '", first.name(), "' of replica 0 is ", Name(first.dtype()),
                             ", '", v.name(), "' of replica ", r, " is ", Name(type));
    }
    const PartialTensorShape its = s.ShapeOf(v);
    if (absl::StatusOr<PartialTensorShape> both = shape.MergeWith(its); both.ok()) {
      shape = *both;
    } else {
      return InvalidArgument("replicas cannot be reduced: '", v.name(), "' of replica ", r, " has shape ",
                             its.DebugString(), ", those before have ", shape.DebugString());
    }
    if (IsSlices(v.out()) != IsSlices(first.out())) {
      return InvalidArgument("replicas cannot be reduced: of '", first.name(), "' of replica 0 and '", v.name(),
                             "' of replica ", r, " one consists of slices");
    }
  }
  return absl::OkStatus();
}

// The sum is divided by the number of replicas, which must be one of the type's.
absl::Status CheckMean(const Output& v, size_t replicas) {
  const DType type = v.dtype();
  if (replicas == 1 || !IsInteger(type)) return absl::OkStatus();
  if (IsSlices(v.out())) {
    return InvalidArgument("'", v.name(), "' has no mean: slices are not added until they are applied, and to divide ",
                           "each of them would truncate ", Name(type), " too often");
  }
  const size_t bits = 8 * SizeOf(type) - (IsUnsigned(type) ? 0 : 1);
  if (bits < 31 && (replicas >> bits) > 0) {
    return InvalidArgument("'", v.name(), "' has no mean: ", Name(type), " cannot say how many replicas there are, ",
                           replicas);
  }
  return absl::OkStatus();
}

class Reducer {
 public:
  Reducer(const Scope& s, const Lists& values, const std::vector<std::string>& devices, const AllReduceOptions& options)
      : s_(s), values_(values), options_(options), team_(s, devices), out_(values.size()) {
    for (std::vector<Output>& list : out_) list.resize(values[0].size());
  }

  Lists Run() {
    struct Bucket {
      std::vector<size_t> of;
      int64_t elements = 0;
    };
    std::map<DType, Bucket> open;
    const auto close = [&](Bucket* b) {
      if (!b->of.empty()) Known(b->of, b->elements);
      *b = {};
    };
    for (size_t i = 0; i < values_[0].size() && s_.ok(); ++i) {
      const Output& first = values_[0][i];
      if (!first.valid()) continue;
      if (IsSlices(first.out())) {
        Slices(i);
        continue;
      }
      const int64_t elements = KnownElements(i);
      if (elements < 0) {
        Unknown(i);
        continue;
      }
      const auto size = static_cast<int64_t>(SizeOf(first.dtype()));
      Bucket& bucket = open[first.dtype()];
      if ((bucket.elements + elements) * size > options_.bucket_bytes) close(&bucket);
      bucket.of.push_back(i);
      bucket.elements += elements;
    }
    for (auto& [type, bucket] : open) close(&bucket);
    return std::move(out_);
  }

 private:
  // Only where all replicas know it, nothing has to be compared.
  int64_t KnownElements(size_t i) const {
    int64_t elements = 0;
    for (const std::vector<Output>& list : values_) {
      elements = ElementsOf(s_.ShapeOf(list[i]));
      if (elements < 0) return -1;
    }
    return elements;
  }

  std::vector<Output> Sum(const std::vector<Output>& vectors, int64_t elements) const {
    return options_.algorithm == AllReduceOptions::kTree ? team_.HalvingAndDoubling(vectors, elements, options_.mean)
                                                         : team_.Ring(vectors, elements, options_.mean);
  }

  // One bucket.
  void Known(const std::vector<size_t>& of, int64_t elements) {
    std::vector<Output> vectors;
    for (size_t r = 0; r < team_.size(); ++r) {
      std::vector<Output> values;
      std::vector<PartialTensorShape> shapes;
      for (const size_t i : of) {
        values.push_back(values_[r][i]);
        shapes.push_back(s_.ShapeOf(values_[r][i]));
      }
      vectors.push_back(Joined(team_.on(r), values, shapes));
    }
    const std::vector<Output> sums = Sum(vectors, elements);
    for (size_t r = 0; r < team_.size() && s_.ok(); ++r) TakeApart(r, of, sums[r]);
  }
  void TakeApart(size_t replica, const std::vector<size_t>& of, const Output& sum) {
    std::vector<PartialTensorShape> shapes;
    for (const size_t i : of) shapes.push_back(s_.ShapeOf(values_[replica][i]));
    const std::vector<Output> parts = TakenApart(team_.on(replica), sum, shapes);
    for (size_t k = 0; k < of.size(); ++k) out_[replica][of[k]] = parts[k];
  }

  // A value whose shape is known only when it runs. Each replica compares it with that of its
  // neighbour: chunks of unequal vectors may well have equal lengths, and would be added.
  void Unknown(size_t i) {
    const size_t n = team_.size();
    std::vector<Output> shapes, vectors;
    for (size_t r = 0; r < n; ++r)
      shapes.push_back(train::Build(team_.on(r), "Shape", {values_[r][i]}, {{"out_type", DType::kInt64}}));
    for (size_t r = 0; r < n; ++r) {
      Scope here = team_.on(r);
      here = here.WithControlDependencies(CheckShapes(here, r, shapes[r], shapes[(r + n - 1) % n]));
      vectors.push_back(train::Build(here, "Reshape", {values_[r][i], Const(here, {-1})}));
    }
    const std::vector<Output> sums = Sum(vectors, -1);
    for (size_t r = 0; r < n && s_.ok(); ++r) {
      out_[r][i] = train::Build(team_.on(r), "Reshape", {sums[r], shapes[r]});
      s_.SetShape(out_[r][i], s_.ShapeOf(values_[r][i]));
    }
  }
  Operation CheckShapes(Scope here, size_t replica, const Output& mine, const Output& neighbours) const {
    const size_t left = (replica + team_.size() - 1) % team_.size();
    const auto check = [&](const Output& equal) {
      const std::string one = StrCat("replica ", replica, " reduces a value of shape"),
                        other = StrCat("and replica ", left, " one of shape");
      return EmitLists(here, "Assert",
                       {InputList({equal}), InputList({Input(one), Input(mine), Input(other), Input(neighbours)})},
                       {{"summarize", 16}});
    };
    // Shapes of unequal rank cannot be compared by their elements.
    here = here.WithControlDependencies(check(
        train::Build(here, "Equal", {train::Build(here, "Size", {mine}), train::Build(here, "Size", {neighbours})})));
    return check(train::Build(here, "All", {train::Build(here, "Equal", {mine, neighbours}), 0}));
  }

  void Slices(size_t i) {
    std::vector<IndexedSlices> slices;
    std::vector<Output> indices, values;
    for (size_t r = 0; r < team_.size(); ++r) {
      const Scope& here = team_.on(r);
      const std::optional<IndexedSlices> its = SlicesOf(here, values_[r][i]);
      if (!its) return;  // the scope has an error
      slices.push_back(*its);
      indices.push_back(its->indices);
      const DType type = its->values.dtype();
      values.push_back(
          options_.mean
              ? train::Build(here, "Div", {its->values, Const(here, static_cast<int64_t>(team_.size()), type)})
              : its->values);
    }
    indices = team_.Gather(indices);
    values = team_.Gather(values);
    for (size_t r = 0; r < team_.size() && s_.ok(); ++r)
      out_[r][i] = FromSlices(team_.on(r), {values[r], indices[r], slices[r].dense_shape});
  }

  const Scope& s_;
  const Lists& values_;
  const AllReduceOptions& options_;
  const Exchange team_;
  Lists out_;
};

}  // namespace

Lists AllReduceLists(const ScopeAt& at, const Lists& values, const std::vector<std::string>& devices,
                     const AllReduceOptions& options) {
  Lists none(values.size());
  if (!at.ok()) return none;
  absl::Status wrong = CheckLists(values, devices);
  for (size_t i = 0; wrong.ok() && i < values[0].size(); ++i) {
    wrong = CheckValue(at.scope(), values, i);
    if (wrong.ok() && options.mean && values[0][i].valid()) wrong = CheckMean(values[0][i], values.size());
  }
  if (wrong.ok() && options.bucket_bytes < 0)
    wrong = InvalidArgument("a bucket cannot have ", options.bucket_bytes, " bytes");
  if (!wrong.ok()) {
    at.Fail(wrong);
    return none;
  }
  if (values.size() == 1) return values;
  const Scope s = at.Sub(options.name);
  Lists out = Reducer(s, values, devices, options).Run();
  return s.ok() ? out : none;
}

std::vector<Output> AllReduce(const ScopeAt& at, const std::vector<Output>& values,
                              const std::vector<std::string>& devices, const AllReduceOptions& options) {
  Lists lists;
  for (const Output& v : values) lists.push_back({v});
  std::vector<Output> out;
  for (const std::vector<Output>& list : AllReduceLists(at, lists, devices, options))
    out.push_back(list.empty() ? Output() : list[0]);
  return out;
}

}  // namespace troupe::train
