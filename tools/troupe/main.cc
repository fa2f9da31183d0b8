// troupe: runs graphs and shows what there is.
#include <CLI/CLI.hpp>

#include "commands.h"

namespace {

constexpr const char* kAbout = R"(Runs dataflow graphs in TensorFlow's GraphDef form, and shows ops and graphs.

Ends with 0 when all went well, 1 when it failed (the reason stands on stderr), 2 when the command line makes
no sense, and 3 when the graph has ops that do not exist here (all of them are listed).)";

constexpr const char* kRunAbout = R"(Runs a graph once, or again and again with --repeat, and prints what was fetched.

VALUE is a scalar or a nested list, in the type of what is fed: 3, [[1, 2], [3, 4.5]], ["a", "b"], true, 1+2j, nan.)";

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::tool;
  CLI::App app(kAbout, "troupe");
  app.require_subcommand(1);
  int code = kOk;

  RunFlags run;
  CLI::App* r = app.add_subcommand("run", kRunAbout);
  r->add_option("GRAPH", run.graph, "A GraphDef file, binary (.pb) or text (.pbtxt)")->required();
  r->add_option("--feed", run.feeds, "NAME[:PORT]=VALUE or NAME[:PORT]=@FILE.npy; may be given again")
      ->allow_extra_args(false);
  r->add_option("--fetch", run.fetches, "NAME[:PORT] of a tensor to fetch; may be given again")
      ->allow_extra_args(false);
  r->add_option("--target", run.targets, "NAME of a node to run; may be given again")->allow_extra_args(false);
  r->add_option(
      "--out", run.out,
      "Write the fetched tensors to DIR/0.npy, DIR/1.npy, ... in the order of the fetches (bfloat16 as float32)");
  r->add_option("--repeat", run.repeat, "Run so many times more, after a warm-up, and tell the time of one run")
      ->check(CLI::Range(1, 1000000000));
  r->add_option("--threads", run.threads, "Busy threads in all; 0 = one per hardware thread")
      ->check(CLI::Range(0, 1024));
  r->add_option("--trace", run.trace, "Write what ran when to FILE, for chrome://tracing");
  r->add_flag("--json", run.json, "Print one JSON object: `fetches`, and `timing` with --repeat");
  r->callback([&] { code = RunCommand(run); });

  OpsFlags ops;
  CLI::App* o =
      app.add_subcommand("ops", "Lists the ops there are: signature, attrs, types of the CPU kernels, documentation.");
  o->add_option("NAME", ops.names, "Ops to show (all without one)");
  o->add_flag("--names", ops.names_only, "Only the names");
  o->callback([&] { code = OpsCommand(ops); });

  GraphFlags graph;
  CLI::App* g = app.add_subcommand("graph", "Shows a graph, one line a node, as it is or after passes.");
  g->add_option("GRAPH", graph.graph, "A GraphDef file, binary (.pb) or text (.pbtxt)")->required();
  g->add_option("--after", graph.passes,
                "Show the graph after this pass: prune, cse, fold; may be given again, in order")
      ->check(CLI::IsMember({"prune", "cse", "fold"}))
      ->allow_extra_args(false);
  g->add_option("--feed", graph.feeds, "For prune: NAME[:PORT] of a tensor that will be fed")->allow_extra_args(false);
  g->add_option("--fetch", graph.fetches, "For prune: NAME[:PORT] of a tensor to fetch")->allow_extra_args(false);
  g->add_option("--target", graph.targets, "For prune: NAME of a node to run")->allow_extra_args(false);
  g->add_flag("--dot", graph.dot, "As a graph for Graphviz");
  g->callback([&] { code = GraphCommand(graph); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  return code;
}
