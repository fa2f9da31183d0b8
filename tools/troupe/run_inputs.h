// What `troupe run` and `troupe tune` are given: a graph, what to feed, what to fetch.
//
// Thread rule: the main thread only.
#ifndef TROUPE_TOOLS_TROUPE_RUN_INPUTS_H_
#define TROUPE_TOOLS_TROUPE_RUN_INPUTS_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/ir/on_arena.h"
#include "tools/troupe/commands.h"
#include "troupe/graph.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/session.h"
#include "troupe/train/saved_model.h"

namespace troupe::tool {

// What a session is given: the graph as it is, or that of a SavedModel.
struct LoadedGraph {
  OnArena<proto::GraphDef> def;
  Graph graph;  // imported when it was needed
  std::optional<train::SavedModel> model;
  absl::Status Extend(Session* session);
  int num_nodes() const;
};

// Prints that nothing is named to be computed, and which nodes could be: those that nobody
// consumes. kUsage.
int NothingToRun(const Graph& graph);

// Reads the file or folder that the flags name, and of a SavedModel replaces the signature's keys
// (saved_model.h). `import`: also the GraphDef of a file becomes a Graph. kOk when all is there;
// what is wrong has been printed.
int LoadToExtend(RunFlags* flags, std::vector<std::string>* labels, LoadedGraph* loaded, bool import);

// Reads one --feed, NAME=VALUE or NAME=@FILE.npy. kOk, or what is wrong has been printed: with the
// text a mistake of usage, with a file a failure.
int AddFeed(const std::string& text, const Graph& graph, Feeds* feeds);

// Reads the graph and the feeds. A graph of our own tells what type a feed has and what there is to
// compute.
int LoadToRun(RunFlags* flags, std::vector<std::string>* labels, LoadedGraph* loaded, Feeds* feeds);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_RUN_INPUTS_H_
