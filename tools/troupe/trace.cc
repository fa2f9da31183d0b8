#include "tools/troupe/trace.h"

#include <algorithm>
#include <limits>

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

}  // namespace

absl::Status WriteTrace(const proto::RunMetadata& metadata, const std::string& path) {
  double begin = std::numeric_limits<double>::infinity();
  for (const proto::DeviceStepStats& d : metadata.step_stats().dev_stats()) {
    for (const proto::NodeExecStats& n : d.node_stats()) begin = std::min(begin, StartMicros(n));
  }
  std::string out = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  bool first = true;
  const auto event = [&](const auto&... pieces) {
    StrAppend(&out, first ? "\n" : ",\n", "{", pieces..., "}");
    first = false;
  };
  int pid = 0;
  for (const proto::DeviceStepStats& d : metadata.step_stats().dev_stats()) {
    event("\"ph\": \"M\", \"name\": \"process_name\", \"pid\": ", pid,
          ", \"args\": {\"name\": ", JsonString(d.device()), "}");
    for (const auto& [tid, name] : d.thread_names()) {
      event("\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": ", pid, ", \"tid\": ", tid,
            ", \"args\": {\"name\": ", JsonString(name), "}");
    }
    for (const proto::NodeExecStats& n : d.node_stats()) {
      event("\"ph\": \"X\", \"cat\": \"op\", \"name\": ", JsonString(OpOf(n)), ", \"pid\": ", pid,
            ", \"tid\": ", n.thread_id(), ", \"ts\": ", StartMicros(n) - begin, ", \"dur\": ", DurationMicros(n),
            ", \"args\": {\"node\": ", JsonString(n.node_name()), "}");
    }
    ++pid;
  }
  out += "\n]}\n";
  return WriteFile(path, {out});
}

}  // namespace troupe::tool
