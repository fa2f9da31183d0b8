// Times steps of one frozen network (serve.h says how samples are asked for; a sample is the
// seconds of a step).
//
//   networks GRAPH.pb --batch N --threads N [--no_fuse] [--check FILE]
//
// The graph has an input "x", float images [?,s,s,3] or int32 numbers of words [?,n] below 8000,
// and an output "out". With --check the program writes the output of one step to FILE, as raw
// floats, and ends.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>

#include "tools/benchmarks/draw.h"
#include "tools/benchmarks/serve.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

struct Flags {
  std::string file, check;
  int batch = 1, threads = 1;
  bool no_fuse = false;
  double seconds = 0.3;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "networks: %s\n", s.ToString().c_str());
  std::exit(1);
}

Tensor Input(const proto::GraphDef& def, int batch) {
  for (const auto& node : def.node()) {
    if (node.name() != "x") continue;
    TensorShape shape({batch});
    const auto& dims = node.attr().at("shape").shape();
    for (int i = 1; i < dims.dim_size(); ++i) shape.AddDim(dims.dim(i).size());
    const bool words = shape.rank() == 2;
    Tensor x(words ? DType::kInt32 : DType::kFloat, shape);
    Draw draw;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const uint32_t number = draw();
      if (words) {
        x.data<int32_t>()[i] = static_cast<int32_t>(number % 8000);
      } else {
        x.data<float>()[i] = static_cast<float>(number % 65536) / 65536;
      }
    }
    return x;
  }
  std::fprintf(stderr, "networks: there is no node x\n");
  std::exit(1);
}

int Main(const Flags& flags) {
  std::ifstream in(flags.file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  Tensor x;
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  options.fuse = !flags.no_fuse;
  const std::unique_ptr<Session> session = Session::Create(options).value();
  {
    proto::GraphDef def;
    if (bytes.empty() || !def.ParseFromString(bytes))
      return std::fprintf(stderr, "networks: %s holds no GraphDef\n", flags.file.c_str()), 1;
    x = Input(def, flags.batch);
    Need(session->Extend(def));
  }
  const Callable step = session->Prepare({"x"}, {"out:0"}, {}).value();
  std::vector<Tensor> out;
  const auto run = [&] {
    out.clear();  // as a rival's caller lets go of the last output
    Need(step.Run({x}, &out));
  };
  if (!flags.check.empty()) {
    run();
    std::ofstream(flags.check, std::ios::binary)
        .write(static_cast<const char*>(out[0].raw()), static_cast<std::streamsize>(out[0].bytes()));
    return 0;
  }
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 3; ++i) run();
  return Serve(
      StrCat("{\"warm_up_s\":", SecondsSince(start), "}"), [&] { return Sample(flags.seconds, run); },
      [] { return StrCat("{\"peak_bytes\":", PeakMemory(), "}"); });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times steps of one network");
  app.add_option("graph", flags.file, "a binary GraphDef")->required();
  app.add_option("--batch", flags.batch)->check(CLI::Range(1, 1024));
  app.add_option("--threads", flags.threads);
  app.add_option("--seconds", flags.seconds, "of a sample");
  app.add_option("--check", flags.check, "where the output goes");
  app.add_flag("--no_fuse", flags.no_fuse);
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
