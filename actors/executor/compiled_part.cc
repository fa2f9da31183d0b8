#include "actors/executor/compiled_part.h"

#include "actors/executor/part_compiler.h"
#include "actors/wire/graph_messages.h"

namespace troupe {

absl::StatusOr<std::shared_ptr<const CompiledPart>> PartCompiler::Run() {
  TROUPE_RETURN_IF_ERROR(FindFrames());
  TROUPE_RETURN_IF_ERROR(NumberNodes());
  for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(PrepareNode(i));
  FindLoans();
  for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(ConnectNode(i));
  FindTurns();
  FindSharedUpdates();
  FindShapes();
  LeaveOutConstants();
  FindRoots();
  FindOrdering();
  return std::shared_ptr<const CompiledPart>(part_);
}

absl::StatusOr<std::shared_ptr<const CompiledPart>> CompiledPart::Compile(const Graph& graph,
                                                                          std::shared_ptr<Device> device,
                                                                          const SessionScope& session) {
  return PartCompiler(graph, std::move(device), session).Run();
}

PartEdges EdgesOf(const CompiledPart& part) {
  PartEdges edges;
  edges.device = part.device->name();
  for (const auto& [name, node] : part.recvs) edges.in.push_back({name, part.granted_recvs.contains(name)});
  for (const auto& [name, node] : part.sends) edges.out.push_back({name, part.granted_sends.contains(name)});
  return edges;
}

}  // namespace troupe
