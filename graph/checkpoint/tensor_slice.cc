#include <charconv>
#include <limits>

#include "graph/checkpoint/slice_key.h"
#include "troupe/checkpoint.h"
#include "troupe/proto/tensor_slice.pb.h"

namespace troupe {
namespace {

bool ParseNumber(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

// Ordered forms of numbers and strings. An unsigned number is its length in bytes, then its bytes
// from the highest on.
void PutOrdered(uint64_t value, std::string* out) {
  std::string bytes;
  for (; value > 0; value >>= 8) bytes.insert(bytes.begin(), static_cast<char>(value));
  out->push_back(static_cast<char>(bytes.size()));
  out->append(bytes);
}
// 0 and 255 are escaped, and the end is marked by what no string has.
void PutOrdered(std::string_view text, std::string* out) {
  for (const char c : text) {
    out->push_back(c);
    if (c == '\0') out->push_back('\xff');
    if (c == '\xff') out->push_back('\0');
  }
  out->append("\0\1", 2);
}
// A signed number of n bytes begins with n ones and a zero (the sign, flipped, is the first of
// them), and has 7 n - 1 bits of its own.
void PutOrderedSigned(int64_t value, std::string* out) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  int bits = 0;
  while (bits < 64 && (magnitude >> bits) != 0) ++bits;
  const size_t n = static_cast<size_t>(bits) / 7 + 1;
  // Ten bytes, sign-extended; the last n of them are written.
  char bytes[10];
  for (size_t i = 0; i < 10; ++i) {
    const size_t shift = 8 * (9 - i);
    bytes[i] = shift >= 64 ? static_cast<char>(value < 0 ? 0xff : 0) : static_cast<char>(value >> shift);
  }
  char* const begin = bytes + 10 - n;
  const unsigned head = n >= 8 ? 0xffu : (0xff00u >> n) & 0xffu;
  begin[0] = static_cast<char>(begin[0] ^ static_cast<char>(head));
  if (n > 8) begin[1] = static_cast<char>(begin[1] ^ static_cast<char>((0xff00u >> (n - 8)) & 0xffu));
  out->append(begin, n);
}

}  // namespace

absl::StatusOr<TensorSlice> TensorSlice::Parse(std::string_view text) {
  std::vector<Extent> extents;
  if (text.empty()) return TensorSlice();
  for (const std::string& part : StrSplit(text, ':')) {
    Extent e;
    const size_t comma = part.find(',');
    if (part != "-" && (comma == std::string::npos || !ParseNumber(std::string_view(part).substr(0, comma), &e.start) ||
                        !ParseNumber(std::string_view(part).substr(comma + 1), &e.length) ||
                        e.start > std::numeric_limits<int64_t>::max() - e.length)) {
      return InvalidArgument("'", CEscape(text), "' is no slice: a dimension is '-' or 'START,LENGTH'");
    }
    extents.push_back(e);
    if (extents.size() > kMaxRank) return InvalidArgument("a slice of more than ", kMaxRank, " dimensions");
  }
  return TensorSlice(std::move(extents));
}

std::string TensorSlice::ToString() const {
  std::string text;
  for (const Extent& e : extents_) {
    if (!text.empty()) text += ':';
    text += e.IsFull() ? "-" : StrCat(e.start, ",", e.length);
  }
  return text;
}

bool TensorSlice::IsFull() const {
  for (const Extent& e : extents_) {
    if (!e.IsFull()) return false;
  }
  return true;
}

absl::StatusOr<TensorSlice> TensorSlice::Within(const TensorShape& shape) const {
  if (rank() != shape.rank()) {
    return InvalidArgument("the slice '", ToString(), "' has another rank than the shape ", shape.DebugString());
  }
  TensorSlice within = *this;
  for (int i = 0; i < rank(); ++i) {
    Extent& e = within.extents_[static_cast<size_t>(i)];
    if (e.IsFull()) e = {0, shape.dim(i)};
    if (e.start < 0 || e.start > shape.dim(i) || e.length > shape.dim(i) - e.start) {
      return InvalidArgument("the slice '", ToString(), "' does not lie within the shape ", shape.DebugString());
    }
  }
  return within;
}

TensorShape TensorSlice::shape() const {
  TensorShape shape;
  for (const Extent& e : extents_) shape.AddDim(e.length);
  return shape;
}

absl::StatusOr<ShapeAndSlice> ShapeAndSlice::Parse(std::string_view text) {
  ShapeAndSlice both;
  std::vector<std::string> words = StrSplit(text, ' ');
  std::vector<int64_t> dims;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t dim;
    if (!ParseNumber(words[i], &dim)) {
      return InvalidArgument("'", CEscape(text), "' is no shape and slice, such as '4 2 0,2:-'");
    }
    dims.push_back(dim);
  }
  TROUPE_ASSIGN_OR_RETURN(both.full_shape, TensorShape::Make(dims));
  TROUPE_ASSIGN_OR_RETURN(both.slice, TensorSlice::Parse(words.empty() ? "" : words.back()));
  TROUPE_RETURN_IF_ERROR(both.slice.Within(both.full_shape).status());
  return both;
}

std::string ShapeAndSlice::ToString() const {
  std::string text;
  for (const int64_t d : full_shape.dims()) StrAppend(&text, d, " ");
  return text + slice.ToString();
}

std::string SliceKey(std::string_view name, const TensorSlice& slice) {
  std::string key;
  PutOrdered(uint64_t{0}, &key);
  PutOrdered(name, &key);
  PutOrdered(static_cast<uint64_t>(slice.rank()), &key);
  for (int i = 0; i < slice.rank(); ++i) {
    PutOrderedSigned(slice.extent(i).start, &key);
    PutOrderedSigned(slice.extent(i).length, &key);
  }
  return key;
}

void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* p) {
  p->Clear();
  for (int i = 0; i < slice.rank(); ++i) {
    auto* const e = p->add_extent();
    if (slice.extent(i).IsFull()) continue;
    e->set_start(slice.extent(i).start);
    e->set_length(slice.extent(i).length);
  }
}

absl::StatusOr<TensorSlice> SliceFromProto(const proto::TensorSliceProto& p) {
  std::vector<TensorSlice::Extent> extents;
  if (p.extent_size() > kMaxRank) return InvalidArgument("a slice of ", p.extent_size(), " dimensions");
  for (const auto& from : p.extent()) {
    TensorSlice::Extent e;
    if (from.has_length_case() == proto::TensorSliceProto::Extent::kLength) {
      e = {from.start(), from.length()};
      if (e.start < 0 || e.length < 0 || e.start > std::numeric_limits<int64_t>::max() - e.length) {
        return InvalidArgument("a slice with start ", e.start, " and length ", e.length);
      }
    }
    extents.push_back(e);
  }
  return TensorSlice(std::move(extents));
}

}  // namespace troupe
