#include "tools/troupe/trace_merge.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "tools/troupe/critical_path.h"
#include "tools/troupe/trace_file.h"
#include "tools/troupe/value_text.h"
#include "troupe/strings.h"

namespace troupe::tool {
namespace {

std::string Micros(int64_t nanos) {
  char text[40];
  const int64_t size = nanos < 0 ? -nanos : nanos;
  std::snprintf(text, sizeof(text), "%s%" PRId64 ".%03" PRId64, nanos < 0 ? "-" : "", size / 1000, size % 1000);
  return text;
}

void Append(const JsonValue& v, std::string* out) {
  switch (v.kind) {
    case JsonValue::Kind::kNull:
      *out += "null";
      return;
    case JsonValue::Kind::kBool:
    case JsonValue::Kind::kNumber:
      *out += v.text;
      return;
    case JsonValue::Kind::kString:
      *out += JsonString(v.text);
      return;
    case JsonValue::Kind::kArray:
      *out += '[';
      for (size_t i = 0; i < v.items.size(); ++i) {
        if (i > 0) *out += ", ";
        Append(v.items[i], out);
      }
      *out += ']';
      return;
    case JsonValue::Kind::kObject:
      *out += '{';
      for (size_t i = 0; i < v.members.size(); ++i) {
        if (i > 0) *out += ", ";
        StrAppend(out, JsonString(v.members[i].first), ": ");
        Append(v.members[i].second, out);
      }
      *out += '}';
      return;
  }
}

JsonValue* Find(JsonValue& object, std::string_view key) {
  for (auto& [name, value] : object.members) {
    if (name == key) return &value;
  }
  return nullptr;
}
void SetNumber(JsonValue* v, std::string text) {
  v->kind = JsonValue::Kind::kNumber;
  v->text = std::move(text);
}
// What is no number of ours may be of any size; sums of what is returned are in range.
int64_t NumberOf(const JsonValue& v) {
  return std::clamp<int64_t>(std::strtoll(v.text.c_str(), nullptr, 10), 0, kMostTrace);
}
int64_t NanosOrZero(const JsonValue& v) {
  const double nanos = std::strtod(v.text.c_str(), nullptr) * 1000;
  const auto most = static_cast<double>(kMostTrace);
  return std::isnan(nanos) ? 0 : std::llround(std::clamp(nanos, -most, most));
}

// A clock against the first master's.
struct MastersClock {
  int64_t offset = 0, uncertainty = 0;
};

class Merger {
 public:
  absl::Status Add(const std::string& path) {
    TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadTraceText(path));
    const absl::StatusOr<TraceFile> file = ParseTrace(text);
    if (!file.ok()) return Annotate(file.status(), path);
    // Of what cannot be told of the whole, the place in this file is known now.
    for (const TraceStep& step : file->steps) {
      if (const auto way = CriticalPath(*file, step); !way.ok()) return Annotate(way.status(), path);
    }
    return Annotate(AddFile(text, *file), path);
  }
  std::string Text() && {
    std::string head = StrCat("{\"displayTimeUnit\": \"ns\", \"otherData\": {\"writer\": \"troupe\", \"form\": \"1\", ",
                              "\"master\": ", JsonString(head_.master), ", \"origin_ns\": \"", head_.origin,
                              "\"},\n\"traceEvents\": [");
    for (const auto& [name, task] : tasks_) {
      AppendEvent(&names_,
                  StrCat("{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", task.pid,
                         ", \"args\": {\"name\": ", JsonString(name), ", \"offset_us\": ", Micros(task.clock.offset),
                         ", \"uncertainty_us\": ", Micros(task.clock.uncertainty), "}}"));
      AppendEvent(&names_, StrCat("{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": ", task.pid,
                                  ", \"args\": {\"labels\": \"clock +-", Micros(task.clock.uncertainty), " us\"}}"));
    }
    return StrCat(head, names_, names_.empty() || events_.empty() ? "" : ",", events_, "\n]}\n");
  }

 private:
  struct Task {
    int64_t pid;
    MastersClock clock;
    size_t file;  // the first that has it
  };
  static void AppendEvent(std::string* out, std::string_view event) {
    StrAppend(out, out->empty() ? "\n" : ",\n", event);
  }

  // Of a file's master, by the task of both that is known best.
  std::optional<MastersClock> MasterOf(const TraceFile& file) const {
    std::optional<MastersClock> best;
    for (const TraceTask& t : file.tasks) {
      const auto known = tasks_.find(t.name);
      if (known == tasks_.end()) continue;
      if (!t.named) continue;
      const MastersClock by{known->second.clock.offset - t.offset, known->second.clock.uncertainty + t.uncertainty};
      if (!best || by.uncertainty < best->uncertainty) best = by;
    }
    return best;
  }

