// Imports and exports GraphDefs, and converts values and attributes to and from their wire forms.
//
// Source of the semantics: graph.proto, node_def.proto, attr_value.proto and tensor.proto of
// TensorFlow, whose comments define the forms; import follows its ImportGraphDef.
//
// Thread rule: functions that read a graph may run while no thread changes it; those that change
// one need it to themselves.
#ifndef TROUPE_IMPORT_EXPORT_H_
#define TROUPE_IMPORT_EXPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"

namespace troupe::proto {
class AttrValue;
class GraphDef;
class NodeDef;
class OpDef;
class TensorProto;
class TensorShapeProto;
}  // namespace troupe::proto

namespace TROUPE_EXPORT troupe {

// A GraphDef's versions become the graph's `producer` and `min_consumer`; its bad consumers this
// collection, as numbers in text. `library` is kept as read, `experimental_debug_info` is not: it
// tells places in the program that wrote the graph, and a Node here has a location of its own.
inline constexpr char kBadConsumers[] = "bad_consumers";

struct ImportOptions {
  std::string prefix;                                     // put before every name, with '/'
  std::map<std::string, NodeOut, std::less<>> input_map;  // "name:0" -> an output of the target graph
  std::vector<std::string> control_dependencies;          // existing nodes that every imported root waits for
  std::vector<std::string> return_outputs;                // tensor names looked up after import
  bool uniquify_names = false;                            // otherwise a taken name is ALREADY_EXISTS
  std::string default_device;
  // Nodes of ops that do not exist here are kept, and refused when a step needs them: whoever feeds
  // what they would compute, or fetches what does not need them, is not concerned. False: they are
  // an error of the import.
  bool keep_unknown_ops = true;
};
struct ImportResult {
  // Each converts to an Output. Operators build in the root scope over the graph, if there is one.
  std::vector<NodeOut> return_outputs;
};

// Adds all nodes of `def` to `graph`, or none, also when it throws. Nodes may come in any order;
// back edges go through NextIteration into Merge. Errors: unknown ops unless they are kept
// (NOT_FOUND, all of them in one message), bad names, attrs, types, missing inputs, cycles,
// versions: INVALID_ARGUMENT with the node's name. No input, however damaged, aborts. Without a
// prefix, an input that `def` lacks may name a node of `graph`, so that one definition can extend
// another. A constant that a reference input names becomes the variable that freezing made it from.
// Placeholders of shape [] of producers before version 24 have an unknown shape.
absl::StatusOr<ImportResult> ImportGraphDef(const proto::GraphDef& def, const ImportOptions& options, Graph* graph);
// Ops of `def` that `ops` does not know, sorted, each once.
std::vector<std::string> UnknownOps(const proto::GraphDef& def, const OpRegistry& ops);
// True for the error of an import, or of a step, that needs ops that do not exist here.
bool IsUnknownOps(const absl::Status& status);
// Every node but SOURCE and SINK, in id order. With `strip_defaults`, attrs equal to their default
// are left out.
void ExportGraphDef(const Graph& graph, proto::GraphDef* def, bool strip_defaults = false);
void ExportNodeDef(const Node& node, proto::NodeDef* def, bool strip_defaults = false);
void ExportOpDef(const OpDef& op, proto::OpDef* def);

// Reads a GraphDef file, binary or text (told apart by content). `path` may have a scheme
// ("mem://graph"). NOT_FOUND / INVALID_ARGUMENT with the path.
absl::Status ReadGraphDef(const std::string& path, proto::GraphDef* def);

absl::StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& p);
void AttrToProto(const AttrValue& v, proto::AttrValue* p);
// Every encoding: tensor_content, typed lists with repetition of the last value, half_val, strings.
// INVALID_ARGUMENT when sizes do not agree, before anything of the announced size is allocated
// beyond what the proto backs (repetition of one value is the only growth, and is bounded by 2^31
// bytes).
absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& p);
// Typed fields for few elements and strings, tensor_content otherwise.
void TensorToProto(const Tensor& t, proto::TensorProto* p);
absl::StatusOr<PartialTensorShape> ShapeFromProto(const proto::TensorShapeProto& p);
void ShapeToProto(const PartialTensorShape& s, proto::TensorShapeProto* p);

}  // namespace troupe

#endif  // TROUPE_IMPORT_EXPORT_H_
