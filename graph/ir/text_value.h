// Reads attr values and attrs in the text form of graphs (text.h).
//
// Thread rule: a cursor belongs to one thread at a time.
#ifndef TROUPE_GRAPH_IR_TEXT_VALUE_H_
#define TROUPE_GRAPH_IR_TEXT_VALUE_H_

#include <string>
#include <string_view>

#include "graph/ir/text_form.h"
#include "troupe/attr_value.h"
#include "troupe/status.h"

namespace troupe {

// The text of one line (or of one attr) and how far it has been read. The first error sticks.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void Fail(std::string_view what) {
    if (!ok()) return;
    status_ = InvalidArgument(what, " at '", text_.substr(pos_, 30), "'");
  }
  void Fail(const absl::Status& s) {
    if (ok()) status_ = s;
  }
  void Skip() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
  }
  bool AtEnd() {
    Skip();
    return pos_ >= text_.size();
  }
  char Peek() { return AtEnd() ? '\0' : text_[pos_]; }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++pos_;
    return true;
  }
  bool Take(std::string_view s) {
    Skip();
    if (text_.substr(pos_, s.size()) != s) return false;
    pos_ += s.size();
    return true;
  }
  void Expect(char c) {
    if (ok() && !Take(c)) Fail(StrCat("expected '", c, "'"));
  }
  std::string_view Word(std::string_view what) {
    Skip();
    const size_t begin = pos_;
    while (pos_ < text_.size() && IsTextNameChar(text_[pos_])) ++pos_;
    if (begin == pos_) Fail(StrCat("expected ", what));
    return text_.substr(begin, pos_ - begin);
  }
  // Up to a blank, or a string.
  std::string Token() {
    if (pos_ < text_.size() && text_[pos_] == '"') return Quoted();
    const size_t begin = pos_;
    while (pos_ < text_.size() && text_[pos_] != ' ') ++pos_;
    return std::string(text_.substr(begin, pos_ - begin));
  }
  // A word, or a string.
  std::string WordOrQuoted(std::string_view what) { return Peek() == '"' ? Quoted() : std::string(Word(what)); }
  // Digits, signs, points, exponents, inf, nan.
  std::string_view Number() {
    Skip();
    const size_t begin = pos_;
    while (pos_ < text_.size() && (IsTextNameChar(text_[pos_]) || text_[pos_] == '+')) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }
  std::string Quoted();
  // Values stand in lists and functions, one level in the other: no more of them than a stack
  // holds.
  bool Deeper() {
    if (++depth_ <= kMaxDepth) return true;
    Fail("values are nested too deep");
    return false;
  }
  void Back() { --depth_; }

 private:
  static constexpr int kMaxDepth = 100;
  int depth_ = 0;
  std::string_view text_;
  size_t pos_ = 0;
  absl::Status status_;
};

// One value, of whatever kind it says it is. Without one, the cursor has an error.
AttrValue ParseTextValue(TextCursor* c);
// "name=value, ...]": what follows a '['.
AttrMap ParseTextAttrs(TextCursor* c);

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_TEXT_VALUE_H_
