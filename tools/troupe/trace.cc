#include "tools/troupe/trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "tools/troupe/value_text.h"
#include "tools/troupe/write_file.h"
#include "troupe/proto/config.pb.h"

namespace troupe::tool {
namespace {

double StartMicros(const proto::NodeExecStats& n) {
  return n.all_start_nanos() != 0 ? static_cast<double>(n.all_start_nanos()) / 1e3
                                  : static_cast<double>(n.all_start_micros());
}
double DurationMicros(const proto::NodeExecStats& n) {
  return n.all_end_rel_nanos() != 0 ? static_cast<double>(n.all_end_rel_nanos()) / 1e3
                                    : static_cast<double>(n.all_end_rel_micros());
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

// Rows that are no thread's begin here (actors/executor/run_rows.h has those of kernels).
constexpr uint32_t kWaiting = 1u << 20, kFirstOwn = kWaiting + 1;
// Pauses as short as this one are the executor's own work between two nodes.
constexpr double kPauseMicros = 20;

// The rows of one device. What overlaps goes to a further row of the same kind.
class Rows {
 public:
  uint32_t Take(std::string_view kind, double start, double end) {
    std::vector<std::pair<uint32_t, double>>& rows = kinds_[std::string(kind)];
    for (auto& [row, until] : rows) {
      if (until > start) continue;
      until = end;
      return row;
    }
    names_.emplace_back(next_, rows.empty() ? std::string(kind) : StrCat(kind, " ", rows.size() + 1));
    rows.emplace_back(next_, end);
    return next_++;
  }
  const std::vector<std::pair<uint32_t, std::string>>& names() const { return names_; }

 private:
  uint32_t next_ = kFirstOwn;
  std::map<std::string, std::vector<std::pair<uint32_t, double>>> kinds_;  // row, and its last event's end
  std::vector<std::pair<uint32_t, std::string>> names_;
};

class Trace {
 public:
  explicit Trace(double begin) : begin_(begin) {}

  void Add(const proto::DeviceStepStats& device) {
    Event("\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", pid_,
          ", \"args\": {\"name\": ", JsonString(device.device()), "}");
    std::vector<const proto::NodeExecStats*> nodes;
    for (const proto::NodeExecStats& n : device.node_stats()) nodes.push_back(&n);
    std::stable_sort(nodes.begin(), nodes.end(),
                     [](const auto* a, const auto* b) { return StartMicros(*a) < StartMicros(*b); });
    Rows rows;
    std::map<uint32_t, std::string> names;
    double turn = 0, turn_end = -1;  // none yet
    int64_t turn_nodes = 0;
    const auto end_turn = [&] {
      if (turn_end < 0) return;
      Slice("executor", "turn", rows.Take("executor", turn, turn_end), turn, turn_end - turn,
            StrCat("\"nodes\": ", turn_nodes));
    };
    for (const proto::NodeExecStats* n : nodes) {
      const double start = StartMicros(*n) - begin_, end = start + DurationMicros(*n);
      if (n->thread_id() == 0) {
        if (turn_end < 0 || start > turn_end + kPauseMicros) {
          end_turn();
          turn = start;
          turn_nodes = 0;
        }
        turn_end = std::max(turn_end, end);
        ++turn_nodes;
      }
      const bool waits = n->thread_id() == kWaiting;
      const std::string_view kind = KindOf(OpOf(*n), waits);
      uint32_t row = n->thread_id();
      if (!kind.empty()) {
        row = rows.Take(kind, start, end);
      } else if (const auto name = device.thread_names().find(row); name != device.thread_names().end()) {
        names.emplace(row, name->second);
      }
      Slice(kind.empty() ? "op" : kind, OpOf(*n), row, start, end - start,
            StrCat("\"node\": ", JsonString(n->node_name())));
    }
    end_turn();
    names.insert(rows.names().begin(), rows.names().end());
    for (const auto& [row, name] : names) {
      Event("\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": ", pid_, ", \"tid\": ", row,
            ", \"args\": {\"name\": ", JsonString(name), "}");
    }
    ++pid_;
  }
  std::string Finish() && { return std::move(out_) + "\n]}\n"; }

 private:
  template <class... Pieces>
  void Event(const Pieces&... pieces) {
    StrAppend(&out_, first_ ? "\n" : ",\n", "{", pieces..., "}");
    first_ = false;
  }
  void Slice(std::string_view category, std::string_view name, uint32_t row, double start, double micros,
             const std::string& args) {
    Event("\"ph\": \"X\", \"cat\": \"", category, "\", \"name\": ", JsonString(name), ", \"pid\": ", pid_,
          ", \"tid\": ", row, ", \"ts\": ", start, ", \"dur\": ", micros, ", \"args\": {", args, "}");
  }

  const double begin_;
  std::string out_ = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  bool first_ = true;
  int pid_ = 0;
};

}  // namespace

absl::Status WriteTrace(const proto::RunMetadata& metadata, const std::string& path) {
  double begin = std::numeric_limits<double>::infinity();
  for (const proto::DeviceStepStats& d : metadata.step_stats().dev_stats()) {
    for (const proto::NodeExecStats& n : d.node_stats()) begin = std::min(begin, StartMicros(n));
  }
  Trace trace(begin);
  for (const proto::DeviceStepStats& d : metadata.step_stats().dev_stats()) trace.Add(d);
  return WriteFile(path, {std::move(trace).Finish()});
}

}  // namespace troupe::tool
