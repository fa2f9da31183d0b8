#include "tools/troupe/cluster_reports.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <vector>

#include <unistd.h>

#include "net/json.h"
#include "tools/troupe/value_text.h"

namespace troupe::tool {
namespace {

constexpr std::string_view kKnown[] = {"step", "loss", "images_per_s", "accuracy", "hash"};
constexpr auto kWindow = std::chrono::seconds(5);

std::string Short(const std::string& number) {
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return number.substr(0, 12);
  char text[32];
  std::snprintf(text, sizeof(text), value >= 100 ? "%.0f" : "%.4g", value);
  return text;
}

}  // namespace

std::optional<int64_t> ClusterReports::Hear(const std::string& process, std::string_view line, Time now) {
  const auto object = ParseJson(line);
  if (!object.ok() || object->kind != JsonValue::Kind::kObject) return std::nullopt;
  Report& r = reports_[process];
  std::optional<int64_t> step;
  const JsonValue* const event = object->Find("event");
  const bool of_step = event == nullptr || event->text == "step";
  for (const std::string_view key : kKnown) {
    const JsonValue* const v = object->Find(key);
    if (v == nullptr) continue;
    // A number that is none (null) is not the one before.
    if (v->kind == JsonValue::Kind::kNull) r.values.erase(std::string(key));
    // Numbers are written as they came, so a text is none.
    if (v->kind != (key == "hash" ? JsonValue::Kind::kString : JsonValue::Kind::kNumber)) continue;
    if (v->text.size() > 100) continue;
    r.values[std::string(key)] = v->text;
    int64_t number = 0;
    const char* const last = v->text.data() + v->text.size();
    const auto [end, error] = std::from_chars(v->text.data(), last, number);
    if (key == "step" && of_step && error == std::errc() && end == last) step = number;
  }
  if (step) r.steps.emplace_back(now, *step);
  while (!r.steps.empty() && (now - r.steps.front().first > kWindow || r.steps.size() > 4096)) r.steps.pop_front();
  return step;
}

// By the steps that were made from one report to the next; after a restore they go back.
std::string ClusterReports::StepsPerSecond(const Report& r, Time now) {
  if (r.steps.size() < 2 || now - r.steps.back().first > kWindow) return "";
  int64_t made = 0;
  for (size_t i = 1; i < r.steps.size(); ++i) made += std::max<int64_t>(0, r.steps[i].second - r.steps[i - 1].second);
  const double seconds = std::chrono::duration<double>(r.steps.back().first - r.steps.front().first).count();
  return seconds <= 0 || made == 0 ? "" : Short(StrCat(static_cast<double>(made) / seconds));
}

ClusterReports::Cells ClusterReports::CellsOf(const std::string& process, Time now) const {
  const auto it = reports_.find(process);
  if (it == reports_.end()) return {};
  const auto value = [&](const char* key) {
    const auto v = it->second.values.find(key);
    return v == it->second.values.end() ? std::string() : Short(v->second);
  };
  const auto step = it->second.values.find("step");
  return {step == it->second.values.end() ? "" : step->second, StepsPerSecond(it->second, now), value("images_per_s"),
          value("loss")};
}

std::string ClusterReports::Text(const std::string& process, Time now) const {
  const Cells c = CellsOf(process, now);
  std::vector<std::string> parts;
  if (!c.step.empty()) parts.push_back(StrCat("step ", c.step));
  if (!c.loss.empty()) parts.push_back(StrCat("loss ", c.loss));
  if (!c.steps_per_s.empty()) parts.push_back(StrCat(c.steps_per_s, " steps/s"));
  if (!c.images_per_s.empty()) parts.push_back(StrCat(c.images_per_s, " images/s"));
  if (const auto it = reports_.find(process); it != reports_.end()) {
    for (const char* key : {"accuracy", "hash"}) {
      if (const auto v = it->second.values.find(key); v != it->second.values.end())
        parts.push_back(StrCat(key, " ", v->second));
    }
  }
  return StrJoin(parts, ", ");
}

std::string ClusterReports::Json(const std::string& process, Time now) const {
  const auto it = reports_.find(process);
  if (it == reports_.end()) return "";
  std::string text;
  for (const auto& [key, value] : it->second.values) {
    StrAppend(&text, text.empty() ? "" : ", ", JsonString(key), ": ", key == "hash" ? JsonString(value) : value);
  }
  const std::string rate = StepsPerSecond(it->second, now);
  if (!rate.empty()) StrAppend(&text, text.empty() ? "" : ", ", "\"steps_per_s\": ", rate);
  return text;
}

std::string ClusterJson(const ClusterPlan& plan, const ProcessesStatus& status, const ClusterReports& reports,
                        ClusterReports::Time now) {
  std::string text = StrCat("{\"pid\": ", static_cast<int64_t>(::getpid()),
                            ", \"cluster\": ", JsonString(plan.cluster.ToFlags()), ", \"state\": \"",
                            status.over       ? "over"
                            : status.stopping ? "stopping"
                                              : "running",
                            "\"");
  if (status.over) {
    StrAppend(&text, ", \"result\": \"", absl::StatusCodeToString(status.result.code()),
              "\", \"why\": ", JsonString(std::string(status.result.message())));
  }
  StrAppend(&text, ", \"processes\": [");
  for (size_t i = 0; i < status.processes.size(); ++i) {
    const ProcessStatus& p = status.processes[i];
    StrAppend(&text, i == 0 ? "" : ",", "\n  {\"name\": ", JsonString(p.name),
              ", \"address\": ", JsonString(plan.addresses[i]), ", \"state\": \"", ToString(p.state),
              "\", \"pid\": ", p.pid, ", \"incarnation\": ", p.incarnation, ", \"restarts\": ", p.restarts,
              ", \"since_ms\": ", p.since_ms, ", \"last_end\": ", JsonString(p.last_end),
              ", \"last_line\": ", JsonString(p.last_line), ", \"report\": {", reports.Json(p.name, now), "}}");
  }
  return text + "\n]}\n";
}

std::string ClusterTable(const ClusterPlan& plan, const ProcessesStatus& status, const ClusterReports& reports,
                         ClusterReports::Time now) {
  std::vector<std::vector<std::string>> rows{
      {"task", "address", "process", "incarnation", "state", "restarts", "step", "steps/s", "images/s", "loss"}};
  for (size_t i = 0; i < status.processes.size(); ++i) {
    const ProcessStatus& p = status.processes[i];
    const ClusterReports::Cells c = reports.CellsOf(p.name, now);
    rows.push_back({p.name, plan.addresses[i], p.pid == 0 ? "-" : StrCat(p.pid), StrCat(p.incarnation),
                    std::string(ToString(p.state)), StrCat(p.restarts), c.step, c.steps_per_s, c.images_per_s, c.loss});
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace troupe::tool
