#include <cmath>

#include "troupe/graph/core/resource.h"
#include "value_text.h"

namespace troupe::tool {
namespace {

// Length of the UTF-8 character at `s`, 0 when it is none.
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const size_t n = byte(0) < 0x80                      ? 1
                   : byte(0) >= 0xc2 && byte(0) < 0xe0 ? 2
                   : byte(0) >= 0xe0 && byte(0) < 0xf0 ? 3
                   : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                                                       : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond the last code point.
  if ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
      (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return n;
}

template <class F>
void AppendReal(std::string* out, F v, bool json) {
  if (json && !std::isfinite(v)) {
    *out += std::isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
  } else {
    StrAppend(out, v);
  }
}

template <class T>
void AppendNumber(std::string* out, T v, bool json) {
  if constexpr (std::is_same_v<T, bool>) {
    *out += v ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    if (json) *out += '[';
    AppendReal(out, v.real(), json);
    *out += json ? ", " : std::signbit(v.imag()) ? "" : "+";
    AppendReal(out, v.imag(), json);
    *out += json ? ']' : 'j';
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    AppendReal(out, static_cast<float>(v), json);
  } else if constexpr (std::is_floating_point_v<T>) {
    AppendReal(out, v, json);
  } else if constexpr (std::is_signed_v<T>) {
    StrAppend(out, static_cast<int64_t>(v));
  } else {
    StrAppend(out, static_cast<uint64_t>(v));
  }
}

// The numeric type that a quantized type is stored as.
DType StoredAs(DType t) {
  switch (t) {
    case DType::kQint8:
      return DType::kInt8;
    case DType::kQuint8:
      return DType::kUint8;
    case DType::kQint16:
      return DType::kInt16;
    case DType::kQuint16:
      return DType::kUint16;
    case DType::kQint32:
      return DType::kInt32;
    default:
      return t;
  }
}

void AppendElement(std::string* out, const Tensor& t, int64_t i, bool json) {
  if (t.dtype() == DType::kString) {
    const std::string& s = t.data<std::string>()[i];
    *out += json ? JsonString(s) : StrCat("\"", CEscape(s), "\"");
  } else if (!VisitNumeric(StoredAs(t.dtype()), false, [&]<class T>() {
               AppendNumber(out, static_cast<const T*>(t.raw())[i], json);
               return true;
             })) {
    const std::string name = static_cast<const ResourceHandle*>(t.raw())[i].name();
    *out += json ? JsonString(name) : StrCat("<", Name(t.dtype()), " '", name, "'>");
  }
}

void AppendLists(std::string* out, const Tensor& t, int dim, int64_t* at, bool json) {
  if (dim == t.rank()) return AppendElement(out, t, (*at)++, json);
  *out += '[';
  for (int64_t i = 0; i < t.dim(dim); ++i) {
    if (i > 0) {
      *out += json || dim + 1 == t.rank() ? ", " : ",";
      if (!json && dim + 1 < t.rank()) {
        // A row a line, and an empty line between matrices.
        out->append(dim + 2 < t.rank() ? 2 : 1, '\n');
        out->append(dim + 1, ' ');
      }
    }
    AppendLists(out, t, dim + 1, at, json);
  }
  *out += ']';
}

std::string Lists(const Tensor& t, bool json) {
  std::string s;
  int64_t at = 0;
  AppendLists(&s, t, 0, &at, json);
  return s;
}

}  // namespace

std::string ValueText(const Tensor& tensor) { return Lists(tensor, false); }
std::string ValueJson(const Tensor& tensor) { return Lists(tensor, true); }

std::string JsonString(std::string_view text) {
  std::string s = "\"";
  static constexpr char kHex[] = "0123456789abcdef";
  const auto escape = [&](uint8_t c) {
    s += "\\u00";
    s += kHex[c >> 4];
    s += kHex[c & 15];
  };
  while (!text.empty()) {
    const char c = text[0];
    size_t n = 1;
    if (c == '"' || c == '\\') {
      s += '\\';
      s += c;
    } else if (c == '\n') {
      s += "\\n";
    } else if (c == '\t') {
      s += "\\t";
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      escape(static_cast<uint8_t>(c));
    } else if (n = Utf8Length(text); n > 0) {
      s += text.substr(0, n);
    } else {
      escape(static_cast<uint8_t>(c));
      n = 1;
    }
    text.remove_prefix(n);
  }
  return s + '"';
}

}  // namespace troupe::tool
