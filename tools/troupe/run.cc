// troupe run: a graph, what to feed, what to fetch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "tools/troupe/commands.h"
#include "tools/troupe/npy.h"
#include "tools/troupe/output.h"
#include "tools/troupe/peak_memory.h"
#include "tools/troupe/run_inputs.h"
#include "tools/troupe/value_text.h"
#include "tools/troupe/write_file.h"
#include "troupe/proto/config.pb.h"
#include "troupe/session.h"
#include "troupe/timeline.h"

namespace troupe::tool {
namespace {

using Clock = std::chrono::steady_clock;
double SecondsSince(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Timing {
  int nodes = 0;
  double first_s = 0;
  double median_us = 0, min_us = 0, max_us = 0;
};

// A few runs to warm up, then `repeat` timed ones.
absl::Status Repeat(Session* session, const RunFlags& flags, const Feeds& feeds, Timing* timing) {
  Names names;
  std::vector<Tensor> values, outputs;
  for (const auto& [name, value] : feeds) {
    names.push_back(name);
    values.push_back(value);
  }
  TROUPE_ASSIGN_OR_RETURN(Callable callable, session->Prepare(names, flags.fetches, flags.targets));
  for (int i = 0; i < std::clamp(flags.repeat / 10, 1, 100); ++i)
    TROUPE_RETURN_IF_ERROR(callable.Run(values, &outputs));
  std::vector<double> micros(flags.repeat);
  for (double& m : micros) {
    const Clock::time_point start = Clock::now();
    TROUPE_RETURN_IF_ERROR(callable.Run(values, &outputs));
    m = SecondsSince(start) * 1e6;
  }
  std::sort(micros.begin(), micros.end());
  const size_t half = micros.size() / 2;
  timing->median_us = micros.size() % 2 ? micros[half] : (micros[half - 1] + micros[half]) / 2;
  timing->min_us = micros.front();
  timing->max_us = micros.back();
  return absl::OkStatus();
}

std::string NpyPath(const RunFlags& flags, size_t i) {
  return (std::filesystem::path(flags.out) / StrCat(i, ".npy")).string();
}
bool HasNpyForm(const Tensor& t) { return IsPlainBytes(t.dtype()); }

void PrintAsJson(const RunFlags& flags, const std::vector<std::string>& labels, const std::vector<Tensor>& fetched,
                 const Timing& timing, const PeakMemory& memory) {
  Printer out;
  out.text() += "{\"fetches\": [";
  for (size_t i = 0; i < fetched.size(); ++i) {
    const Tensor& t = fetched[i];
    StrAppend(&out.text(), i > 0 ? ",\n  " : "\n  ", "{\"name\": ", JsonString(labels[i]), ", \"dtype\": \"",
              Name(t.dtype()), "\", \"shape\": [", StrJoin(t.shape().dims(), ", "), "]");
    if (!flags.out.empty() && HasNpyForm(t)) {
      StrAppend(&out.text(), ", \"file\": ", JsonString(NpyPath(flags, i)), "}");
    } else {
      out.text() += ", \"values\": ";
      PrintJsonValue(t, &out);
      out.text() += '}';
    }
  }
  out.text() += fetched.empty() ? "]" : "\n]";
  if (flags.repeat > 0) {
    StrAppend(&out.text(), ",\n\"timing\": {\"nodes\": ", timing.nodes,
              ", \"import_and_first_run_s\": ", timing.first_s, ", \"run_us\": {\"median\": ", timing.median_us,
              ", \"min\": ", timing.min_us, ", \"max\": ", timing.max_us, "}}");
  }
  if (flags.memory) StrAppend(&out.text(), ",\n\"memory\": ", JsonOf(memory));
  out.text() += "}\n";
}

void PrintAsText(const RunFlags& flags, const std::vector<std::string>& labels, const std::vector<Tensor>& fetched,
                 const Timing& timing, const PeakMemory& memory) {
  Printer out;
  for (size_t i = 0; i < fetched.size(); ++i) {
    StrAppend(&out.text(), labels[i], " ", fetched[i].TypeAndShape());
    if (!flags.out.empty() && HasNpyForm(fetched[i])) {
      StrAppend(&out.text(), " -> ", NpyPath(flags, i));
    } else {
      out.text() += '\n';
      PrintValue(fetched[i], flags.full, &out);
    }
    out.text() += '\n';
  }
  if (flags.repeat > 0) {
    StrAppend(&out.text(), timing.nodes, " nodes; import and first run ", Fixed(timing.first_s, 6), " s; one run ",
              Fixed(timing.median_us, 2), " us (median of ", flags.repeat, "; least ", Fixed(timing.min_us, 2),
              ", most ", Fixed(timing.max_us, 2), ")\n");
  }
  if (flags.memory) out.text() += TextOf(memory);
}

absl::Status WriteOutputs(const RunFlags& flags, const std::vector<Tensor>& fetched) {
  if (flags.out.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) return Internal(flags.out, ": ", error.message());
  for (size_t i = 0; i < fetched.size(); ++i) {
    if (HasNpyForm(fetched[i])) TROUPE_RETURN_IF_ERROR(WriteNpy(fetched[i], NpyPath(flags, i)));
  }
  return absl::OkStatus();
}

// Runs a step of its own for each --init, then the step.
absl::Status RunOnce(Session* session, const RunFlags& flags, const Feeds& feeds, std::vector<Tensor>* fetched,
                     double* seconds, int64_t* peak_bytes) {
  for (const std::string& init : flags.inits) {
    if (absl::Status s = session->Run(feeds, {}, {init}, nullptr); !s.ok()) return Annotate(s, StrCat("--init ", init));
  }
  RunOptions options;
  options.check_numerics = flags.check_numerics || !flags.numerics_folder.empty();
  options.numerics_folder = flags.numerics_folder;
  std::optional<PeakMeter> meter;
  if (flags.memory) meter.emplace(*session);
  const Clock::time_point start = Clock::now();
  TROUPE_RETURN_IF_ERROR(session->Run(options, feeds, flags.fetches, flags.targets, fetched, nullptr));
  *seconds += SecondsSince(start);
  if (meter.has_value()) *peak_bytes = meter->Bytes();
  return absl::OkStatus();
}

absl::Status Trace(Session* session, const RunFlags& flags, const Feeds& feeds) {
  RunOptions traced;
  traced.collect_stats = true;
  proto::RunMetadata metadata;
  std::vector<Tensor> again;
  absl::Status s = session->Run(traced, feeds, flags.fetches, flags.targets, &again, &metadata);
  Timeline timeline;
  timeline.Add(metadata);
  if (s.ok()) s = WriteFile(flags.trace, {timeline.Text()});
  return Annotate(s, "--trace");
}

}  // namespace

int RunCommand(const RunFlags& given) {
  RunFlags flags = given;
  std::vector<std::string> labels;
  LoadedGraph loaded;
  Feeds feeds;
  if (const int code = LoadToRun(&flags, &labels, &loaded, &feeds); code != kOk) return code;
  if (flags.memory && !flags.server.empty())
    return Complain(kUsage, "--memory tells of tensors in this process: it cannot be used with --server");
  if (!flags.server.empty()) {
    if (const absl::Status tls = UseTls(ToOptions(flags.tls)); !tls.ok()) return Complain(kFailed, tls);
  }
  SessionOptions options;
  options.target = flags.server;
  options.client_name = "troupe run";
  options.runtime_options.threads = flags.threads;
  options.runtime_options.memory_limit = flags.memory_limit;
  options.operation_timeout_ms = flags.timeout_ms;
  auto session = Session::Create(options);
  if (!session.ok()) return Complain(kFailed, session.status());
  Timing timing;
  timing.nodes = loaded.num_nodes();
  std::vector<Tensor> fetched;
  const Clock::time_point start = Clock::now();
  absl::Status s = loaded.Extend(session->get());
  timing.first_s = SecondsSince(start);
  PeakMemory memory;
  if (s.ok() && flags.memory) s = PredictPeak(loaded.graph, flags, feeds, &memory);
  if (s.ok()) s = RunOnce(session->get(), flags, feeds, &fetched, &timing.first_s, &memory.measured_bytes);
  if (s.ok() && flags.repeat > 0) s = Repeat(session->get(), flags, feeds, &timing);
  if (s.ok() && !flags.trace.empty()) s = Trace(session->get(), flags, feeds);
  if (s.ok()) s = WriteOutputs(flags, fetched);
  if (!s.ok()) return Complain(kFailed, s);
  if (flags.json) {
    PrintAsJson(flags, labels, fetched, timing, memory);
  } else {
    PrintAsText(flags, labels, fetched, timing, memory);
  }
  return kOk;
}

}  // namespace troupe::tool
