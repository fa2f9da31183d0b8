// troupe trace: what a trace's steps spent their time on.
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "tools/troupe/commands.h"
#include "tools/troupe/critical_path.h"
#include "tools/troupe/output.h"
#include "tools/troupe/trace_merge.h"
#include "tools/troupe/value_text.h"
#include "tools/troupe/write_file.h"
#include "troupe/strings.h"

namespace troupe::tool {
namespace {

constexpr size_t kMostStalls = 10, kMostRows = 40;

double Millis(int64_t nanos) { return static_cast<double>(nanos) / 1e6; }

// A file's names may hold signs that a terminal obeys.
std::string Plain(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// Columns as wide as what they hold; the first `right` of them end at the same place.
class Table {
 public:
  Table(std::vector<std::string> head, size_t right) : right_(right) { rows_.push_back(std::move(head)); }
  void Add(std::vector<std::string> row) {
    for (std::string& cell : row) cell = Plain(std::move(cell));
    rows_.push_back(std::move(row));
  }
  std::string Text() const {
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string blanks(widths[i] - row[i].size(), ' ');
        StrAppend(&line, "  ", i < right_ ? blanks : "", row[i], i < right_ ? "" : blanks);
      }
      while (line.back() == ' ') line.pop_back();
      StrAppend(&text, line, "\n");
    }
    return text;
  }

 private:
  const size_t right_;
  std::vector<std::vector<std::string>> rows_;
};

class Report {
 public:
  Report(const TraceFile& file, const TraceFlags& flags) : file_(file), flags_(flags) {}

  absl::Status Make() {
    for (const TraceStep& s : file_.steps) {
      if (flags_.step == 0 || s.number == flags_.step) steps_.push_back(&s);
    }
    if (steps_.empty())
      return NotFound("it has no step ", flags_.step, "; its steps are ", file_.steps.front().number, " to ",
                      file_.steps.back().number);
    for (const TraceStep* s : steps_) {
      TROUPE_ASSIGN_OR_RETURN(std::vector<PathPart> path, CriticalPath(file_, *s));
      for (const PathPart& p : path) {
        if (p.run != nullptr) on_path_.emplace(p.run->id, p.what);
      }
      total_ += s->end - s->begin;
      paths_.push_back(std::move(path));
    }
    stalls_ = LongestStalls(file_, steps_, kMostStalls);
    return absl::OkStatus();
  }
  void PrintText() const;
  void PrintJson() const;

 private:
  const std::string& Text(uint32_t number) const { return file_.texts[number]; }
  std::string Node(const TraceRun* run) const {
    return run == nullptr ? "" : StrCat(Text(run->node), " (", Text(run->op), ")");
  }
  std::string Place(const TraceRun* run) const {
    if (run == nullptr) return "";
    const std::string& device = Text(run->device);
    return StrCat(file_.tasks[run->task].name, device.empty() ? "" : " ", device);
  }
  // What is said of a part besides.
  std::string Note(Spent what, const TraceRun* run, bool of_step = false) const {
    if (of_step) return run == nullptr ? "the step's answer" : "the step's message to this task";
    if (what == Spent::kSynchronisation && !Text(run->waits_for).empty()) return StrCat("for ", Text(run->waits_for));
    if (what != Spent::kCommunication && what != Spent::kCopy) return "";
    return StrCat("tensor ", Text(run->waits_for), " from ", Text(run->from_device));
  }
  // The members of an object that name a part.
  std::string Members(Spent what, const TraceRun* run, bool of_step = false) const;
  std::string Share(int64_t nanos) const {
    return StrCat(Fixed(total_ == 0 ? 0 : 100 * static_cast<double>(nanos) / static_cast<double>(total_), 1), "%");
  }
  bool IsOnPath(const Stall& s) const {
    const auto [first, last] = on_path_.equal_range(s.run->id);
    return std::any_of(first, last, [&](const auto& each) { return each.second == s.what; });
  }
  std::string OneStep() const;
  std::string AllSteps() const;

