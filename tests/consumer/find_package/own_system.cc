// A step in an actor system of the program's own, from a graph in its wire form.
#include <cstdio>

#include "troupe/actors.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/troupe.h"

using namespace troupe;

absl::Status Add(caf::actor_system& system) {
  Scope root = Scope::NewRootScope();
  ops::Add(root.WithOpName("sum"), 1.0f, 2.0f);
  proto::GraphDef def;
  TROUPE_RETURN_IF_ERROR(root.ToGraphDef(&def));
  SessionOptions options;
  TROUPE_ASSIGN_OR_RETURN(options.runtime, StartRuntimeIn(system, {.threads = 1}));
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(def));
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session->Run({}, {"sum"}, {}, &out));
  std::printf("sum %g\n", out[0].scalar<float>());
  return session->Close();
}

int main() {
  caf::actor_system_config config;
  caf::actor_system system{config};
  const absl::Status s = Add(system);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() ? 0 : 1;
}
