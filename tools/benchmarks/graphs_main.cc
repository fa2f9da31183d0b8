// Writes the graphs that the runtime is timed on as binary GraphDefs.
//
//   graphs FOLDER [NAME...]
#include <filesystem>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "tools/benchmarks/graphs.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

using namespace troupe;  // NOLINT

int main(int argc, char** argv) {
  constexpr char kUsage[] = "usage: graphs FOLDER [NAME...]\n";
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--help" || first == "-h") return std::printf("%s", kUsage), 0;
  // No folder: a name that begins so would be taken for a flag by whoever is to remove it.
  if (first.empty() || first.starts_with('-')) return std::fprintf(stderr, "%s", kUsage), 2;
  std::vector<std::string> names(argv + 2, argv + argc);
  if (names.empty()) names = bench::GraphNames();
  std::error_code error;
  std::filesystem::create_directories(argv[1], error);
  for (const std::string& name : names) {
    auto graph = std::make_shared<Graph>();
    const absl::Status s = bench::BuildGraph(name, graph);
    if (!s.ok()) return std::fprintf(stderr, "graphs: %s\n", s.ToString().c_str()), 1;
    proto::GraphDef def;
    ExportGraphDef(*graph, &def);
    std::ofstream out(StrCat(argv[1], "/", name, ".pb"), std::ios::binary);
    if (!def.SerializeToOstream(&out) || !out.flush())
      return std::fprintf(stderr, "graphs: cannot write %s/%s.pb\n", argv[1], name.c_str()), 1;
    std::printf("%s %d\n", name.c_str(), def.node_size());
  }
  return 0;
}
