#include <charconv>
#include <cmath>
#include <limits>

#include "value_text.h"

namespace troupe::tool {
namespace {

struct Word {
  std::string text;
  bool quoted = false;
};

// Reads lists into words and a shape; what the words mean depends on the type.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

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

bool ParseDouble(std::string_view s, double* v) {
  if (!s.empty() && s[0] == '+') s.remove_prefix(1);
  const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), *v);
  if (stop != s.data() + s.size() || s.empty()) return false;
  if (ec == std::errc::result_out_of_range)
    *v = std::abs(*v) < 1 ? 0.0 : std::copysign(std::numeric_limits<double>::infinity(), s[0] == '-' ? -1 : 1);
  return ec == std::errc() || ec == std::errc::result_out_of_range;
}

template <class T>
bool ParseComplex(std::string_view s, std::complex<T>* v) {
  double re = 0, im = 0;
  if (s.empty() || (s.back() != 'j' && s.back() != 'i')) {
    if (!ParseDouble(s, &re)) return false;
    *v = {static_cast<T>(re), 0};
    return true;
  }
  s.remove_suffix(1);
  // The sign between the parts: the last one that does not belong to an exponent.
  size_t split = std::string_view::npos;
  for (size_t i = 1; i < s.size(); ++i) {
    if ((s[i] == '+' || s[i] == '-') && s[i - 1] != 'e' && s[i - 1] != 'E') split = i;
  }
  if (split != std::string_view::npos) {
    if (!ParseDouble(s.substr(0, split), &re)) return false;
    s.remove_prefix(split);
  }
  if (!ParseDouble(s, &im)) return false;
  *v = {static_cast<T>(re), static_cast<T>(im)};
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
    if (!s.empty() && s[0] == '+') s.remove_prefix(1);
    const auto [stop, ec] = std::from_chars(s.data(), s.data() + s.size(), *v);
    if (ec == std::errc() && stop == s.data() + s.size() && !s.empty()) return true;
    // 2.0 and 1e3 are whole numbers too.
    double d = 0;
    if (!ParseDouble(s, &d) || d != std::floor(d) || std::abs(d) > 9007199254740992.0) return false;
    if (d < static_cast<double>(std::numeric_limits<T>::min()) ||
        d > static_cast<double>(std::numeric_limits<T>::max()))
      return false;
    *v = static_cast<T>(d);
    return true;
  } else {
    double d = 0;
    if (!ParseDouble(s, &d)) return false;
    if constexpr (std::is_same_v<T, double>) {
      *v = d;
    } else {
      *v = T(static_cast<float>(d));
    }
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
  Reader reader(text);
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
