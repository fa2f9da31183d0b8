// Nodes of ops that do not exist here.
//
// Graphs from elsewhere often carry parts that no step of this program needs: decoders of input,
// summaries, savers. The importer keeps nodes of unknown ops (OpTrait::kUnknown): attrs and edges
// as they were read, an output for each that another node takes, with the type that is asked for
// there. Nodes that are imported later may take further outputs. Nodes of unknown ops can be cut
// off by feeding what they would compute, and exported again. A step that needs one is refused by
// the pruner.
//
// Thread rule: pure functions, of nodes that no thread changes meanwhile.
#ifndef TROUPE_GRAPH_IR_UNKNOWN_OPS_H_
#define TROUPE_GRAPH_IR_UNKNOWN_OPS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/op_def.h"
#include "troupe/status.h"

namespace troupe {

class Node;
namespace proto {
class FunctionDefLibrary;
}

// Stands for an op that is in no registry: it has kUnknown and is stateful, and tells nothing of
// its inputs and outputs.
std::shared_ptr<const OpDef> UnknownOp(std::string_view name);

// The types of the outputs of `node`, of an unknown op. kInvalid: the output's type may still be
// chosen, since nothing takes the output.
std::vector<DType> OutputsSoFar(const Node& node);

// NOT_FOUND: "`whose` 2 ops that do not exist here: 'A' (node 'x'), ...", one node for each op,
// sorted by op, and what can be done about the ops that are known elsewhere. IsUnknownOps
// (import_export.h) knows it. `nodes` are pairs of op and node; `library` (may be null) tells which
// are functions.
absl::Status UnknownOpsError(std::string_view whose, const std::vector<std::pair<std::string, std::string>>& nodes,
                             const proto::FunctionDefLibrary* library);

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_UNKNOWN_OPS_H_
