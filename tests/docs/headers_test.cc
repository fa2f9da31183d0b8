// The programs at the top of headers, as they stand there (quotes_test.cc compares them), compiled
// and run. Those of savers, queues and watched training stand in training_headers_test.cc.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "troupe/checkpoint.h"
#include "troupe/dataset.h"
#include "troupe/evaluate.h"
#include "troupe/faulty_files.h"
#include "troupe/files.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/passes.h"
#include "troupe/placement.h"
#include "troupe/proto/config.pb.h"
#include "troupe/records.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/step_memory.h"
#include "troupe/timeline.h"
#include "troupe/train/recurrent.h"
#include "troupe/troupe.h"
#include "troupe/tuning.h"

namespace {

using namespace troupe;

// The kernel that is there already stays in force.
// clang-format off
// [include/troupe/kernel.h]
class ReluKernel {
 public:
  explicit ReluKernel(KernelInit& init);                  // init.Fail(status) refuses the node
  absl::Status Compute(KernelContext& ctx);               // validate, allocate, compute, in this order
};
TROUPE_KERNEL("Relu").Device("CPU").Type<float>("T").Class<ReluKernel>();
// [/include/troupe/kernel.h]
// clang-format on
ReluKernel::ReluKernel(KernelInit& init) { init.Fail(Internal("a test's kernel")); }
absl::Status ReluKernel::Compute(KernelContext&) { return Internal("a test's kernel"); }

// Defines Relu a second time when it is called.
void DefineRelu() {
  // clang-format off
  // [include/troupe/op_def.h]
  TROUPE_OP("Relu")
      .Input("features: T").Output("activations: T")
      .Attr("T: {float, double, int32} = DT_FLOAT")
      .Shape(shape_fn::Unchanged)
      .Gradient([](GradientContext& g) { g.Set(0, g.Op("ReluGrad", {g.Grad(0), g.Output(0)})); return g.status(); })
      .Doc("max(features, 0), element by element.");
  // [/include/troupe/op_def.h]
  // clang-format on
}

BOOST_AUTO_TEST_CASE(the_programs_of_op_def_and_kernel) {
  DefineRelu();
  BOOST_TEST(!RegistrationErrorsOf("Relu").empty());
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output y = ops::Relu(scope, Const(scope, {-1.0f, 2.0f}));
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {y.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [2] [0 2]");
}

BOOST_AUTO_TEST_CASE(the_program_of_scope) {
  const Tensor x = Tensor::Of<float>({1, 2}, {1, 2}), w = Tensor::Of<float>({3, 4}, {2, 1}), b = Tensor::Scalar(1.0f);
  // clang-format off
  // [include/troupe/scope.h]
  troupe::Scope root = troupe::Scope::NewRootScope();
  troupe::Scope fc1 = root.NewSubScope("fc1").WithDevice("/job:worker");
  auto y = troupe::ops::MatMul(fc1, x, w);            // node "fc1/MatMul"
  auto z = troupe::ops::Add(fc1.WithOpName("z"), y, b);  // node "fc1/z"
  if (!root.ok()) std::cerr << root.status();         // names the line of the first bad call
  // [/include/troupe/scope.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(y.name() == "fc1/MatMul:0");
  BOOST_TEST(z.name() == "fc1/z:0");
}

BOOST_AUTO_TEST_CASE(the_program_of_const) {
  const Scope scope = Scope::NewRootScope();
  const Tensor tensor = Tensor::Vector<std::string>({"north", "south"});
  // clang-format off
  // [include/troupe/const.h]
  Output scalar = Const(scope, 1.5f);                  // float32 []
  Output matrix = Const(scope, {{1, 2}, {3, 4}});      // int32 [2,2]
  Output doubles = Const<double>(scope, {1, 2, 3});    // the elements converted to float64
  Output any = Const(scope, tensor);                   // a tensor of any dtype and shape
  Output w = Const(scope.WithOpName("w"), 0.0f, TensorShape({784, 10}));  // one value in every element
  // [/include/troupe/const.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {scalar, matrix, doubles, any, w}, {}, &out).ok());
  BOOST_TEST(out[0].DebugString() == "float32 [] [1.5]");
  BOOST_TEST(out[1].DebugString() == "int32 [2,2] [1 2 3 4]");
  BOOST_TEST(out[2].DebugString() == "float64 [3] [1 2 3]");
  BOOST_TEST(out[3].DebugString() == "string [2] [\"north\" \"south\"]");
  BOOST_TEST(out[4].TypeAndShape() == "float32 [784,10]");
  BOOST_TEST(w.name() == "w:0");
}

BOOST_AUTO_TEST_CASE(the_program_of_session) {
  const Scope root = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/session.h]
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 3.0f;
  auto session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({{x, Tensor::Scalar(2.0f)}}, {y}, {}, &out);
  // [/include/troupe/session.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_TEST(out[0].scalar<float>() == 6);
}

BOOST_AUTO_TEST_CASE(the_program_of_placement) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("tower1/x"), DType::kFloat);
  const Output y = ops::Square(root.WithOpName("tower1/y"), x);
  SessionOptions options;
  options.runtime_options = {.threads = 1, .cpu_devices = 2};
  const auto session = *Session::Create(options);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  // clang-format off
  // [include/troupe/placement.h]
  absl::Status s = SetPlacementPolicy(*session, [](const PlacementQuestion& q) {
    return q.node.name().starts_with("tower1/") ? q.devices.back() : std::string();
  });
  // [/include/troupe/placement.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  RunOptions run;
  run.partition_graphs = true;
  std::vector<Tensor> out;
  proto::RunMetadata metadata;
  s = session->Run(run, {{x, Tensor::Scalar(3.0f)}}, {y}, {}, &out, &metadata);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 9);
  int found = 0;
  for (const auto& part : metadata.partition_graphs()) {
    for (const auto& node : part.node()) {
      if (node.name() != "tower1/y") continue;
      BOOST_TEST(node.device().ends_with("/device:CPU:1"), node.device());
      ++found;
    }
  }
  BOOST_TEST(found == 1);
}

