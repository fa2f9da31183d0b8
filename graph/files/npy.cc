#include "graph/files/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace troupe::files {
namespace {

constexpr std::string_view kNpyMagic("\x93NUMPY", 6);

struct TypeCode {
  DType dtype;
  std::string_view code;  // without byte order
};
constexpr TypeCode kCodes[] = {
    {DType::kFloat, "f4"},
    {DType::kDouble, "f8"},
    {DType::kHalf, "f2"},
    {DType::kInt8, "i1"},
    {DType::kInt16, "i2"},
    {DType::kInt32, "i4"},
    {DType::kInt64, "i8"},
    {DType::kUint8, "u1"},
    {DType::kUint16, "u2"},
    {DType::kUint32, "u4"},
    {DType::kUint64, "u8"},
    {DType::kBool, "b1"},
    {DType::kComplex64, "c8"},
    {DType::kComplex128, "c16"},
    // Written as what they are stored as; only the first of a code is read.
    {DType::kQint8, "i1"},
    {DType::kQuint8, "u1"},
    {DType::kQint16, "i2"},
    {DType::kQuint16, "u2"},
    {DType::kQint32, "i4"},
};

// The text behind 'key': in a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (2,
// 3), }.
std::optional<std::string_view> ValueOf(std::string_view header, std::string_view key) {
  for (char quote : {'\'', '"'}) {
    const std::string quoted = StrCat(quote, key, quote);
    size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    at = header.find(':', at + quoted.size());
    if (at == std::string_view::npos) continue;
    at = header.find_first_not_of(' ', at + 1);
    if (at != std::string_view::npos) return header.substr(at);
  }
  return std::nullopt;
}

struct ElementType {
  DType dtype;
  bool swapped;  // the other byte order than this machine's
};

absl::StatusOr<ElementType> ParseType(std::string_view text) {
  if (text.size() < 4 || (text[0] != '\'' && text[0] != '"'))
    return InvalidArgument("its elements are not of one plain type");
  const size_t end = text.find(text[0], 1);
  if (end == std::string_view::npos || end < 3) return InvalidArgument("the header has no type");
  const char order = text[1];
  const std::string_view code = text.substr(2, end - 2);
  for (const TypeCode& c : kCodes) {
    if (c.code != code) continue;
    return ElementType{c.dtype, order == '>' && SizeOf(c.dtype) > 1};
  }
  return InvalidArgument("its type '", text.substr(1, end - 1), "' has no counterpart here");
}

absl::StatusOr<TensorShape> ParseShape(std::string_view text) {
  if (text.empty() || text[0] != '(') return InvalidArgument("the header has no shape");
  std::vector<int64_t> dims;
  const char* p = text.data() + 1;
  const char* end = text.data() + text.size();
  for (;;) {
    while (p < end && (*p == ' ' || *p == ',')) ++p;
    if (p == end) return InvalidArgument("the shape has no end");
    if (*p == ')') return TensorShape::Make(dims);
    int64_t d = 0;
    const auto [stop, ec] = std::from_chars(p, end, d);
    if (ec != std::errc()) return InvalidArgument("the shape is damaged");
    dims.push_back(d);
    p = stop < end && *stop == 'L' ? stop + 1 : stop;
  }
}

// Each number's bytes the other way round; complex ones are two numbers.
void SwapBytes(Tensor* t) {
  size_t size = SizeOf(t->dtype());
  if (t->dtype() == DType::kComplex64 || t->dtype() == DType::kComplex128) size /= 2;
  char* p = static_cast<char*>(t->raw());
  for (char* end = p + t->bytes(); p < end; p += size) std::reverse(p, p + size);
}

// `from` holds the elements column by column, the first index fastest, as the transposed tensor
// would row by row.
void FromColumns(const char* from, Tensor* to) {
  const size_t size = SizeOf(to->dtype());
  const int rank = to->rank();
  std::vector<int64_t> stride(rank, 1), index(rank, 0);
  for (int d = 1; d < rank; ++d) stride[d] = stride[d - 1] * to->dim(d - 1);
  char* out = static_cast<char*>(to->raw());
  int64_t at = 0;
  for (int64_t i = 0; i < to->num_elements(); ++i, out += size) {
    std::memcpy(out, from + at * static_cast<int64_t>(size), size);
    for (int d = rank - 1; d >= 0; --d) {
      at += stride[d];
      if (++index[d] < to->dim(d)) break;
      at -= stride[d] * to->dim(d);
      index[d] = 0;
    }
  }
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(std::string_view bytes) {
  if (bytes.size() < 10 || !bytes.starts_with(kNpyMagic)) return InvalidArgument("not a .npy file");
  const int version = static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) return InvalidArgument("version ", version, " of the .npy format is not known");
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return InvalidArgument("the header is cut off");
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) length = length << 8 | static_cast<uint8_t>(bytes[8 + i]);
  bytes.remove_prefix(8 + length_bytes);
  if (bytes.size() < length) return InvalidArgument("the header is cut off");
  const std::string_view header = bytes.substr(0, length);
  const std::string_view data = bytes.substr(length);

