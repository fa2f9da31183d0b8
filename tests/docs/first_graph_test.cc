// The code of docs/guide/first_graph.md.
#include "tests/docs/pages.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(names_literals_and_mistakes) {
  {
    // [names]
    Scope root = Scope::NewRootScope();
    Scope fc1 = root.NewSubScope("fc1");
    Output x = ops::Placeholder(fc1.WithOpName("x"), DType::kFloat, {.shape = {-1, 3}});
    Output y = ops::Relu(fc1, x);
    Output z = ops::Relu(fc1, y);
    // x.name() is "fc1/x:0", y.name() "fc1/Relu:0", z.name() "fc1/Relu_1:0"
    // z.dtype() is DType::kFloat, z.shape().DebugString() is "[?,3]"
    // [/names]
    BOOST_TEST(x.name() == "fc1/x:0");
    BOOST_TEST(y.name() == "fc1/Relu:0");
    BOOST_TEST(z.name() == "fc1/Relu_1:0");
    BOOST_TEST((z.dtype() == DType::kFloat));
    BOOST_TEST(z.shape().DebugString() == "[?,3]");
  }
  {
    // [mistake]
    Scope root = Scope::NewRootScope();
    Output a = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}});
    Output b = Const(root, {{1.0f, 2.0f, 3.0f}});
    Output y = ops::MatMul(root, a, b);
    Output z = y + 1;  // does nothing: the scope has an error
    if (!root.ok()) std::cerr << root.status() << "\n";
    // [/mistake]
    BOOST_TEST(Like(root.status().ToString() + "\n", BlockOf("docs/guide/first_graph.md", "message")), root.status());
    BOOST_TEST(!z.valid());
  }
  {
    Scope root = Scope::NewRootScope();
    // [literals]
    Output x = ops::Placeholder(root, DType::kDouble);
    Output y = x * 2 + 0.5;                        // 2 and 0.5 become float64, as x is
    Output k = Const(root, {1, 2, 3});             // int32: a list of C++ ints
    Output f = Const<float>(root, {1, 2, 3});      // float32
    Output g = ops::Cast(root, k, DType::kFloat);  // types are never converted unasked
    // [/literals]
    BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
    BOOST_TEST((y.dtype() == DType::kDouble && f.dtype() == DType::kFloat && k.dtype() == DType::kInt32));
    BOOST_TEST((g.dtype() == DType::kFloat));
  }
}

}  // namespace
}  // namespace troupe
