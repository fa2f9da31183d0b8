// The programs at the top of headers, as they stand there (quotes_test.cc compares them), compiled
// and run.
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
#include "troupe/records.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/lookup.h"
#include "troupe/readers.h"
#include "troupe/train/bucket.h"
#include "troupe/train/dataset_hook.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/global_step.h"
#include "troupe/train/hooks.h"
#include "troupe/train/input.h"
#include "troupe/train/monitored_session.h"
#include "troupe/train/queue_runner.h"
#include "troupe/train/recurrent.h"
#include "troupe/train/saved_model.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

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

BOOST_AUTO_TEST_CASE(the_program_of_saver) {
  for (int run = 0; run < 2; ++run) {
    const Scope root = Scope::NewRootScope();
    const Variable count(root.WithOpName("count"), int64_t{0});
    const Operation update(count.AssignAdd(root, int64_t{1}));
    const Operation init = GlobalVariablesInitializer(root);
    const auto session = *Session::Create();
    // clang-format off
    // [include/troupe/train/saver.h]
    train::Saver saver(root);  // all global variables
    absl::Status s = session->Extend(*root.graph());
    absl::StatusOr<std::string> last = train::LatestCheckpoint("mem://saver");
    if (s.ok()) s = last.ok() ? saver.Restore(*session, *last) : session->Run({}, {}, {init}, nullptr);
    for (int64_t step = 1; step <= 2000 && s.ok(); ++step) {
      s = session->Run({}, {}, {update}, nullptr);
      if (s.ok() && step % 1000 == 0) s = saver.Save(*session, "mem://saver/model", step).status();
    }
    // [/include/troupe/train/saver.h]
    // clang-format on
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_TEST(last.ok() == (run == 1));
    BOOST_TEST(session->Get(count)->scalar<int64_t>() == 2000 * (run + 1));
  }

  Scope root = Scope::NewRootScope();
  const Variable count(root.WithOpName("count"), 0.0f);
  const Output update = count.AssignAdd(root, 1.0f);
  const Output summary = ops::MergeSummary(root, {ops::ScalarSummary(root, "count", update)});
  const Operation init = GlobalVariablesInitializer(root);
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  std::vector<Tensor> out;
  // clang-format off
  // [include/troupe/train/file_writer.h]
  auto writer = train::FileWriter::Create("mem://run");
  absl::Status s = writer.ok() ? (*writer)->AddGraph(*root.graph()) : writer.status();
  if (s.ok()) s = session->Run({}, {summary}, {update}, &out);  // of ops::MergeSummary
  if (s.ok()) s = (*writer)->AddSummary(out[0].scalar<std::string>(), 1);
  if (s.ok()) s = (*writer)->AddScalar("loss", 0.25f, 1);
  if (s.ok()) s = (*writer)->Close();
  // [/include/troupe/train/file_writer.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
}

BOOST_AUTO_TEST_CASE(sample_of_monitored_sessions) {
  Scope root = Scope::NewRootScope();
  const Output loss = ops::Cast(root, train::GetOrCreateGlobalStep(root), DType::kFloat);
  const Output update = train::GetOrCreateGlobalStep(root).AssignAdd(root, int64_t{1});
  {
    // clang-format off
    // [include/troupe/train/monitored_session.h]
    train::MonitoredTrainingOptions options{.checkpoint_folder = "mem://monitored"};
    options.hooks.push_back(std::make_shared<train::StopAtStepHook>(train::StopAtStepHook::LastStep(100)));
    auto session = train::MonitoredTrainingSession(root, options);
    absl::Status s = session.status();
    while (s.ok() && !(*session)->ShouldStop()) s = (*session)->Run({}, {}, {update}, nullptr);
    if (session.ok()) s.Update((*session)->Close());
    // [/include/troupe/train/monitored_session.h]
    // clang-format on
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
  }
  {
    const Dataset data = Dataset::FromTensors({Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({3, 4})});
    const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Placeholder(root, DType::kFloat);
    // clang-format off
    // [include/troupe/train/dataset_hook.h]
    train::MonitoredTrainingOptions options{.checkpoint_folder = "mem://elements"};
    options.hooks.push_back(std::make_shared<train::DatasetHook>(data, NameList{x, y}));
    // [/include/troupe/train/dataset_hook.h]
    // clang-format on
    BOOST_TEST(options.hooks.size() == 1u);
  }
  // clang-format off
  // [include/troupe/train/hooks.h]
  auto stop = std::make_shared<train::StopAtStepHook>(train::StopAtStepHook::LastStep(1000));
  auto log = std::make_shared<train::LoggingHook>(
      std::vector<std::pair<std::string, GraphName>>{{"loss", loss}}, train::Every{.steps = 100});
  // [/include/troupe/train/hooks.h]
  // clang-format on
  BOOST_TEST((stop != nullptr && log != nullptr));
}

Output Decode(const Scope& s, const Output& file) { return Const(s.WithControlDependencies(file), {1.0f, 2.0f}); }

