// The programs at the top of the headers for training and input, as they stand there
// (quotes_test.cc compares them), compiled and run.
#include <boost/test/unit_test.hpp>

#include "troupe/lookup.h"
#include "troupe/readers.h"
#include "troupe/train/all_reduce.h"
#include "troupe/train/bucket.h"
#include "troupe/train/dataset_hook.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/epoch_order.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/global_step.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/hooks.h"
#include "troupe/train/in_graph_replicas.h"
#include "troupe/train/input.h"
#include "troupe/train/monitored_session.h"
#include "troupe/train/queue_runner.h"
#include "troupe/train/replica_devices.h"
#include "troupe/train/saved_model.h"
#include "troupe/train/saver.h"
#include "troupe/train/train_mirrored.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;

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
  {
    // clang-format off
    // [include/troupe/train/replica_devices.h]
    const Scope on = root.WithDeviceFunction(
        train::ReplicaDevices({.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
    const Variable w(on.WithOpName("w"), 0.5f);  // on /job:ps/task:0
    const Variable b(on.WithOpName("b"), 0.1f);  // on /job:ps/task:1
    // [/include/troupe/train/replica_devices.h]
    // clang-format on
    BOOST_TEST(w.handle().node()->requested_device() == "/job:ps/task:0");
    BOOST_TEST(b.handle().node()->requested_device() == "/job:ps/task:1");
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

BOOST_AUTO_TEST_CASE(the_programs_of_replicas) {
  SessionOptions two;
  two.runtime = *Runtime::Start({.threads = 2, .cpu_devices = 2});
  const Scope root = Scope::NewRootScope();
  const auto session = *Session::Create(two);
  // clang-format off
  // [include/troupe/train/in_graph_replicas.h]
  const auto tower = [](const Scope& on, int replica) {
    Variable w(on.WithOpName("w"), 0.0f);
    return ops::Square(on, ops::Sub(on, w, static_cast<float>(replica)));  // the loss of its examples
  };
  const auto sgd = [](const Scope&) { return std::make_unique<train::GradientDescent>(0.25f); };
  const train::InGraphReplicas replicas(root, tower, sgd, train::GetOrCreateGlobalStep(root),
                                        {.devices = {"/device:CPU:0", "/device:CPU:1"}});
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {replicas.initializer()}, nullptr);
  for (int i = 0; i < 20 && s.ok(); ++i) s = session->Run({}, {}, {replicas.update()}, nullptr);
  // [/include/troupe/train/in_graph_replicas.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  // The mean of 0 and 1.
  for (const auto& v : replicas.variables()) BOOST_TEST(std::abs(session->Get(v[0])->scalar<float>() - 0.5f) < 1e-5f);
}

BOOST_AUTO_TEST_CASE(the_program_of_mirrored_training) {
  const std::shared_ptr<Runtime> runtime = *Runtime::Start({.threads = 2, .cpu_devices = 2});
  const Scope root = Scope::NewRootScope(), on = root.WithDevice("/device:CPU:0");
  const Variable global_step = train::GetOrCreateGlobalStep(on);
  const auto tower = [](const Scope& at, int) { return ops::Square(at, Variable(at.WithOpName("w"), 1.0f)); };
  const auto sgd = [](const Scope&) { return std::make_unique<train::GradientDescent>(0.25f); };
  const train::InGraphReplicas replicas(on, tower, sgd, global_step, {.devices = {"/device:CPU:0", "/device:CPU:1"}});
  // clang-format off
  // [include/troupe/train/train_mirrored.h]
  const train::MirroredTraining mirrored(on, replicas, global_step, {.others_follow = false});
  train::TrainingOptions options;
  options.session.runtime = runtime;  // of a server, which finds those of the other replicas
  options.last_step = 20;
  absl::StatusOr<train::TrainingReport> report = train::TrainMirrored(root, mirrored, /*replica=*/0, options);
  // [/include/troupe/train/train_mirrored.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(report.ok(), report.status());
  BOOST_TEST(report->step == 20);
}

BOOST_AUTO_TEST_CASE(a_sum_of_the_header) {
  SessionOptions two;
  two.runtime_options.cpu_devices = 2;
  const Scope root = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/train/all_reduce.h]
  const std::vector<std::string> devices = {"/device:CPU:0", "/device:CPU:1"};
  std::vector<Output> grads;  // grads[r] is computed on devices[r]; all have one shape
  for (const std::string& d : devices) grads.push_back(ops::Const(root.WithDevice(d), {1.0f, 2.0f}));
  std::vector<Output> means = train::AllReduce(root, grads, devices, {.mean = true});
  // [/include/troupe/train/all_reduce.h]
  // clang-format on
  const auto session = *Session::Create(two);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, means, {}, &out).ok());
  for (const Tensor& t : out) BOOST_TEST(t.flat<float>()[1] == 2.0f);
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

BOOST_AUTO_TEST_CASE(examples_of_an_epoch) {
  constexpr int64_t examples = 12, seed = 3, batch = 2, parts = 3;
  std::vector<int> used(examples, 0);
  const auto Use = [&](int64_t example) { ++used.at(static_cast<size_t>(example)); };
  for (int64_t step = 0; step < examples / (batch * parts); ++step) {
    for (int64_t part = 0; part < parts; ++part) {
      // [include/troupe/train/epoch_order.h]
      train::EpochOrder order(examples, seed);
      for (int64_t i = 0; i < batch; ++i) Use(order.At((step * parts + part) * batch + i));
      // [/include/troupe/train/epoch_order.h]
    }
  }
  BOOST_TEST(used == std::vector<int>(examples, 1), boost::test_tools::per_element());
}

}  // namespace
