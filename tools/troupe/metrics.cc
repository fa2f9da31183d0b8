#include "tools/troupe/metrics.h"

#include <utility>
#include <vector>

#include "troupe/strings.h"

namespace troupe::tool {
namespace {

std::string QuotedLabel(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else {
      if (c == '\\' || c == '"') text += '\\';
      text += c;
    }
  }
  return text + "\"";
}

// Metrics of one name stand together, behind their help and type.
class Page {
 public:
  explicit Page(std::string task) : task_(std::move(task)) {}
  void Head(const char* name, const char* help, const char* type = "gauge") {
    name_ = name;
    StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  template <class Value>
  void Add(const std::vector<std::pair<const char*, std::string>>& labels, Value value) {
    StrAppend(&text_, name_, "{task=", QuotedLabel(task_));
    for (const auto& [label, of] : labels) StrAppend(&text_, ",", label, "=", QuotedLabel(of));
    StrAppend(&text_, "} ", value, "\n");
  }
  const std::string& text() const { return text_; }

 private:
  const std::string task_;
  std::string name_, text_;
};

std::string Seconds(int64_t ms) { return StrCat(static_cast<double>(ms) / 1000); }

}  // namespace

std::string MetricsText(const ServerStatus& s) {
  Page page(s.task.ToString());
  page.Head("troupe_server_info", "The server, by its incarnation and its cluster.");
  page.Add({{"address", s.address}, {"incarnation", StrCat(s.incarnation)}, {"cluster", StrCat(s.cluster)}}, 1);
  page.Head("troupe_peer_up", "Whether the server takes the other task for alive, or suspects it at most.");
  for (const TaskStatus& t : s.others) {
    const bool up = t.health == TaskHealth::kAlive || t.health == TaskHealth::kSuspected;
    page.Add({{"peer", t.task.ToString()}}, up ? 1 : 0);
  }
  page.Head("troupe_peer_state_seconds", "How long the other task has been in this state.");
  for (const TaskStatus& t : s.others) page.Add({{"peer", t.task.ToString()}}, Seconds(t.since_ms));
  page.Head("troupe_peer_silent_seconds", "How long ago the other task was heard; 0 of one that is not up.");
  for (const TaskStatus& t : s.others) page.Add({{"peer", t.task.ToString()}}, Seconds(t.silent_ms));
  page.Head("troupe_device_memory_bytes", "Bytes of tensors that the device has now.");
  for (const DeviceStatus& d : s.devices)
    page.Add({{"device", d.name}, {"type", d.type}}, static_cast<int64_t>(d.memory.bytes_in_use));
  page.Head("troupe_device_memory_limit_bytes", "Most bytes that the device may have; 0: no limit.");
  for (const DeviceStatus& d : s.devices)
    page.Add({{"device", d.name}, {"type", d.type}}, static_cast<int64_t>(d.memory.bytes_limit));
  page.Head("troupe_sessions", "Sessions that the server holds for clients.");
  page.Add({}, static_cast<int64_t>(s.sessions.size()));
  page.Head("troupe_session_calls", "Calls of these sessions that are under way.");
  int64_t calls = 0;
  for (const SessionStatus& each : s.sessions) calls += each.calls;
  page.Add({}, calls);
  page.Head("troupe_tensor_sent_bytes_total", "Bytes of big tensors sent to other servers, by the way they took.",
            "counter");
  page.Add({{"way", "messages"}}, static_cast<int64_t>(s.tensor_bytes_in_messages));
  page.Add({{"way", "shared_memory"}}, static_cast<int64_t>(s.tensor_bytes_in_shared_memory));
  return page.text();
}

}  // namespace troupe::tool
