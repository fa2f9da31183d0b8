#include "npy.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "troupe/graph/core/read_file.h"

namespace troupe::tool {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

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

// The text behind 'key': in a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
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

absl::StatusOr<DType> ParseType(std::string_view text) {
  if (text.size() < 4 || (text[0] != '\'' && text[0] != '"'))
    return InvalidArgument("its elements are not of one plain type");
  const size_t end = text.find(text[0], 1);
  if (end == std::string_view::npos || end < 3) return InvalidArgument("the header has no type");
  const char order = text[1];
  const std::string_view code = text.substr(2, end - 2);
  for (const TypeCode& c : kCodes) {
    if (c.code != code) continue;
    if (order == '>' && SizeOf(c.dtype) > 1) return InvalidArgument("its numbers are big-endian");
    return c.dtype;
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

absl::StatusOr<Tensor> Parse(std::string_view bytes) {
  if (bytes.size() < 10 || !bytes.starts_with(kMagic)) return InvalidArgument("not a .npy file");
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
  TROUPE_ASSIGN_OR_RETURN(DType dtype, ParseType(*descr));
  TROUPE_ASSIGN_OR_RETURN(TensorShape shape, ParseShape(*shape_text));
  if (!order->starts_with("False") && shape.rank() > 1)
    return InvalidArgument("its elements lie column by column (fortran_order)");
  const int64_t want = MultiplyWithoutOverflow(shape.num_elements(), static_cast<int64_t>(SizeOf(dtype)));
  if (want != static_cast<int64_t>(data.size())) {
    return InvalidArgument("it holds ", data.size(), " bytes of elements, but ", Name(dtype), " ", shape.DebugString(),
                           " takes ", want < 0 ? std::string("more than can be counted") : StrCat(want));
  }
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for ", Name(dtype), " ", shape.DebugString());
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < data.size(); ++i) static_cast<uint8_t*>(t.raw())[i] = data[i] != 0;
  } else if (!data.empty()) {
    std::memcpy(t.raw(), data.data(), data.size());
  }
  return t;
}

}  // namespace

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<Tensor> t = Parse(bytes);
  if (!t.ok()) return Annotate(t.status(), path);
  return t;
}

absl::Status WriteNpy(const Tensor& tensor, const std::string& path) {
  Tensor t = tensor;
  if (t.dtype() == DType::kBfloat16) {
    t = Tensor(DType::kFloat, tensor.shape());
    if (!t.valid()) return ResourceExhausted("no memory to write ", path);
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
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << kMagic << '\x01' << '\0' << static_cast<char>(header.size() & 0xff) << static_cast<char>(header.size() >> 8)
       << header;
  file.write(static_cast<const char*>(t.raw()), static_cast<std::streamsize>(t.bytes()));
  file.close();
  if (!file) return Internal(path, ": cannot be written: ", std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace troupe::tool
