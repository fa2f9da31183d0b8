#include "troupe/strings.h"

#include <charconv>
#include <cstdio>

namespace troupe {
namespace {

template <class T>
std::string_view Write(char* first, char* last, T v) {
  const auto [end, ec] = std::to_chars(first, last, v);
  return {first, static_cast<size_t>(end - first)};
}

}  // namespace

void StrPiece::SetInt(int64_t v) { view_ = Write(digits_, digits_ + sizeof(digits_), v); }
void StrPiece::SetUint(uint64_t v) { view_ = Write(digits_, digits_ + sizeof(digits_), v); }
void StrPiece::SetFloat(float v) { view_ = Write(digits_, digits_ + sizeof(digits_), v); }
void StrPiece::SetDouble(double v) { view_ = Write(digits_, digits_ + sizeof(digits_), v); }

namespace internal {

void AppendPieces(std::string* out, std::initializer_list<std::string_view> pieces) {
  size_t n = out->size();
  for (std::string_view p : pieces) n += p.size();
  if (n > out->capacity()) out->reserve(std::max(n, 2 * out->capacity()));
  for (std::string_view p : pieces) out->append(p);
}

}  // namespace internal

std::vector<std::string> StrSplit(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t start = 0;;) {
    const size_t end = text.find(separator, start);
    parts.emplace_back(text.substr(start, end == std::string_view::npos ? end : end - start));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

std::string CEscape(std::string_view text) {
  std::string s;
  for (const char c : text) {
    switch (c) {
      case '\n':
        s += "\\n";
        break;
      case '\r':
        s += "\\r";
        break;
      case '\t':
        s += "\\t";
        break;
      case '"':
        s += "\\\"";
        break;
      case '\'':
        s += "\\'";
        break;
      case '\\':
        s += "\\\\";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
          char octal[5];
          std::snprintf(octal, sizeof(octal), "\\%03o", static_cast<unsigned char>(c));
          s += octal;
        } else {
          s += c;
        }
    }
  }
  return s;
}

}  // namespace troupe
