// Scopes: names, devices and control dependencies of new nodes, the first error and its line, and
// literals as inputs.
#include <boost/test/unit_test.hpp>

#include "tests/api/graph_text.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"
#include "troupe/group.h"
#include "troupe/node_builder.h"
#include "troupe/operators.h"
#include "troupe/scope.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace scope_test {

using test::NodeText;

TROUPE_OP("ApiTestSum")
    .Input("a: T")
    .Input("b: T")
    .Output("sum: T")
    .Attr("T: {float, double, int32, int64, complex64}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("test");
TROUPE_OP("ApiTestTake")
    .Input("x: T")
    .Input("axis: Tidx")
    .Output("y: T")
    .Attr("T: type")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .NotDifferentiable("test");
TROUPE_OP("ApiTestPack")
    .Input("values: N * T")
    .Output("y: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .NotDifferentiable("test");
TROUPE_OP("ApiTestState").Output("y: float").Attr("container: string = ''").Stateful().NotDifferentiable("test");
TROUPE_OP("ApiTestDone").Stateful().NotDifferentiable("test");

Output Sum(const ScopeAt& at, const Input& a, const Input& b) { return EmitOp(at, "ApiTestSum", {a, b}).output(0); }

BOOST_AUTO_TEST_SUITE(scope)

BOOST_AUTO_TEST_CASE(names_are_unique_across_nodes_and_scopes) {
  Scope root = Scope::NewRootScope();
  const Output x = Const(root.WithOpName("x"), 1.0f);
  BOOST_TEST(x.name() == "x:0");
  BOOST_TEST(Const(root.WithOpName("x"), 1.0f).name() == "x_1:0");
  BOOST_TEST(Const(root.WithOpName("x"), 1.0f).name() == "x_2:0");
  const Scope a = root.NewSubScope("a");
  BOOST_TEST(a.prefix() == "a/");
  BOOST_TEST(Const(a.WithOpName("b"), 1).name() == "a/b:0");
  BOOST_TEST(Const(a, 1).name() == "a/Const:0");
  BOOST_TEST(root.NewSubScope("a").prefix() == "a_1/");
  BOOST_TEST(root.NewSubScope("a").prefix() == "a_2/");
  BOOST_TEST(a.NewSubScope("a").prefix() == "a/a/");
  BOOST_TEST(Const(root.WithOpName("a"), 1).name() == "a_3:0");
  BOOST_TEST(root.NewSubScope("x").prefix() == "x_3/");
  BOOST_TEST(root.ok());
}

BOOST_AUTO_TEST_CASE(a_sub_scope_forgets_the_op_name) {
  Scope root = Scope::NewRootScope();
  BOOST_TEST(Const(root.WithOpName("x").NewSubScope("s"), 1).name() == "s/Const:0");
}

BOOST_AUTO_TEST_CASE(devices_merge_field_by_field) {
  Scope root = Scope::NewRootScope();
  const Scope ps = root.WithDevice("/job:ps");
  BOOST_TEST(Const(ps, 1).node()->requested_device() == "/job:ps");
  BOOST_TEST(Const(ps.WithDevice("/cpu:0"), 1).node()->requested_device() == "/job:ps/device:CPU:0");
  BOOST_TEST(Const(ps.WithDevice("/job:worker/task:1"), 1).node()->requested_device() == "/job:worker/task:1");
  BOOST_TEST(Const(ps.WithNoDevice().WithDevice("/gpu:1"), 1).node()->requested_device() == "/device:GPU:1");
  const Scope fn = ps.WithDevice("/task:3").WithDeviceFunction([](const Node& n) {
    BOOST_TEST(n.requested_device() == "/device:CPU:0");
    return n.op().name == "Const" ? std::string("/job:const") : std::string();
  });
  BOOST_TEST(Const(fn.WithDevice("/cpu:0"), 1).node()->requested_device() == "/job:const/task:3");
  BOOST_TEST(EmitOp(fn.WithDevice("/cpu:0"), "ApiTestState", {}).node()->requested_device() ==
             "/job:ps/task:3/device:CPU:0");
  BOOST_TEST(root.ok());
}

BOOST_AUTO_TEST_CASE(a_bad_device_is_the_scopes_error) {
  Scope root = Scope::NewRootScope();
  const int line = __LINE__ + 1;
  root.WithDevice("/jub:a");
  BOOST_TEST(!root.ok());
  BOOST_TEST(std::string(root.status().message()).find(StrCat("scope_test.cc:", line)) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(colocation_container_and_control) {
  Scope root = Scope::NewRootScope();
  const Output x = Const(root.WithOpName("x").WithDevice("/cpu:1"), 1.0f);
  const Output y = Const(root.ColocateWith(x).WithDevice("/cpu:0"), 1.0f);
  BOOST_TEST((*y.node()->Attr<std::vector<std::string>>("_class") == std::vector<std::string>{"loc:@x"}));
  BOOST_TEST(y.node()->requested_device() == "/device:CPU:1");
  const Output z = Const(root.ColocateWith(y), 1.0f);
  BOOST_TEST((*z.node()->Attr<std::vector<std::string>>("_class") == std::vector<std::string>{"loc:@x"}));
  BOOST_TEST(!Const(root.ColocateWith(y).WithNoColocation(), 1).node()->attrs().Has("_class"));
  const Scope box = root.WithContainer("box");
  BOOST_TEST(*EmitOp(box, "ApiTestState", {}).node()->Attr<std::string>("container") == "box");
  BOOST_TEST(*EmitOp(box, "ApiTestState", {}, {{"container", "own"}}).node()->Attr<std::string>("container") == "own");
  const Operation done = EmitOp(root, "ApiTestDone", {});
  const Scope after = root.WithControlDependencies(done).WithControlDependencies(x);
  BOOST_TEST(NodeText(*Sum(after.WithOpName("s"), y, 2.0f).node()) == "s = ApiTestSum(Const, s/b, ^ApiTestDone, ^x)");
  BOOST_TEST(NodeText(*Const(after.WithNoControlDependencies().WithOpName("free"), 1).node()) == "free = Const()");
  BOOST_TEST(root.status().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(errors_name_the_line_and_stop_everything) {
  Scope root = Scope::NewRootScope();
  const Output f = Const(root.WithOpName("f"), 1.0f), i = Const(root.WithOpName("i"), 1);
  const int before = root.graph()->num_nodes();
  const int line = __LINE__ + 1;
  const Output bad = Sum(root.NewSubScope("fc").WithOpName("bad"), f, i);
  BOOST_TEST(!bad.valid());
  BOOST_TEST(bad.name() == "");
  BOOST_TEST((bad.dtype() == DType::kInvalid));
  const std::string message(root.status().message());
  BOOST_TEST(message.find("fc/bad") != std::string::npos, message);
  BOOST_TEST(message.find(StrCat("scope_test.cc:", line)) != std::string::npos, message);
  BOOST_TEST(!Sum(root, bad, f).valid());
  BOOST_TEST(!(bad + f).valid());
  BOOST_TEST(!Const(root, 1).valid());
  BOOST_TEST(root.graph()->num_nodes() == before);
  BOOST_TEST(std::string(root.status().message()) == message);
}

BOOST_AUTO_TEST_CASE(shape_errors_remove_the_node) {
  Scope root = Scope::NewRootScope();
  const Output a = Const(root, {1.f, 2.f}), b = Const(root, {1.f, 2.f, 3.f});
  const int before = root.graph()->num_nodes();
  BOOST_TEST(!Sum(root.WithOpName("s"), a, b).valid());
  BOOST_TEST(root.graph()->num_nodes() == before);
  BOOST_TEST(root.graph()->Find("s") == nullptr);
  BOOST_TEST(std::string(root.status().message()).find("'s'") != std::string::npos);
}

// Whatever takes a node takes those of its own graph only: another one may be gone when its node is
// looked at, and in a wire form names alone are left, which may be those of nodes here.
BOOST_AUTO_TEST_CASE(nodes_of_another_graph_are_refused_at_every_door) {
  const Scope other = Scope::NewRootScope();
  const Output x = Const(other.WithOpName("x"), 1.0f);
  const auto refused = [&](const char* door, const std::function<void(const Scope&)>& use) {
    const Scope root = Scope::NewRootScope();
    const Output mine = Const(root.WithOpName("x"), 1.0f);
    const int nodes = root.graph()->num_nodes(), edges = other.graph()->num_edges();
    use(root);
    BOOST_TEST_CONTEXT(door) {
      BOOST_TEST((root.status().code() == absl::StatusCode::kInvalidArgument));
      const std::string message(root.status().message());
      BOOST_TEST(message.find("'x") != std::string::npos, message);
      BOOST_TEST(message.find("belongs to another graph") != std::string::npos, message);
      BOOST_TEST(root.graph()->num_nodes() == nodes);
      BOOST_TEST(other.graph()->num_edges() == edges);
      BOOST_TEST(other.ok());
    }
  };
  refused("WithControlDependencies", [&](const Scope& s) { Const(s.WithControlDependencies(x), 2.0f); });
  refused("ColocateWith", [&](const Scope& s) { Const(s.ColocateWith(x), 2.0f); });
  refused("Group", [&](const Scope& s) { Group(s, {x}); });
  refused("After", [&](const Scope& s) { After(s, {x}, Output({s.graph()->Find("x"), 0}, s.state())); });
  refused("SetShape", [&](const Scope& s) { s.SetShape(x, TensorShape()); });
  refused("SetShape, far", [&](const Scope& s) {
    const Scope large = Scope::NewRootScope();
    Output last;
    for (int i = 0; i < 100; ++i) last = Const(large.WithOpName("x"), 1.0f);
    s.SetShape(last, TensorShape());
  });
}

// Also when the node could not be made at all: for an attr's value, an attr that the op does not
// have, a list of types.
BOOST_AUTO_TEST_CASE(errors_of_attrs_name_the_line) {
  const auto says = [](const Scope& s, int line, const std::string& part) {
    const std::string message(s.status().message());
    BOOST_TEST(message.find(part) != std::string::npos, message);
    BOOST_TEST(message.ends_with(StrCat("; defined at scope_test.cc:", line)), message);
    BOOST_TEST(message.find("defined at") == message.rfind("defined at"), message);
  };
  const Scope a = Scope::NewRootScope(), b = Scope::NewRootScope(), c = Scope::NewRootScope();
  const int line = __LINE__;
  ops::Relu(a, Const(a, true));
  EmitOp(b, "Relu", {Const(b, 1.0f)}, {{"slope", 1.0f}});
  EmitLists(c, "IdentityN", {OutputList{Const(c, 1.0f)}}, {{"T", std::vector<DType>{DType::kInt32}}});
  says(a, line + 1, "node 'Relu' (Relu): attr 'T' = bool is not in the list");
  says(b, line + 2, "op 'Relu' has no attr 'slope'");
  says(c, line + 3, "'T'");
}

// As streams and logs print it.
BOOST_AUTO_TEST_CASE(an_error_is_printed_as_one_sentence) {
  const Scope root = Scope::NewRootScope();
  const int line = __LINE__ + 1;
  ops::Relu(root.WithOpName("fc/r"), Const(root, "text"));
  std::ostringstream text;
  text << root.status();
  BOOST_TEST(text.str().starts_with("INVALID_ARGUMENT: node 'fc/r' (Relu): attr 'T' = string is not in"), text.str());
  BOOST_TEST(text.str().ends_with(StrCat("; defined at scope_test.cc:", line)), text.str());
}

BOOST_AUTO_TEST_CASE(an_address_is_told_from_other_words) {
  const SourceLocation here{"dir/a.cc", 7};
  const absl::Status plain = InvalidArgument("rank 2"), at = WithAddress(plain, "fc/y", "MatMul", "", {});
  BOOST_TEST(at.message() == "node 'fc/y' (MatMul): rank 2");
  BOOST_TEST(WithAddress(plain, "y", "Add", "/cpu:0", here).message() ==
             "node 'y' (Add) on /cpu:0: rank 2; defined at a.cc:7");
  BOOST_TEST(HasAddress(at));
  BOOST_TEST(HasAddress(WithAddress(plain, "y", "Add", "/job:a/task:0/device:CPU:0", {})));
  BOOST_TEST(HasAddress(Annotate(at, "Set of 'w'")));
  BOOST_TEST(!HasAddress(plain));
  BOOST_TEST(!HasAddress(NotFound("2 ops: 'A' (node 'x'), 'B' (node 'y')")));
  BOOST_TEST(!HasAddress(DeadlineExceeded("it waits for:\n  node 'x' (Add) on /cpu:0 in iteration 3 is ready")));
  BOOST_TEST(!HasAddress(InvalidArgument("node 'x' (Add) is fed")));
  // The same node may give its line later; another node's line is another's.
  BOOST_TEST(WithAddress(at, "fc/y", "MatMul", "", here).message() ==
             "node 'fc/y' (MatMul): rank 2; defined at a.cc:7");
  BOOST_TEST(WithAddress(at, "fc/z", "MatMul", "", here) == at);
  BOOST_TEST(WithAddress(WithAddress(plain, "y", "Add", "", here), "y", "Add", "", {"b.cc", 8}).message() ==
             "node 'y' (Add): rank 2; defined at a.cc:7");
}

BOOST_AUTO_TEST_CASE(a_group_stands_where_all_that_it_waits_for_stand) {
  const Scope root = Scope::NewRootScope();
  const Scope on = root.WithDevice("/job:worker/task:0");
  const Output a = Const(root.WithDevice("/job:ps/task:0"), 1.0f), b = Const(root.WithDevice("/job:ps/task:0"), 2.0f);
  const Output c = Const(root.WithDevice("/job:ps/task:1"), 3.0f), free = Const(root, 4.0f);
  const auto device = [](const Operation& op) { return op.node()->requested_device(); };
  BOOST_TEST(device(Group(on, {a, b, Operation()})) == device(a));
  BOOST_TEST(device(Group(on, {a, c})) == device(Operation(Const(on, 0.0f))));
  BOOST_TEST(device(Group(on, {a, free})) == device(Operation(Const(on, 0.0f))));
  BOOST_TEST(device(Group(on, {free})) == device(Operation(Const(on, 0.0f))));
  BOOST_TEST(device(Group(on.ColocateWith(c), {a, b})) == device(c));
  BOOST_TEST(root.ok(), root.status());
}

// The line of the call that was handed the foreign operation.
BOOST_AUTO_TEST_CASE(a_group_of_foreign_operations_names_its_line) {
  const Scope root = Scope::NewRootScope(), other = Scope::NewRootScope();
  const int line = __LINE__ + 1;
  Group(root, {Const(other, 1.0f)});
  BOOST_TEST(std::string(root.status().message()).find(StrCat("scope_test.cc:", line)) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_foreign_operation_is_said_with_the_line_that_hands_it_in) {
  const Scope other = Scope::NewRootScope();
  const Output x = Const(other, 1.0f);
  const auto says = [](const Scope& s, int line) {
    const std::string message(s.status().message());
    BOOST_TEST(message.find(StrCat("scope_test.cc:", line)) != std::string::npos, message);
  };
  const Scope a = Scope::NewRootScope(), b = Scope::NewRootScope(), c = Scope::NewRootScope();
  // In one line: compilers differ in which one of several they say.
  const auto branch = [&](const Scope&) { return Operation(x); };
  const int line = __LINE__;
  (void)a.WithControlDependencies(x);
  says(a, line + 1);
  (void)b.ColocateWith(x);
  says(b, line + 3);
  Cond(c, Const(c, true), branch, branch);
  says(c, line + 5);
}

BOOST_AUTO_TEST_CASE(edges_between_graphs_are_refused) {
  Graph a, b;
  Node* const from = *NodeBuilder(&a, "from", "ApiTestState").Build();
  Node* const done = *NodeBuilder(&b, "done", "ApiTestDone").Build();
  BOOST_TEST(!b.AddEdge(from, kControlSlot, done, kControlSlot).ok());
  BOOST_TEST(!a.AddEdge(from, kControlSlot, done, kControlSlot).ok());
  BOOST_TEST(!NodeBuilder(&b, "after", "ApiTestDone").Control(from).Build().ok());
  BOOST_TEST(!NodeBuilder(&b, "take", "ApiTestSum").Input({from, 0}).Input({from, 0}).Build().ok());
  BOOST_TEST(b.Find("after") == nullptr);
  BOOST_TEST(b.Find("take") == nullptr);
  BOOST_TEST(from->out_edges().empty());
}

BOOST_AUTO_TEST_CASE(empty_and_foreign_outputs_and_unknown_ops) {
  {
    Scope root = Scope::NewRootScope();
    BOOST_TEST(!Sum(root, Output(), 1.0f).valid());
    BOOST_TEST(std::string(root.status().message()).find("'a' is an empty Output") != std::string::npos);
  }
  {
    Scope root = Scope::NewRootScope(), other = Scope::NewRootScope();
    BOOST_TEST(!Sum(root, Const(other, 1.0f), 1.0f).valid());
    BOOST_TEST(std::string(root.status().message()).find("another graph") != std::string::npos);
    BOOST_TEST(other.ok());
  }
  {
    Scope root = Scope::NewRootScope();
    BOOST_TEST(!EmitOp(root, "ApiTestSuum", {1.0f, 2.0f}).valid());
    BOOST_TEST((root.status().code() == absl::StatusCode::kNotFound));
  }
  {
    Scope root = Scope::NewRootScope();
    BOOST_TEST(!Const(root.WithOpName("no spaces"), 1).valid());
    BOOST_TEST(!root.ok());
  }
  {
    Scope root = Scope::NewRootScope();
    root.NewSubScope("");
    BOOST_TEST(!root.ok());
  }
}

BOOST_AUTO_TEST_CASE(nodes_remember_their_line) {
  Scope root = Scope::NewRootScope();
  const int line = __LINE__ + 1;
  const Output x = Sum(root, 1.0f, 2.0f);
  BOOST_TEST(static_cast<int>(x.node()->location().line) == line);
  BOOST_TEST(x.node()->location().ToString() == StrCat("scope_test.cc:", line));
  BOOST_TEST(static_cast<int>(x.node()->input(0).node->location().line) == line);
  const auto helper = [](const ScopeAt& at) {
    const Scope s = at.Sub("helper");
    return Sum(s, Const(s, 1.0f), 2.0f);
  };
  const int call = __LINE__ + 1;
  const Output y = helper(root);
  BOOST_TEST(y.name() == "helper/ApiTestSum:0");
  BOOST_TEST(static_cast<int>(y.node()->location().line) == call);
  BOOST_TEST(static_cast<int>(y.node()->input(0).node->location().line) == call);
}

BOOST_AUTO_TEST_CASE(weak_literals_take_the_type_of_their_siblings) {
  Scope root = Scope::NewRootScope();
  const Output d = Const(root, 1.0), f = Const(root, 1.0f), i = Const(root, 1);
  BOOST_TEST((Sum(root, d, 2).dtype() == DType::kDouble));
  BOOST_TEST((Sum(root, 2.5, f).dtype() == DType::kFloat));
  BOOST_TEST((Sum(root, 2, 3).dtype() == DType::kInt32));
  BOOST_TEST((Sum(root, 2, 3.5f).dtype() == DType::kFloat));
  BOOST_TEST((Sum(root, int64_t{2}, 3).dtype() == DType::kInt64));
  BOOST_TEST((Sum(root, Const(root, std::complex<float>(1, 2)), 2).dtype() == DType::kComplex64));
  const Output t = EmitOp(root, "ApiTestTake", {f, {0, 1}}).output(0);
  BOOST_TEST((t.node()->input_type(1) == DType::kInt32));
  BOOST_TEST(root.ok());
  BOOST_TEST(!Sum(root, i, 2.5).valid());
  BOOST_TEST(std::string(root.status().message()).find("cannot be represented as int32") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(tensors_keep_their_type) {
  Scope root = Scope::NewRootScope();
  BOOST_TEST(!Sum(root, Const(root, 1.0f), Tensor::Scalar(int32_t{1})).valid());
  BOOST_TEST(!root.ok());
}

BOOST_AUTO_TEST_CASE(a_list_argument_sets_n_and_takes_literals) {
  Scope root = Scope::NewRootScope();
  const Output f = Const(root.WithOpName("f"), 1.0f);
  const InputList list = {f, 2, f};
  const Operation p = EmitLists(root.WithOpName("p"), "ApiTestPack", {list});
  BOOST_TEST(root.status().ToString() == "OK");
  BOOST_TEST(NodeText(*p.node()) == "p = ApiTestPack(f, p/values, f)");
  BOOST_TEST(*p.node()->Attr<int64_t>("N") == 3);
  EmitOp(root, "ApiTestPack", {f});
  BOOST_TEST(std::string(root.status().message()).find("takes a list") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(shapes_are_known_while_building) {
  Scope root = Scope::NewRootScope();
  const Output a = Const(root, {{1.f, 2.f}, {3.f, 4.f}});
  BOOST_TEST(a.shape().DebugString() == "[2,2]");
  BOOST_TEST(Sum(root, a, {1.f, 2.f}).shape(root).DebugString() == "[2,2]");
  const Output u = EmitOp(root, "ApiTestTake", {a, 0}).output(0);
  BOOST_TEST(u.shape().DebugString() == "<unknown>");
  root.SetShape(u, PartialTensorShape({2, -1}));
  BOOST_TEST(u.shape().DebugString() == "[2,?]");
  root.SetShape(u, PartialTensorShape({3, -1}));
  BOOST_TEST(!root.ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(constants)

BOOST_AUTO_TEST_CASE(literals_keep_their_cpp_type) {
  Scope root = Scope::NewRootScope();
  const auto value = [&](const Output& o) {
    return o.valid() ? o.node()->Attr<Tensor>("value")->DebugString() : root.status().ToString();
  };
  BOOST_TEST(value(Const(root, true)) == Tensor::Scalar(true).DebugString());
  BOOST_TEST(value(Const(root, "text")) == Tensor::Scalar("text").DebugString());
  BOOST_TEST(value(Const(root, 1ll)) == Tensor::Scalar(int64_t{1}).DebugString());
  BOOST_TEST(value(Const(root, Half(1.5f))) == Tensor::Scalar(Half(1.5f)).DebugString());
  BOOST_TEST(value(Const(root, {{1, 2}, {3, 4}, {5, 6}})) ==
             Tensor::Of<int32_t>({1, 2, 3, 4, 5, 6}, {3, 2}).DebugString());
  BOOST_TEST(value(Const(root, {{1, 2}})) == Tensor::Of<int32_t>({1, 2}, {1, 2}).DebugString());
  BOOST_TEST(value(Const(root, {{{1}}})) == Tensor::Of<int32_t>({1}, {1, 1, 1}).DebugString());
  BOOST_TEST(value(Const(root, {1, 2.5})) == Tensor::Vector<double>({1, 2.5}).DebugString());
  BOOST_TEST(value(Const(root, {"a", "b"})) == Tensor::Vector<std::string>({"a", "b"}).DebugString());
  BOOST_TEST(value(Const(root, std::vector<double>{1, 2})) == Tensor::Vector<double>({1, 2}).DebugString());
  BOOST_TEST(value(Const<double>(root, {1, 2})) == Tensor::Vector<double>({1, 2}).DebugString());
  BOOST_TEST(value(Const<uint8_t>(root, 255)) == Tensor::Scalar(uint8_t{255}).DebugString());
  BOOST_TEST(value(Const(root, {1, 2}, DType::kBfloat16)) ==
             Tensor::Vector<BFloat16>({BFloat16(1.f), BFloat16(2.f)}).DebugString());
  BOOST_TEST(value(Const(root, 2.0f, TensorShape({2, 2}))) == Tensor::Of<float>({2, 2, 2, 2}, {2, 2}).DebugString());
  BOOST_TEST(value(Const(root, "s", TensorShape({2}))) == Tensor::Vector<std::string>({"s", "s"}).DebugString());
  BOOST_TEST(value(Const(root, {1, 2, 3, 4}, TensorShape({2, 2}))) ==
             Tensor::Of<int32_t>({1, 2, 3, 4}, {2, 2}).DebugString());
  BOOST_TEST(value(Const(root, {})) == Tensor(DType::kFloat, TensorShape({0})).DebugString());
  BOOST_TEST(root.status().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(a_literal_that_its_type_cannot_hold_is_refused_with_its_line) {
  const auto refuses = [](auto build, const char* what) {
    Scope root = Scope::NewRootScope();
    const Output o = build(root);
    BOOST_TEST(!o.valid());
    BOOST_TEST(std::string(root.status().message()).find(what) != std::string::npos, root.status().ToString());
    BOOST_TEST(std::string(root.status().message()).find("scope_test.cc:") != std::string::npos,
               root.status().ToString());
  };
  refuses([](Scope& s) { return Const(s, {{1, 2}, {3}}); }, "rectangular");
  refuses([](Scope& s) { return Const(s, {Literal(1), Literal("a")}); }, "mixes");
  refuses([](Scope& s) { return Const<uint8_t>(s, 256); }, "cannot be represented");
  refuses([](Scope& s) { return Const<int32_t>(s, 1.5); }, "cannot be represented");
  refuses([](Scope& s) { return Const(s, {1, 2, 3}, TensorShape({2})); }, "does not fill");
  refuses([](Scope& s) { return Const(s, Tensor()); }, "without a value");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace scope_test
}  // namespace troupe