  const auto descr = ValueOf(header, "descr"), order = ValueOf(header, "fortran_order"),
             shape_text = ValueOf(header, "shape");
  if (!descr || !order || !shape_text) return InvalidArgument("the header lacks descr, fortran_order or shape");
  TROUPE_ASSIGN_OR_RETURN(const ElementType type, ParseType(*descr));
  const DType dtype = type.dtype;
  TROUPE_ASSIGN_OR_RETURN(TensorShape shape, ParseShape(*shape_text));
  const bool columns = order->starts_with("True");
  if (!columns && !order->starts_with("False")) return InvalidArgument("fortran_order is neither True nor False");
  const int64_t want = MultiplyWithoutOverflow(shape.num_elements(), static_cast<int64_t>(SizeOf(dtype)));
  if (want != static_cast<int64_t>(data.size())) {
    return InvalidArgument("it holds ", data.size(), " bytes of elements, but ", Name(dtype), " ", shape.DebugString(),
                           " takes ", want < 0 ? std::string("more than can be counted") : StrCat(want));
  }
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for ", Name(dtype), " ", shape.DebugString());
  if (data.empty()) return t;
  if (columns && shape.rank() > 1) {
    FromColumns(data.data(), &t);
  } else {
    std::memcpy(t.raw(), data.data(), data.size());
  }
  if (type.swapped) SwapBytes(&t);
  if (dtype == DType::kBool) {
    uint8_t* p = static_cast<uint8_t*>(t.raw());
    std::transform(p, p + data.size(), p, [](uint8_t b) { return b != 0; });
  }
  return t;
}

bool HasNpyForm(DType dtype) {
  return dtype == DType::kBfloat16 ||
         std::any_of(std::begin(kCodes), std::end(kCodes), [dtype](const TypeCode& c) { return c.dtype == dtype; });
}

absl::StatusOr<NpyFile> MakeNpy(const Tensor& tensor) {
  Tensor t = tensor;
  if (t.dtype() == DType::kBfloat16) {
    t = Tensor(DType::kFloat, tensor.shape());
    if (!t.valid()) return ResourceExhausted("no memory for the elements of a .npy file");
    for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = tensor.data<BFloat16>()[i];
  }
  std::string_view code;
  for (const TypeCode& c : kCodes) {
    if (c.dtype == t.dtype()) code = c.code;
  }
  if (code.empty()) return InvalidArgument("a ", Name(t.dtype()), " tensor cannot be written as a .npy file");
  std::string header =
      StrCat("{'descr': '", SizeOf(t.dtype()) == 1 ? "|" : "<", code, "', 'fortran_order': False, 'shape': (");
  for (int i = 0; i < t.rank(); ++i) StrAppend(&header, t.dim(i), t.rank() == 1 ? "," : i + 1 < t.rank() ? ", " : "");
  header += "), }";
  // The elements begin at a multiple of 64, and the header ends with a new line.
  const size_t total = (10 + header.size() + 1 + 63) / 64 * 64;
  const bool long_header = total - 10 > 0xffff;
  if (long_header) return InvalidArgument("the shape has too many dimensions for a .npy file");
  header.resize(total - 11, ' ');
  header += '\n';
  const char preamble[] = {'\x01', '\0', static_cast<char>(header.size() & 0xff),
                           static_cast<char>(header.size() >> 8)};
  return NpyFile{StrCat(kNpyMagic, std::string_view(preamble, sizeof(preamble)), header), std::move(t)};
}

}  // namespace troupe::files
