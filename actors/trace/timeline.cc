#include "troupe/timeline.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <vector>

#include "actors/executor/run_rows.h"
#include "troupe/files.h"
#include "troupe/proto/config.pb.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

// Rows that are no thread's begin here, in each device's block of rows.
constexpr uint64_t kFirstOwn = rows::kAsynchronous + 1, kBlock = uint64_t{1} << 22;
// Pauses as short as this one are the executor's own work between two nodes.
constexpr int64_t kPauseNanos = 20'000;

// Names are ASCII; what a program's own text has besides is not needed to find something.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= 0x20 && c < 0x7f ? c : '?';
  }
  return out + '"';
}

// Microseconds, as such files have them, to the nanosecond.
std::string Micros(int64_t nanos) {
  char text[40];
  const auto size = static_cast<unsigned long long>(nanos < 0 ? -nanos : nanos);
  std::snprintf(text, sizeof(text), "%s%llu.%03llu", nanos < 0 ? "-" : "", size / 1000, size % 1000);
  return text;
}

// What no clock tells is taken for the nearest that one may: statistics may come from elsewhere,
// and sums and differences of a few times are to be numbers.
constexpr int64_t kMostNanos = int64_t{1} << 60;
int64_t Told(int64_t nanos) { return std::clamp(nanos, -kMostNanos, kMostNanos); }
int64_t ToldMicros(int64_t micros) { return std::clamp(micros, -kMostNanos / 1000, kMostNanos / 1000) * 1000; }

int64_t StartOf(const proto::NodeExecStats& n) {
  return n.all_start_nanos() != 0 ? Told(n.all_start_nanos()) : ToldMicros(n.all_start_micros());
}
int64_t LengthOf(const proto::NodeExecStats& n) {
  const int64_t length = n.all_end_rel_nanos() != 0 ? Told(n.all_end_rel_nanos()) : ToldMicros(n.all_end_rel_micros());
  return std::max<int64_t>(0, length);
}
// "name = Op(...)" -> "Op".
std::string_view OpOf(const proto::NodeExecStats& n) {
  std::string_view label = n.timeline_label();
  const size_t at = label.find(" = ");
  if (at == std::string_view::npos) return n.node_name();
  label.remove_prefix(at + 3);
  return label.substr(0, label.find('('));
}

// Which row of its own a run belongs to; "" for a run that stands with its thread. Told by the op:
// nodes of savers and of state that has an actor run on any thread.
std::string_view KindOf(std::string_view op, bool waits) {
  for (const std::string_view saves : {"Save", "Restore", "MergeV2Checkpoints"}) {
    if (op.starts_with(saves)) return "checkpointer";
  }
  for (const std::string_view state : {"Queue", "Barrier", "Reader", "Lookup", "Accumulator"}) {
    if (op.find(state) != op.npos) return "queues";
  }
  if (!waits) return "";
  return op == "_Recv" || op == "_HostRecv" ? "receives" : "waits";
}

// A key of an edge is "sender;incarnation;receiver;tensor".
std::string_view SenderOf(std::string_view edge) { return edge.substr(0, edge.find(';')); }
// Without the "edge_7_" that the partition puts before it.
std::string_view TensorOf(std::string_view edge) {
  std::string_view tensor = edge.substr(edge.rfind(';') + 1);
  constexpr std::string_view kEdge = "edge_";
  if (!tensor.starts_with(kEdge)) return tensor;
  const size_t digits = tensor.find_first_not_of("0123456789", kEdge.size());
  return digits != tensor.npos && tensor[digits] == '_' ? tensor.substr(digits + 1) : tensor;
}

// The rows of one device, or of a task's steps. What overlaps goes to a further row of the same
// kind.
class Rows {
 public:
  explicit Rows(uint64_t first) : next_(first) {}
  uint64_t Take(std::string_view kind, int64_t start, int64_t end) {
    std::vector<std::pair<uint64_t, int64_t>>& rows = kinds_[std::string(kind)];
    for (auto& [row, until] : rows) {
      if (until > start) continue;
      until = end;
      return row;
    }
    names_.emplace_back(next_, rows.empty() ? std::string(kind) : StrCat(kind, " ", rows.size() + 1));
    rows.emplace_back(next_, end);
    return next_++;
  }
  const std::vector<std::pair<uint64_t, std::string>>& names() const { return names_; }

 private:
  uint64_t next_;
  std::map<std::string, std::vector<std::pair<uint64_t, int64_t>>> kinds_;  // row, and its last event's end
  std::vector<std::pair<uint64_t, std::string>> names_;
};