BOOST_AUTO_TEST_CASE(the_program_of_timeline) {
  const Scope root = Scope::NewRootScope();
  ops::Square(root.WithOpName("y"), ops::Placeholder(root.WithOpName("x"), DType::kFloat));
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  const Feeds feeds = {{"x", Tensor::Scalar(3.0f)}};
  const Names fetches = {"y"};
  std::vector<Tensor> out;
  // clang-format off
  // [include/troupe/timeline.h]
  Timeline timeline;
  RunOptions options;
  options.collect_stats = true;
  proto::RunMetadata metadata;
  absl::Status s = session->Run(options, feeds, fetches, {}, &out, &metadata);
  timeline.Add(metadata, "step 12");
  if (s.ok()) s = timeline.Write("mem://trace.json");
  // [/include/troupe/timeline.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(timeline.steps() == 1);
  const auto text = files::Read("mem://trace.json");
  BOOST_REQUIRE_MESSAGE(text.ok(), text.status());
  BOOST_TEST(text->find("\"y\"") != std::string::npos, *text);
}

BOOST_AUTO_TEST_CASE(the_program_of_names) {
  const Scope root = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Variable w(root.WithOpName("w"), 1.0f, {.use_resource = false});
  const Output loss = ops::Square(root, w * x);
  const Operation train = train::GradientDescent(0.25f).Minimize(root, loss);
  const Operation init = GlobalVariablesInitializer(root);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  std::vector<Tensor> out;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-result"  // the sample shows arguments
  // clang-format off
  // [include/troupe/names.h]
  session->Run({{x, Tensor::Scalar(2.0f)}}, {loss, "w:0"}, {train}, &out);
  // [/include/troupe/names.h]
  // clang-format on
#pragma GCC diagnostic pop
  BOOST_REQUIRE(out.size() == 2);
  BOOST_TEST(out[0].scalar<float>() == 4);
}

BOOST_AUTO_TEST_CASE(the_program_of_control_flow) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, 3.0f), pred = Const(scope, true), n = Const(scope, 4);
  // clang-format off
  // [include/troupe/control_flow.h]
  Output y = Cond(scope, pred, [&](const Scope& s) { return ops::Square(s, x); }, [&](const Scope& s) { return ops::Neg(s, x); });
  OutputList r = While(scope, {0, 1.0f},
                       [&](const Scope& s, const OutputList& v) { return v[0] < n; },
                       [&](const Scope& s, const OutputList& v) -> OutputList { return {v[0] + 1, v[1] * x}; });
  // [/include/troupe/control_flow.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {y.name(), r[1].name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == 9);
  BOOST_TEST(out[1].scalar<float>() == 81);
}

