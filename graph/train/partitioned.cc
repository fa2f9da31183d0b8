#include "troupe/train/partitioned.h"

#include <algorithm>

#include "graph/train/build.h"
#include "graph/train/parts.h"
#include "troupe/const.h"

namespace troupe::train {

void SetWhole(const Variable& part, const PartOfWhole& whole) {
  if (!part.handle().valid()) return;
  part.handle().node()->SetAttr(kWholeAttr, std::vector<std::string>{whole.name, whole.shape_and_slice});
}

std::optional<PartOfWhole> WholeOf(const Variable& variable) {
  if (!variable.handle().valid()) return std::nullopt;
  const auto whole = variable.handle().node()->Attr<std::vector<std::string>>(kWholeAttr);
  if (!whole.ok() || whole->size() != 2) return std::nullopt;
  return PartOfWhole{(*whole)[0], (*whole)[1]};
}

Partitioner FixedParts(int64_t parts, int axis) {
  return [=](const TensorShape& shape, DType) -> Cut {
    const bool there = axis >= 0 && axis < shape.rank();
    return {axis, there ? std::min(parts, std::max<int64_t>(shape.dim(axis), 1)) : parts};
  };
}

Partitioner PartsOfBytes(int64_t bytes, int axis, int64_t most) {
  return [=](const TensorShape& shape, DType dtype) -> Cut {
    if (axis < 0 || axis >= shape.rank() || shape.dim(axis) == 0) return {axis, 1};
    const int64_t each = shape.num_elements() / shape.dim(axis) * static_cast<int64_t>(SizeOf(dtype));
    const int64_t in_part = std::max<int64_t>(bytes / std::max<int64_t>(each, 1), 1);
    const int64_t parts = (shape.dim(axis) + in_part - 1) / in_part;
    return {axis, most > 0 ? std::min(most, parts) : parts};
  };
}

PartitionedVariable::PartitionedVariable(const ScopeAt& at, const init::Initializer& initializer,
                                         const TensorShape& shape, DType dtype, const Partitioner& partitioner,
                                         const VariableOptions& options, const std::function<std::string(int)>& device)
    : shape_(shape) {
  if (!at.ok()) return;
  if (initializer == nullptr || partitioner == nullptr) {
    at.Fail(InvalidArgument("a PartitionedVariable is given ",
                            initializer == nullptr ? "an initializer" : "a partitioner", " without a target"));
    return;
  }
  const Cut cut = partitioner(shape, dtype);
  axis_ = cut.axis;
  if (cut.axis < 0 || cut.axis >= shape.rank() || cut.parts < 1 ||
      cut.parts > std::max<int64_t>(shape.dim(cut.axis), 1)) {
    at.Fail(InvalidArgument("dimension ", cut.axis, " of a variable of shape ", shape.DebugString(),
                            " cannot be cut into ", cut.parts, " parts"));
    return;
  }
  const Scope s = options.name.empty() ? at.Sub("PartitionedVariable") : at->NewSubScope(options.name);
  name_ = s.prefix().substr(0, s.prefix().size() - 1);
  const Output whole = initializer(s.NewSubScope("Initializer"), shape, dtype);
  const int64_t length = shape.dim(axis_) / cut.parts, longer = shape.dim(axis_) % cut.parts;
  std::vector<int64_t> begin(shape.rank(), 0), size(shape.dims().begin(), shape.dims().end());
  for (int i = 0; i < static_cast<int>(cut.parts) && s.ok(); ++i) {
    size[axis_] = length + (i < longer ? 1 : 0);
    const Scope here = device ? s.WithDevice(device(i)) : s;
    const auto vector = [&](const std::vector<int64_t>& v) {
      return Const(here, Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(v))));
    };
    VariableOptions one = options;
    one.name = StrCat("part_", i);
    one.shape = PartialTensorShape(size);
    const Output start =
        Build(here.NewSubScope(StrCat("part_", i, "/Initializer")), "Slice", {whole, vector(begin), vector(size)});
    parts_.emplace_back(here, start, one);
    std::vector<std::string> extents;
    for (int d = 0; d < shape.rank(); ++d) extents.push_back(StrCat(begin[d], ",", size[d]));
    SetWhole(parts_.back(), {name_, StrCat(StrJoin(shape.dims(), " "), " ", StrJoin(extents, ":"))});
    begin[axis_] += size[axis_];
  }
}

Output PartitionedVariable::Value(const ScopeAt& at) const {
  if (!at.ok()) return {};
  if (parts_.empty()) {
    at.Fail(InvalidArgument("an empty PartitionedVariable has no value"));
    return {};
  }
  const std::vector<Output> values(parts_.begin(), parts_.end());
  if (values.size() == 1) return Build(at, "Identity", {values[0]});
  return EmitLists(at, "ConcatV2", {InputList(values), InputList({Input(axis_)})}).output(0);
}

Output PartitionedVariable::Lookup(const ScopeAt& at, const Output& ids) const {
  if (axis_ == 0 || !at.ok()) return EmbeddingLookup(at, parts_, ids, Parting::kDiv);
  at.Fail(InvalidArgument("rows of '", name_, "' cannot be looked up: it is cut along axis ", axis_));
  return {};
}

}  // namespace troupe::train
