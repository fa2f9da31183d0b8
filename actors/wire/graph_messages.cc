#include "actors/wire/graph_messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "troupe/graph.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

EdgeTable EdgesBetween(const std::vector<PartEdges>& parts, const std::vector<uint32_t>& tasks) {
  EdgeTable edges;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const PartAddress address{tasks.empty() ? 0 : tasks[i], i};
    for (const PartEdges::End& end : parts[i].in) edges[edges.Add(end.name)].receiver = address;
    for (const PartEdges::End& end : parts[i].out) {
      if (!end.granted) continue;
      EdgeTable::Edge& edge = edges[edges.Add(end.name)];
      edge.sender = address;
      edge.granted = true;
    }
  }
  return edges;
}

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

caf::error inspect(caf::serializer& f, GraphValue& x) {
  std::string bytes;
  Locations locations;
  if (x.graph != nullptr) {
    proto::GraphDef def;
    ExportGraphDef(*x.graph, &def);
    // The graph is placed. What asks to stand beside a node of another part stands there already.
    for (proto::NodeDef& node : *def.mutable_node()) node.mutable_attr()->erase("_class");
    locations = LocationsOf(*x.graph, def);
    // Equal graphs are equal bytes.
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    if (!def.SerializeToCodedStream(&out)) return caf::sec::invalid_argument;
  }
  return f(bytes, locations.files, locations.places);
}
caf::error inspect(caf::deserializer& f, GraphValue& x) {
  std::string bytes;
  Locations locations;
  if (caf::error e = f(bytes, locations.files, locations.places)) return e;
  x.graph = nullptr;
  if (bytes.empty()) return caf::none;
  const google::protobuf::LogSilencer quiet;  // the error tells
  proto::GraphDef def;
  if (!def.ParseFromString(bytes)) return caf::sec::invalid_argument;
  auto graph = std::make_shared<Graph>();
  if (const auto s = ImportGraphDef(def, {}, graph.get()); !s.ok())
    return caf::make_error(caf::sec::invalid_argument, std::string(s.status().message()));
  SetLocations(locations, def, graph.get());
  x.graph = std::move(graph);
  return caf::none;
}

caf::error inspect(caf::serializer& f, graph_registered& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.compile, x.task, status, x.handle, x.parts, x.graphs);
}
caf::error inspect(caf::deserializer& f, graph_registered& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.compile, x.task, status, x.handle, x.parts, x.graphs)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

}  // namespace troupe