absl::Status AddTheGradients(Graph& graph, NodeOut loss, NodeOut w, NodeOut b, std::vector<NodeOut>* result) {
  // clang-format off
  // [include/troupe/gradients.h]
  std::vector<NodeOut> g;
  TROUPE_RETURN_IF_ERROR(AddGradients(&graph, {loss}, {w, b}, {}, {}, &g));
  // [/include/troupe/gradients.h]
  // clang-format on
  *result = g;
  return absl::OkStatus();
}
BOOST_AUTO_TEST_CASE(the_program_of_gradients) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output w = Const(scope, 3.0f), b = Const(scope, 4.0f);
  std::vector<NodeOut> g;
  const absl::Status s = AddTheGradients(*scope.graph(), w * b, w, b, &g);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {g[0].ToString(), g[1].ToString()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == 4);
  BOOST_TEST(out[1].scalar<float>() == 3);
}

BOOST_AUTO_TEST_CASE(the_program_of_initializers) {
  const Scope scope = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/train/initializers.h]
  Variable w(scope.WithOpName("w"), init::GlorotUniform()(scope, {784, 100}, DType::kFloat));
  // [/include/troupe/train/initializers.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  BOOST_TEST(w.variable_shape().DebugString() == "[784,100]");
}

BOOST_AUTO_TEST_CASE(the_program_of_layers) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1, 784}});
  // clang-format off
  // [include/troupe/train/layers.h]
  Output h = layers::Dense(root.WithOpName("fc1"), x, 100, {.activation = "Relu"});   // variables fc1/kernel and fc1/bias
  // [/include/troupe/train/layers.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(h.shape().DebugString() == "[?,100]");
  const std::vector<Variable> variables = VariablesIn(root, kTrainableVariables);
  BOOST_REQUIRE(variables.size() == 2);
  BOOST_TEST(variables[0].variable_name() == "fc1/kernel");
  BOOST_TEST(variables[1].variable_name() == "fc1/bias");
}

BOOST_AUTO_TEST_CASE(the_program_of_recurrent) {
  const Scope root = Scope::NewRootScope();
  const Output words = ops::Placeholder(root, DType::kFloat, {.shape = {-1, -1, 300}});
  // clang-format off
  // [include/troupe/train/recurrent.h]
  layers::RnnResult r = layers::Lstm(root.WithOpName("lstm"), words, 650);  // words [batch, time, n]
  Output outputs = r.outputs;  // [batch, time, 650]
  OutputList state = r.state;  // c and h [batch, 650] after the last step
  // [/include/troupe/train/recurrent.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(outputs.shape().DebugString() == "[?,?,650]");
  BOOST_TEST(state.size() == 2u);
  BOOST_TEST(state[1].shape().DebugString() == "[?,650]");
}

BOOST_AUTO_TEST_CASE(the_program_of_variable) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {{1.0f, 2.0f}});
  // clang-format off
  // [include/troupe/variable.h]
  Variable w(scope.WithOpName("w"), Const(scope, {{0.5f}, {0.25f}}));  // nodes w, w/Assign, w/Read
  Output y = ops::MatMul(scope, x, w);               // a Variable is an Output: its value, read once in a step
  Output slope = Gradients(scope, {y}, {w})[0];      // with respect to the variable, however it is read
  Output after = w.AssignSub(scope, 0.1f * slope);   // the value afterwards
  Operation init = GlobalVariablesInitializer(scope);
  absl::Status status = session->Extend(*scope.graph());
  if (status.ok()) status = session->Run({}, {}, {init}, nullptr);  // before anything else
  // [/include/troupe/variable.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  status = session->Run({}, {y.name(), slope.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [1,1] [1]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,1] [1 2]");
  BOOST_REQUIRE(session->Run({}, {after.name()}, {}, &out).ok());
  BOOST_TEST(out[0].shape().DebugString() == "[2,1]");
}

