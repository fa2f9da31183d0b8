// Builds strings from pieces. Abseil's own StrCat cannot be used: the distribution builds Abseil as
// C++14, where absl::string_view is not std::string_view.
//
// Thread rule: pure functions.
#ifndef TROUPE_STRINGS_H_
#define TROUPE_STRINGS_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"
#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

// One piece of a StrCat: text, a number (floats in their shortest form that reads back equal) or a
// bool.
class StrPiece {
 public:
  StrPiece(const char* s) : view_(s) {}                         // NOLINT
  StrPiece(const std::string& s) : view_(s) {}                  // NOLINT
  StrPiece(std::string_view s) : view_(s) {}                    // NOLINT
  StrPiece(absl::string_view s) : view_(s.data(), s.size()) {}  // NOLINT
  StrPiece(char c) : view_(digits_, 1) { digits_[0] = c; }      // NOLINT
  StrPiece(bool b) : view_(b ? "true" : "false") {}             // NOLINT
  template <std::signed_integral T>
  StrPiece(T v) {
    SetInt(v);
  }  // NOLINT
  template <std::unsigned_integral T>
  StrPiece(T v) {
    SetUint(v);
  }                                     // NOLINT
  StrPiece(float v) { SetFloat(v); }    // NOLINT
  StrPiece(double v) { SetDouble(v); }  // NOLINT
  StrPiece(const StrPiece&) = delete;
  std::string_view view() const { return view_; }

 private:
  void SetInt(int64_t v);
  void SetUint(uint64_t v);
  void SetFloat(float v);
  void SetDouble(double v);
  char digits_[40];
  std::string_view view_;
};

namespace internal {
void AppendPieces(std::string* out, std::initializer_list<std::string_view> pieces);
}

template <class... Args>
void StrAppend(std::string* out, const Args&... args) {
  internal::AppendPieces(out, {StrPiece(args).view()...});
}
template <class... Args>
std::string StrCat(const Args&... args) {
  std::string s;
  internal::AppendPieces(&s, {StrPiece(args).view()...});
  return s;
}

template <class Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  std::string s;
  bool first = true;
  for (const auto& item : range) {
    if (!first) s.append(separator);
    first = false;
    StrAppend(&s, item);
  }
  return s;
}
std::vector<std::string> StrSplit(std::string_view text, char separator);
// Text with quotes, backslashes and unprintable bytes escaped as in C.
std::string CEscape(std::string_view text);
// `view` for a function that takes absl's.
inline absl::string_view AbslView(std::string_view view) { return {view.data(), view.size()}; }

}  // namespace troupe

#endif  // TROUPE_STRINGS_H_
