// Shape functions that many ops share.
#include <algorithm>

#include "troupe/shape_inference.h"

namespace troupe {

int64_t AddDims(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : a + b; }
int64_t MulDims(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a < 0 || b < 0 ? -1 : MultiplyWithoutOverflow(a, b);
}
absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b) {
  if (a >= 0 && b >= 0 && a != b) return InvalidArgument("dimensions ", a, " and ", b, " must be equal");
  return a >= 0 ? a : b;
}

absl::StatusOr<PartialTensorShape> BroadcastPartialShapes(const PartialTensorShape& a, const PartialTensorShape& b) {
  if (!a.known_rank() || !b.known_rank()) return PartialTensorShape();
  const int rank = std::max(a.rank(), b.rank());
  PartialTensorShape out = PartialTensorShape::OfRank(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    int64_t d;
    if (da == 1) {
      d = db;
    } else if (db == 1) {
      d = da;
    } else if (da < 0 || db < 0) {
      d = std::max(da, db);  // a known dimension above 1 decides
    } else if (da == db) {
      d = da;
    } else {
      return InvalidArgument("Incompatible shapes: ", a.DebugString(), " vs. ", b.DebugString());
    }
    out.set_dim(i, d);
  }
  return out;
}

namespace shape_fn {

absl::Status Unknown(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialTensorShape());
  return absl::OkStatus();
}
absl::Status NoOutputs(InferenceContext&) { return absl::OkStatus(); }
absl::Status Scalar(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, TensorShape());
  return absl::OkStatus();
}
absl::Status Unchanged(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    c.set_output(i, c.input(0));
    c.set_output_handle(i, c.input_handle(0));
  }
  return absl::OkStatus();
}
absl::Status UnchangedWithRank1(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  return Unchanged(c);
}
absl::Status BroadcastBinary(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, BroadcastPartialShapes(c.input(0), c.input(1)));
  c.set_output(0, std::move(s));
  return absl::OkStatus();
}
absl::Status MergeAll(InferenceContext& c) {
  PartialTensorShape s;
  for (int i = 0; i < c.num_inputs(); ++i) {
    absl::StatusOr<PartialTensorShape> m = s.MergeWith(c.input(i));
    if (!m.ok()) return Annotate(m.status(), StrCat("input ", i));
    s = *std::move(m);
  }
  c.set_output(0, std::move(s));
  return absl::OkStatus();
}

absl::Status Reduction(InferenceContext& c) {
  const PartialTensorShape& in = c.input(0);
  bool keep = false;
  if (c.node().attrs().Has("keep_dims")) {
    TROUPE_ASSIGN_OR_RETURN(keep, c.Attr<bool>("keep_dims"));
  }
  const Tensor* axes = c.input_tensor(1);
  if (axes == nullptr) {
    c.set_output(0, keep && in.known_rank() ? PartialTensorShape::OfRank(in.rank()) : PartialTensorShape());
    return absl::OkStatus();
  }
  if (!in.known_rank()) return absl::OkStatus();
  std::vector<bool> reduced(in.rank(), false);
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    const int64_t axis = axes->dtype() == DType::kInt32 ? axes->data<int32_t>()[i] : axes->data<int64_t>()[i];
    if (axis < -in.rank() || axis >= in.rank()) {
      return InvalidArgument("Invalid reduction dimension ", axis, " for input with ", in.rank(), " dimensions");
    }
    reduced[axis < 0 ? axis + in.rank() : axis] = true;
  }
  PartialTensorShape out{};
  out = PartialTensorShape(TensorShape());
  for (int i = 0; i < in.rank(); ++i) {
    if (!reduced[i]) {
      out.AddDim(in.dim(i));
    } else if (keep) {
      out.AddDim(1);
    }
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status FromShapeAttr(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, c.Attr<PartialTensorShape>("shape"));
  c.set_output(0, std::move(s));
  return absl::OkStatus();
}
absl::Status FromShapeInput0(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, c.InputAsShape(0));
  c.set_output(0, std::move(s));
  return absl::OkStatus();
}

}  // namespace shape_fn
}  // namespace troupe
