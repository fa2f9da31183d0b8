// The memory of a step, predicted from shapes: counted by hand for small graphs, and measured for
// steps that run.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"
#include "troupe/gradients.h"
#include "troupe/operators.h"
#include "troupe/session.h"
#include "troupe/step_memory.h"

namespace troupe {
namespace step_memory_test {

Output Op(const Scope& s, std::string_view name, std::string_view op, const std::vector<Input>& in,
          AttrMap attrs = {}) {
  return EmitOp(s.WithOpName(std::string(name)), op, in, std::move(attrs)).output(0);
}
Output Fed(const Scope& s, const std::string& name, const PartialTensorShape& shape) {
  return Op(s, name, "Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", shape}});
}

// Nodes as they are: what is fused needs less.
StepMemory Predict(const Scope& s, const Names& feeds, const Names& fetches, StepMemoryOptions options = {}) {
  options.fuse = false;
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const auto memory = PredictStepMemory(*s.graph(), feeds, fetches, {}, options);
  BOOST_REQUIRE_MESSAGE(memory.ok(), memory.status().ToString());
  return *memory;
}
std::vector<std::string> Holders(const StepMemory& memory) {
  std::vector<std::string> list;
  for (const StepMemory::Holder& h : memory.holders) list.push_back(StrCat(h.what, " ", h.bytes));
  return list;
}

BOOST_AUTO_TEST_CASE(a_product_holds_its_inputs_and_its_output) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {8, 8});
  const Output a = Op(s, "a", "MatMul", {x, x}), b = Op(s, "b", "MatMul", {a, a});
  Op(s, "c", "MatMul", {b, b});
  const StepMemory m = Predict(s, {"x"}, {"c"});
  // What is fed is not the step's. Of a, b, c at most two are there at once.
  BOOST_TEST(m.peak_bytes == 2 * 256);
  BOOST_TEST(m.peak_node == "b");
  const std::vector<std::string> want = {"node 'a' (MatMul) 256", "node 'b' (MatMul) 256"};
  BOOST_TEST(Holders(m) == want, boost::test_tools::per_element());
  BOOST_TEST(m.num_unknown == 0);
}

BOOST_AUTO_TEST_CASE(elements_are_written_in_place) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {64});
  const Output a = Op(s, "a", "Neg", {x}), b = Op(s, "b", "Tanh", {a}), c = Op(s, "c", "Mul", {b, x});
  Op(s, "d", "Reshape", {Op(s, "sum", "Add", {c, 1.0f}), Const(s, {8, 8})});
  const StepMemory m = Predict(s, {"x"}, {"d"});
  BOOST_TEST(m.peak_bytes == 256);
  BOOST_TEST(m.peak_node == "a");
}

// An op with several outputs may say that its first one takes the place of an input.
BOOST_AUTO_TEST_CASE(a_gradient_is_written_in_the_place_of_what_it_is_of) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {4, 8, 8, 4}), v = Fed(s, "v", {4});
  const Output g = Op(s, "g", "Neg", {x});
  Op(s, "d", "FusedBatchNormGradV3", {g, x, v, v, v, v});
  // d and the gradients of scale and offset.
  BOOST_TEST(Predict(s, {"x", "v"}, {"d"}).peak_bytes == 4096 + 2 * 16);
  BOOST_TEST(Predict(s, {"x", "v"}, {"d", "g"}).peak_bytes == 2 * 4096 + 2 * 16);
}

BOOST_AUTO_TEST_CASE(what_is_read_again_is_not_written_over) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {64});
  const Output a = Op(s, "a", "Neg", {x}), b = Op(s, "b", "Tanh", {a}), c = Op(s, "c", "Exp", {b});
  Op(s, "d", "Mul", {Op(s, "two", "Mul", {c, b}), a});
  // a is held for d, b for two.
  BOOST_TEST(Predict(s, {"x"}, {"d"}).peak_bytes == 3 * 256);
  // What is fetched is held to the end.
  BOOST_TEST(Predict(s, {"x"}, {"d", "c", "b"}).peak_bytes == 4 * 256);
}

BOOST_AUTO_TEST_CASE(sizes_come_from_what_is_fed_and_what_is_assumed) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {-1, 8});
  Op(s, "y", "MatMul",
     {Op(s, "a", "MatMul", {x, Const(s, Tensor(DType::kFloat, {8, 8}))}), Const(s, Tensor(DType::kFloat, {8, 8}))});
  BOOST_TEST(Predict(s, {"x"}, {"y"}).peak_bytes == 2 * 32);
  StepMemoryOptions options;
  options.assumed_dimension = 10;
  BOOST_TEST(Predict(s, {"x"}, {"y"}, options).peak_bytes == 2 * 320);
  options.feed_shapes = {TensorShape({100, 8})};
  BOOST_TEST(Predict(s, {"x"}, {"y"}, options).peak_bytes == 2 * 3200);
  const auto refused = [&](const std::string& why) {
    const absl::Status status = PredictStepMemory(*s.graph(), {"x"}, {"y"}, {}, options).status();
    BOOST_TEST(absl::IsInvalidArgument(status));
    BOOST_TEST(status.ToString().find(why) != std::string::npos, status.ToString());
  };
  options.feed_shapes = {TensorShape({100, 9})};
  refused("the shape of what is fed to 'x'");
  options.feed_shapes = {TensorShape({100, 8}), TensorShape()};
  refused("there are 2 shapes of feeds, but 1 feeds");
  options.feed_shapes.clear();
  options.assumed_dimension = 0;
  refused("at least 1, not 0");
}

