#include "graph/ir/unknown_ops.h"

#include <map>

#include "graph/core/hash_map.h"
#include "troupe/import_export.h"
#include "troupe/proto/function.pb.h"
#include "troupe/registration.h"

namespace troupe {
namespace {

// How UnknownOpsError says it, for one op and for several.
constexpr std::string_view kOneOp = " op that does not exist here: '", kOps = " ops that do not exist here: '";

// Control flow of TensorFlow 2: branches and bodies are functions of the graph's library.
bool CallsFunctions(std::string_view op) {
  for (std::string_view known : {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "_While",
                                 "_If", "PartitionedCall", "StatefulPartitionedCall"}) {
    if (op == known) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<const OpDef> UnknownOp(std::string_view name) {
  auto op = std::make_shared<OpDef>();
  op->name = name;
  op->traits = static_cast<uint64_t>(OpTrait::kUnknown) | static_cast<uint64_t>(OpTrait::kStateful);
  op->not_differentiable = "the op does not exist here";
  op->doc = "An op that does not exist here.";
  return op;
}

std::vector<DType> OutputsSoFar(const Node& node) {
  std::vector<DType> types = node.output_types();
  HashSet<int> taken;
  for (const Edge* e : node.out_edges()) taken.insert(e->src_output);
  for (size_t k = 0; k < types.size(); ++k) {
    if (types[k] == DType::kVariant && !taken.contains(static_cast<int>(k))) types[k] = DType::kInvalid;
  }
  return types;
}

absl::Status UnknownOpsError(std::string_view whose, const std::vector<std::pair<std::string, std::string>>& nodes,
                             const proto::FunctionDefLibrary* library) {
  std::map<std::string_view, std::string_view> example;
  for (const auto& [op, node] : nodes) example.try_emplace(op, node);
  HashSet<std::string_view> functions;
  if (library != nullptr) {
    for (const proto::FunctionDef& f : library->function()) functions.insert(f.signature().name());
  }
  std::string list, advice;
  bool calls = false;
  for (const auto& [op, node] : example) {
    calls = calls || CallsFunctions(op) || functions.contains(op);
    StrAppend(&list, list.empty() ? "" : ", '", CEscape(op), "' (node '", CEscape(node), "'",
              functions.contains(op) ? "; a function of the graph's library, which cannot be called as an op)" : ")");
    if (const std::string why = RegistrationErrorsOf(op); !why.empty()) StrAppend(&advice, "; ", why);
  }
  if (calls) {
    advice +=
        "; calls of functions do not exist here: write the graph in a program that called "
        "tf.compat.v1.disable_control_flow_v2() before it built loops and conditionals, and freeze it with its "
        "functions inlined";
  }
  return NotFound(whose, " ", example.size(), example.size() == 1 ? kOneOp : kOps, list, advice);
}

bool IsUnknownOps(const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  return absl::IsNotFound(status) && (message.find(kOneOp) != message.npos || message.find(kOps) != message.npos);
}

}  // namespace troupe