  absl::Status AddFile(std::string_view text, const TraceFile& file) {
    const size_t number = files_++;
    const std::optional<MastersClock> master = number == 0 ? MastersClock() : MasterOf(file);
    if (!master) {
      return InvalidArgument(
          "none of its tasks is in the files before it, so it cannot be told how its clock stands to "
          "theirs");
    }
    std::map<int64_t, const Task*> tasks;  // by pid of the file
    for (const TraceTask& t : file.tasks) {
      const MastersClock clock{master->offset + t.offset, master->uncertainty + t.uncertainty};
      if (std::abs(clock.offset) > kMostOffset || clock.uncertainty > kMostTrace)
        return InvalidArgument("the clock of ", t.name, " would be ", clock.offset / 1'000'000'000,
                               " seconds before that of the first file's master, or known to ", clock.uncertainty,
                               " ns: so far apart no clocks are");
      // Processes without a name are those of no other file.
      const std::string name = t.named ? t.name : StrCat(t.name, " of file ", number + 1);
      tasks[t.pid] = &tasks_.try_emplace(name, Task{static_cast<int64_t>(tasks_.size()), clock, number}).first->second;
    }
    TraceHead head;
    TROUPE_RETURN_IF_ERROR(ReadEvents(text, &head, [](JsonValue&) { return absl::OkStatus(); }));
    if (number == 0) head_ = head;
    const int64_t move = head.origin - head_.origin - master->offset;
    const Numbers before = numbers_;
    return ReadEvents(text, &head,
                      [&](JsonValue& e) { return Renumber(before, number, move, master->uncertainty, tasks, &e); });
  }

  struct Numbers {
    int64_t id = 0, arrow = 0, step = 0;
  };
  // 0 is no number of anything: it stays.
  static absl::Status Raise(JsonValue* v, int64_t by, int64_t* highest) {
    if (v == nullptr || NumberOf(*v) == 0) return absl::OkStatus();
    const int64_t n = NumberOf(*v) + by;
    if (n > kMostTrace) return v->Wrong("with the files before this one, there are more numbers than can be told");
    *highest = std::max(*highest, n);
    SetNumber(v, StrCat(n));
    return absl::OkStatus();
  }
  absl::Status Renumber(const Numbers& before, size_t file, int64_t move, int64_t uncertainty,
                        const std::map<int64_t, const Task*>& tasks, JsonValue* event) {
    const JsonValue* const name = event->Find("name");
    const std::string what = name != nullptr ? name->text : "";
    if (what == "process_name" || what == "process_labels" || what == "process_sort_index") return absl::OkStatus();
    JsonValue *const pid = Find(*event, "pid"), *const tid = Find(*event, "tid"), *const ts = Find(*event, "ts"),
                     *const args = Find(*event, "args");
    bool again = false;
    if (pid != nullptr) {
      const auto task = tasks.find(NumberOf(*pid));
      if (task == tasks.end()) return absl::OkStatus();  // of a process of which nothing is known
      SetNumber(pid, StrCat(task->second->pid));
      again = task->second->file != file;
    }
    constexpr int64_t kRowsOfFile = int64_t{1} << 32;
    if (again && tid != nullptr) SetNumber(tid, StrCat(NumberOf(*tid) + kRowsOfFile * static_cast<int64_t>(file)));
    if (ts != nullptr) {
      const int64_t moved = NanosOrZero(*ts) + move;
      if (std::abs(moved) > kMostTrace)
        return ts->Wrong(StrCat("in the first file's clock, this is ", moved / 1'000'000'000,
                                " seconds from that file's begin: the two are not of one run"));
      SetNumber(ts, Micros(moved));
    }
    TROUPE_RETURN_IF_ERROR(Raise(Find(*event, "id"), before.arrow, &numbers_.arrow));
    if (args != nullptr) {
      for (const char* const key : {"id", "after", "from"})
        TROUPE_RETURN_IF_ERROR(Raise(Find(*args, key), before.id, &numbers_.id));
      TROUPE_RETURN_IF_ERROR(Raise(Find(*args, "step"), before.step, &numbers_.step));
      if (JsonValue* const off = Find(*args, "uncertainty_us"); off != nullptr)
        SetNumber(off, Micros(NanosOrZero(*off) + uncertainty));
      if (again && what == "thread_name") {
        if (JsonValue* const row = Find(*args, "name"); row != nullptr) row->text += StrCat(" (", file + 1, ")");
      }
    }
    std::string out;
    Append(*event, &out);
    AppendEvent(&events_, out);
    return absl::OkStatus();
  }

  size_t files_ = 0;
  TraceHead head_;
  std::map<std::string, Task> tasks_;
  Numbers numbers_;
  std::string names_, events_;
};

}  // namespace

absl::StatusOr<std::string> MergeTraces(const std::vector<std::string>& paths) {
  Merger merger;
  for (const std::string& path : paths) TROUPE_RETURN_IF_ERROR(merger.Add(path));
  return std::move(merger).Text();
}

}  // namespace troupe::tool
