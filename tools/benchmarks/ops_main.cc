// Times steps of many small graphs, each by itself (serve.h says how samples are asked for). The
// first sample is the seconds of a step of the first graph, the second of the second, and so on
// from the beginning again.
//
//   ops FOLDER --threads N [--check FOLDER]
//
// FOLDER/names.json lists the graphs, FOLDER/NAME.pb each (rivals/ops.py writes them): an input "x"
// of a known shape, float or int32 numbers of words, and an output "out". With --check the program
// writes the outputs of one step each to FOLDER/NAME.ours, as raw floats, and ends.
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
  std::string folder, check;
  int threads = 1;
  double seconds = 0.1;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "ops: %s\n", s.ToString().c_str());
  std::exit(1);
}

std::string Bytes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The texts of a JSON list of texts without escapes.
std::vector<std::string> Names(const std::string& json) {
  std::vector<std::string> names;
  for (size_t at = json.find('"'); at != std::string::npos;) {
    const size_t end = json.find('"', at + 1);
    if (end == std::string::npos) break;
    names.push_back(json.substr(at + 1, end - at - 1));
    at = json.find('"', end + 1);
  }
  return names;
}

struct Op {
  std::string name;
  Tensor x;
  std::unique_ptr<Session> session;
  Callable step;
  std::vector<Tensor> out;

  // What came before is let go of first, as who asks a rival does.
  void Run() {
    out.clear();
    Need(step.Run({x}, &out));
  }
};

// What rivals/op_steps.py feeds, too.
Tensor Input(const proto::NodeDef& node) {
  TensorShape shape;
  for (const auto& dim : node.attr().at("shape").shape().dim()) shape.AddDim(dim.size());
  const bool words = node.attr().at("dtype").type() == proto::DT_INT32;
  Tensor x(words ? DType::kInt32 : DType::kFloat, shape);
  Draw draw;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (words) {
      x.data<int32_t>()[i] = static_cast<int32_t>(draw() % 8000);
    } else {
      x.data<float>()[i] = draw.Unit() * 2 - 1;
    }
  }
  return x;
}

Op Load(const std::string& folder, const std::string& name, const std::shared_ptr<Runtime>& runtime) {
  Op op;
  op.name = name;
  proto::GraphDef def;
  const std::string bytes = Bytes(folder + "/" + name + ".pb");
  if (bytes.empty() || !def.ParseFromString(bytes)) Need(absl::NotFoundError("there is no graph " + name));
  for (const auto& node : def.node())
    if (node.name() == "x") op.x = Input(node);
  if (!op.x.valid()) Need(absl::InvalidArgumentError("there is no node x in " + name));
  SessionOptions options;
  options.runtime = runtime;
  op.session = Session::Create(options).value();
  Need(op.session->Extend(def));
  op.step = op.session->Prepare({"x"}, {"out:0"}, {}).value();
  return op;
}

int Main(const Flags& flags) {
  const std::shared_ptr<Runtime> runtime = Runtime::Start({.threads = flags.threads}).value();
  std::vector<Op> ops;
  for (const std::string& name : Names(Bytes(flags.folder + "/names.json")))
    ops.push_back(Load(flags.folder, name, runtime));
  if (ops.empty()) Need(absl::NotFoundError("there is no list of graphs in " + flags.folder));
  for (Op& op : ops) {
    for (int i = 0; i < 3; ++i) op.Run();
    if (flags.check.empty()) continue;
    std::ofstream(flags.check + "/" + op.name + ".ours", std::ios::binary)
        .write(static_cast<const char*>(op.out[0].raw()), static_cast<std::streamsize>(op.out[0].bytes()));
  }
  if (!flags.check.empty()) return 0;
  size_t next = 0;
  return Serve(StrCat("{\"ops\":", ops.size(), "}"), [&] {
    Op& op = ops[next++ % ops.size()];
    return Sample(flags.seconds, [&] { op.Run(); });
  });
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times steps of many small graphs");
  app.add_option("folder", flags.folder, "with names.json")->required();
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seconds", flags.seconds, "of a sample");
  app.add_option("--check", flags.check, "the folder where the outputs go");
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
