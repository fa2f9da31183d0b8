#include <algorithm>
#include <cmath>

#include "tools/troupe/value_text.h"
#include "troupe/resource.h"

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

// As numpy: so many elements are printed in full, and of a longer tensor so many at either end of
// each dimension.
constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdge = 3;

// How many innermost lists or elements the whole tensor takes; an empty tensor may have very many
// empty lists. At most kThreshold + 1.
int64_t Leaves(const Tensor& t) {
  int64_t n = 1;
  for (int i = 0; i < t.rank() && n <= kThreshold; ++i) {
    if (t.dim(i) > 0) n = std::min(t.dim(i), kThreshold + 1) * n;
  }
  return std::min(n, kThreshold + 1);
}

class ListPrinter {
 public:
  ListPrinter(Printer* out, const Tensor& t, bool json, bool abbreviate)
      : out_(*out), t_(t), json_(json), abbreviate_(abbreviate) {}

  // The list of dimension `dim` that begins at the element `first`, counted in lists of that depth.
  void Print(int dim, int64_t first) {
    if (dim == t_.rank()) {
      AppendElement(&out_.text(), t_, first, json_);
      return;
    }
    const int64_t n = t_.dim(dim);
    out_.text() += '[';
    for (int64_t i = 0; i < n && out_.Continue(); ++i) {
      if (i > 0) Separate(dim);
      if (abbreviate_ && i == kEdge && n > 2 * kEdge) {
        out_.text() += "...";
        Separate(dim);
        i = n - kEdge;
      }
      Print(dim + 1, first * n + i);
    }
    out_.text() += ']';
  }

 private:
  // A row a line, and an empty line between matrices.
  void Separate(int dim) {
    const int below = t_.rank() - dim - 1;
    out_.text() += json_ || below == 0 ? ", " : ",";
    if (json_ || below == 0) return;
    out_.text().append(below > 1 ? 2 : 1, '\n');
    out_.text().append(dim + 1, ' ');
  }

  Printer& out_;
  const Tensor& t_;
  const bool json_, abbreviate_;
};

}  // namespace

void PrintValue(const Tensor& tensor, bool full, Printer* out) {
  const bool abbreviate = !full && Leaves(tensor) > kThreshold;
  if (abbreviate && tensor.num_elements() == 0) {
    out->text() += "[]";
    return;
  }
  ListPrinter(out, tensor, false, abbreviate).Print(0, 0);
}

void PrintJsonValue(const Tensor& tensor, Printer* out) { ListPrinter(out, tensor, true, false).Print(0, 0); }

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
