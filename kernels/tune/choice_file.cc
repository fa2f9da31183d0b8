#include "kernels/tune/choice_file.h"

#include <dnnl.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/common/isa.h"
#include "troupe/strings.h"

namespace troupe::tune {
namespace {

constexpr std::string_view kFirstLine = "troupe tuning 1";
constexpr std::string_view kEnd = "end";

// The name that the processor gives itself.
std::string ProcessorName() {
#if defined(__x86_64__)
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000, nullptr) >= 0x80000004) {
    for (unsigned i = 0; i < 3; ++i)
      __get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
  }
  char bytes[sizeof(words) + 1] = {};
  std::memcpy(bytes, words, sizeof(words));
  // One blank between words, and none around them.
  std::string name;
  for (const char* c = bytes; *c != '\0'; ++c) {
    const bool blank = *c <= ' ' || *c > '~';
    if (!blank || (!name.empty() && name.back() != ' ')) name += blank ? ' ' : *c;
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  if (!name.empty()) return name;
#endif
  return "unknown";
}

std::string LibraryName() {
  const dnnl_version_t* const v = dnnl_version();
  return StrCat("oneDNN ", v->major, ".", v->minor, ".", v->patch, " level ",
                static_cast<int>(dnnl_get_effective_cpu_isa()));
}

bool IsWay(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ':' || c == '_';
  });
}

// "op(name=number,...)".
bool IsProblem(std::string_view word) {
  const size_t open = word.find('(');
  if (open == 0 || open == std::string_view::npos || word.back() != ')') return false;
  const auto is_word = [](std::string_view w) {
    return !w.empty() && std::all_of(w.begin(), w.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  };
  if (!is_word(word.substr(0, open))) return false;
  std::string_view rest = word.substr(open + 1, word.size() - open - 2);
  while (!rest.empty()) {
    const size_t comma = rest.find(','), end = std::min(comma, rest.size());
    const std::string_view number = rest.substr(0, end);
    const size_t equals = number.find('=');
    if (equals == std::string_view::npos || !is_word(number.substr(0, equals))) return false;
    int64_t v;
    const char *const from = number.data() + equals + 1, *const to = number.data() + number.size();
    const auto [stop, error] = std::from_chars(from, to, v);
    if (error != std::errc() || stop != to) return false;
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
    if (rest.empty()) return false;
  }
  return true;
}

bool IsTime(std::string_view word, double* us) {
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), *us);
  return error == std::errc() && stop == word.data() + word.size() && std::isfinite(*us) && *us > 0 && *us < 1e12;
}

// The lines of a text one after the other, with their numbers.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  // False at the end of the text; a last line without a line's end is none.
  bool Next(std::string_view* line) {
    ++number_;
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return false;
    *line = rest_.substr(0, end);
    rest_ = rest_.substr(end + 1);
    return true;
  }
  bool AtEnd() const { return rest_.empty(); }
  template <class... T>
  absl::Status Bad(const T&... what) const {
    return InvalidArgument("line ", number_, ": ", what...);
  }

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

// What is quoted in an error.
std::string_view Short(std::string_view text) { return text.substr(0, 80); }

absl::Status ReadChoice(const Lines& lines, std::string_view line, SavedChoices* choices) {
  std::vector<std::string_view> words;
  for (std::string_view rest = line;;) {
    const size_t blank = rest.find(' ');
    words.push_back(rest.substr(0, blank));
    if (blank == std::string_view::npos) break;
    rest = rest.substr(blank + 1);
  }
  if (words[0].empty() || !IsProblem(words[0])) return lines.Bad("'", Short(words[0]), "' is no problem");
  if (words.size() < 3) return lines.Bad("a problem, its way and the times of its ways must stand here");
  if (!IsWay(words[1])) return lines.Bad("'", Short(words[1]), "' is no way");
  SavedChoice choice{std::string(words[1]), {}};
  bool timed = false;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    const std::string_view way = words[i].substr(0, equals);
    double us = 0;
    if (equals == std::string_view::npos || !IsWay(way) || !IsTime(words[i].substr(equals + 1), &us))
      return lines.Bad("'", Short(words[i]), "' is no time of a way, as in own:rows:2=11.5");
    timed |= way == words[1];
    choice.times.emplace_back(way, us);
  }
  if (!timed) return lines.Bad("the chosen way '", words[1], "' has no time");
  if (!choices->emplace(words[0], std::move(choice)).second)
    return lines.Bad("problem '", Short(words[0]), "' stands here for the second time");
  if (choices->size() > kMostSaved) return lines.Bad("there are more than ", kMostSaved, " problems");
  return absl::OkStatus();
}

}  // namespace

const Machine& ThisMachine() {
  static const Machine& machine = *new Machine{ProcessorName(), std::string(IsaName()), LibraryName()};
  return machine;
}

std::string ToText(const Machine& machine, const SavedChoices& choices) {
  std::string text = StrCat(kFirstLine, "\nprocessor ", machine.processor, "\nloops ", machine.loops, "\nlibrary ",
                            machine.library, "\n");
  for (const auto& [problem, choice] : choices) {
    StrAppend(&text, problem, " ", choice.way);
    for (const auto& [way, us] : choice.times) StrAppend(&text, " ", way, "=", us);
    text += '\n';
  }
  return text + std::string(kEnd) + "\n";
}

absl::StatusOr<SavedChoices> FromText(const Machine& machine, std::string_view text) {
  Lines lines(text);
  std::string_view line;
  if (!lines.Next(&line) || line != kFirstLine)
    return lines.Bad("'", kFirstLine, "' must stand here, not '", Short(line), "'");
  for (const auto& [what, want] : {std::pair<std::string_view, const std::string&>{"processor ", machine.processor},
                                   {"loops ", machine.loops},
                                   {"library ", machine.library}}) {
    if (!lines.Next(&line) || !line.starts_with(what)) return lines.Bad("'", what, "...' must stand here");
    line.remove_prefix(what.size());
    if (line != want) {
      return FailedPrecondition("the choices were measured with ", what, "'", Short(line), "', but this is '", want,
                                "'");
    }
  }
  SavedChoices choices;
  while (true) {
    if (!lines.Next(&line)) return lines.Bad("the text ends here without 'end'");
    if (line == kEnd) break;
    if (const absl::Status s = ReadChoice(lines, line, &choices); !s.ok()) return s;
  }
  if (!lines.AtEnd()) {
    (void)lines.Next(&line);
    return lines.Bad("nothing may stand behind 'end'");
  }
  return choices;
}

}  // namespace troupe::tune
