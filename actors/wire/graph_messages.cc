#include "actors/wire/graph_messages.h"

#include <utility>

#include "actors/wire/graph_bytes.h"
#include "troupe/graph.h"

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

caf::error inspect(caf::serializer& f, GraphValue& x) {
  bool there = x.graph != nullptr;
  if (caf::error e = f(there)) return e;
  return there ? wire::WriteGraph(f, *x.graph, wire::Placement::kDone) : caf::none;
}
caf::error inspect(caf::deserializer& f, GraphValue& x) {
  x.graph = nullptr;
  bool there = false;
  if (caf::error e = f(there)) return e;
  if (!there) return caf::none;
  auto graph = std::make_shared<Graph>();
  if (caf::error e = wire::ReadGraph(f, graph.get())) return e;
  x.graph = std::move(graph);
  return caf::none;
}

caf::error inspect(caf::serializer& f, actor_failed& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.place, x.incarnation, status);
}
caf::error inspect(caf::deserializer& f, actor_failed& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.place, x.incarnation, status)) return e;
  x.status = wire::StatusOf(status);
  // A step that is told to end must have a reason.
  return x.status.ok() ? caf::error(caf::sec::invalid_argument) : caf::error();
}

caf::error inspect(caf::serializer& f, failure_noted& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, failure_noted& x) { return wire::ReadStatus(f, &x); }

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