BOOST_AUTO_TEST_CASE(the_program_of_optimizer) {
  const Scope root = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Variable w(root.WithOpName("w"), 1.0f);
  const Output loss = ops::Square(root, w * x);
  const Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
  // clang-format off
  // [include/troupe/train/optimizer.h]
  train::Adam adam(0.001);
  Operation step = adam.Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);  // after Minimize: slots are variables, too
  absl::Status status = session->Extend(*root.graph());
  if (status.ok()) status = session->Run({}, {}, {init}, nullptr);
  for (int i = 0; i < 100 && status.ok(); ++i) status = session->Run(feeds, {}, {step}, nullptr);
  // [/include/troupe/train/optimizer.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run(feeds, {w.name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() < 1.0f);
}

BOOST_AUTO_TEST_CASE(the_program_of_functional) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {1.0f, 2.0f, 3.0f});
  // clang-format off
  // [include/troupe/functional.h]
  Output squares = Map(scope, x, [](const Scope&, const Output& row) { return row * row; });
  Output sum = Fold(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  Output sums = Scan(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  // [/include/troupe/functional.h]
  // clang-format on
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {squares.name(), sum.name(), sums.name()}, {}, &out).ok());
  BOOST_TEST(out[0].DebugString() == "float32 [3] [1 4 9]");
  BOOST_TEST(out[1].DebugString() == "float32 [] [6]");
  BOOST_TEST(out[2].DebugString() == "float32 [3] [1 3 6]");
}

BOOST_AUTO_TEST_CASE(the_program_of_evaluate) {
  // clang-format off
  // [include/troupe/evaluate.h]
  auto y = EvaluateOp("Add", {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)});   // (*y)[0] is 3
  // [/include/troupe/evaluate.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(y.ok(), y.status());
  BOOST_TEST((*y)[0].scalar<float>() == 3.0f);
}

BOOST_AUTO_TEST_CASE(the_program_of_passes) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat);
  const Output two = ops::Add(scope.WithOpName("two"), 1.0f, 1.0f),
               also = ops::Add(scope.WithOpName("also"), 1.0f, 1.0f);
  ops::AddN(scope.WithOpName("loss"), {x, two, also, ops::Square(scope.WithOpName("square"), x)});
  ops::Neg(scope.WithOpName("aside"), x);
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  const Graph& graph = *scope.graph();
  // clang-format off
  // [include/troupe/passes.h]
  auto pruned = PruneGraph(graph, {"x"}, {"loss"}, {});   // what a step that fetches "loss" runs
  absl::Status s = FoldGraph(pruned->get());               // constants are computed once
  // [/include/troupe/passes.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  const auto ops_of = [](const Graph& g, std::string_view op) {
    int n = 0;
    for (const Node* node : g.op_nodes()) n += node->op().name == op;
    return n;
  };
  BOOST_TEST(ops_of(graph, "Add") == 2);
  BOOST_TEST(ops_of(graph, "Neg") == 1);
  BOOST_TEST(ops_of(**pruned, "Add") == 0);
  BOOST_TEST(ops_of(**pruned, "Neg") == 0);
  BOOST_TEST(ops_of(**pruned, "_Arg") == 1);
  const int constants = ops_of(**pruned, "Const");
  BOOST_REQUIRE(MergeCommonSubexpressions(pruned->get()).ok());
  BOOST_TEST(ops_of(**pruned, "Const") == constants - 1);
  BOOST_TEST(PruneGraph(graph, {}, {"loss"}, {}).status().code() == absl::StatusCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(the_program_of_step_memory) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, 784})});
  const Output product = ops::MatMul(scope.WithOpName("product"), x, Const(scope, Tensor(DType::kFloat, {784, 10})));
  const Output loss = ops::Mean(scope.WithOpName("loss"), product);
  ops::NoOp(scope.WithOpName("train").WithControlDependencies({loss}));
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  const Graph& graph = *scope.graph();
  // [include/troupe/step_memory.h]
  StepMemoryOptions options;
  options.feed_shapes = {TensorShape({32, 784})};  // of x
  auto memory = PredictStepMemory(graph, {"x"}, {"loss"}, {"train"}, options);
  // memory->peak_bytes; memory->holders[0].what: "node 'product' (MatMul)"
  // [/include/troupe/step_memory.h]
  BOOST_REQUIRE_MESSAGE(memory.ok(), memory.status());
  BOOST_TEST(memory->peak_bytes == 32 * 10 * 4 + 4);
  BOOST_TEST(memory->holders[0].what == "node 'product' (MatMul)");
}

