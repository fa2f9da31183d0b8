// Fusing of nodes that one kernel computes together: graphs as text, before and after.
#include "graph/passes/fuse.h"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"

namespace troupe {
namespace fuse_test {

// Devices of type "CPU" can do everything, others nothing that is fused.
class Kernels : public KernelLookup {
 public:
  bool HasKernel(const Node& node, const std::string& device_type) const override {
    return device_type == "CPU" && !Is(node, DType::kBfloat16);
  }

 private:
  static bool Is(const Node& node, DType t) {
    const auto type = node.Attr<DType>("T");
    return type.ok() && *type == t;
  }
};

struct Case {
  const char *what, *before, *after;
};

BOOST_AUTO_TEST_SUITE(fuse)

// What both sides have: x [?,4], w [4,3], b [3], an image i, a filter f.
constexpr char kArgs[] = R"(
    x = _Arg[T=float32, index=0, _output_shapes={[?,4]}]
    w = _Arg[T=float32, index=1, _output_shapes={[4,3]}]
    b = _Arg[T=float32, index=2, _output_shapes={[3]}]
    i = _Arg[T=float32, index=3]
    f = _Arg[T=float32, index=4]
    s = _Arg[T=int32, index=5])";

const Case kCases[] = {
    {"a product, its bias and its activation",
     R"(m = MatMul[transpose_b=true](x, w)
        a = BiasAdd(m, b)
        y = Relu(a)
        r = _Retval[index=0](y))",
     R"(y = _FusedMatMul[transpose_b=true, fused_ops={"BiasAdd", "Relu"}, _replaces={"m", "a", "y"}, _replaced_ops={"MatMul", "BiasAdd", "Relu"}](x, w, b)
        r = _Retval[index=0](y))"},
    {"without an activation; what is no activation stays",
     R"(m = MatMul(x, w)
        a = BiasAdd(m, b)
        y = Exp(a)
        r = _Retval[index=0](y))",
     R"(a = _FusedMatMul[fused_ops={"BiasAdd"}, _replaces={"m", "a"}, _replaced_ops={"MatMul", "BiasAdd"}](x, w, b)
        y = Exp(a)
        r = _Retval[index=0](y))"},
    {"the bias may be added by Add, from either side, when it is a vector of the right length",
     R"(m = MatMul(x, w)
        a = AddV2(b, m)
        y = LeakyRelu[alpha=0.5](a)
        r = _Retval[index=0](y)
        n = MatMul(x, w)
        c = Add(n, x)
        q = _Retval[index=1](c))",
     R"(y = _FusedMatMul[leakyrelu_alpha=0.5, fused_ops={"BiasAdd", "LeakyRelu"}, _replaces={"m", "a", "y"}, _replaced_ops={"MatMul", "AddV2", "LeakyRelu"}, _bias_first=true](x, w, b)
        r = _Retval[index=0](y)
        n = MatMul(x, w)
        c = Add(n, x)
        q = _Retval[index=1](c))"},
    {"a product that is fetched stays, and one that is read twice, and one that is waited for",
     R"(m = MatMul(x, w)
        a = BiasAdd(m, b)
        r = _Retval[index=0](m)
        q = _Retval[index=1](a)
        n = MatMul[transpose_b=true](x, w)
        c = BiasAdd(n, b)
        d = Sub(c, n)
        t = _Retval[index=2](d)
        o = MatMul[transpose_a=true](x, w)
        e = BiasAdd(o, b)
        u = _Retval[index=3](e, ^o))",
     nullptr},
    {"a sum that is fetched or read twice ends the fused node",
     R"(m = MatMul(x, w)
        a = BiasAdd(m, b)
        y = Relu(a)
        r = _Retval[index=0](y)
        q = _Retval[index=1](a))",
     R"(a = _FusedMatMul[fused_ops={"BiasAdd"}, _replaces={"m", "a"}, _replaced_ops={"MatMul", "BiasAdd"}](x, w, b)
        y = Relu(a)
        r = _Retval[index=0](y)
        q = _Retval[index=1](a))"},
    {"a fused node waits for what its parts waited for, and is waited for",
     R"(m = MatMul(x, w, ^i)
        a = BiasAdd(m, b, ^f)
        y = Relu(a, ^f)
        n = NoOp(^y)
        r = _Retval[index=0](y))",
     R"(y = _FusedMatMul[fused_ops={"BiasAdd", "Relu"}, _replaces={"m", "a", "y"}, _replaced_ops={"MatMul", "BiasAdd", "Relu"}](x, w, b, ^f, ^i)
        n = NoOp(^y)
        r = _Retval[index=0](y))"},
    {"nodes of different devices stay, and those on devices without the kernel",
     R"(m = MatMul(x, w) @=/job:a/replica:0/task:0/device:CPU:0
        a = BiasAdd(m, b) @=/job:a/replica:0/task:0/device:CPU:1
        r = _Retval[index=0](a)
        n = MatMul[transpose_b=true](x, w) @=/job:a/replica:0/task:0/device:GPU:0
        c = BiasAdd(n, b) @=/job:a/replica:0/task:0/device:GPU:0
        q = _Retval[index=1](c))",
     nullptr},
    {"a convolution with its bias and activation; the formats must agree",
     R"(m = Conv2D[strides={1, 2, 2, 1}, padding="SAME"](i, f)
        a = BiasAdd(m, b)
        y = Relu6(a)
        r = _Retval[index=0](y)
        n = Conv2D[strides={1, 1, 1, 1}, padding="VALID", data_format="NCHW"](i, f)
        c = BiasAdd(n, b)
        q = _Retval[index=1](c)
        o = Conv2D[strides={1, 1, 1, 1}, padding="VALID"](i, f)
        d = BiasAdd(o, b)
        e = Tanh(d)
        t = _Retval[index=2](e))",
     R"(y = _FusedConv2D[TArgs={float32}, num_args=1, strides={1, 2, 2, 1}, padding="SAME", fused_ops={"BiasAdd", "Relu6"}, _replaces={"m", "a", "y"}, _replaced_ops={"Conv2D", "BiasAdd", "Relu6"}](i, f, b)
        r = _Retval[index=0](y)
        n = Conv2D[strides={1, 1, 1, 1}, padding="VALID", data_format="NCHW"](i, f)
        c = BiasAdd(n, b)
        q = _Retval[index=1](c)
        d = _FusedConv2D[TArgs={float32}, num_args=1, strides={1, 1, 1, 1}, padding="VALID", fused_ops={"BiasAdd"}, _replaces={"o", "d"}, _replaced_ops={"Conv2D", "BiasAdd"}](i, f, b)
        e = Tanh(d)
        t = _Retval[index=2](e))"},
    {"the gradient of Relu goes into the convolution before it",
     R"(g = Conv2DBackpropInput[strides={1, 1, 1, 1}, padding="SAME"](s, f, i)
        y = ReluGrad(g, x)
        r = _Retval[index=0](y)
        h = Conv2DBackpropInput[strides={1, 1, 1, 1}, padding="VALID"](s, f, i)
        z = ReluGrad(x, h)
        q = _Retval[index=1](z))",
     R"(y = _Conv2DBackpropInputReluGrad[strides={1, 1, 1, 1}, padding="SAME", _replaces={"g", "y"}, _replaced_ops={"Conv2DBackpropInput", "ReluGrad"}](s, f, i, x)
        r = _Retval[index=0](y)
        h = Conv2DBackpropInput[strides={1, 1, 1, 1}, padding="VALID"](s, f, i)
        z = ReluGrad(x, h)
        q = _Retval[index=1](z))"},
    {"the gradients of filter and bias become one node with two outputs",
     R"(k = Const[value=int32[4]{3, 3, 4, 3}]
        o = MatMul(i, x)
        g = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](i, k, o)
        d = BiasAddGrad(o)
        r = _Retval[index=0](g)
        q = _Retval[index=1](d))",
     R"(k = Const[value=int32[4]{3, 3, 4, 3}]
        o = MatMul(i, x)
        g = _Conv2DBackpropFilterBias[strides={1, 1, 1, 1}, padding="SAME", _replaces={"d", "g"}, _replaced_ops={"BiasAddGrad", "Conv2DBackpropFilter"}](i, k, o)
        r = _Retval[index=0](g)
        q = _Retval[index=1](g:1))"},
    {"... but not when the filter's waits for what the gradient does not wait for: an argument, another part, a queue",
     R"(k = Const[value=int32[4]{3, 3, 4, 3}]
        g = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](i, k, x)
        d = BiasAddGrad(x)
        r = _Retval[index=0](g)
        q = _Retval[index=1](d)
        O = _Send[tensor_name="a", send_device="/cpu:0", send_device_incarnation=7, recv_device="/cpu:1"](e)
        e = BiasAddGrad(b)
        A = _Recv[tensor_type=float32, tensor_name="b", send_device="/cpu:1", send_device_incarnation=7, recv_device="/cpu:0"]
        h = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](A, k, b)
        t = _Retval[index=2](h)
        Q = FIFOQueueV2[component_types={float32}]
        P = QueueEnqueueV2[Tcomponents={float32}](Q, l)
        l = BiasAddGrad(w)
        R = QueueDequeueV2[component_types={float32}](Q)
        m = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](R, k, w)
        u = _Retval[index=3](m)
        B = MatMul(f, f)
        C = NoOp(^A)
        D = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](f, k, B, ^C)
        E = BiasAddGrad(B)
        v = _Retval[index=4](D)
        c = _Retval[index=5](E))",
     nullptr},
    {"... nor when it may be dead where the gradient is alive",
     R"(k = Const[value=int32[4]{3, 3, 4, 3}]
        p = _Arg[T=bool, index=6]
        w1 = Switch(i, p)
        n = Neg(w1:1)
        e = Merge[N=2](w1:0, n)
        g = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](w1:1, k, e)
        d = BiasAddGrad(e)
        r = _Retval[index=0](g)
        q = _Retval[index=1](d)
        v = Switch(f, p)
        o = Neg(v:0)
        h = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](v:1, k, o)
        l = BiasAddGrad(o)
        t = _Retval[index=2](h)
        u = _Retval[index=3](l)
        m = Switch(f, p)
        z = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](m:1, k, m)
        c = BiasAddGrad(m)
        y = _Retval[index=4](z)
        j = _Retval[index=5](c))",
     nullptr},
    {"the sum of products with transposed left operands",
     R"(p = MatMul[transpose_a=true](x, i)
        q = MatMul[transpose_a=true](f, w)
        g = AddN[N=2](p, q)
        r = _Retval[index=0](g))",
     R"(g = _SumOfProducts[N=2, _replaces={"p", "q", "g"}, _replaced_ops={"MatMul", "MatMul", "AddN"}](x, f, i, w)
        r = _Retval[index=0](g))"},
    {"... but not with a summand that is something else, or that somebody else needs, or of tall operands",
     R"(A = _Arg[T=float32, index=6, _output_shapes={[90,40]}]
        B = _Arg[T=float32, index=7, _output_shapes={[90,50]}]
        P = MatMul[transpose_a=true](A, B)
        Q = MatMul[transpose_a=true](A, i)
        R = AddN[N=2](P, Q)
        O = _Retval[index=4](R)
        p = MatMul[transpose_a=true](x, i)
        q = MatMul[transpose_a=true, transpose_b=true](f, w)
        g = AddN[N=2](p, q)
        t = MatMul[transpose_a=true](x, i)
        u = MatMul[transpose_a=true](f, w)
        h = AddN[N=3](t, u, b)
        k = MatMul[transpose_a=true](x, i)
        l = MatMul[transpose_a=true](f, w)
        o = AddN[N=2](k, l)
        r = _Retval[index=0](g)
        v = _Retval[index=1](h)
        c = _Retval[index=2](o)
        d = _Retval[index=3](l))",
     nullptr},
    {"... but not when one of them waits for the other",
     R"(d = BiasAddGrad(x)
        n = NoOp(^d)
        g = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](i, s, x, ^n)
        r = _Retval[index=0](g)
        q = _Retval[index=1](d)
        h = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="VALID"](i, s, b)
        o = NoOp(^h)
        e = BiasAddGrad(b, ^o)
        t = _Retval[index=2](h)
        u = _Retval[index=3](e))",
     nullptr},
};

