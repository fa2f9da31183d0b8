// Times the training step of a model of models.h (serve.h says how samples are asked for; a sample
// is the seconds of a step).
//
//   models NAME (models.h) [--threads N] [--seconds S] [--losses N]
//          [--recompute SCOPE,... | --recompute_budget BYTES] [--profile N]
//
// The head has the losses of the first steps, which the rivals' programs must have, too: all begin
// with equal values, and read equal batches. The tail has `limit_s`, what the step's products and
// convolutions would take at least (limit.h; 0 where that is not known), and the most memory that
// the tensors of a step take, predicted and measured; what is there between steps, and what the
// heap keeps for reuse. With --profile nothing is asked for: N steps are timed as a whole, N more
// by node, and a table says where the time goes.
#include <CLI/CLI.hpp>

#include "examples/mnist/profile.h"
#include "tools/benchmarks/draw.h"
#include "tools/benchmarks/limit.h"
#include "tools/benchmarks/models.h"
#include "tools/benchmarks/serve.h"
#include "troupe/proto/config.pb.h"
#include "troupe/step_memory.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

struct Flags {
  std::string model;
  int threads = 1, losses = 5, profile = 0;
  double seconds = 0.4;
  GradientOptions gradients;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "models: %s\n", s.ToString().c_str());
  std::exit(1);
}
template <class T>
T Need(absl::StatusOr<T> s) {
  Need(s.status());
  return *std::move(s);
}

// Of variable number `i`: vectors named gamma are near one, everything else is near zero.
Tensor InitialValue(const Variable& v, size_t i) {
  TensorShape shape;
  for (const int64_t d : v.variable_shape().dims()) shape.AddDim(d);
  const std::string name = v.variable_name();
  const float middle = name.ends_with("gamma") ? 1.0f : 0.0f;
  Tensor value(DType::kFloat, shape);
  Draw draw(static_cast<uint32_t>(i) + 1);
  for (int64_t k = 0; k < value.num_elements(); ++k) value.data<float>()[k] = middle + (draw.Unit() - 0.5f) * 0.125f;
  return value;
}

// What `feed` is fed in a batch.
Tensor Batch(const Feed& feed, uint32_t seed) {
  Tensor t(feed.to.dtype(), feed.shape);
  Draw draw(seed);
  for (int64_t k = 0; k < t.num_elements(); ++k) {
    if (t.dtype() == DType::kFloat) {
      t.data<float>()[k] = feed.below == 2 ? static_cast<float>(draw() % 65536 / 32768) : draw.Unit();
    } else if (t.dtype() == DType::kInt32) {
      t.data<int32_t>()[k] = static_cast<int32_t>(draw.Word(feed.below));
    } else {
      t.data<int64_t>()[k] = draw.Word(feed.below);
    }
  }
  return t;
}

// The most memory that the step's tensors take, by their shapes.
int64_t PredictedPeak(const Scope& root, const TrainingModel& m, const OutputList& feeds,
                      const std::vector<Tensor>& batch) {
  std::vector<std::string> names;
  StepMemoryOptions options;
  for (size_t i = 0; i < feeds.size(); ++i) {
    names.push_back(feeds[i].name());
    options.feed_shapes.emplace_back(batch[i].shape());
  }
  return Need(PredictStepMemory(*root.graph(), names, {m.loss.name()}, {m.train.name()}, options)).peak_bytes;
}

void Profile(const Callable& step, const std::vector<Tensor>& batch, int steps) {
  mnist::StepProfile profile;
  RunOptions by_node;
  by_node.collect_stats = true;
  std::vector<Tensor> out;
  for (int i = 0; i < steps; ++i) {
    const Clock::time_point start = Clock::now();
    Need(step.Run(batch, &out));
    profile.AddStep(0, static_cast<int64_t>(SecondsSince(start) * 1e9));
    proto::RunMetadata metadata;
    Need(step.Run(by_node, batch, &out, &metadata));
    profile.Add(metadata);
  }
  profile.Print();
}

int Main(const Flags& flags) {
  const Scope root = Scope::NewRootScope();
  const TrainingModel m = BuildModel(root, flags.model, flags.gradients);
  Need(root.status());
  const double products = MultiplyAdds(root);
  const Operation init = GlobalVariablesInitializer(root);
  const std::vector<Variable> variables = VariablesIn(root, kTrainableVariables);
  Need(root.status());
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  const std::unique_ptr<Session> session = Need(Session::Create(options));
  Need(session->Extend(*root.graph()));
  Need(session->Run({}, {}, {init}, nullptr));
  for (size_t i = 0; i < variables.size(); ++i) Need(session->Set(variables[i], InitialValue(variables[i], i)));

  OutputList names;
  std::vector<std::vector<Tensor>> batches(static_cast<size_t>(m.batches));
  uint32_t seed = 0;
  for (const Feed& f : m.feeds) names.push_back(f.to);
  for (std::vector<Tensor>& batch : batches) {
    for (const Feed& f : m.feeds) batch.push_back(Batch(f, ++seed));
    for (const auto& fixed : m.always) batch.push_back(fixed.second);
  }
  for (const auto& fixed : m.always) names.push_back(fixed.first);
  const Callable step = Need(session->Prepare(names, {m.loss}, {m.train}));
  size_t next = 0;
  double processor = 0;
  std::vector<Tensor> out;
  const auto run = [&] { Need(step.Run(batches[next++ % batches.size()], &out)); };
  std::string losses;
  for (int i = 0; i < flags.losses; ++i) {
    run();
    char text[32];
    std::snprintf(text, sizeof text, "%s%.9g", i > 0 ? "," : "", static_cast<double>(out[0].scalar<float>()));
    losses += text;
  }
  if (flags.profile > 0) {
    Profile(step, batches[0], flags.profile);
    return 0;
  }
  const auto in_use = [&] { return session->runtime()->devices()[0].memory; };
  session->runtime()->ResetPeakMemory();
  out.clear();
  const int64_t idle = in_use().bytes_in_use;
  run();
  const int64_t peak = in_use().peak_bytes_in_use - idle;
  const size_t before = next;
  return Serve(
      StrCat("{\"losses\":[", losses, "]}"),
      [&] {
        const double start = CpuSeconds(), seconds = Sample(flags.seconds, run);
        processor += CpuSeconds() - start;
        return seconds;
      },
      [&] {
        const double steps = static_cast<double>(std::max<size_t>(next - before, 1));
        const double rate = products > 0 ? MultiplyAddRate(flags.threads, 0.5) : 0;
        return StrCat("{\"peak_bytes\":", PeakMemory(), ",\"cpu_s_per_step\":", processor / steps,
                      ",\"limit_s\":", rate > 0 ? products / rate : 0.0, ",\"step_bytes\":", peak,
                      ",\"predicted_step_bytes\":", PredictedPeak(root, m, names, batches[0]),
                      ",\"bytes_between_steps\":", idle, ",\"bytes_cached\":", in_use().bytes_cached, "}");
      });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times the training step of a model");
  app.add_option("model", flags.model)->required();
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seconds", flags.seconds, "of a sample");
  app.add_option("--profile", flags.profile, "so many steps by node")->check(CLI::Range(1, 1000000));
  app.add_option("--losses", flags.losses, "of so many first steps")->check(CLI::Range(1, 1000000));
  app.add_option("--recompute", flags.gradients.recompute.scopes, "what is below these scopes for the gradients")
      ->delimiter(',');
  app.add_option("--recompute_budget", flags.gradients.recompute.budget_bytes, "most bytes kept for the gradients");
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
