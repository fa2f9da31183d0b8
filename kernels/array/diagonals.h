// Bands of diagonals, packed as rows: what versions 2 and 3 of MatrixDiag, MatrixDiagPart and
// MatrixSetDiag share.
//
// Diagonal d of a matrix holds the elements with column - row = d. The band k = [lower, upper] is
// packed with its uppermost diagonal first, in rows as long as the longest of them; a shorter
// diagonal stands at the left or the right end of its row (attr "align": superdiagonals first, then
// subdiagonals; version 2 has LEFT_LEFT), and the rest of the row is padding. A band of one
// diagonal is packed as a vector.
//
// Thread rule: plain values and pure functions.
#ifndef TROUPE_KERNELS_ARRAY_DIAGONALS_H_
#define TROUPE_KERNELS_ARRAY_DIAGONALS_H_

#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/common/op_file.h"

namespace troupe::array {

struct Band {
  int64_t lower = 0, upper = 0, rows = 0, columns = 0;
  bool superdiagonals_left = true, subdiagonals_left = true;

  // Of a node with attr "align", or without (version 2).
  void SetAlign(std::string_view align);
  // Reads input `k`: a scalar, or a vector of one or two numbers. INVALID_ARGUMENT when lower >
  // upper.
  absl::Status SetBounds(const Tensor& k);
  // INVALID_ARGUMENT when a bound lies outside of a matrix of this size.
  absl::Status SetSize(int64_t rows, int64_t columns);

  bool single() const { return lower == upper; }
  int64_t count() const { return upper - lower + 1; }
  // Of diagonal d, and of the longest of the band.
  int64_t Length(int64_t d) const {
    return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
  }
  int64_t Longest() const {
    return std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0));
  }
  // Where diagonal d begins in its row.
  int64_t Offset(int64_t d) const {
    const bool left = (d >= 0 && superdiagonals_left) || (d <= 0 && subdiagonals_left);
    return left ? 0 : Longest() - Length(d);
  }
  // `batch` with the dimensions of the packed band behind it.
  template <class Shape>
  Shape Packed(Shape batch) const {
    if (!single()) batch.AddDim(count());
    batch.AddDim(Longest());
    return batch;
  }
};

// The three ops on inputs as in version 3, and what they share: the alignment that the node names
// (a node of version 2 names none).
class BandKernel {
 protected:
  explicit BandKernel(KernelInit& init);
  Band band_;
};
struct MatrixDiagKernel : BandKernel {
  explicit MatrixDiagKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};
struct MatrixDiagPartKernel : BandKernel {
  explicit MatrixDiagPartKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};
struct MatrixSetDiagKernel : BandKernel {
  explicit MatrixSetDiagKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};

// The definitions as version 2 has them, without doc; to those of version 3 kAlignAttr is added.
OpBuilder MatrixDiagBandOp(std::string_view name);
OpBuilder MatrixDiagPartBandOp(std::string_view name);
OpBuilder MatrixSetDiagBandOp(std::string_view name);
inline constexpr char kAlignAttr[] = "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";

// The types of TensorFlow's kernels.
const std::vector<DType>& DiagonalTypes();

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_ARRAY_DIAGONALS_H_