BOOST_AUTO_TEST_CASE(each_graph_fuses_to_the_one_beside_it) {
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = MustParse(StrCat(kArgs, "\n", c.before));
      const std::string expected = SortedText(*MustParse(StrCat(kArgs, "\n", c.after != nullptr ? c.after : c.before)));
      const int before = graph->num_nodes();
      auto removed = FuseNodes(graph.get(), Kernels());
      BOOST_REQUIRE_MESSAGE(removed.ok(), removed.status().ToString());
      BOOST_TEST(SortedText(*graph) == expected);
      BOOST_TEST(*removed == before - graph->num_nodes());
      BOOST_TEST(graph->Validate().ok());
      BOOST_TEST(*FuseNodes(graph.get(), Kernels()) == 0);
    }
  }
}

struct Group {
  const char *what, *before;
  // By fused node: its inputs, and its body; nodes that stay are not told.
  std::vector<std::array<std::string, 3>> fused;
};

const Group kGroups[] = {
    {"a chain, and what else leads only into it",
     R"(a = Mul(x, x)
        c = Tanh(a)
        d = Sub(c, b)
        e = Exp(b)
        g = RealDiv(d, e)
        r = _Retval[index=0](g))",
     {{"g", "x b",
       R"(_input0 = _Arg[T=float32, index=0]
          _input1 = _Arg[T=float32, index=1]
          a = Mul(_input0, _input0)
          c = Tanh(a)
          d = Sub(c, _input1)
          e = Exp(_input1)
          g = RealDiv(d, e))"}}},
    {"a value that two nodes of the group read",
     R"(a = Sqrt(x)
        c = Neg(a)
        d = Add(c, a)
        r = _Retval[index=0](d))",
     {{"d", "x",
       R"(_input0 = _Arg[T=float32, index=0]
          a = Sqrt(_input0)
          c = Neg(a)
          d = Add(c, a))"}}},
    {"what is read elsewhere, fetched or waited for ends a group",
     R"(a = Neg(x)
        c = Neg(a)
        d = Neg(c)
        r = _Retval[index=0](d)
        q = _Retval[index=1](a)
        n = NoOp(^c))",
     {}},
    {"a mask",
     R"(a = Less(x, b)
        c = Cast[DstT=float32](a)
        d = Mul(c, x)
        r = _Retval[index=0](d))",
     {{"d", "x b",
       R"(_input0 = _Arg[T=float32, index=0]
          _input1 = _Arg[T=float32, index=1]
          a = Less(_input0, _input1)
          c = Cast[DstT=float32](a)
          d = Mul(c, _input0))"}}},
    {"a layer normalisation, with what it reduces",
     R"(k = Const[value=int32[1]{-1}]
        m = Mean[keep_dims=true](x, k)
        t = StopGradient(m)
        d = SquaredDifference(x, t)
        v = Mean[keep_dims=true](d, k)
        g = Rsqrt(v)
        h = Sub(x, m)
        y = Mul(h, g)
        r = _Retval[index=0](y))",
     {{"y", "x k",
       R"(_input0 = _Arg[T=float32, index=0]
          _input1 = _Arg[T=int32, index=1]
          m = Mean[keep_dims=true](_input0, _input1)
          t = StopGradient(m)
          d = SquaredDifference(_input0, t)
          v = Mean[keep_dims=true](d, _input1)
          g = Rsqrt(v)
          h = Sub(_input0, m)
          y = Mul(h, g))"}}},
    {"the last dimension by its number, where the rank is known",
     R"(k = Const[value=int32{1}]
        m = Sum[keep_dims=true](x, k)
        y = RealDiv(x, m)
        r = _Retval[index=0](y)
        n = Sum[keep_dims=true](i, k)
        z = RealDiv(i, n)
        q = _Retval[index=1](z))",
     {{"y", "x k",
       R"(_input0 = _Arg[T=float32, index=0]
          _input1 = _Arg[T=int32, index=1]
          m = Sum[keep_dims=true](_input0, _input1)
          y = RealDiv(_input0, m))"}}},
    {"no reduction over other dimensions, of several, that drops them, of computed axes, or at the end",
     R"(k = Const[value=int32[1]{0}]
        l = Const[value=int32[2]{0, 1}]
        o = Const[value=int32[1]{-1}]
        a = Mean[keep_dims=true](x, k)
        c = Sub(x, a)
        q = _Retval[index=0](c)
        d = Mean[keep_dims=true](x, l)
        e = Sub(x, d)
        t = _Retval[index=1](e)
        g = Mean[keep_dims=false](x, o)
        h = Sub(x, g)
        u = _Retval[index=2](h)
        j = Mean[keep_dims=true](x, s)
        n = Sub(x, j)
        y = _Retval[index=3](n)
        p = Neg(x)
        z = Mean[keep_dims=true](p, o)
        r = _Retval[index=4](z))",
     {}},
    {"a power, and the error function; a copy alone is no end",
     R"(a = Pow(x, x)
        c = Erf(a)
        r = _Retval[index=0](c)
        d = Neg(x)
        e = StopGradient(d)
        q = _Retval[index=1](e))",
     {{"c", "x",
       R"(_input0 = _Arg[T=float32, index=0]
          a = Pow(_input0, _input0)
          c = Erf(a))"}}},
    {"not of other types",
     R"(a = Neg(s)
        c = Neg(a)
        r = _Retval[index=0](c))",
     {}},
    {"what waits for others joins, and the group waits",
     R"(a = Neg(x, ^i)
        c = Exp(a, ^f)
        r = _Retval[index=0](c))",
     {{"c", "x ^f ^i",
       R"(_input0 = _Arg[T=float32, index=0]
          a = Neg(_input0)
          c = Exp(a))"}}},
    {"two groups, one behind the other",
     R"(a = Neg(x)
        c = Exp(a)
        d = Neg(c)
        e = Exp(d)
        r = _Retval[index=0](e)
        q = _Retval[index=1](c))",
     {{"c", "x",
       R"(_input0 = _Arg[T=float32, index=0]
          a = Neg(_input0)
          c = Exp(a))"},
      {"e", "c",
       R"(_input0 = _Arg[T=float32, index=0]
          d = Neg(_input0)
          e = Exp(d))"}}},
};

BOOST_AUTO_TEST_CASE(element_wise_nodes_that_lead_to_one_value_fuse) {
  for (const Group& c : kGroups) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = MustParse(StrCat(kArgs, "\n", c.before));
      const int before = graph->num_nodes();
      auto removed = FuseNodes(graph.get(), Kernels());
      BOOST_REQUIRE_MESSAGE(removed.ok(), removed.status().ToString());
      BOOST_TEST(*removed == before - graph->num_nodes());
      BOOST_TEST(graph->Validate().ok());
      size_t found = 0;
      for (const Node* n : graph->op_nodes()) found += n->op().name == "_FusedElementwise";
      BOOST_TEST(found == c.fused.size());
      for (const auto& [name, inputs, body] : c.fused) {
        const Node* n = graph->Find(name);
        BOOST_REQUIRE(n != nullptr);
        BOOST_REQUIRE(n->op().name == "_FusedElementwise");
        std::string got;
        for (int i = 0; i < n->num_inputs(); ++i) StrAppend(&got, got.empty() ? "" : " ", n->input(i).node->name());
        std::vector<std::string> waits;
        for (const Edge* e : n->in_edges()) {
          if (e->IsControl() && e->src->IsOp()) waits.push_back(e->src->name());
        }
        std::sort(waits.begin(), waits.end());
        for (const std::string& w : waits) StrAppend(&got, " ^", w);
        BOOST_TEST(got == inputs);
        BOOST_TEST(SortedText(*MustParse(*n->Attr<std::string>("body"))) == SortedText(*MustParse(body)));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fuse_test
}  // namespace troupe
