// The implementation of ImportGraphDef: one object for each import, which checks the whole
// definition and then builds the nodes.
//
// Thread rule: one thread at a time, which alone uses the graph.
#ifndef TROUPE_GRAPH_IR_IMPORT_GRAPH_H_
#define TROUPE_GRAPH_IR_IMPORT_GRAPH_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/hash_map.h"
#include "absl/types/span.h"
#include "troupe/import_export.h"

namespace troupe {

class GraphImporter {
 public:
  // All three must outlive the importer.
  GraphImporter(const proto::GraphDef& def, const ImportOptions& options, Graph* graph)
      : def_(def), options_(options), graph_(graph) {}
  // Makes every check. Does not change the graph.
  absl::Status Check();
  // Throws when there is no memory; the graph is as it was then. REQUIRES: Check() was OK, and the
  // graph was not changed since.
  absl::StatusOr<ImportResult> Build();

 private:
  // The source of one input of a node: a node of the definition or, when `existing` is set, of the
  // graph.
  struct Input {
    Node* existing = nullptr;
    int node = -1;
    int port = 0;  // kControlSlot for a control input
  };
  // The facts about node i of the definition before it becomes a Node.
  struct Pending {
    const OpDef* op = nullptr;
    std::shared_ptr<const OpDef> unknown;  // `op` is it; null when the op exists
    std::string new_name;                  // empty: the one it has
    AttrMap attrs;
    std::vector<DType> input_types, output_types;
    size_t first_input = 0;  // in inputs_
    int num_data_inputs = 0;
  };

  absl::Status CheckVersions();
  absl::Status FindOps();
  absl::Status CheckDeprecations();
  absl::Status NameNodes();
  absl::Status ReadInputs();
  absl::Status ReadInput(int node, const std::string& text, Input* in);
  absl::Status ReadAttrs(int node);
  // The names in an attr become what these nodes are called here.
  void RenameNodes(std::string_view attr, AttrMap* attrs) const;
  absl::Status ReadColocation(int node);
  absl::Status ReadTypes(int node);
  // Of nodes of unknown ops: outputs by what others take from them, inputs by what they are given.
  absl::Status TypesOfUnknown();
  // The types of the outputs among which `in` chooses.
  const std::vector<DType>& SourceTypes(const Input& in) const;
  // Freezing a graph turns its variables into constants, also variables that a remaining op assigns
  // to. Such a constant becomes a variable again. Its value is not kept, since the op assigns
  // another.
  absl::Status ThawConstants();
  absl::Status CheckEdgeTypes();
  absl::Status CheckCycles();
  absl::Status CheckFrames(const std::vector<int>& order) const;
  absl::Status CheckOptions();
  absl::Status MergeLibrary();

  absl::Span<const Input> InputsOf(int node) const {
    const size_t end = node + 1 < static_cast<int>(pending_.size()) ? pending_[node + 1].first_input : inputs_.size();
    return absl::MakeConstSpan(inputs_).subspan(pending_[node].first_input, end - pending_[node].first_input);
  }
  // `status` with the address of node `node` of the definition.
  absl::Status At(int node, const absl::Status& status) const;

  const proto::GraphDef& def_;
  const ImportOptions& options_;
  Graph* graph_;
  std::vector<Pending> pending_;
  std::vector<Input> inputs_;  // of all nodes, one after the other
  HashMap<std::string_view, int> by_name_;
  std::vector<Node*> roots_wait_for_;
  std::vector<Input> returned_;
  HashMap<Node*, std::vector<DType>> grown_;  // outputs of the graph's nodes of unknown ops
  std::shared_ptr<const proto::FunctionDefLibrary> library_;
  int64_t num_outputs_ = 0;
  bool has_unknown_ = false;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_IMPORT_GRAPH_H_
