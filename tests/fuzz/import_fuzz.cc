// Any bytes as a GraphDef, binary or text: import must refuse or accept them, and what it accepts
// must be a valid graph that is exported and read back as the same graph.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace {

void Require(bool ok) {
  if (!ok) std::abort();  // libFuzzer keeps the input
}

bool Parse(const std::string& bytes, troupe::proto::GraphDef* def) {
  if (def->ParseFromString(bytes)) return true;
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(100);
  return parser.ParseFromString(bytes, def);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static google::protobuf::LogSilencer silence;
  troupe::proto::GraphDef def;
  if (!Parse(std::string(reinterpret_cast<const char*>(data), size), &def)) return 0;
  troupe::Graph graph;
  if (!troupe::ImportGraphDef(def, {}, &graph).ok()) {
    Require(graph.num_nodes() == 2);
    return 0;
  }
  Require(graph.Validate().ok());
  troupe::proto::GraphDef out;
  troupe::ExportGraphDef(graph, &out);
  troupe::Graph again;
  Require(troupe::ImportGraphDef(out, {}, &again).ok());
  Require(again.num_nodes() == graph.num_nodes() && again.num_edges() == graph.num_edges());
  return 0;
}
