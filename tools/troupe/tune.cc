// troupe tune: runs a graph until the ways of its products and convolutions have been tried.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "tools/troupe/run_inputs.h"
#include "tools/troupe/value_text.h"
#include "troupe/tuning.h"

namespace troupe::tool {
namespace {

using Clock = std::chrono::steady_clock;

// Numbers in [-1, 1) for floats, zeros for all others: ids of words, say, are in range.
Tensor SomeTensor(DType dtype, const TensorShape& shape) {
  Tensor t(dtype, shape);
  if (!t.valid() || !IsPlainBytes(dtype)) return t;
  if (t.bytes() > 0) std::fill_n(static_cast<char*>(t.raw()), t.bytes(), 0);
  if (dtype != DType::kFloat) return t;
  uint32_t state = 1;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    state = state * 1664525 + 1013904223;  // Numerical Recipes' generator
    t.data<float>()[i] = static_cast<float>(state >> 8) / (1 << 23) - 1.0f;
  }
  return t;
}

int AddSome(const std::string& name, DType dtype, absl::Span<const int64_t> sizes, Feeds* feeds) {
  const absl::StatusOr<TensorShape> shape = TensorShape::Make(sizes);
  if (!shape.ok()) return Complain(kUsage, Annotate(shape.status(), StrCat("the shape of '", name, "'")));
  Tensor t = SomeTensor(BaseType(dtype), *shape);
  if (!t.valid()) return Complain(kFailed, StrCat("no memory for '", name, "' of shape ", shape->DebugString()));
  feeds->emplace_back(name, std::move(t));
  return kOk;
}

// NAME[:PORT]=SIZE,SIZE,...; nothing behind '=' is a scalar.
int AddShape(const std::string& text, const Graph& graph, Feeds* feeds) {
  const auto bad = [&](int code, const std::string& why) {
    return Complain(code, StrCat("--shape ", text.substr(0, 100), ": ", why));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return bad(kUsage, "must be NAME=SIZE,SIZE,...");
  const std::string name = text.substr(0, equals);
  const auto parsed = ParseTensorName(name);
  if (!parsed.ok()) return Complain(kUsage, parsed.status());
  const Node* node = graph.Find(parsed->first);
  if (node == nullptr || !node->IsOp()) return bad(kFailed, StrCat("the graph has no node '", parsed->first, "'"));
  if (parsed->second < 0 || parsed->second >= node->num_outputs())
    return bad(kFailed, StrCat("node '", parsed->first, "' has ", node->num_outputs(), " outputs"));
  std::vector<int64_t> sizes;
  for (const char *at = text.data() + equals + 1, *const end = text.data() + text.size(); at < end;) {
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || (stop != end && *stop != ',') || stop + 1 == end)
      return bad(kUsage, "sizes are numbers with commas between them");
    sizes.push_back(size);
    at = stop + (stop != end ? 1 : 0);
  }
  return AddSome(name, node->output_type(parsed->second), sizes, feeds);
}

// Placeholders of a known rank that nobody feeds.
int AddPlaceholders(const Graph& graph, Feeds* feeds) {
  for (const Node* n : graph.op_nodes()) {
    if (n->op().name != "Placeholder") continue;
    const bool fed = std::any_of(feeds->begin(), feeds->end(), [&](const auto& feed) {
      const auto name = ParseTensorName(feed.first);
      return name.ok() && name->first == n->name();
    });
    const auto shape = n->Attr<PartialTensorShape>("shape");
    if (fed || !shape.ok() || !shape->known_rank()) continue;
    std::vector<int64_t> sizes;
    for (int64_t d : shape->dims()) sizes.push_back(d < 0 ? 1 : d);
    if (const int code = AddSome(std::string(n->name()), n->output_type(0), sizes, feeds); code != kOk) return code;
  }
  return kOk;
}

int64_t TimedCalls() {
  int64_t calls = 0;
  for (const TuningChoice& c : TuningChoices()) {
    for (const TuningWay& w : c.ways) calls += w.calls;
  }
  return calls;
}

struct Tuned {
  int runs = 0;
  double fixed_us = 0, chosen_us = 0;  // medians of a step
};

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Runs until a run has tried nothing new, then compares.
absl::Status Tune(const Callable& step, const std::vector<Tensor>& values, const TuneFlags& flags, TuningMode mode,
                  Tuned* tuned) {
  constexpr auto kMostTime = std::chrono::seconds(120), kComparing = std::chrono::seconds(4);
  std::vector<Tensor> outputs;
  const Clock::time_point begin = Clock::now();
  // Two in a row: in one run another problem's trial may have kept all callers away from the last.
  for (int quiet = 0; quiet < 2 && tuned->runs < flags.most_runs && Clock::now() - begin < kMostTime; ++tuned->runs) {
    const int64_t before = TimedCalls();
    TROUPE_RETURN_IF_ERROR(step.Run(values, &outputs));
    quiet = TimedCalls() == before ? quiet + 1 : 0;
  }
  // In turn, so that what else the machine does falls on both.
  std::vector<double> fixed, chosen;
  const Clock::time_point comparing = Clock::now();
  for (int i = 0; i < 30 && (i < 3 || Clock::now() - comparing < kComparing); ++i) {
    for (std::vector<double>* times : {&fixed, &chosen}) {
      SetTuning(times == &fixed ? TuningMode::kOff : mode);
      const Clock::time_point start = Clock::now();
      TROUPE_RETURN_IF_ERROR(step.Run(values, &outputs));
      // The first of each sets up what the other one has dropped.
      if (i > 0) times->push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  tuned->fixed_us = Median(std::move(fixed));
  tuned->chosen_us = Median(std::move(chosen));
  return absl::OkStatus();
}

void PrintAsText(const std::vector<TuningChoice>& choices, const Tuned& tuned) {
  Printer out;
  for (const TuningChoice& c : choices) {
    StrAppend(&out.text(), c.problem, c.from_file ? "  from the file" : "", "\n");
    for (const std::string& node : c.nodes) StrAppend(&out.text(), "  node ", node, "\n");
    for (size_t i = 0; i < c.ways.size(); ++i) {
      const TuningWay& w = c.ways[i];
      const std::string us = w.least_us > 0 ? Fixed(w.least_us, 2) : "-";
      StrAppend(&out.text(), static_cast<int>(i) == c.chosen ? "  *" : "   ",
                std::string(us.size() < 12 ? 12 - us.size() : 0, ' '), us, " us  ", w.name,
                i == 0 ? "  (fixed choice)" : "", "\n");
    }
    if (c.chosen < 0) out.text() += "  not chosen yet: too few calls\n";
    out.Continue();
  }
  StrAppend(&out.text(), choices.size(), choices.size() == 1 ? " problem" : " problems", " after ", tuned.runs,
            " runs; one step ", Fixed(tuned.fixed_us, 2), " us with the fixed choice, ", Fixed(tuned.chosen_us, 2),
            " us with these\n");
}

void PrintAsJson(const std::vector<TuningChoice>& choices, const Tuned& tuned) {
  Printer out;
  out.text() += "{\"problems\": [";
  for (size_t p = 0; p < choices.size(); ++p) {
    const TuningChoice& c = choices[p];
    StrAppend(&out.text(), p > 0 ? ",\n  " : "\n  ", "{\"problem\": ", JsonString(c.problem), ", \"nodes\": [");
    for (size_t i = 0; i < c.nodes.size(); ++i) StrAppend(&out.text(), i > 0 ? ", " : "", JsonString(c.nodes[i]));
    StrAppend(&out.text(), "], \"chosen\": ", c.chosen < 0 ? "null" : JsonString(c.ways[c.chosen].name),
              ", \"from_file\": ", c.from_file ? "true" : "false", ", \"ways\": [");
    for (size_t i = 0; i < c.ways.size(); ++i) {
      const TuningWay& w = c.ways[i];
      StrAppend(&out.text(), i > 0 ? ", " : "", "{\"way\": ", JsonString(w.name), ", \"us\": ", w.least_us,
                ", \"calls\": ", w.calls, ", \"same_bits\": ", w.same_bits ? "true" : "false", "}");
    }
    out.text() += "]}";
    out.Continue();
  }
  StrAppend(&out.text(), choices.empty() ? "]" : "\n]", ",\n\"runs\": ", tuned.runs,
            ", \"step_us\": {\"fixed\": ", tuned.fixed_us, ", \"chosen\": ", tuned.chosen_us, "}}\n");
}

}  // namespace

int TuneCommand(const TuneFlags& flags) {
  RunFlags run = flags.run;
  // Both name what is fed, and of a SavedModel are given the names of its tensors.
  run.feeds.insert(run.feeds.end(), flags.shapes.begin(), flags.shapes.end());
  std::vector<std::string> labels;
  LoadedGraph loaded;
  if (const int code = LoadToExtend(&run, &labels, &loaded, true); code != kOk) return code;
  if (run.fetches.empty() && run.targets.empty()) return NothingToRun(loaded.graph);
  Feeds feeds;
  for (size_t i = 0; i < run.feeds.size(); ++i) {
    const bool value = i < flags.run.feeds.size();
    const int code = value ? AddFeed(run.feeds[i], loaded.graph, &feeds) : AddShape(run.feeds[i], loaded.graph, &feeds);
    if (code != kOk) return code;
  }
  if (const int code = AddPlaceholders(loaded.graph, &feeds); code != kOk) return code;

  const TuningMode mode = flags.same_bits ? TuningMode::kSameBits : TuningMode::kAll;
  SetTuning(mode);
  NoteTuningNodes(true);
  if (!flags.cache.empty()) {
    const absl::Status s = LoadTuning(flags.cache);
    if (!s.ok() && s.code() != absl::StatusCode::kNotFound) return Complain(kFailed, s);
  }
  SessionOptions options;
  options.runtime_options.threads = run.threads;
  auto session = Session::Create(options);
  if (!session.ok()) return Complain(kFailed, session.status());
  Tuned tuned;
  const auto all = [&]() -> absl::Status {
    TROUPE_RETURN_IF_ERROR(loaded.Extend(session->get()));
    for (const std::string& init : run.inits)
      TROUPE_RETURN_IF_ERROR(Annotate((*session)->Run(feeds, {}, {init}, nullptr), StrCat("--init ", init)));
    Names names;
    std::vector<Tensor> values;
    for (const auto& [name, value] : feeds) {
      names.push_back(name);
      values.push_back(value);
    }
    TROUPE_ASSIGN_OR_RETURN(Callable step, (*session)->Prepare(names, run.fetches, run.targets));
    TROUPE_RETURN_IF_ERROR(Tune(step, values, flags, mode, &tuned));
    return flags.cache.empty() ? absl::OkStatus() : SaveTuning(flags.cache);
  };
  if (const absl::Status s = all(); !s.ok()) return Complain(kFailed, s);
  const std::vector<TuningChoice> choices = TuningChoices();
  if (flags.json) {
    PrintAsJson(choices, tuned);
  } else {
    PrintAsText(choices, tuned);
  }
  return kOk;
}

}  // namespace troupe::tool