BOOST_AUTO_TEST_CASE(the_programs_of_files) {
  {
    // clang-format off
    // [include/troupe/files.h]
    absl::Status s = files::Write("mem://notes", "loss 0.25");  // whole, or not at all
    absl::StatusOr<std::string> text = files::Read("mem://notes");
    // [/include/troupe/files.h]
    // clang-format on
    BOOST_REQUIRE_MESSAGE(s.ok() && text.ok(), s << text.status());
    BOOST_TEST(*text == "loss 0.25");
  }
  {
    // clang-format off
    // [include/troupe/faulty_files.h]
    auto disk = std::make_shared<files::FaultyFiles>();
    absl::Status s = files::RegisterFileSystem("faulty", disk);
    if (s.ok()) s = files::Write("faulty://notes", "old");
    disk->FailAt(3, files::FaultyFiles::Fault::kDie);  // the third write, sync, rename ... from now on
    absl::Status stopped = files::Write("faulty://notes", "new");
    disk->Crash(files::FaultyFiles::Names::kLost);     // the machine starts again
    absl::StatusOr<std::string> text = files::Read("faulty://notes");  // "old"
    // [/include/troupe/faulty_files.h]
    // clang-format on
    BOOST_REQUIRE_MESSAGE(s.ok() && text.ok(), s << text.status());
    BOOST_TEST(!stopped.ok());
    BOOST_TEST(*text == "old");
  }
  // clang-format off
  // [include/troupe/records.h]
  auto writer = files::RecordWriter::Create("mem://train.tfrecord");
  absl::Status s = writer.ok() ? (*writer)->Write("a record") : writer.status();
  if (s.ok()) s = (*writer)->Close();
  auto reader = files::RecordReader::Open("mem://train.tfrecord");
  std::string_view record;
  absl::StatusOr<bool> more = reader.ok() ? (*reader)->Next(&record) : reader.status();
  for (; more.ok() && *more; more = (*reader)->Next(&record)) std::cout << record << "\n";
  // [/include/troupe/records.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok() && more.ok(), s << more.status());
}

BOOST_AUTO_TEST_CASE(the_program_of_dataset) {
  const std::vector<std::string> paths = {"mem://dataset.tfrecord"};
  const auto decode = [](Element in) -> absl::StatusOr<Element> { return in; };
  {
    const auto writer = files::RecordWriter::Create(paths[0]);
    BOOST_REQUIRE((*writer)->Write("a record").ok() && (*writer)->Close().ok());
  }
  // clang-format off
  // [include/troupe/dataset.h]
  Dataset data = Dataset::Records(paths)  // each element: one scalar string
                     .Shuffle(1000, /*seed=*/7)
                     .Map(decode, /*in_flight=*/4)
                     .Batch(32)
                     .Prefetch(2);
  auto batches = data.Iterate();
  Element batch;
  absl::StatusOr<bool> more = batches.ok() ? (*batches)->Next(&batch) : batches.status();
  for (; more.ok() && *more; more = (*batches)->Next(&batch)) std::cout << batch[0].DebugString() << "\n";
  // [/include/troupe/dataset.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(more.ok(), more.status());
  BOOST_TEST(batch[0].DebugString() == "string [1] [\"a record\"]");
}

BOOST_AUTO_TEST_CASE(the_program_of_checkpoint) {
  const Tensor w = Tensor::Vector<float>({1, 2});
  // clang-format off
  // [include/troupe/checkpoint.h]
  auto writer = CheckpointWriter::Create("mem://run/model-100");
  absl::Status s = writer.ok() ? (*writer)->Add("w", w) : writer.status();
  if (s.ok()) s = (*writer)->Finish();
  auto reader = CheckpointReader::Open("mem://run/model-100");
  absl::StatusOr<Tensor> again = reader.ok() ? (*reader)->Read("w") : reader.status();
  // [/include/troupe/checkpoint.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok() && again.ok(), s << again.status());
  BOOST_TEST(again->DebugString() == "float32 [2] [1 2]");
}

BOOST_AUTO_TEST_CASE(the_program_of_tuning) {
  // clang-format off
  // [include/troupe/tuning.h]
  SetTuning(TuningMode::kAll);                      // from the next product on
  absl::Status s = SaveTuning("mem://tuning.txt");  // behind the last
  // [/include/troupe/tuning.h]
  // clang-format on
  SetTuning(TuningMode::kOff);
  BOOST_TEST(s.ok(), s);
}

}  // namespace