struct DeviceRows {
  DeviceRows(int pid, uint64_t block, std::string device)
      : pid(pid), block(block), device(std::move(device)), rows(block + kFirstOwn) {}
  const int pid;
  const uint64_t block;
  const std::string device;  // "CPU:0"
  Rows rows;
  std::map<uint64_t, std::string> threads;
};
struct Task {
  explicit Task(int pid) : pid(pid), steps(kBlock - 1024) {}
  const int pid;
  Rows steps;
  uint64_t devices = 0;
  int64_t offset = 0, uncertainty = 0;
};

// One run of a node, on its row.
struct Run {
  const proto::NodeExecStats* node;
  const proto::StepTrace::Run* why;   // null: not known
  const proto::NodeExecStats* cause;  // whose end made it ready; null: none, or not known
  DeviceRows* on;
  std::string_view kind;
  uint64_t row = 0, id = 0, after = 0, from = 0;  // 0: none
  int64_t start = 0, end = 0;
};

}  // namespace

struct Timeline::Impl {
  std::string events;
  int steps = 0;
  int64_t origin = 0;
  std::string master;  // of the first step
  uint64_t next_id = 1, next_arrow = 1;
  std::map<std::string, Task> tasks;
  std::map<std::string, DeviceRows> devices;  // by full name

  Task& TaskOf(const std::string& name) {
    return tasks.try_emplace(name, static_cast<int>(tasks.size())).first->second;
  }
  DeviceRows& DeviceOf(const std::string& name) {
    const auto it = devices.find(name);
    if (it != devices.end()) return it->second;
    const size_t cut = name.find("/device:");
    const std::string own = cut == std::string::npos ? name : name.substr(cut + 8);
    Task& task = TaskOf(name.substr(0, cut));
    return devices.try_emplace(name, task.pid, kBlock * task.devices++, own).first->second;
  }

  static void Event(std::string* out, std::string_view event) { StrAppend(out, out->empty() ? "\n" : ",\n", event); }
  void Slice(std::string_view category, std::string_view name, int pid, uint64_t row, int64_t start, int64_t end,
             std::string_view args) {
    Event(&events, StrCat("{\"ph\": \"X\", \"cat\": \"", category, "\", \"name\": ", Quoted(name), ", \"pid\": ", pid,
                          ", \"tid\": ", row, ", \"ts\": ", Micros(start - origin), ", \"dur\": ", Micros(end - start),
                          ", \"args\": {", args, "}}"));
  }
  // Both ends lie within the slices that they belong to.
  void Arrow(std::string_view category, std::string_view name, int from, uint64_t from_row, int64_t sent, int to,
             uint64_t to_row, int64_t came) {
    const uint64_t id = next_arrow++;
    const auto end = [&](std::string_view how, int pid, uint64_t row, int64_t at) {
      Event(&events, StrCat("{", how, ", \"cat\": \"", category, "\", \"name\": ", Quoted(name), ", \"id\": ", id,
                            ", \"pid\": ", pid, ", \"tid\": ", row, ", \"ts\": ", Micros(at - origin), "}"));
    };
    end("\"ph\": \"s\"", from, from_row, sent);
    end("\"ph\": \"f\", \"bp\": \"e\"", to, to_row, came);
  }

  std::vector<Run> RunsOf(const proto::RunMetadata& metadata);
  void Place(std::vector<Run>* runs);
  void AddTurns(const std::vector<Run>& runs);
  void AddArrows(std::vector<Run>* runs);
  void AddRun(const Run& run);
  void AddSteps(const proto::StepTrace& trace, std::string_view name);
  void AddProcesses(std::string* out) const;
};

// In the order of their starts; ids are given by device, in the order of the statistics.
std::vector<Run> Timeline::Impl::RunsOf(const proto::RunMetadata& metadata) {
  std::vector<Run> runs;
  const auto& all = metadata.step_stats().dev_stats();
  for (int d = 0; d < all.size(); ++d) {
    DeviceRows& on = DeviceOf(all[d].device());
    const proto::StepTrace& trace = metadata.step_trace();
    const proto::StepTrace::Device* const why =
        d < trace.devices_size() && trace.devices(d).runs_size() == all[d].node_stats_size() ? &trace.devices(d)
                                                                                             : nullptr;
    for (const auto& [row, name] : all[d].thread_names()) on.threads.emplace(on.block + row, name);
    for (int i = 0; i < all[d].node_stats_size(); ++i) {
      const proto::NodeExecStats& n = all[d].node_stats(i);
      Run run{&n, why != nullptr ? &why->runs(i) : nullptr, nullptr, &on,
              KindOf(OpOf(n), n.thread_id() == rows::kAsynchronous)};
      run.id = next_id + static_cast<uint64_t>(i);
      if (run.why != nullptr && run.why->after() > 0 && run.why->after() <= all[d].node_stats_size()) {
        run.after = next_id + static_cast<uint64_t>(run.why->after()) - 1;
        run.cause = &all[d].node_stats(static_cast<int>(run.why->after()) - 1);
      }
      run.start = StartOf(n);
      run.end = run.start + LengthOf(n);
      runs.push_back(run);
    }
    next_id += static_cast<uint64_t>(all[d].node_stats_size());
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.start < b.start; });
  return runs;
}

