#include "actors/wire/graph_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "graph/ir/on_arena.h"
#include "troupe/graph.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::wire {
namespace {

// Where the nodes of a GraphDef were defined, by node: the number of a file, and a line.
struct Locations {
  std::vector<std::string> files;
  std::vector<std::pair<uint32_t, uint32_t>> places;
};

Locations LocationsOf(const Graph& graph, const proto::GraphDef& def) {
  Locations all;
  for (const proto::NodeDef& d : def.node()) {
    const Node* const n = graph.Find(d.name());
    const SourceLocation at = n == nullptr ? SourceLocation() : n->location();
    const auto it = std::find(all.files.begin(), all.files.end(), at.file);
    all.places.emplace_back(static_cast<uint32_t>(it - all.files.begin()), at.line);
    if (it == all.files.end()) all.files.emplace_back(at.file);
  }
  return all;
}

// A location names a file for as long as the process lives. No more than so many come from
// messages: those beyond are not told.
const char* KeptName(const std::string& file) {
  constexpr size_t kMostFiles = 10000, kLongest = 4096;
  static std::mutex mu;
  static auto& names = *new std::set<std::string>;
  std::lock_guard<std::mutex> lock(mu);
  if (const auto it = names.find(file); it != names.end()) return it->c_str();
  if (file.size() > kLongest || names.size() >= kMostFiles) return "";
  return names.insert(file).first->c_str();
}

void SetLocations(const Locations& all, const proto::GraphDef& def, Graph* graph) {
  std::vector<const char*> files;
  for (const std::string& f : all.files) files.push_back(KeptName(f));
  for (int i = 0; i < def.node_size() && static_cast<size_t>(i) < all.places.size(); ++i) {
    const auto [file, line] = all.places[static_cast<size_t>(i)];
    Node* const n = graph->Find(def.node(i).name());
    if (n != nullptr && file < files.size()) n->set_location({files[file], line});
  }
}

}  // namespace

bool ToBytes(const proto::GraphDef& def, std::string* bytes) {
  google::protobuf::io::StringOutputStream stream(bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  return def.SerializeToCodedStream(&out);
}

caf::error WriteGraph(caf::serializer& f, const Graph& graph, Placement placement) {
  OnArena<proto::GraphDef> on_arena;
  proto::GraphDef& def = *on_arena;
  ExportGraphDef(graph, &def);
  if (placement == Placement::kDone) {
    for (proto::NodeDef& node : *def.mutable_node()) node.mutable_attr()->erase("_class");
  }
  Locations locations = LocationsOf(graph, def);
  std::string bytes;
  if (!ToBytes(def, &bytes)) return caf::sec::invalid_argument;
  return f(bytes, locations.files, locations.places);
}
caf::error ReadGraph(caf::deserializer& f, Graph* graph) {
  std::string bytes;
  Locations locations;
  if (caf::error e = f(bytes, locations.files, locations.places)) return e;
  const google::protobuf::LogSilencer quiet;  // the error tells
  OnArena<proto::GraphDef> on_arena;
  proto::GraphDef& def = *on_arena;
  if (!def.ParseFromString(bytes)) return caf::sec::invalid_argument;
  if (const auto s = ImportGraphDef(def, {}, graph); !s.ok())
    return caf::make_error(caf::sec::invalid_argument, std::string(s.status().message()));
  SetLocations(locations, def, graph);
  return caf::none;
}

}  // namespace troupe::wire
