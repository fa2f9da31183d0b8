// StaticRegexFullMatch: whether texts fit a pattern. Sharded savers of TensorFlow ask it where
// their temporary files may lie.
//
// A pattern becomes the states of an automaton, of which a set is followed through a text: time is
// the product of both lengths, whatever the pattern, and no stack grows with the text.
#include <cctype>
#include <cstdint>
#include <vector>

#include "kernels/common/op_file.h"

namespace troupe::io {
namespace {

TROUPE_OP("StaticRegexFullMatch")
    .Input("input: string")
    .Output("output: bool")
    .Attr("pattern: string")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its output is a bool")
    .Doc(
        "Whether all of each text fits `pattern`: characters, '.', sets such as [a-z] and [^/], groups, '|', '*', '+', "
        "'?', '^', '$', and '\\\\' before a character that stands for itself. Other forms of RE2 are refused.");

// One of the states: a character of `set` leads to the next one, or two others are entered at once.
struct State {
  enum Kind : uint8_t { kSet, kSplit, kBegin, kEnd, kMatch } kind = kMatch;
  std::vector<bool> set;  // of 256
  int next = -1, other = -1;
};

class Pattern {
 public:
  static absl::StatusOr<Pattern> Parse(std::string_view text) {
    Pattern p;
    p.text_ = text;
    if (text.size() > 1000) return InvalidArgument("a pattern of more than 1000 characters");
    TROUPE_ASSIGN_OR_RETURN(Part all, p.Either(0));
    if (p.at_ < text.size()) return p.Bad("a ')' too many");
    const int match = p.Add({});
    p.Patch(all, match);
    p.start_ = all.start;
    return p;
  }

  bool Fits(std::string_view text) const {
    std::vector<int> now, next;
    std::vector<bool> in(states_.size());
    Enter(start_, 0, text.size(), &now, &in);
    for (size_t i = 0; i < text.size() && !now.empty(); ++i) {
      next.clear();
      in.assign(states_.size(), false);
      for (const int s : now) {
        const State& state = states_[static_cast<size_t>(s)];
        if (state.kind == State::kSet && state.set[static_cast<uint8_t>(text[i])]) {
          Enter(state.next, i + 1, text.size(), &next, &in);
        }
      }
      now.swap(next);
    }
    for (const int s : now) {
      if (states_[static_cast<size_t>(s)].kind == State::kMatch) return true;
    }
    return false;
  }

 private:
  // A piece of the automaton: where it begins, and the exits that lead nowhere yet (a state, and
  // which of its two).
  struct Part {
    int start = -1;
    std::vector<std::pair<int, bool>> exits;
  };

  absl::Status Bad(std::string_view why) const {
    return InvalidArgument("the pattern '", CEscape(text_), "' is not understood at character ", at_, ": ", why);
  }
  int Add(State state) {
    states_.push_back(std::move(state));
    return static_cast<int>(states_.size()) - 1;
  }
  Part One(State state) {
    const int s = Add(std::move(state));
    return {s, {{s, false}}};
  }
  void Patch(const Part& part, int to) {
    for (const auto& [s, other] : part.exits) {
      State& state = states_[static_cast<size_t>(s)];
      (other ? state.other : state.next) = to;
    }
  }
  int Split(int next) {
    State state;
    state.kind = State::kSplit;
    state.next = next;
    return Add(std::move(state));
  }