BOOST_AUTO_TEST_CASE(the_programs_of_queues) {
  const Scope root = Scope::NewRootScope(), scope = root;
  const Output image = ops::ZerosLike(root, Const(root, Tensor(DType::kFloat, TensorShape({28, 28})))),
               label = Const(root, 1);
  // clang-format off
  // [include/troupe/queues.h]
  Queue q = Queue::Fifo(scope, {DType::kFloat, DType::kInt32}, {.capacity = 100, .shapes = {{28, 28}, TensorShape()}});
  Operation put = q.Enqueue(scope, {image, label});            // waits while 100 elements are there
  OutputList batch = q.DequeueMany(scope, 32);                 // [32,28,28] and [32], when there are 32
  AddQueueRunner(scope, MakeQueueRunner(scope, q, {put, put}));  // two steps at a time
  // [/include/troupe/queues.h]
  // clang-format on
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_TEST(session->Run({}, {}, {put}, nullptr).ok());
}

BOOST_AUTO_TEST_CASE(the_program_of_coordinators) {
  const Scope root = Scope::NewRootScope();
  const Queue numbers = train::RangeInputProducer(root, 5, {.num_epochs = 1});
  const Operation train_op = ops::NoOp(root.WithControlDependencies(numbers.Dequeue(root)[0]));
  const Operation init = LocalVariablesInitializer(root);
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  // clang-format off
  // [include/troupe/train/coordinator.h]
  train::Coordinator coordinator(*session);
  absl::Status s = train::StartQueueRunners(*session, coordinator, *root.graph());
  while (s.ok() && !coordinator.ShouldStop()) s = session->Run({}, {}, {train_op}, nullptr);
  coordinator.RequestStop(s);
  s = coordinator.Join();  // the first error, if there was one
  // [/include/troupe/train/coordinator.h]
  // clang-format on
  BOOST_TEST(s.ok(), s);
}

BOOST_AUTO_TEST_CASE(the_program_of_input_pipelines) {
  const Scope root = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/train/input.h]
  Queue files = train::StringInputProducer(root, {"a.txt", "b.txt"}, {.num_epochs = 2, .seed = 1});
  Output image = Decode(root, ops::ReadFile(root, files.Dequeue(root)[0]));
  Output batch = train::ShuffleBatch(root, {image}, {.batch_size = 32, .capacity = 1000}, 500)[0];
  // [/include/troupe/train/input.h]
  // clang-format on
  BOOST_TEST(batch.shape().DebugString() == "[32,2]");
  BOOST_TEST(QueueRunnersOf(*root.graph())->size() == 2u);
}

BOOST_AUTO_TEST_CASE(saved_models_of_the_header) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Variable w(root.WithOpName("w"), 3.0f);
  const Output y = w * x;
  const Operation init = GlobalVariablesInitializer(root);
  const auto session = *Session::Create(), later = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  // clang-format off
  // [include/troupe/train/saved_model.h]
  train::Saver saver(root);  // ... and train
  train::SavedModelOptions options;
  options.signatures["serving_default"] = {.inputs = {{"x", x}}, .outputs = {{"y", y}}};
  absl::Status s = train::WriteSavedModel("mem://m", *session, *root.graph(), &saver, options);
  Graph graph;
  absl::StatusOr<train::SavedModel> model = train::ReadSavedModel("mem://m", &graph);
  if (model.ok() && s.ok()) s = later->Extend(graph);
  if (model.ok() && s.ok()) s = model->Load(*later);  // the variables' values
  // [/include/troupe/train/saved_model.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(model.ok(), model.status());
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  const train::ModelSignature& serve = model->signatures.at("serving_default");
  std::vector<Tensor> out;
  s = later->Run({{serve.inputs.at("x"), Tensor::Scalar(2.0f)}}, {serve.outputs.at("y")}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 6.0f);
}

BOOST_AUTO_TEST_CASE(readers_tables_and_buckets) {
  const Scope root = Scope::NewRootScope();
  const Output words = ops::Placeholder(root, DType::kString, {.shape = TensorShape({3})});
  const Output numbers = ops::Placeholder(root, DType::kInt64),
               size = ops::Placeholder(root, DType::kInt32, {.shape = TensorShape()});
  // clang-format off
  // [include/troupe/readers.h]
  Queue files = train::StringInputProducer(root, {"a.txt", "b.txt"}, {.num_epochs = 1});
  auto [key, line] = Reader::TextLines(root).Read(root, files);  // "a.txt:1" and the line
  // [/include/troupe/readers.h]
  // [include/troupe/lookup.h]
  IndexTable ids = IndexTable::FromFile(root, "vocabulary.txt", {.num_oov_buckets = 10});
  Output id = ids.Lookup(root, words);      // int64; words that the file does not have: the buckets
  LookupTable counts = LookupTable::Mutable(root, DType::kString, DType::kInt64);
  Operation put = counts.Insert(root, words, numbers);
  // [/include/troupe/lookup.h]
  // [include/troupe/train/bucket.h]
  auto [length, batch] = train::BucketBySequenceLength(root, size, {words}, {10, 20, 40},
                                                       {.batch_size = 32, .dynamic_pad = true});
  // [/include/troupe/train/bucket.h]
  // clang-format on
  BOOST_TEST(root.ok(), root.status());
  BOOST_TEST((key.valid() && line.valid() && put.valid() && length.valid()));
  BOOST_TEST(id.shape().DebugString() == "[3]");
  BOOST_TEST(batch[0].shape().DebugString() == "[32,3]");
}

}  // namespace
