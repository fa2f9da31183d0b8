// Texts as numbers, with TensorFlow's rules: blanks around the number and one '+' or '-' before it
// are allowed, and nothing else may stand beside it. Whole numbers are decimal and must fit their
// type. Floating numbers may be hexadecimal ("0x1.8p1"); those beyond the range of their type
// become infinities or zeros.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_PARSE_TEXT_NUMBERS_H_
#define TROUPE_KERNELS_PARSE_TEXT_NUMBERS_H_

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

namespace troupe::parse {

inline bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// False when `text` is no number of this type.
template <class T>
bool TextToNumber(std::string_view text, T* value) {
  text = WithoutBlanks(text);
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return false;
  }
  if constexpr (std::is_floating_point_v<T>) {
    const bool negative = !text.empty() && text.front() == '-';
    const std::string_view digits = text.substr(negative ? 1 : 0);
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
      if (digits[2] == '-') return false;
      const char* const end = digits.data() + digits.size();
      const auto [stop, error] = std::from_chars(digits.data() + 2, end, *value, std::chars_format::hex);
      if (stop != end || error != std::errc()) return false;
      if (negative) *value = -*value;
      return true;
    }
  }
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  if (stop != end) return false;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range) {
      const std::string copy(text);
      *value = std::is_same_v<T, float> ? static_cast<T>(std::strtof(copy.c_str(), nullptr))
                                        : static_cast<T>(std::strtod(copy.c_str(), nullptr));
      return true;
    }
  }
  return error == std::errc();
}

}  // namespace troupe::parse

#endif  // TROUPE_KERNELS_PARSE_TEXT_NUMBERS_H_
