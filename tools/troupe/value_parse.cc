#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

struct Word {
  std::string text;
  bool quoted = false;
};

// Reads lists into words and a shape; what the words mean depends on the type.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  absl::Status Read() {
    TROUPE_RETURN_IF_ERROR(Value(0));
    SkipSpace();
    if (at_ < text_.size()) return Bad("there is more after the value");
    return absl::OkStatus();
  }
  const std::vector<Word>& words() const { return words_; }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  absl::Status Bad(std::string_view why) const {
    return InvalidArgument("'", CEscape(text_.substr(0, 60)), text_.size() > 60 ? "..." : "", "' at character ",
                           at_ + 1, ": ", why);
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Value(int depth) {
    if (!Take('[')) {
      if (leaf_depth_ >= 0 && leaf_depth_ != depth) return Bad("the lists are not equally deep");
      if (leaf_depth_ < 0 && depth < static_cast<int>(shape_.size())) return Bad("the lists are not equally deep");
      leaf_depth_ = depth;
      return Atom();
    }
    if (leaf_depth_ >= 0 && depth >= leaf_depth_) return Bad("the lists are not equally deep");
    if (depth >= kMaxRank) return Bad("the lists are too deep");
    const bool first = depth >= static_cast<int>(shape_.size());
    if (first) shape_.push_back(-1);
    int64_t n = 0;
    if (!Take(']')) {
      do {
        TROUPE_RETURN_IF_ERROR(Value(depth + 1));
        ++n;
      } while (Take(','));
      if (!Take(']')) return Bad("a list needs ',' or ']' here");
    }
    if (shape_[depth] >= 0 && shape_[depth] != n) {
      return Bad(StrCat("a list has ", n, " entries, but the one before it has ", shape_[depth]));
    }
    shape_[depth] = n;
    return absl::OkStatus();
  }

  absl::Status Atom() {
    SkipSpace();
    Word w;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const char quote = text_[at_++];
      w.quoted = true;
      for (;;) {
        if (at_ == text_.size()) return Bad("the string has no end");
        const char c = text_[at_++];
        if (c == quote) break;
        if (c == '\\') {
          TROUPE_RETURN_IF_ERROR(Escape(&w.text));
        } else {
          w.text += c;
        }
      }
    } else {
      const size_t start = at_;
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']' && text_[at_] != '[') ++at_;
      std::string_view word = text_.substr(start, at_ - start);
      while (!word.empty() && (word.back() == ' ' || word.back() == '\n' || word.back() == '\t' || word.back() == '\r'))
        word.remove_suffix(1);
      if (word.empty()) return Bad("a value is missing");
      w.text = word;
    }
    words_.push_back(std::move(w));
    return absl::OkStatus();
  }

  absl::Status Escape(std::string* out) {
    if (at_ == text_.size()) return Bad("the string has no end");
    const char c = text_[at_++];
    static constexpr std::string_view kNames = "ntr0", kValues("\n\t\r\0", 4);
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      *out += kValues[i];
    } else if (c == 'x') {
      unsigned v = 0;
      const char* p = text_.data() + at_;
      const auto [stop, ec] = std::from_chars(p, text_.data() + std::min(text_.size(), at_ + 2), v, 16);
      if (ec != std::errc()) return Bad("after \\x must come two hexadecimal digits");
      at_ += stop - p;
      *out += static_cast<char>(v);
    } else {
      *out += c;
    }
    return absl::OkStatus();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Word> words_;
  std::vector<int64_t> shape_;
  int leaf_depth_ = -1;
};

// Whether a number that the type cannot hold is too large (and not too small): `s` is a decimal
// number of one digit or more, without a sign.
bool TooLarge(std::string_view s) {
  const size_t e = s.find_first_of("eE");
  const std::string_view digits = s.substr(0, e);
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  // The number is 0.d1d2d3... * 10^magnitude.
  int64_t magnitude = static_cast<int64_t>(point) - static_cast<int64_t>(first) + (first > point ? 1 : 0);
  if (e != std::string_view::npos) {
    std::string_view exponent = s.substr(e + 1);
    const bool negative = exponent.starts_with('-');
    if (negative || exponent.starts_with('+')) exponent.remove_prefix(1);
    // No text is so long that its digits outweigh this.
    constexpr int64_t kLargest = int64_t{1} << 60;
    int64_t value = 0;
    if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), value).ec != std::errc()) value = kLargest;
    value = std::min(value, kLargest);
    magnitude += negative ? -value : value;
  }
  return magnitude > 0;
}