void Timeline::Impl::Place(std::vector<Run>* runs) {
  for (Run& run : *runs)
    run.row =
        run.kind.empty() ? run.on->block + run.node->thread_id() : run.on->rows.Take(run.kind, run.start, run.end);
}

void Timeline::Impl::AddTurns(const std::vector<Run>& runs) {
  struct Turn {
    int64_t start, end, nodes;
  };
  std::map<DeviceRows*, Turn> turns;
  const auto end = [&](DeviceRows* on, const Turn& t) {
    Slice("executor", "turn", on->pid, on->rows.Take("executor", t.start, t.end), t.start, t.end,
          StrCat("\"nodes\": ", t.nodes));
  };
  for (const Run& run : runs) {
    if (run.node->thread_id() != rows::kTurn) continue;
    const auto [it, is_new] = turns.try_emplace(run.on, Turn{run.start, run.end, 0});
    Turn& turn = it->second;
    if (!is_new && run.start > turn.end + kPauseNanos) {
      end(run.on, turn);
      turn = {run.start, run.end, 0};
    }
    turn.end = std::max(turn.end, run.end);
    ++turn.nodes;
  }
  for (const auto& [on, turn] : turns) end(on, turn);
}

// From who sends to who receives. The k-th time that a node sends is the k-th time that the other
// one receives; where they do not run equally often, nothing is known.
void Timeline::Impl::AddArrows(std::vector<Run>* runs) {
  struct Ends {
    std::vector<Run*> sent, received;
  };
  std::map<std::string_view, Ends> edges;
  for (Run& run : *runs) {
    if (run.why == nullptr || run.why->edge().empty()) continue;
    Ends& ends = edges[run.why->edge()];
    (run.kind == "receives" ? ends.received : ends.sent).push_back(&run);
  }
  for (auto& [key, ends] : edges) {
    if (ends.sent.size() != ends.received.size()) continue;
    std::stable_sort(ends.received.begin(), ends.received.end(),
                     [](const Run* a, const Run* b) { return a->end < b->end; });
    for (size_t i = 0; i < ends.sent.size(); ++i) {
      const Run& from = *ends.sent[i];
      Run& to = *ends.received[i];
      to.from = from.id;
      Arrow(from.on->pid == to.on->pid ? "copy" : "communication", TensorOf(key), from.on->pid, from.row, from.start,
            to.on->pid, to.row, std::max(to.start, to.end - 1));
    }
  }
}

void Timeline::Impl::AddRun(const Run& run) {
  std::string args = StrCat("\"node\": ", Quoted(run.node->node_name()), ", \"op\": ", Quoted(OpOf(*run.node)),
                            ", \"device\": ", Quoted(run.on->device), ", \"step\": ", steps, ", \"id\": ", run.id);
  if (run.cause != nullptr)
    StrAppend(&args, ", \"after\": ", run.after, ", \"after_node\": ", Quoted(run.cause->node_name()));
  if (run.node->scheduled_nanos() != 0)
    StrAppend(&args, ", \"queued_us\": ", Micros(std::max<int64_t>(0, run.start - Told(run.node->scheduled_nanos()))));
  if (run.why != nullptr && run.kind == "receives") {
    if (run.from != 0) StrAppend(&args, ", \"from\": ", run.from);
    StrAppend(&args, ", \"tensor\": ", Quoted(TensorOf(run.why->edge())),
              ", \"sender\": ", Quoted(SenderOf(run.why->edge())));
  } else if (run.why != nullptr && !run.why->waits_for().empty()) {
    StrAppend(&args, ", \"waits_for\": ", Quoted(run.why->waits_for()));
  }
  Slice(run.kind.empty() ? "op" : run.kind, OpOf(*run.node), run.on->pid, run.row, run.start, run.end, args);
}