BOOST_AUTO_TEST_CASE(what_is_not_known_is_said) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", PartialTensorShape());
  Op(s, "y", "MatMul", {Op(s, "a", "Tanh", {x}), Const(s, Tensor(DType::kFloat, {8, 8}))});
  const StepMemory m = Predict(s, {"x"}, {"y"});
  BOOST_TEST(m.num_unknown == 1);
  BOOST_TEST(m.peak_bytes == 32);  // of a row
}

BOOST_AUTO_TEST_CASE(a_loop_counts_as_one_iteration) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {64, 64});
  const Output y = While(
      s, {Const(s, 0), x}, [](const Scope& b, const OutputList& v) { return v[0] < 3; },
      [](const Scope& b, const OutputList& v) -> OutputList {
        return {v[0] + 1, EmitOp(b, "MatMul", {v[1], v[1]}, {}).output(0)};
      })[1];
  const StepMemory m = Predict(s, {"x"}, {y.name()});
  BOOST_TEST(m.has_loops);
  BOOST_TEST(m.peak_bytes >= 64 * 64 * 4);
  BOOST_TEST(m.peak_bytes < 3 * 64 * 64 * 4);
}

BOOST_AUTO_TEST_CASE(sizes_that_no_number_holds_are_not_counted) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {-1, -1, -1});
  Op(s, "y", "Exp", {x});
  Op(s, "w", "Neg", {x});
  StepMemoryOptions options;
  options.assumed_dimension = int64_t{1} << 30;
  const StepMemory m = Predict(s, {"x"}, {"y", "w"}, options);
  BOOST_TEST(m.num_unknown == 2);
  BOOST_TEST(m.peak_bytes == 0);
}

// What only the fed shape makes a constant is computed by the step.
BOOST_AUTO_TEST_CASE(what_a_fed_shape_fills_counts) {
  const Scope s = Scope::NewRootScope();
  const Output x = Fed(s, "x", {-1});
  Op(s, "y", "Fill", {Op(s, "shape", "Shape", {x}), Const(s, 1.0f)});
  StepMemoryOptions options;
  options.feed_shapes = {TensorShape({100000})};
  BOOST_TEST(Predict(s, {"x"}, {"y"}, options).peak_bytes == 400000);
}

// Some layers, a loss and its gradients: predicted within what kernels need beside tensors.
BOOST_AUTO_TEST_CASE(a_step_takes_what_was_predicted) {
  for (const bool fuse : {false, true}) {
    const Scope s = Scope::NewRootScope();
    Output h = Fed(s, "x", {-1, 64});
    std::vector<Output> weights;
    for (int i = 0; i < 8; ++i) {
      Tensor w(DType::kFloat, {64, 64});
      for (float& v : w.flat<float>()) v = 0.01f;
      weights.push_back(Const(s, w));
      h = Op(s, StrCat("tanh", i), "Tanh", {Op(s, StrCat("product", i), "MatMul", {h, weights.back()})});
    }
    const std::vector<Output> g = Gradients(s, {Op(s, "loss", "Mean", {h, Const(s, {0, 1})})}, weights);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    Names fetches;
    for (const Output& o : g) fetches.push_back(o.name());
    // A little less than a block of the allocator; and no kernel takes so long that it is put off.
    Tensor x(DType::kFloat, {250, 64});
    for (float& v : x.flat<float>()) v = 0.5f;

    StepMemoryOptions of_step;
    of_step.feed_shapes = {x.shape()};
    of_step.fuse = fuse;
    const auto predicted = PredictStepMemory(*s.graph(), {"x"}, fetches, {}, of_step);
    BOOST_REQUIRE_MESSAGE(predicted.ok(), predicted.status().ToString());

    SessionOptions options;
    options.fuse = fuse;
    options.runtime_options.threads = 1;
    const auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok());
    BOOST_REQUIRE((*session)->Extend(*s.graph()).ok());
    int64_t measured = 0;
    for (int i = 0; i < 5; ++i) {
      std::vector<Tensor> out;
      (*session)->runtime()->ResetPeakMemory();
      const int64_t before = (*session)->runtime()->devices()[0].memory.bytes_in_use;
      const absl::Status run = (*session)->Run({{"x", x}}, fetches, {}, &out);
      BOOST_REQUIRE_MESSAGE(run.ok(), run.ToString());
      measured = (*session)->runtime()->devices()[0].memory.peak_bytes_in_use - before;
    }
    const double ratio = static_cast<double>(measured) / static_cast<double>(predicted->peak_bytes);
    BOOST_TEST((ratio > 0.85 && ratio < 1.25), (fuse ? "fused: " : "") << measured << " of " << predicted->peak_bytes);
  }
}

}  // namespace step_memory_test
}  // namespace troupe