// The nearest F, of nothing but the whole of `s`. What a NaN carries in brackets, nan(1), is no
// part of a number here.
template <class F>
bool ParseReal(std::string_view s, F* v) {
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.remove_prefix(1);
  if (s.empty() || s[0] == '-' || s.back() == ')') return false;
  const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), *v);
  if (stop != s.data() + s.size()) return false;
  if (ec == std::errc::result_out_of_range) {
    *v = TooLarge(s) ? std::numeric_limits<F>::infinity() : F(0);
  } else if (ec != std::errc()) {
    return false;
  }
  if (negative) *v = -*v;
  return true;
}

template <class T>
bool ParseComplex(std::string_view s, std::complex<T>* v) {
  T re = 0, im = 0;
  if (s.empty() || (s.back() != 'j' && s.back() != 'i')) {
    if (!ParseReal(s, &re)) return false;
    *v = {re, 0};
    return true;
  }
  s.remove_suffix(1);
  // The sign between the parts: the last one that does not belong to an exponent.
  size_t split = std::string_view::npos;
  for (size_t i = 1; i < s.size(); ++i) {
    if ((s[i] == '+' || s[i] == '-') && s[i - 1] != 'e' && s[i - 1] != 'E') split = i;
  }
  if (split != std::string_view::npos) {
    if (!ParseReal(s.substr(0, split), &re)) return false;
    s.remove_prefix(split);
  }
  if (!ParseReal(s, &im)) return false;
  *v = {re, im};
  return true;
}

template <class T>
bool ParseWord(std::string_view s, T* v) {
  if constexpr (std::is_same_v<T, bool>) {
    *v = s == "true" || s == "True" || s == "1";
    return *v || s == "false" || s == "False" || s == "0";
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return ParseComplex(s, v);
  } else if constexpr (std::is_integral_v<T>) {
    if (s.starts_with('+')) {
      s.remove_prefix(1);
      if (s.starts_with('+') || s.starts_with('-')) return false;
    }
    const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), *v);
    if (ec == std::errc() && stop == s.data() + s.size() && !s.empty()) return true;
    // 2.0 and 1e3 are whole numbers too.
    double d = 0;
    if (!ParseReal(s, &d) || d != std::floor(d) || std::abs(d) > 9007199254740992.0) return false;
    if (d < static_cast<double>(std::numeric_limits<T>::min()) ||
        d > static_cast<double>(std::numeric_limits<T>::max()))
      return false;
    *v = static_cast<T>(d);
    return true;
  } else if constexpr (std::is_floating_point_v<T>) {
    return ParseReal(s, v);
  } else {
    float f = 0;
    if (!ParseReal(s, &f)) return false;
    *v = T(f);
    return true;
  }
}

}  // namespace

absl::StatusOr<Tensor> ParseValue(std::string_view text, DType dtype) {
  // A bare scalar string is taken as it stands.
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (dtype == DType::kString &&
      (start == std::string_view::npos || (text[start] != '[' && text[start] != '"' && text[start] != '\''))) {
    return Tensor::Scalar(std::string(text));
  }
  ValueReader reader(text);
  TROUPE_RETURN_IF_ERROR(reader.Read());
  TROUPE_ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Make(reader.shape()));
  if (dtype != DType::kString && !VisitNumeric(dtype, false, []<class T>() { return true; })) {
    return InvalidArgument("a value of type ", Name(dtype), " cannot be given as text");
  }
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for ", Name(dtype), " ", shape.DebugString());
  for (size_t i = 0; i < reader.words().size(); ++i) {
    const Word& w = reader.words()[i];
    if (dtype == DType::kString) {
      t.data<std::string>()[i] = w.text;
    } else if (w.quoted || !VisitNumeric(dtype, false, [&]<class T>() { return ParseWord(w.text, &t.data<T>()[i]); })) {
      return InvalidArgument("'", CEscape(w.text), "' is no ", Name(dtype));
    }
  }
  return t;
}

}  // namespace troupe::tool