  const TraceFile& file_;
  const TraceFlags& flags_;
  std::vector<const TraceStep*> steps_;
  std::vector<std::vector<PathPart>> paths_;  // by step
  std::multimap<int64_t, Spent> on_path_;     // by run
  std::vector<Stall> stalls_;
  int64_t total_ = 0;
};

// In the order of time; of very many parts the longest.
std::string Report::OneStep() const {
  const std::vector<PathPart>& path = paths_[0];
  std::vector<int64_t> lengths;
  for (const PathPart& p : path) lengths.push_back(p.end - p.begin);
  std::sort(lengths.rbegin(), lengths.rend());
  const int64_t least = lengths.size() > kMostRows ? lengths[kMostRows - 1] : 0;
  Table table({"share", "ms", "at ms", "what", "node", "on", ""}, 3);
  int64_t small = 0, small_nanos = 0;
  size_t rows = 0;
  for (const PathPart& p : path) {
    const int64_t nanos = p.end - p.begin;
    if (nanos < least || rows == kMostRows) {
      ++small;
      small_nanos += nanos;
      continue;
    }
    ++rows;
    table.Add({Share(nanos), Fixed(Millis(nanos), 3), Fixed(Millis(p.begin - steps_[0]->begin), 3), NameOf(p.what),
               Node(p.run), Place(p.run), Note(p.what, p.run, p.of_step)});
  }
  if (small > 0)
    table.Add({Share(small_nanos), Fixed(Millis(small_nanos), 3), "", "", StrCat(small, " shorter parts"), "", ""});
  return table.Text();
}

// The same node of all steps together, what took longest first.
std::string Report::AllSteps() const {
  struct Sum {
    const TraceRun* run;
    Spent what;
    bool of_step;
    int64_t nanos = 0;
    std::vector<size_t> steps;
  };
  std::map<std::tuple<Spent, bool, uint32_t, uint32_t, uint32_t>, Sum> sums;
  for (size_t s = 0; s < paths_.size(); ++s) {
    for (const PathPart& p : paths_[s]) {
      const auto key = p.run == nullptr ? std::make_tuple(p.what, p.of_step, 0u, 0u, ~0u)
                                        : std::make_tuple(p.what, p.of_step, p.run->node, p.run->task, p.run->device);
      Sum& sum = sums.try_emplace(key, Sum{p.run, p.what, p.of_step, 0, {}}).first->second;
      sum.nanos += p.end - p.begin;
      if (sum.steps.empty() || sum.steps.back() != s) sum.steps.push_back(s);
    }
  }
  std::vector<const Sum*> order;
  for (const auto& [key, sum] : sums) order.push_back(&sum);
  std::stable_sort(order.begin(), order.end(), [](const Sum* a, const Sum* b) { return a->nanos > b->nanos; });
  Table table({"share", "ms", "steps", "what", "node", "on", ""}, 3);
  int64_t small = 0, small_nanos = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= kMostRows) {
      ++small;
      small_nanos += order[i]->nanos;
      continue;
    }
    const Sum& sum = *order[i];
    table.Add({Share(sum.nanos), Fixed(Millis(sum.nanos), 3), StrCat(sum.steps.size()), NameOf(sum.what), Node(sum.run),
               Place(sum.run), Note(sum.what, sum.run, sum.of_step)});
  }
  if (small > 0)
    table.Add({Share(small_nanos), Fixed(Millis(small_nanos), 3), "", "", StrCat(small, " others"), "", ""});
  return table.Text();
}

void Report::PrintText() const {
  if (steps_.size() == 1) {
    const TraceStep& s = *steps_[0];
    Print(StrCat(Plain(s.name), ": ", Fixed(Millis(total_), 3), " ms, led by ", Plain(file_.tasks[s.task].name), "\n"));
  } else {
    Print(StrCat(steps_.size(), " steps: ", Fixed(Millis(total_), 3), " ms in all\n"));
  }
  for (const TraceTask& t : file_.tasks) {
    if (t.uncertainty != 0)
      Print(StrCat("the clock of ", Plain(t.name), " may be off by ", Fixed(Millis(t.uncertainty), 3), " ms\n"));
  }
  Print("\ncritical path\n");
  Print(steps_.size() == 1 ? OneStep() : AllSteps());
  Print("\nlongest stalls (* on the critical path)\n");
  Table table({"ms", "", "what", "node", "on", ""}, 1);
  for (const Stall& s : stalls_) {
    table.Add({Fixed(Millis(s.nanos), 3), IsOnPath(s) ? "*" : "", NameOf(s.what), Node(s.run), Place(s.run),
               Note(s.what, s.run)});
  }
  Print(stalls_.empty() ? "  none\n" : table.Text());
}

