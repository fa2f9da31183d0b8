#include "kernels/array/paddings.h"

#include <limits>

namespace troupe::array {

absl::StatusOr<Paddings> ReadPaddings(const Tensor& in, const Tensor& paddings) {
  if (paddings.rank() != 2 || paddings.dim(1) != 2 || paddings.dim(0) != in.rank()) {
    return InvalidArgument("paddings must be a matrix [", in.rank(), ",2] for an input of rank ", in.rank(),
                           ", got shape ", paddings.shape().DebugString());
  }
  Paddings p;
  Ints dims;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t before = IntAt(paddings, 2 * i), after = IntAt(paddings, 2 * i + 1);
    if (before < 0 || after < 0)
      return InvalidArgument("paddings must be non-negative: dimension ", i, " has ", before, " and ", after);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
    if (before > kMost || after > kMost)
      return InvalidArgument("paddings of dimension ", i, " are too big: ", before, " and ", after);
    p.before.push_back(before);
    p.after.push_back(after);
    dims.push_back(before + in.dim(i) + after);
    p.none = p.none && before == 0 && after == 0;
  }
  TROUPE_ASSIGN_OR_RETURN(p.shape, TensorShape::Make(dims));
  return p;
}

absl::Status PaddedShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape matrix, c.WithRank(1, 2));
  TROUPE_RETURN_IF_ERROR(MergeDims(matrix.dim(1), 2).status());
  PartialTensorShape out = c.input(0);
  if (!out.known_rank()) {
    if (matrix.dim(0) < 0) return shape_fn::Unknown(c);
    out = PartialTensorShape::OfRank(static_cast<int>(matrix.dim(0)));
  } else if (matrix.dim(0) >= 0 && matrix.dim(0) != out.rank()) {
    return InvalidArgument("paddings has ", matrix.dim(0), " rows for an input of rank ", out.rank());
  }
  const Tensor* paddings = c.input_tensor(1);
  for (int i = 0; i < out.rank(); ++i) {
    if (paddings == nullptr) {
      out.set_dim(i, -1);
      continue;
    }
    const int64_t before = IntAt(*paddings, 2 * i), after = IntAt(*paddings, 2 * i + 1);
    if (before < 0 || after < 0)
      return InvalidArgument("paddings must be non-negative: dimension ", i, " has ", before, " and ", after);
    if (out.dim(i) >= 0) out.set_dim(i, out.dim(i) + before + after);
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

}  // namespace troupe::array
