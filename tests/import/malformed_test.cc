// Graphs with one thing wrong each, and the sentence that must come back.
#include <boost/test/unit_test.hpp>

#include "tests/import/ops_test.h"

namespace troupe {
namespace malformed_test {

struct Case {
  std::string graph, message;
};

// Nodes to build cases from.
const std::string kA =
    "node { name: 'a' op: 'ImpConst' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor "
    "{ "
    "dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } } ";
const std::string kFloat = "attr { key: 'T' value { type: DT_FLOAT } } ";
std::string Node(const std::string& name, const std::string& op, const std::string& rest = "") {
  return "node { name: '" + name + "' op: '" + op + "' " + rest + " } ";
}
std::string Attr(const std::string& name, const std::string& value) {
  return "attr { key: '" + name + "' value { " + value + " } } ";
}
std::string In(const std::string& name) { return "input: '" + name + "' "; }

std::vector<Case> Cases() {
  const std::string n = "node 'n' ";
  std::vector<Case> cases = {
      // Names.
      {Node("", "ImpNoOp"), "node 0 of the graph: '' is not a valid node name: it is empty"},
      {Node("a b", "ImpNoOp"),
       "node 0 of the graph: 'a b' is not a valid node name: only letters, digits and . _ \\ - / > may occur"},
      {Node("a:0", "ImpNoOp"),
       "node 0 of the graph: 'a:0' is not a valid node name: only letters, digits and . _ \\ - / > may occur"},
      {Node("^a", "ImpNoOp"),
       "node 0 of the graph: '^a' is not a valid node name: it must begin with a letter, a digit, '.' or '_'"},
      {Node("-a", "ImpNoOp"),
       "node 0 of the graph: '-a' is not a valid node name: it must begin with a letter, a digit, '.' or '_'"},
      {Node("/a", "ImpNoOp"),
       "node 0 of the graph: '/a' is not a valid node name: it must begin with a letter, a digit, '.' or '_'"},
      {kA + Node("a\\n", "ImpNoOp"),
       "node 1 of the graph: 'a\\n' is not a valid node name: only letters, digits and . _ \\ - / > may occur"},
      {kA + Node("n", "ImpNoOp") + Node("n", "ImpNoOp"), "node 'n' (ImpNoOp): the graph has two nodes named 'n'"},
      {Node("_SINK", "ImpNoOp"), "node '_SINK' (ImpNoOp): the name is reserved: every graph has a node of this name"},
      // Constants.
      {Node("n", "Const",
            Attr("dtype", "type: DT_FLOAT") +
                Attr("value", "tensor { dtype: DT_UINT8 tensor_shape { dim { size: 3 } } int_val: 1 }")),
       n + "(Const): attr 'value' is uint8 [3] but attr 'dtype' is float32"},
      // Ops, all at once.
      {Node("n", "Nope"), "the graph has 1 op that does not exist here: 'Nope' (node 'n')"},
      {Node("n", ""), "the graph has 1 op that does not exist here: '' (node 'n')"},
      {Node("x", "Zork") + Node("y", "Alpha") + Node("z", "Zork"),
       "the graph has 2 ops that do not exist here: 'Alpha' (node 'y'), 'Zork' (node 'x')"},
      {Node("n", "twice") + "library { function { signature { name: 'twice' } } }",
       "the graph has 1 op that does not exist here: 'twice' (node 'n'; a function of the graph's library, which "
       "cannot "
       "be called as an op); calls of functions do not exist here: write the graph in a program that called "
       "tf.compat.v1.disable_control_flow_v2() before it built loops and conditionals, and freeze it with its "
       "functions inlined"},
      {Node("n", "ImpOld") + "versions { producer: 7 }",
       n + "(ImpOld): op 'ImpOld' is not available in graphs of version 7; it was removed in version 5: use ImpNoOp"},
      // Versions.
      {"versions { producer: 30 min_consumer: 1000000 }",
       StrCat("the graph needs a reader of version 1000000 or newer, but this library has version ", kGraphVersion,
              "; the graph was written by version 30")},
      {StrCat("versions { producer: 30 bad_consumers: 3 bad_consumers: ", kGraphVersion, " }"),
       StrCat("the graph was written by version 30, which excludes readers of this library's version ", kGraphVersion)},
      {"versions { producer: -1 }", "the graph's versions are negative (producer -1, min_consumer 0)"},
      {"versions { min_consumer: -2 }", "the graph's versions are negative (producer 0, min_consumer -2)"},
      // Inputs.
      {Node("n", "ImpIdentity", In("b") + kFloat), n + "(ImpIdentity): input 'b': there is no node 'b'"},
      {Node("n", "ImpIdentity", In("b:1") + kFloat), n + "(ImpIdentity): input 'b:1': there is no node 'b'"},
      {Node("n", "ImpNoOp", In("^b")), n + "(ImpNoOp): input '^b': there is no node 'b'"},
      {Node("n", "ImpNoOp", In("^")), n + "(ImpNoOp): input '^': there is no node ''"},
      {Node("n", "ImpNoOp", In("")), n + "(ImpNoOp): input '': there is no node ''"},
      {Node("n", "ImpNoOp", In("_SOURCE")), n + "(ImpNoOp): input '_SOURCE': there is no node '_SOURCE'"},
      {kA + Node("n", "ImpNoOp", In("^a:0")), n + "(ImpNoOp): input '^a:0': there is no node 'a:0'"},
      {kA + Node("n", "ImpIdentity", In("a:x") + kFloat),
       n + "(ImpIdentity): input 'a:x' is not \"name\", \"name:output\" or \"^name\""},
      {kA + Node("n", "ImpIdentity", In("a:") + kFloat),
       n + "(ImpIdentity): input 'a:' is not \"name\", \"name:output\" or \"^name\""},
      {kA + Node("n", "ImpIdentity", In("a:-1") + kFloat),
       n + "(ImpIdentity): input 'a:-1' is not \"name\", \"name:output\" or \"^name\""},
      {kA + Node("n", "ImpIdentity", In("a:99999999999") + kFloat),
       n + "(ImpIdentity): input 'a:99999999999' is not \"name\", \"name:output\" or \"^name\""},
      {kA + Node("n", "ImpIdentity", In("a:1") + kFloat),
       n + "(ImpIdentity): input 0 is 'a:1', but node 'a' has 1 output"},
      {kA + Node("b", "ImpNoOp") + Node("n", "ImpIdentity", In("b") + kFloat),
       n + "(ImpIdentity): input 0 is 'b:0', but node 'b' has 0 outputs"},
      {kA + Node("s", "ImpSplit", In("a") + kFloat + Attr("N", "i: 2")) + Node("n", "ImpIdentity", In("s:2") + kFloat),
       n + "(ImpIdentity): input 0 is 's:2', but node 's' has 2 outputs"},
      {kA + Node("n", "ImpAdd", In("a") + kFloat),
       n + "(ImpAdd): op 'ImpAdd' takes 2 inputs with these attrs, but the node has 1"},
      {kA + Node("n", "ImpIdentity", In("a") + In("a") + kFloat),
       n + "(ImpIdentity): op 'ImpIdentity' takes 1 input with these attrs, but the node has 2"},
      {kA + Node("n", "ImpNoOp", In("a")),
       n + "(ImpNoOp): op 'ImpNoOp' takes 0 inputs with these attrs, but the node has 1"},
      {kA + Node("n", "ImpPack", In("a") + In("a") + kFloat + Attr("N", "i: 3")),
       n + "(ImpPack): op 'ImpPack' takes 3 inputs with these attrs, but the node has 2"},
      {kA + Node("n", "ImpPack", In("a") + kFloat + Attr("N", "i: 9000000000000000000")),
       n + "(ImpPack): op 'ImpPack' takes 268435456 inputs with these attrs, but the node has 1"},
      {kA + Node("n", "ImpTuple", In("a") + Attr("T", "list { type: DT_FLOAT type: DT_FLOAT }")),
       n + "(ImpTuple): op 'ImpTuple' takes 2 inputs with these attrs, but the node has 1"},
      {kA + Node("n", "ImpAdd", In("^a") + In("a") + In("a") + kFloat),
       n + "(ImpAdd): data input 'a' comes after control inputs"},
      // Types of edges.
      {kA + Node("n", "ImpIdentity", In("a") + Attr("T", "type: DT_INT32")),
       n + "(ImpIdentity): input 0 must be int32, but 'a:0' is float32"},
      {kA + Node("n", "ImpTuple", In("a") + In("a") + Attr("T", "list { type: DT_FLOAT type: DT_STRING }")),
       n + "(ImpTuple): input 1 must be string, but 'a:0' is float32"},
      {kA + Node("n", "ImpAssign", In("a") + In("a") + kFloat),
       n + "(ImpAssign): input 0 must be float32_ref, but 'a:0' is float32"},
      {Node("v", "ImpVariable", kFloat) + Node("n", "ImpIdentity", In("v") + Attr("T", "type: DT_INT32")),
       n + "(ImpIdentity): input 0 must be int32, but 'v:0' is float32_ref"},
      // Attrs.
      {kA + Node("n", "ImpIdentity", In("a")), n + "(ImpIdentity): op 'ImpIdentity' needs attr 'T' (type)"},
      {Node("n", "ImpNoOp", Attr("extra", "i: 1")), n + "(ImpNoOp): op 'ImpNoOp' has no attr 'extra'"},
      {Node("n", "ImpNoOp", Attr("", "i: 1")), n + "(ImpNoOp): an attr has an empty name"},
      {Node("n", "ImpAttrs", Attr("i", "s: 'x'")), n + "(ImpAttrs): attr 'i' is string, not int"},
      {Node("n", "ImpAttrs", Attr("s", "i: 1")), n + "(ImpAttrs): attr 's' is int, not string"},
      {Node("n", "ImpAttrs", Attr("b", "")), n + "(ImpAttrs): attr 'b' is without value, not bool"},
      {Node("n", "ImpAttrs", Attr("b", "placeholder: 'b'")),
       n + "(ImpAttrs): attr 'b' is a placeholder outside of a function"},
      {Node("n", "ImpAttrs", Attr("ints", "i: 1")), n + "(ImpAttrs): attr 'ints' is int, not list(int)"},
      {Node("n", "ImpAttrs", Attr("ints", "list { s: 'x' }")),
       n + "(ImpAttrs): attr 'ints' is list(string), not list(int)"},
      {Node("n", "ImpAttrs", Attr("ints", "list { s: 'x' i: 1 }")),
       n + "(ImpAttrs): attr 'ints': the list has values of 2 kinds"},
      {Node("n", "ImpAttrs", Attr("i", "list { i: 1 }")), n + "(ImpAttrs): attr 'i' is list(int), not int"},
      {Node("n", "ImpAttrs", Attr("mode", "s: 'odd'")),
       n + "(ImpAttrs): attr 'mode' = \"odd\" is not in the list of allowed values: same, valid"},
      {Node("n", "ImpAttrs", Attr("few", "list { i: 1 }")),
       n + "(ImpAttrs): attr 'few' has 1 elements, fewer than its minimum 2"},
      {Node("n", "ImpAttrs", Attr("types", "list { type: DT_STRING }")),
       n + "(ImpAttrs): attr 'types' = string is not in the list of allowed types: float32, int32"},
      {Node("n", "ImpAttrs", Attr("t", "type: DT_INVALID")), n + "(ImpAttrs): attr 't' is an invalid type"},
      {Node("n", "ImpAttrs", Attr("t", "type: DT_FLOAT8_E5M2")),
       n + "(ImpAttrs): attr 't': element type DT_FLOAT8_E5M2 is not supported"},
      {Node("n", "ImpAttrs", Attr("shape", "shape { dim { size: -5 } }")),
       n + "(ImpAttrs): attr 'shape': dimension -5 is negative"},
      {Node("n", "ImpAttrs", Attr("_x", "shape { dim { size: -5 } }")),
       n + "(ImpAttrs): attr '_x': dimension -5 is negative"},
      {Node("n", "ImpFunc", Attr("f", "s: 'f'")), n + "(ImpFunc): attr 'f' is string, not func"},
      {kA + Node("n", "ImpAdd", In("a") + In("a") + Attr("T", "type: DT_STRING")),
       n + "(ImpAdd): attr 'T' = string is not in the list of allowed types: float32, float64, int32"},
      {Node("n", "ImpPack", kFloat + Attr("N", "i: 0")), n + "(ImpPack): attr 'N' = 0 is less than its minimum 1"},
      {Node("n", "ImpPack", kFloat + Attr("N", "i: -4")), n + "(ImpPack): attr 'N' = -4 is less than its minimum 1"},
      {kA + Node("n", "ImpSplit", In("a") + kFloat + Attr("N", "i: 1000000000")),
       n + "(ImpSplit): the nodes of the graph have 268435457 outputs or more: too many"},
      {Node("n", "ImpTuple", Attr("T", "list { }")),
       n + "(ImpTuple): attr 'T' has 0 elements, fewer than its minimum 1"},
      {Node("n", "ImpConst",
            Attr("dtype", "type: DT_FLOAT") +
                Attr("value", "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: [1, 2, 3] }")),
       n + "(ImpConst): attr 'value': float_val has 3 values, more than the 2 elements of float32 [2]"},
      {Node("n", "ImpConst",
            Attr("dtype", "type: DT_FLOAT") +
                Attr("value", "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 99999999999 } } float_val: 1 }")),
       n + "(ImpConst): attr 'value': float_val has 1 values for float32 [99999999999]: repeating the last one would "
           "take more than 2^31 bytes"},
      {Node("n", "ImpNoOp", Attr("_class", "list { s: 'loc:@gone' }")),
       n + "(ImpNoOp): attr '_class' asks to place the node with node 'gone', which does not exist"},
      // Cycles.
      {Node("n", "ImpNoOp", In("^n")),
       n + "(ImpNoOp): the node is on a cycle without an edge from a NextIteration to a Merge: 'n' -> 'n'"},
      {Node("n", "ImpIdentity", In("n") + kFloat),
       n + "(ImpIdentity): the node is on a cycle without an edge from a NextIteration to a Merge: 'n' -> 'n'"},
      {kA + Node("b", "ImpNoOp", In("^d") + In("^a")) + Node("c", "ImpNoOp", In("^b")) + Node("d", "ImpNoOp", In("^c")),
       "node 'b' (ImpNoOp): the node is on a cycle without an edge from a NextIteration to a Merge: 'c' -> 'd' -> 'b' "
       "-> "
       "'c'"},
      {kA + Node("m", "ImpMerge", In("a") + In("i") + kFloat + Attr("N", "i: 2")) +
           Node("i", "ImpIdentity", In("m") + kFloat),
       "node 'm' (ImpMerge): the node is on a cycle without an edge from a NextIteration to a Merge: 'i' -> 'm' -> "
       "'i'"},
      {Node("i", "ImpNextIteration", In("i") + kFloat),
       "node 'i' (ImpNextIteration): the node is on a cycle without an edge from a NextIteration to a Merge: 'i' -> "
       "'i'"},
      {kA + Node("m", "ImpMerge", In("a") + kFloat + Attr("N", "i: 1") + In("^i")) +
           Node("i", "ImpNextIteration", In("m") + kFloat),
       "node 'm' (ImpMerge): the node is on a cycle without an edge from a NextIteration to a Merge: 'i' -> 'm' -> "
       "'i'"},
  };
  return cases;
}

BOOST_AUTO_TEST_CASE(every_mistake_has_its_sentence) {
  const std::vector<Case> cases = Cases();
  BOOST_TEST(cases.size() >= 60u);
  for (const Case& c : cases) {
    const std::string message = ImportMessage(c.graph);
    BOOST_TEST(message == c.message, c.graph << "\n  gives " << message << "\n  not   " << c.message);
  }
}

BOOST_AUTO_TEST_CASE(codes_tell_missing_ops_from_bad_graphs) {
  Graph graph;
  BOOST_TEST(
      absl::IsNotFound(ImportGraphDef(ParseGraph(Node("n", "Nope")), {.keep_unknown_ops = false}, &graph).status()));
  BOOST_TEST(absl::IsInvalidArgument(ImportGraphDef(ParseGraph(Node("n", "ImpNoOp", In("x"))), {}, &graph).status()));
  BOOST_REQUIRE(ImportGraphDef(ParseGraph(Node("n", "ImpNoOp")), {}, &graph).ok());
  const absl::Status again = ImportGraphDef(ParseGraph(Node("n", "ImpNoOp")), {}, &graph).status();
  BOOST_TEST(absl::IsAlreadyExists(again));
  BOOST_TEST(again.message() == "node 'n' (ImpNoOp): the graph has a node named 'n' already");
  graph.Freeze();
  BOOST_TEST(absl::IsFailedPrecondition(ImportGraphDef(ParseGraph(Node("m", "ImpNoOp")), {}, &graph).status()));
}

BOOST_AUTO_TEST_CASE(unknown_ops_are_listed_once_and_sorted) {
  const proto::GraphDef def =
      ParseGraph(Node("x", "Zork") + Node("y", "Alpha") + Node("z", "Zork") + Node("n", "ImpNoOp"));
  const std::vector<std::string> unknown = UnknownOps(def, OpRegistry::Global());
  const std::vector<std::string> want = {"Alpha", "Zork"};
  BOOST_TEST(unknown == want, boost::test_tools::per_element());
}

}  // namespace malformed_test
}  // namespace troupe
