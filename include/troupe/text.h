// A graph as text that people write and read: one line a node, in the tests' tables and in dumps.
//
//   # comment
//   a = Const[value=float32[2]{1, 2}] @/cpu:0
//   b = Placeholder[dtype=float32, shape=[2,?]]
//   m = MatMul[transpose_b=true](a, b) @=/job:w/replica:0/task:0/device:CPU:0
//   n = NoOp(^m)
//   @versions[producer=2474, min_consumer=12]
//
// An input is "node" or "node:1"; data inputs come before control inputs. "@device" is the
// requested device, "@=device" the assigned one. A node may stand before its inputs, in loops, too.
// Attrs that the inputs determine (types, lengths of lists, type lists), a Const's dtype and attrs
// with their default value may be left out, and are left out in print; where a node has several
// lists of lengths of their own, the lengths are told. Values are self-describing: "text", 3, 1.5,
// true, float32 (a type), [2,?] and <unknown> (shapes), int32[2]{1, 2} and float32{1} (tensors; one
// element stands for all), {a, b} (a list), &name[attr=...] (a function), $name (an attr of a
// function's body), none (no value). Names of attrs and functions, and devices, with other
// characters than a node's name may have stand in quotes.
//
// The printed text reads back as an equal graph: nodes in their order, attrs, edges, devices,
// versions. Not printed: collections, the library of functions and the lines of the program.
//
// Thread rule: functions that read a graph may run while no thread changes it; those that change
// one need it to themselves.
#ifndef TROUPE_TEXT_H_
#define TROUPE_TEXT_H_

#include <memory>
#include <string>
#include <string_view>

#include "troupe/export.h"
#include "troupe/graph.h"

namespace TROUPE_EXPORT troupe {

// Adds the nodes of `text` to `graph`; its versions replace the graph's. INVALID_ARGUMENT
// "line 3: ..." for the first line that is wrong; the graph may then hold a part of the nodes.
absl::Status AddGraphText(std::string_view text, Graph* graph);
absl::StatusOr<std::unique_ptr<Graph>> ParseGraphText(std::string_view text,
                                                      const OpRegistry* ops = &OpRegistry::Global());

// One attr value in the form above. INVALID_ARGUMENT says what is wrong and where.
absl::StatusOr<AttrValue> ParseAttrText(std::string_view text);

struct GraphTextOptions {
  bool sorted = false;  // by name instead of by id
  bool devices = true;
  int max_elements = 1000;  // of a tensor; longer ones end in "..." and cannot be read back
};
// The text of a graph, of one node (one line) and of one attr value.
std::string GraphText(const Graph& graph, const GraphTextOptions& options = {});
std::string NodeText(const Node& node, const GraphTextOptions& options = {});
std::string AttrText(const AttrValue& value, int max_elements = 1000);

}  // namespace troupe

#endif  // TROUPE_TEXT_H_
