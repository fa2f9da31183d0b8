#include "actors/wire/session_messages.h"

#include <google/protobuf/stubs/logging.h>

#include <string>

#include "actors/wire/graph_bytes.h"
#include "graph/ir/on_arena.h"
#include "troupe/graph.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

caf::error inspect(caf::serializer& f, extend_request& x) {
  bool has_def = x.def != nullptr;
  if (caf::error e = f(has_def)) return e;
  if (has_def) {
    std::string bytes;
    if (!wire::ToBytes(*x.def, &bytes)) return caf::sec::invalid_argument;
    if (caf::error e = f(bytes)) return e;
  }
  bool has_graph = x.graph != nullptr;
  if (caf::error e = f(has_graph)) return e;
  return has_graph ? wire::WriteGraph(f, *x.graph, wire::Placement::kOpen) : caf::none;
}
caf::error inspect(caf::deserializer& f, extend_request& x) {
  x = {};
  bool has_def = false, has_graph = false;
  if (caf::error e = f(has_def)) return e;
  if (has_def) {
    std::string bytes;
    if (caf::error e = f(bytes)) return e;
    const std::shared_ptr<proto::GraphDef> def = OnArena<proto::GraphDef>::Share();
    const google::protobuf::LogSilencer quiet;  // the error tells
    if (!def->ParseFromString(bytes)) return caf::sec::invalid_argument;
    x.def = def;
  }
  if (caf::error e = f(has_graph)) return e;
  if (!has_graph) return caf::none;
  auto graph = std::make_shared<Graph>();
  if (caf::error e = wire::ReadGraph(f, graph.get())) return e;
  x.graph = std::move(graph);
  return caf::none;
}

caf::error inspect(caf::serializer& f, extend_reply& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, extend_reply& x) { return wire::ReadStatus(f, &x); }
caf::error inspect(caf::serializer& f, close_reply& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, close_reply& x) { return wire::ReadStatus(f, &x); }

caf::error inspect(caf::serializer& f, compile_reply& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(status, x.signature, x.graphs);
}
caf::error inspect(caf::deserializer& f, compile_reply& x) {
  wire::StatusFields status;
  if (caf::error e = f(status, x.signature, x.graphs)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

}  // namespace troupe
