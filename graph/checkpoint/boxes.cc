#include "graph/checkpoint/boxes.h"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

int64_t Elements(const TensorSlice& box) { return box.shape().num_elements(); }

// Calls f(offset in a box, offset in another, length) for each row of `what` along its last
// dimension.
template <class F>
void ForRows(const TensorSlice& what, const TensorSlice& a, const TensorSlice& b, F&& f) {
  const int rank = what.rank();
  if (rank == 0) return f(0, 0, 1);
  if (Elements(what) == 0) return;
  std::vector<int64_t> at(static_cast<size_t>(rank), 0);
  const int64_t row = what.extent(rank - 1).length;
  for (;;) {
    int64_t in_a = 0, in_b = 0;
    for (int i = 0; i < rank; ++i) {
      const int64_t place = what.extent(i).start + at[static_cast<size_t>(i)];
      in_a = in_a * a.extent(i).length + place - a.extent(i).start;
      in_b = in_b * b.extent(i).length + place - b.extent(i).start;
    }
    f(in_a, in_b, row);
    int i = rank - 2;
    while (i >= 0 && ++at[static_cast<size_t>(i)] == what.extent(i).length) at[static_cast<size_t>(i--)] = 0;
    if (i < 0) return;
  }
}

}  // namespace

std::optional<TensorSlice> Intersect(const TensorSlice& a, const TensorSlice& b) {
  std::vector<TensorSlice::Extent> extents;
  for (int i = 0; i < a.rank(); ++i) {
    const int64_t start = std::max(a.extent(i).start, b.extent(i).start);
    const int64_t end = std::min(a.extent(i).start + a.extent(i).length, b.extent(i).start + b.extent(i).length);
    if (end <= start) return std::nullopt;
    extents.push_back({start, end - start});
  }
  return TensorSlice(std::move(extents));
}

void CopyBox(const TensorSlice& what, const TensorSlice& from_box, const Tensor& from, const TensorSlice& to_box,
             Tensor* to) {
  if (from.dtype() == DType::kString) {
    const std::string* const source = from.data<std::string>();
    std::string* const target = to->data<std::string>();
    return ForRows(what, from_box, to_box,
                   [&](int64_t a, int64_t b, int64_t n) { std::copy_n(source + a, n, target + b); });
  }
  const size_t size = SizeOf(from.dtype());
  const char* const source = static_cast<const char*>(from.raw());
  char* const target = static_cast<char*>(to->raw());
  ForRows(what, from_box, to_box, [&](int64_t a, int64_t b, int64_t n) {
    std::memcpy(target + static_cast<size_t>(b) * size, source + static_cast<size_t>(a) * size,
                static_cast<size_t>(n) * size);
  });
}

absl::StatusOr<Tensor> Assemble(Allocator* allocator, DType dtype, const TensorSlice& want,
                                const std::vector<TensorSlice>& slices,
                                const std::function<absl::StatusOr<Tensor>(size_t, Allocator*)>& read) {
  const TensorShape shape = want.shape();
  const int64_t elements = shape.num_elements();
  struct Piece {
    size_t slice;
    TensorSlice what;
  };
  std::vector<Piece> pieces;
  int64_t covered = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i] == want) return read(i, allocator);
    std::optional<TensorSlice> common = Intersect(slices[i], want);
    if (!common.has_value()) continue;
    const int64_t more = Elements(*common);
    if (more > elements - covered) return InvalidArgument("slices of it overlap in '", want.ToString(), "'");
    covered += more;
    pieces.push_back({i, *std::move(common)});
  }
  if (covered != elements) {
    return InvalidArgument("its slices have ", covered, " of the ", elements, " elements of '", want.ToString(), "'");
  }
  Tensor out(allocator, dtype, shape);
  if (!out.valid()) return ResourceExhausted("no memory for ", shape.DebugString(), " of ", Name(dtype));
  // There are as many elements as there should be, so that one which comes twice hides one which is
  // missing.
  std::vector<bool> there(pieces.size() > 1 ? static_cast<size_t>(elements) : 0);
  for (const Piece& piece : pieces) {
    if (!there.empty()) {
      bool twice = false;
      ForRows(piece.what, want, want, [&](int64_t at, int64_t, int64_t n) {
        for (int64_t k = at; k < at + n; ++k) {
          twice = twice || there[static_cast<size_t>(k)];
          there[static_cast<size_t>(k)] = true;
        }
      });
      if (twice) return InvalidArgument("slices of it overlap in '", want.ToString(), "'");
    }
    TROUPE_ASSIGN_OR_RETURN(const Tensor part, read(piece.slice, Allocator::Cpu()));
    CopyBox(piece.what, slices[piece.slice], part, want, &out);
  }
  return out;
}

absl::Status UnknownType(std::string_view path, std::string_view name, int type) {
  return Unimplemented(path, ": the tensor '", CEscape(name), "' cannot be read: its type, number ", type,
                       ", is not known here");
}
absl::Status NoMemoryToRead(std::string_view name, size_t bytes, const Allocator& allocator) {
  return ResourceExhausted("no memory for '", CEscape(name), "', ", bytes, " bytes, from allocator ", allocator.name());
}

}  // namespace troupe
