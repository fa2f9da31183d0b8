#include "report.h"

#include <cstdio>
#include <unistd.h>

#include "troupe/status.h"

namespace cluster_mnist {
namespace {

using troupe::StrCat;
using troupe::train::TrainingEvent;

// A text in JSON.
std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}
// Nine digits tell one float32 from the next; JSON knows no others than finite numbers.
std::string Number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", v);
  return std::isfinite(v) ? text : "null";
}

}  // namespace

void Report::Print(const std::string& event, const Fields& fields) const {
  const bool json = options_.json;
  std::string line =
      json ? StrCat("{\"event\": ", Quoted(event), ", \"task\": ", options_.task) : StrCat(options_.task, " ", event);
  for (const auto& [name, value] : fields)
    troupe::StrAppend(&line, json ? ", \"" : "  ", name, json ? "\": " : " ", value);
  std::printf("%s%s\n", line.c_str(), json ? "}" : "");
  std::fflush(stdout);
}

void Report::Ready(const std::string& listens_at) const {
  Print("ready", {{"pid", StrCat(static_cast<int64_t>(::getpid()))}, {"listens_at", Quoted(listens_at)}});
}

void Report::Tell(const TrainingEvent& event) {
  const std::string step = StrCat(event.step);
  if (event.kind == TrainingEvent::kBegin) {
    last_ = std::chrono::steady_clock::now();
    Fields fields{{"step", step}};
    if (options_.task == 0) {
      const char* const from[] = {"\"start\"", "\"servers\"", "\"checkpoint\""};
      fields.emplace_back("from", from[event.from]);
      if (event.from == TrainingEvent::kCheckpoint) fields.emplace_back("restored_to", step);
      if (event.from != TrainingEvent::kServers) fields.emplace_back("lost_updates", StrCat(event.lost_updates));
    }
    Print("begin", fields);
  } else if (event.kind == TrainingEvent::kStep) {
    TellStep(event);
  } else if (event.kind == TrainingEvent::kSaved) {
    Print("saved", {{"step", step}, {"path", Quoted(event.path)}});
  } else if (event.kind >= TrainingEvent::kJoined) {
    const char* const what = event.kind == TrainingEvent::kJoined ? "joined"
                             : event.kind == TrainingEvent::kLeft ? "left"
                                                                  : "gone";
    Print(what, {{"step", step}, {"worker", StrCat(event.worker)}});
  } else if (event.kind == TrainingEvent::kTraced) {
    Print("traced", {{"path", Quoted(event.path)}});
  } else {
    const char* const what = event.kind == TrainingEvent::kLost         ? "lost"
                             : event.kind == TrainingEvent::kSaveFailed ? "save_failed"
                                                                        : "trace_failed";
    Print(what, {{"why", Quoted(event.why.ToString())}});
  }
}

void Report::TellStep(const TrainingEvent& event) {
  const auto now = std::chrono::steady_clock::now();
  loss_ = event.loss;
  const double seconds = std::chrono::duration<double>(now - last_).count();
  last_ = now;
  seconds_ += seconds;
  gradients_ += event.gradients;
  if (event.step / options_.report_steps == reported_ && event.step < options_.steps) return;
  reported_ = event.step / options_.report_steps;
  const double rate = seconds > 0 ? static_cast<double>(options_.batch * event.gradients) / seconds : 0;
  Print("step", {{"step", StrCat(event.step)}, {"loss", Number(event.loss)}, {"images_per_s", Number(rate)}});
}

void Report::End(const troupe::train::TrainingReport& report) const {
  Fields fields{{"step", StrCat(report.step)}};
  if (options_.task == 0) {
    char hash[17];
    std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(hash_));
    fields.insert(fields.end(), {{"loss", Number(loss_)}, {"accuracy", Number(accuracy_)}, {"hash", Quoted(hash)}});
  }
  if (report.left) fields.emplace_back("left", "true");
  fields.emplace_back("recoveries", StrCat(report.recoveries));
  if (options_.task == 0) {
    fields.insert(fields.end(), {{"restarts", StrCat(report.restarts)},
                                 {"lost_updates", StrCat(report.lost_updates)},
                                 {"dropped", StrCat(report.dropped)}});
  }
  const double images = static_cast<double>(gradients_ * options_.batch);
  if (seconds_ > 0) fields.emplace_back("images_per_s", Number(images / seconds_));
  Print("end", fields);
}

}  // namespace cluster_mnist