std::string Report::Members(Spent what, const TraceRun* run, bool of_step) const {
  std::string text = StrCat("\"what\": \"", NameOf(what), "\"");
  if (of_step) StrAppend(&text, ", \"of\": \"", run == nullptr ? "answer" : "message", "\"");
  if (run == nullptr) return text;
  StrAppend(&text, ", \"node\": ", JsonString(Text(run->node)), ", \"op\": ", JsonString(Text(run->op)),
            ", \"task\": ", JsonString(file_.tasks[run->task].name), ", \"device\": ", JsonString(Text(run->device)));
  if (what == Spent::kSynchronisation) StrAppend(&text, ", \"waits_for\": ", JsonString(Text(run->waits_for)));
  if ((what == Spent::kCommunication || what == Spent::kCopy) && !of_step) {
    StrAppend(&text, ", \"tensor\": ", JsonString(Text(run->waits_for)),
              ", \"sender\": ", JsonString(Text(run->from_device)));
  }
  return text;
}

void Report::PrintJson() const {
  Printer out;
  std::string& text = out.text();
  text += "{\"tasks\": [";
  for (size_t i = 0; i < file_.tasks.size(); ++i) {
    const TraceTask& t = file_.tasks[i];
    StrAppend(&text, i > 0 ? ",\n  " : "\n  ", "{\"task\": ", JsonString(t.name),
              ", \"clock_uncertainty_ms\": ", Millis(t.uncertainty), "}");
  }
  text += "],\n\"steps\": [";
  for (size_t s = 0; s < steps_.size(); ++s) {
    const TraceStep& step = *steps_[s];
    StrAppend(&text, s > 0 ? ",\n  " : "\n  ", "{\"step\": ", step.number, ", \"name\": ", JsonString(step.name),
              ", \"task\": ", JsonString(file_.tasks[step.task].name), ", \"ms\": ", Millis(step.end - step.begin),
              ", \"critical_path\": [");
    const auto whole = static_cast<double>(std::max<int64_t>(1, step.end - step.begin));
    for (size_t i = 0; i < paths_[s].size(); ++i) {
      const PathPart& p = paths_[s][i];
      StrAppend(&text, i > 0 ? ",\n    " : "\n    ", "{", Members(p.what, p.run, p.of_step),
                ", \"at_ms\": ", Millis(p.begin - step.begin), ", \"ms\": ", Millis(p.end - p.begin),
                ", \"share\": ", static_cast<double>(p.end - p.begin) / whole, "}");
      if (!out.Continue()) return;
    }
    text += "]}";
  }
  text += "],\n\"stalls\": [";
  for (size_t i = 0; i < stalls_.size(); ++i) {
    const Stall& s = stalls_[i];
    StrAppend(&text, i > 0 ? ",\n  " : "\n  ", "{", Members(s.what, s.run), ", \"ms\": ", Millis(s.nanos),
              ", \"step\": ", s.run->step, ", \"on_critical_path\": ", IsOnPath(s), "}");
  }
  text += "]}\n";
}

}  // namespace

int TraceCommand(const TraceFlags& flags) {
  absl::StatusOr<TraceFile> file;
  std::string path = flags.files[0];
  if (flags.files.size() == 1 && flags.out.empty()) {
    file = ReadTrace(path);
  } else {
    const absl::StatusOr<std::string> merged = MergeTraces(flags.files);
    if (!merged.ok()) return Complain(kFailed, merged.status());
    if (!flags.out.empty()) {
      if (absl::Status s = WriteFile(flags.out, {*merged}); !s.ok()) return Complain(kFailed, s);
    }
    path = StrJoin(flags.files, ", ");
    file = ParseTrace(*merged);
    if (!file.ok()) return Complain(kFailed, Annotate(file.status(), StrCat(path, " together")));
  }
  if (!file.ok()) return Complain(kFailed, file.status());
  Report report(*file, flags);
  if (absl::Status s = report.Make(); !s.ok()) return Complain(kFailed, Annotate(s, path));
  flags.json ? report.PrintJson() : report.PrintText();
  return kOk;
}

}  // namespace troupe::tool