void Timeline::Impl::AddSteps(const proto::StepTrace& trace, std::string_view name) {
  if (trace.own().task().empty()) return;
  Task& master = TaskOf(trace.own().task());
  const int64_t begin = Told(trace.own().begin_nanos()), end = std::max(begin, Told(trace.own().end_nanos()));
  const uint64_t row = master.steps.Take("steps", begin, end);
  Slice("step", name, master.pid, row, begin, end, StrCat("\"step\": ", steps));
  for (const proto::StepTrace::Process& p : trace.processes()) {
    Task& task = TaskOf(p.task());
    const int64_t uncertainty = std::max<int64_t>(0, Told(p.uncertainty_nanos()));
    task.offset = Told(p.offset_nanos());
    task.uncertainty = std::max(task.uncertainty, uncertainty);
    const int64_t from = Told(p.begin_nanos()), to = std::max(from, Told(p.end_nanos()));
    const uint64_t there = task.steps.Take("steps", from, to);
    Slice("part", name, task.pid, there, from, to,
          StrCat("\"step\": ", steps, ", \"uncertainty_us\": ", Micros(uncertainty)));
    Arrow("communication", "begin", master.pid, row, begin, task.pid, there, from);
    Arrow("communication", "answer", task.pid, there, std::max(from, to - 1), master.pid, row,
          std::max(begin, end - 1));
  }
}

void Timeline::Impl::AddProcesses(std::string* out) const {
  const auto name = [out](std::string_view what, int pid, std::string_view more, std::string_view args) {
    Event(out, StrCat("{\"ph\": \"M\", \"name\": \"", what, "\", \"pid\": ", pid, more, ", \"args\": {", args, "}}"));
  };
  for (const auto& [task, t] : tasks) {
    name("process_name", t.pid, "",
         StrCat("\"name\": ", Quoted(task), ", \"offset_us\": ", Micros(t.offset),
                ", \"uncertainty_us\": ", Micros(t.uncertainty)));
    name("process_sort_index", t.pid, "", StrCat("\"sort_index\": ", t.pid));
    if (t.uncertainty != 0)
      name("process_labels", t.pid, "", StrCat("\"labels\": \"clock +-", Micros(t.uncertainty), " us\""));
    for (const auto& [row, text] : t.steps.names())
      name("thread_name", t.pid, StrCat(", \"tid\": ", row), StrCat("\"name\": ", Quoted(text)));
  }
  for (const auto& [full, d] : devices) {
    std::map<uint64_t, std::string> rows = d.threads;
    rows.insert(d.rows.names().begin(), d.rows.names().end());
    for (const auto& [row, text] : rows) {
      name("thread_name", d.pid, StrCat(", \"tid\": ", row),
           StrCat("\"name\": ", Quoted(d.device == "CPU:0" ? text : StrCat(d.device, " ", text))));
    }
  }
}

Timeline::Timeline() : impl_(std::make_unique<Impl>()) {}
Timeline::~Timeline() = default;

void Timeline::Add(const proto::RunMetadata& metadata, std::string_view name) {
  const proto::StepTrace& trace = metadata.step_trace();
  if (impl_->steps++ == 0) {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const proto::DeviceStepStats& d : metadata.step_stats().dev_stats()) {
      for (const proto::NodeExecStats& n : d.node_stats()) first = std::min(first, StartOf(n));
    }
    if (trace.has_own()) first = std::min(first, Told(trace.own().begin_nanos()));
    for (const proto::StepTrace::Process& p : trace.processes()) first = std::min(first, Told(p.begin_nanos()));
    impl_->master = trace.own().task();
    impl_->origin = first == std::numeric_limits<int64_t>::max() ? 0 : first;
  }
  // The master is the first process of the file.
  if (trace.has_own()) impl_->AddSteps(trace, name.empty() ? StrCat("step ", impl_->steps) : std::string(name));
  std::vector<Run> runs = impl_->RunsOf(metadata);
  impl_->Place(&runs);
  impl_->AddTurns(runs);
  impl_->AddArrows(&runs);
  for (const Run& run : runs) impl_->AddRun(run);
}

int Timeline::steps() const { return impl_->steps; }

std::string Timeline::Text() const {
  std::string processes;
  impl_->AddProcesses(&processes);
  return StrCat("{\"displayTimeUnit\": \"ns\", \"otherData\": {\"writer\": \"troupe\", \"form\": \"1\", \"master\": ",
                Quoted(impl_->master), ", \"origin_ns\": \"", impl_->origin, "\"},\n\"traceEvents\": [", processes,
                processes.empty() || impl_->events.empty() ? "" : ",", impl_->events, "\n]}\n");
}

absl::Status Timeline::Write(const std::string& path) const { return files::Write(path, Text()); }

}  // namespace troupe
