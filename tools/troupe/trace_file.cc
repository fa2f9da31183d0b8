#include "tools/troupe/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "graph/core/read_file.h"
#include "troupe/strings.h"

namespace troupe::tool {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
// Of one event. Ours have some twenty.
constexpr size_t kMostParts = 4096;
// Differences of such numbers are in range.
constexpr int64_t kMostOrigin = std::numeric_limits<int64_t>::max() / 4;
absl::StatusOr<int64_t> WholeOf(const JsonValue& v, const char* what) {
  errno = 0;
  char* end = nullptr;
  const long long n = std::strtoll(v.text.c_str(), &end, 10);
  if (v.kind != JsonValue::Kind::kNumber || *end != 0 || errno != 0 || n < 0 || n > kMostTrace)
    return v.Wrong(StrCat(what, " is no whole number"));
  return n;
}
// Microseconds as nanoseconds.
absl::StatusOr<int64_t> NanosOf(const JsonValue& v, const char* what) {
  char* end = nullptr;
  const double micros = std::strtod(v.text.c_str(), &end);
  if (v.kind != JsonValue::Kind::kNumber || *end != 0 || !std::isfinite(micros) ||
      std::abs(micros) > static_cast<double>(kMostTrace) / 1000) {
    return v.Wrong(StrCat(what, " is no number of microseconds"));
  }
  return std::llround(micros * 1000);
}
absl::StatusOr<const JsonValue*> Member(const JsonValue& object, const char* key) {
  const JsonValue* const v = object.Find(key);
  if (v == nullptr) return object.Wrong(StrCat("'", key, "' is missing"));
  return v;
}
absl::StatusOr<int64_t> WholeIn(const JsonValue& object, const char* key) {
  TROUPE_ASSIGN_OR_RETURN(const JsonValue* const v, Member(object, key));
  return WholeOf(*v, key);
}
// 0 when there is none: no run has that id.
absl::StatusOr<int64_t> WholeOrNone(const JsonValue& object, const char* key) {
  const JsonValue* const v = object.Find(key);
  return v == nullptr ? absl::StatusOr<int64_t>(0) : WholeOf(*v, key);
}
absl::StatusOr<int64_t> NanosIn(const JsonValue& object, const char* key) {
  TROUPE_ASSIGN_OR_RETURN(const JsonValue* const v, Member(object, key));
  return NanosOf(*v, key);
}
// How long something took; 0 when it is not said.
absl::StatusOr<int64_t> LengthOrNone(const JsonValue& object, const char* key) {
  const JsonValue* const v = object.Find(key);
  if (v == nullptr) return 0;
  TROUPE_ASSIGN_OR_RETURN(const int64_t nanos, NanosOf(*v, key));
  if (nanos < 0) return v->Wrong(StrCat(key, " is negative"));
  return nanos;
}
std::string TextIn(const JsonValue& object, const char* key) {
  const JsonValue* const v = object.Find(key);
  return v != nullptr && v->kind == JsonValue::Kind::kString ? v->text : "";
}

std::optional<TraceRun::Kind> KindOf(std::string_view category) {
  if (category == "op" || category == "checkpointer") return TraceRun::Kind::kKernel;
  if (category == "receives") return TraceRun::Kind::kReceive;
  if (category == "queues") return TraceRun::Kind::kQueue;
  if (category == "waits") return TraceRun::Kind::kWait;
  return std::nullopt;
}

class TraceReader {
 public:
  explicit TraceReader(TraceFile* file) : file_(*file) { Intern(""); }
  absl::Status Take(const JsonValue& event) {
    const std::string phase = TextIn(event, "ph");
    if (phase.empty()) return event.Wrong("an event has no 'ph'");
    if (phase == "M" && TextIn(event, "name") == "process_name") return TakeName(event);
    if (phase != "X") return absl::OkStatus();
    const std::string category = TextIn(event, "cat");
    if (category == "step") return TakeStep(event);
    const auto kind = KindOf(category);
    return kind ? TakeRun(event, *kind) : absl::OkStatus();
  }
  absl::Status Finish() {
    std::sort(file_.runs.begin(), file_.runs.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    std::sort(file_.steps.begin(), file_.steps.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    for (size_t i = 1; i < file_.runs.size(); ++i) {
      if (file_.runs[i].id == file_.runs[i - 1].id) return At(file_.runs[i], "another event has the same id");
    }
    if (file_.steps.empty()) return InvalidArgument("there is no step in it: it is no trace of Troupe's");
    int64_t all = 0;
    for (size_t i = 0; i < file_.steps.size(); ++i) {
      const TraceStep& s = file_.steps[i];
      if (i > 0 && s.number == file_.steps[i - 1].number)
        return InvalidArgument("line ", s.line, ": step ", s.number, " is there twice");
      all += s.end - s.begin;
      if (all > kMostOffset)
        return InvalidArgument("line ", s.line, ": up to step ", s.number, " the steps took more than ",
                               kMostOffset / 1'000'000'000, " seconds");
    }
    for (const TraceRun& r : file_.runs) TROUPE_RETURN_IF_ERROR(CheckLinks(r));
    FindLast();
    return absl::OkStatus();
  }

 private:
  static absl::Status At(const TraceRun& run, std::string_view why) {
    return InvalidArgument("line ", run.line, ": event ", run.id, ": ", why);
  }
  TraceStep* StepOf(const TraceRun& run) {
    const auto step = std::lower_bound(file_.steps.begin(), file_.steps.end(), run.step,
                                       [](const TraceStep& s, int64_t number) { return s.number < number; });
    return step == file_.steps.end() || step->number != run.step ? nullptr : &*step;
  }
  // What a run waited for is of its step: so every run is on the path of one step at most.
  absl::Status CheckLinks(const TraceRun& run) {
    if (StepOf(run) == nullptr) return At(run, StrCat("it is of step ", run.step, ", which is not there"));
    for (const int64_t id : {run.after, run.from}) {
      if (id == 0) continue;
      const TraceRun* const other = file_.Find(id);
      if (other == nullptr) return At(run, StrCat("it names event ", id, ", which is not there"));
      if (other->step != run.step) return At(run, StrCat("it names event ", id, ", which is of another step"));
    }
    return absl::OkStatus();
  }
  // Of several runs that ended last, at one time, it is one for which none of the others waited.
  void FindLast() {
    for (const TraceRun& r : file_.runs) {
      TraceStep& step = *StepOf(r);
      if (step.last == 0 || file_.Find(step.last)->end <= r.end) step.last = r.id;
    }
    std::set<int64_t> not_last;
    for (const TraceRun& r : file_.runs) {
      if (r.end != file_.Find(StepOf(r)->last)->end) continue;
      for (const int64_t id : {r.after, r.from}) {
        if (id != 0 && id != r.id) not_last.insert(id);
      }
    }
    for (const TraceRun& r : file_.runs) {
      TraceStep& step = *StepOf(r);
      if (r.end == file_.Find(step.last)->end && not_last.contains(step.last) && !not_last.contains(r.id))
        step.last = r.id;
    }
  }
  uint32_t Intern(const std::string& text) {
    const auto [it, is_new] = numbers_.try_emplace(text, static_cast<uint32_t>(file_.texts.size()));
    if (is_new) file_.texts.push_back(text);
    return it->second;
  }
  absl::StatusOr<uint32_t> TaskOf(const JsonValue& event) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t pid, WholeIn(event, "pid"));
    const auto [it, is_new] = tasks_.try_emplace(pid, static_cast<uint32_t>(file_.tasks.size()));
    if (is_new) file_.tasks.push_back({StrCat("process ", pid), pid});
    return it->second;
  }
  absl::Status TakeName(const JsonValue& event) {
    TROUPE_ASSIGN_OR_RETURN(const uint32_t number, TaskOf(event));
    TROUPE_ASSIGN_OR_RETURN(const JsonValue* const args, Member(event, "args"));
    TraceTask& task = file_.tasks[number];
    if (std::string name = TextIn(*args, "name"); !name.empty()) {
      task.name = std::move(name);
      task.named = true;
    }
    TROUPE_ASSIGN_OR_RETURN(task.offset, OffsetOf(*args));
    TROUPE_ASSIGN_OR_RETURN(task.uncertainty, LengthOrNone(*args, "uncertainty_us"));
    return absl::OkStatus();
  }
  // Clocks may be as far apart as they like.
  static absl::StatusOr<int64_t> OffsetOf(const JsonValue& args) {
    const JsonValue* const v = args.Find("offset_us");
    if (v == nullptr) return 0;
    char* end = nullptr;
    const double micros = std::strtod(v->text.c_str(), &end);
    if (v->kind != JsonValue::Kind::kNumber || *end != 0 ||
        !(std::abs(micros) <= static_cast<double>(kMostOffset) / 1000))
      return v->Wrong("offset_us is no number of microseconds");
    return std::llround(micros * 1000);
  }
  absl::Status TakeTimes(const JsonValue& event, int64_t* start, int64_t* end) {
    TROUPE_ASSIGN_OR_RETURN(*start, NanosIn(event, "ts"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t length, NanosIn(event, "dur"));
    if (length < 0) return event.Find("dur")->Wrong("dur is negative");
    *end = *start + length;
    return absl::OkStatus();
  }
  absl::Status TakeStep(const JsonValue& event) {
    TraceStep step;
    step.line = event.line;
    step.name = TextIn(event, "name");
    TROUPE_ASSIGN_OR_RETURN(step.task, TaskOf(event));
    TROUPE_RETURN_IF_ERROR(TakeTimes(event, &step.begin, &step.end));
    TROUPE_ASSIGN_OR_RETURN(const JsonValue* const args, Member(event, "args"));
    TROUPE_ASSIGN_OR_RETURN(step.number, WholeIn(*args, "step"));
    if (step.number == 0) return args->Find("step")->Wrong("the step's number is 0");
    file_.steps.push_back(std::move(step));
    return absl::OkStatus();
  }
  absl::Status TakeRun(const JsonValue& event, TraceRun::Kind kind) {
    TraceRun run;
    run.kind = kind;
    run.line = event.line;
    TROUPE_ASSIGN_OR_RETURN(run.task, TaskOf(event));
    TROUPE_RETURN_IF_ERROR(TakeTimes(event, &run.start, &run.end));
    TROUPE_ASSIGN_OR_RETURN(const JsonValue* const args, Member(event, "args"));
    TROUPE_ASSIGN_OR_RETURN(run.id, WholeIn(*args, "id"));
    if (run.id == 0) return args->Find("id")->Wrong("the id is 0");
    TROUPE_ASSIGN_OR_RETURN(run.step, WholeIn(*args, "step"));
    TROUPE_ASSIGN_OR_RETURN(run.after, WholeOrNone(*args, "after"));
    TROUPE_ASSIGN_OR_RETURN(run.from, WholeOrNone(*args, "from"));
    TROUPE_ASSIGN_OR_RETURN(run.queued, LengthOrNone(*args, "queued_us"));
    run.node = Intern(TextIn(*args, "node"));
    run.op = Intern(TextIn(*args, "op"));
    run.device = Intern(TextIn(*args, "device"));
    run.waits_for = Intern(TextIn(*args, kind == TraceRun::Kind::kReceive ? "tensor" : "waits_for"));
    run.from_device = Intern(TextIn(*args, "sender"));
    file_.runs.push_back(run);
    return absl::OkStatus();
  }

  TraceFile& file_;
  std::map<int64_t, uint32_t> tasks_;  // by pid
  std::map<std::string, uint32_t> numbers_;
};

absl::Status TakeHead(const JsonValue& other, TraceHead* head) {
  head->master = TextIn(other, "master");
  if (const JsonValue* const origin = other.Find("origin_ns"); origin != nullptr) {
    errno = 0;
    char* end = nullptr;
    head->origin = std::strtoll(origin->text.c_str(), &end, 10);
    if (origin->text.empty() || *end != 0 || errno != 0 || head->origin > kMostOrigin || head->origin < -kMostOrigin)
      return origin->Wrong("origin_ns is no number");
  }
  return absl::OkStatus();
}

}  // namespace

const TraceRun* TraceFile::Find(int64_t id) const {
  const auto it =
      std::lower_bound(runs.begin(), runs.end(), id, [](const TraceRun& r, int64_t wanted) { return r.id < wanted; });
  return it != runs.end() && it->id == id ? &*it : nullptr;
}

absl::Status ReadEvents(std::string_view text, TraceHead* head, const std::function<absl::Status(JsonValue&)>& each) {
  JsonReader reader(text, kMostParts);
  if (!reader.Take('{')) return reader.Here("a trace is an object: '{' is missing");
  bool found = false;
  do {
    TROUPE_ASSIGN_OR_RETURN(const std::string key, reader.Key());
    if (key != "traceEvents") {
      TROUPE_ASSIGN_OR_RETURN(const JsonValue other, reader.Value());
      if (key == "otherData") TROUPE_RETURN_IF_ERROR(TakeHead(other, head));
      continue;
    }
    if (found) return reader.Here("'traceEvents' is given twice");
    found = true;
    if (!reader.Take('[')) return reader.Here("'traceEvents' is no list: '[' is missing");
    if (reader.Take(']')) continue;
    do {
      TROUPE_ASSIGN_OR_RETURN(JsonValue event, reader.Value());
      if (event.kind != JsonValue::Kind::kObject) return event.Wrong("an event is no object");
      TROUPE_RETURN_IF_ERROR(each(event));
    } while (reader.Take(','));
    if (!reader.Take(']')) return reader.Here("',' or ']' is missing");
  } while (reader.Take(','));
  if (!reader.Take('}')) return reader.Here("',' or '}' is missing");
  if (!reader.AtEnd()) return reader.Here("there is more behind the trace");
  return found ? absl::OkStatus() : InvalidArgument("it has no 'traceEvents'");
}

absl::StatusOr<TraceFile> ParseTrace(std::string_view text) {
  TraceFile file;
  TraceHead head;
  TraceReader reader(&file);
  TROUPE_RETURN_IF_ERROR(ReadEvents(text, &head, [&](const JsonValue& event) { return reader.Take(event); }));
  TROUPE_RETURN_IF_ERROR(reader.Finish());
  return file;
}

absl::StatusOr<std::string> ReadTraceText(const std::string& path) {
  std::error_code none;
  if (const uintmax_t size = std::filesystem::file_size(path, none); !none && size > kMostBytes) {
    return ResourceExhausted(path, ": the file has ", static_cast<uint64_t>(size), " bytes; no more than ", kMostBytes,
                             " are read");
  }
  return ReadFile(path, kMostBytes);
}

absl::StatusOr<TraceFile> ReadTrace(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const std::string text, ReadTraceText(path));
  absl::StatusOr<TraceFile> file = ParseTrace(text);
  if (!file.ok()) return Annotate(file.status(), path);
  return file;
}

}  // namespace troupe::tool
