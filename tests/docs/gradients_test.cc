// The code of docs/guide/gradients.md.
#include "tests/docs/pages.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

std::string Values(const Scope& root, const std::vector<Output>& fetches) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  const Operation init = GlobalVariablesInitializer(root);
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  if (s.ok()) s = session->Run({}, fetches, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  std::string text;
  for (const Tensor& t : out) text += t.DebugString() + "; ";
  return text;
}

BOOST_AUTO_TEST_CASE(gradients_of_all_kinds) {
  // [simple]
  Scope root = Scope::NewRootScope();
  Variable w(root.WithOpName("w"), 3.0f);
  Output x = Const(root, {1.0f, 2.0f});
  Output y = w * x * x;                                  // [3, 12]
  std::vector<Output> d = Gradients(root, {y}, {w, x});  // of the sum of y
  // d[0], by w: 5; d[1], by x: 2 w x = [6, 12]
  // [/simple]
  BOOST_TEST(Values(root, {d[0], d[1]}) == "float32 [] [5]; float32 [2] [6 12]; ");

  // [weights]
  Output weighted = Gradients(root, {y}, {x}, {Const(root, {1.0f, 0.0f})})[0];  // of 1 * y[0] + 0 * y[1]
  // [/weights]
  BOOST_TEST(Values(root, {weighted}) == "float32 [2] [6 0]; ");

  // [second]
  Output second = Gradients(root, {d[1]}, {x})[0];  // 2 w = [6, 6]
  // [/second]
  BOOST_TEST(Values(root, {second}) == "float32 [2] [6 6]; ");

  // [stop]
  // For all gradients: w counts as a constant here.
  Output fixed = ops::StopGradient(root, w);
  Output by_x = Gradients(root, {fixed * x}, {x})[0];  // w, w = [3, 3]
  // For one call: y counts as a constant, so that only the other w is seen, once for each element.
  Output without = Gradients(root, {y + w}, {w}, {}, {.stop_gradients = {y}})[0];  // 2
  // [/stop]
  BOOST_TEST(Values(root, {by_x, without}) == "float32 [2] [3 3]; float32 [] [2]; ");

  // [unconnected]
  Variable other(root.WithOpName("other"), 1.0f);
  Output zero = Gradients(root, {y}, {other}, {}, {.unconnected = Unconnected::kZeros})[0];
  // [/unconnected]
  BOOST_TEST(Values(root, {zero}) == "float32 [] [0]; ");

  // [forgotten]
  Output none = Gradients(root, {y}, {other})[0];  // an error of the scope
  // [/forgotten]
  BOOST_TEST(!none.valid());
  BOOST_TEST(Like(root.status().ToString() + "\n", BlockOf("docs/guide/gradients.md", "message")), root.status());
}

BOOST_AUTO_TEST_CASE(gradient_of_one_read) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 3.0f);
  // [reads]
  Output read = w.Read(root);
  Output y = read * w;
  Output both = Gradients(root, {y}, {w})[0];    // 2 w = 6: the variable, however it is read
  Output one = Gradients(root, {y}, {read})[0];  // w = 3: this read alone
  // [/reads]
  BOOST_TEST(Values(root, {both, one}) == "float32 [] [6]; float32 [] [3]; ");
}

}  // namespace
}  // namespace troupe
