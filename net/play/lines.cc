#include "net/play/lines.h"

#include <algorithm>

namespace troupe::play {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// One line, from left to right.
class Scanner {
 public:
  Scanner(std::string_view line, int number, std::string_view file) : line_(line), number_(number), file_(file) {}

  // A line without words has no head.
  absl::StatusOr<Line> Read() {
    TROUPE_RETURN_IF_ERROR(CheckBytes());
    Line line;
    line.setting = !line_.empty() && IsBlank(line_[0]);
    while (SkipToWord()) {
      TROUPE_ASSIGN_OR_RETURN(Word word, ReadWord(line.setting && line.head.text.empty()));
      (line.head.text.empty() ? line.head : line.words.emplace_back()) = std::move(word);
    }
    return line;
  }

 private:
  Place Here() const { return {number_, static_cast<int>(at_) + 1}; }
  absl::Status Wrong(std::string_view why) const { return WrongAt(file_, Here(), why); }

  absl::Status CheckBytes() {
    for (at_ = 0; at_ < line_.size(); ++at_) {
      const auto c = static_cast<unsigned char>(line_[at_]);
      if (c >= ' ' && c != 127) continue;
      if (c == '\t') continue;
      return Wrong(StrCat("the byte ", static_cast<int>(c), " has no place in a topology"));
    }
    at_ = 0;
    return absl::OkStatus();
  }
  bool SkipToWord() {
    while (at_ < line_.size() && IsBlank(line_[at_])) ++at_;
    return at_ < line_.size() && line_[at_] != '#';
  }
  // `key`: up to its colon, behind which the value begins.
  absl::StatusOr<Word> ReadWord(bool key) {
    Word word{"", Here()};
    if (key) return ReadKey(std::move(word));
    char quote = 0;
    size_t opened = 0;
    bool quoted = false;
    for (; at_ < line_.size() && (quote != 0 || !IsBlank(line_[at_])); ++at_) {
      const char c = line_[at_];
      if (c == '\\' && quote != '\'') {
        if (at_ + 1 == line_.size()) return Wrong("a line does not go on in the next one: give the setting again");
        word.text += line_[++at_];
      } else if (quote != 0) {
        if (c == quote) {
          quote = 0;
        } else {
          word.text += c;
        }
      } else if (c == '\'' || c == '"') {
        quote = c;
        opened = at_;
        quoted = true;
      } else {
        word.text += c;
      }
    }
    if (quote != 0) {
      at_ = opened;
      return Wrong(StrCat("the quote ", std::string(1, quote), " is not closed"));
    }
    if (word.text.empty() && quoted && word.at.column == 1)
      return WrongAt(file_, word.at, "a part begins with its kind");
    return word;
  }
  absl::StatusOr<Word> ReadKey(Word word) {
    const auto in_key = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
    while (at_ < line_.size() && in_key(line_[at_])) word.text += line_[at_++];
    if (word.text.empty() || at_ == line_.size() || line_[at_] != ':')
      return WrongAt(file_, word.at, "an indented line is a setting, KEY: VALUE; a part is not indented");
    ++at_;
    if (at_ < line_.size() && !IsBlank(line_[at_]))
      return Wrong("a blank stands between a setting's ':' and its value");
    return word;
  }

  const std::string_view line_;
  const int number_;
  const std::string_view file_;
  size_t at_ = 0;
};

}  // namespace

absl::Status WrongAt(std::string_view file, Place at, std::string_view why) {
  return InvalidArgument(file, ":", at.line, ":", at.column, ": ", why);
}

std::string Quoted(std::string_view word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,@+%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

absl::StatusOr<std::vector<Line>> ReadLines(std::string_view text, std::string_view file) {
  std::vector<Line> lines;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    TROUPE_ASSIGN_OR_RETURN(Line read, Scanner(line, ++number, file).Read());
    if (!read.head.text.empty()) lines.push_back(std::move(read));
  }
  return lines;
}

}  // namespace troupe::play