  absl::StatusOr<Part> Either(int depth) {
    if (depth > 50) return Bad("groups are nested too deep");
    TROUPE_ASSIGN_OR_RETURN(Part left, Row(depth));
    while (at_ < text_.size() && text_[at_] == '|') {
      ++at_;
      TROUPE_ASSIGN_OR_RETURN(const Part right, Row(depth));
      const int split = Split(left.start);
      states_[static_cast<size_t>(split)].other = right.start;
      left.start = split;
      left.exits.insert(left.exits.end(), right.exits.begin(), right.exits.end());
    }
    return left;
  }
  absl::StatusOr<Part> Row(int depth) {
    Part row;
    while (at_ < text_.size() && text_[at_] != '|' && text_[at_] != ')') {
      TROUPE_ASSIGN_OR_RETURN(Part next, Repeated(depth));
      if (row.start < 0) {
        row = std::move(next);
      } else {
        Patch(row, next.start);
        row.exits = std::move(next.exits);
      }
    }
    // Nothing is a split of which one side is never taken.
    return row.start >= 0 ? row : One([] {
      State nothing;
      nothing.kind = State::kSplit;
      return nothing;
    }());
  }
  absl::StatusOr<Part> Repeated(int depth) {
    TROUPE_ASSIGN_OR_RETURN(Part part, Single(depth));
    while (at_ < text_.size() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')) {
      const char c = text_[at_++];
      const int split = Split(part.start);
      if (c == '?') {
        part.exits.emplace_back(split, true);
        part.start = split;
        continue;
      }
      Patch(part, split);
      part = {c == '*' ? split : part.start, {{split, true}}};
    }
    if (at_ < text_.size() && text_[at_] == '{') return Bad("numbers of repetitions are not known here");
    return part;
  }
  absl::StatusOr<Part> Single(int depth) {
    State state;
    state.kind = State::kSet;
    state.set.assign(256, false);
    const char c = text_[at_++];
    switch (c) {
      case '(': {
        if (text_.substr(at_, 2) == "?:") {
          at_ += 2;
        } else if (at_ < text_.size() && text_[at_] == '?') {
          return Bad("flags are not known here");
        }
        TROUPE_ASSIGN_OR_RETURN(Part inside, Either(depth + 1));
        if (at_ >= text_.size()) return Bad("a ')' is missing");
        ++at_;
        return inside;
      }
      case '^':
        state.kind = State::kBegin;
        return One(std::move(state));
      case '$':
        state.kind = State::kEnd;
        return One(std::move(state));
      case '.':
        state.set.assign(256, true);
        state.set['\n'] = false;
        return One(std::move(state));
      case '*':
      case '+':
      case '?':
        return Bad("there is nothing to repeat");
      case '[':
        TROUPE_RETURN_IF_ERROR(Set(&state.set));
        return One(std::move(state));
      case '\\':
        if (at_ >= text_.size()) return Bad("it ends in '\\'");
        if (std::isalnum(static_cast<unsigned char>(text_[at_])))
          return Bad("classes of characters are not known here");
        state.set[static_cast<uint8_t>(text_[at_++])] = true;
        return One(std::move(state));
      default:
        state.set[static_cast<uint8_t>(c)] = true;
        return One(std::move(state));
    }
  }
  absl::Status Set(std::vector<bool>* set) {
    const bool none_of = at_ < text_.size() && text_[at_] == '^';
    if (none_of) ++at_;
    for (bool first = true; at_ < text_.size() && (first || text_[at_] != ']'); first = false) {
      if (text_[at_] == '\\' || (text_[at_] == '[' && text_.substr(at_, 2) == "[:")) {
        return Bad("classes and '\\' in a set are not known here");
      }
      const auto low = static_cast<uint8_t>(text_[at_++]);
      uint8_t high = low;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        high = static_cast<uint8_t>(text_[at_ + 1]);
        at_ += 2;
      }
      if (high < low) return Bad("a range whose end comes before its begin");
      for (int c = low; c <= high; ++c) (*set)[static_cast<size_t>(c)] = true;
    }
    if (at_ >= text_.size()) return Bad("a ']' is missing");
    ++at_;
    if (none_of) set->flip();
    return absl::OkStatus();
  }

  // Adds `from`, and what is entered from it without a character.
  void Enter(int from, size_t at, size_t size, std::vector<int>* to, std::vector<bool>* in) const {
    std::vector<int> pending = {from};
    while (!pending.empty()) {
      const int s = pending.back();
      pending.pop_back();
      if (s < 0 || (*in)[static_cast<size_t>(s)]) continue;
      (*in)[static_cast<size_t>(s)] = true;
      const State& state = states_[static_cast<size_t>(s)];
      const bool passes = state.kind == State::kSplit || (state.kind == State::kBegin && at == 0) ||
                          (state.kind == State::kEnd && at == size);
      if (passes) {
        pending.push_back(state.other);
        pending.push_back(state.next);
      } else if (state.kind == State::kSet || state.kind == State::kMatch) {
        to->push_back(s);
      }
    }
  }

  std::string_view text_;  // while it is parsed
  size_t at_ = 0;
  std::vector<State> states_;
  int start_ = -1;
};

class StaticRegexFullMatchKernel {
 public:
  explicit StaticRegexFullMatchKernel(KernelInit& init) {
    absl::StatusOr<Pattern> pattern = Pattern::Parse(init.Attr<std::string>("pattern"));
    if (pattern.ok()) {
      pattern_ = *std::move(pattern);
    } else {
      init.Fail(pattern.status());
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, ctx.input(0).shape()));
    const std::string* const from = ctx.input(0).data<std::string>();
    bool* const to = out->data<bool>();
    for (int64_t i = 0; i < out->num_elements(); ++i) to[i] = pattern_.Fits(from[i]);
    return absl::OkStatus();
  }

 private:
  Pattern pattern_;
};
TROUPE_KERNEL("StaticRegexFullMatch").Device("CPU").Class<StaticRegexFullMatchKernel>();

}  // namespace
}  // namespace troupe::io
