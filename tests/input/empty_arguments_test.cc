// Empty handles, null pointers, functions without a target and objects that were moved from: each
// public call answers with a sentence, whatever it is given, and none ends the program.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/actors/graphs.h"
#include "troupe/checkpoint.h"
#include "troupe/dataset.h"
#include "troupe/emit.h"
#include "troupe/files.h"
#include "troupe/image.h"
#include "troupe/import_export.h"
#include "troupe/lookup.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/queues.h"
#include "troupe/readers.h"
#include "troupe/state_snapshot.h"
#include "troupe/text.h"
#include "troupe/train/accumulate.h"
#include "troupe/train/adam.h"
#include "troupe/train/bucket.h"
#include "troupe/train/clip.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/embedding.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/input.h"
#include "troupe/train/layers.h"
#include "troupe/train/moving_average.h"
#include "troupe/train/partitioned.h"
#include "troupe/train/queue_runner.h"
#include "troupe/train/recurrent.h"
#include "troupe/train/regularizers.h"
#include "troupe/train/sampled_loss.h"
#include "troupe/train/saved_model.h"
#include "troupe/train/saver.h"
#include "troupe/train/schedules.h"

namespace troupe {
namespace empty_arguments_test {

BOOST_AUTO_TEST_SUITE(empty_arguments)

struct Door {
  const char* what;
  std::function<absl::Status()> call;
};

// INVALID_ARGUMENT or FAILED_PRECONDITION, and a sentence.
void WalkThrough(const std::vector<Door>& doors) {
  for (const Door& d : doors) {
    BOOST_TEST_MESSAGE("at the door " << d.what);
    const absl::Status s = d.call();
    BOOST_TEST((absl::IsInvalidArgument(s) || absl::IsFailedPrecondition(s)), d.what << ": " << s);
    BOOST_TEST(s.message().size() >= 15u, d.what << ": " << s);
    BOOST_TEST(s.message().find("bad_function_call") == std::string::npos, d.what << ": " << s);
  }
}
// The error of a scope in which `build` has built.
std::function<absl::Status()> Built(std::function<void(const Scope&)> build) {
  return [build = std::move(build)] {
    const Scope root = Scope::NewRootScope();
    build(root);
    return root.status();
  };
}
absl::Status Iterated(const Dataset& set) {
  auto it = set.Iterate();
  if (!it.ok()) return it.status();
  Element e;
  return (*it)->Next(&e).status();
}

std::unique_ptr<Session> AnySession() { return *Session::Create(); }

BOOST_AUTO_TEST_CASE(data_sets) {
  Dataset moved = Dataset::Range(0, 5);
  const Dataset five = std::move(moved);
  BOOST_TEST(moved.Iterate().ok());  // NOLINT: one that was moved from is a copy
  const auto nothing = [](Element) { return absl::StatusOr<Element>(Element{Tensor()}); };
  WalkThrough({
      {"Zip of no sets", [&] { return Iterated(Dataset::Zip({})); }},
      {"Map by nothing", [&] { return Iterated(five.Map(nullptr)); }},
      {"parallel Map by nothing", [&] { return Iterated(five.Map(nullptr, 4)); }},
      {"Filter by nothing", [&] { return Iterated(five.Filter(nullptr)); }},
      {"Interleave by nothing", [&] { return Iterated(five.Interleave(nullptr, 2)); }},
      {"FromGenerator of nothing", [&] { return Iterated(Dataset::FromGenerator(nullptr)); }},
      {"FromGenerator that makes nothing",
       [&] { return Iterated(Dataset::FromGenerator([] { return Dataset::Generator(); })); }},
      {"FromTensors of an empty tensor", [&] { return Iterated(Dataset::FromTensors({Tensor()})); }},
      {"FromTensors of no tensors", [&] { return Iterated(Dataset::FromTensors({})); }},
      {"Next into nothing", [&] { return (*five.Iterate())->Next(nullptr).status(); }},
      {"Batch of empty tensors", [&] { return Iterated(five.Map(nothing).Batch(2)); }},
      {"PaddedBatch of empty tensors", [&] { return Iterated(five.Map(nothing).PaddedBatch(2)); }},
      {"Iterate at no position", [&] { return five.Iterate(ResourceState()).status(); }},
  });
}

BOOST_AUTO_TEST_CASE(sessions) {
  const auto session = AnySession();
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output y = ops::Neg(root.WithOpName("y"), x);
  const Variable w(root.WithOpName("w"), 1.0f);
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  const Callable none;
  const auto of_callable = [&](const RunOptions& options) {
    absl::Status ended;
    none.RunAsync(options, {}, [&](const absl::Status& s, const std::vector<Tensor>&) { ended = s; });
    return ended;
  };
  WalkThrough({
      {"a fetch without a name", [&] { return session->Run({}, {Output()}, {}, nullptr); }},
      {"a target without a name", [&] { return session->Run({}, {}, {Operation()}, nullptr); }},
      {"a feed without a name",
       [&] {
         return session->Run({{Output(), Tensor::Scalar(1.0f)}}, {y}, {}, nullptr);
       }},
      {"a feed without a value",
       [&] {
         std::vector<Tensor> out;
         return session->Run({{x, Tensor()}}, {y}, {}, &out);
       }},
      {"Get of nothing", [&] { return session->Get(Output()).status(); }},
      {"Set of nothing", [&] { return session->Set(Variable(), Tensor::Scalar(1.0f)); }},
      {"Set to nothing", [&] { return session->Set(w, Tensor()); }},
      {"Prepare of nothing", [&] { return session->Prepare({}, {Output()}, {}).status(); }},
      {"an empty Callable",
       [&] {
         std::vector<Tensor> out;
         return none.Run({}, &out);
       }},
      {"an empty Callable, later", [&] { return of_callable({}); }},
      {"a snapshot of no bytes", [&] { return StateSnapshot::FromBytes("").status(); }},
  });
}

BOOST_AUTO_TEST_CASE(savers_and_models) {
  const auto session = AnySession();
  train::Saver none;
  Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 1.0f);
  train::Saver moved(root);
  train::Saver taken = std::move(moved);
  // One that was moved from is a copy.
  TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
  TROUPE_REQUIRE_OK(session->Run({}, {}, {w.initializer()}, nullptr));
  TROUPE_REQUIRE_OK(moved.Save(*session, "mem://empty/moved").status());  // NOLINT: what is tested
  BOOST_TEST(moved.checkpoints().size() == 1u);
  moved.SaveAsync(*session, "mem://empty/unasked", {}, nullptr);
  moved.WaitForSaves();
  const auto async = [&](train::Saver& saver) {
    absl::Status ended;
    saver.SaveAsync(*session, "mem://empty/m", {}, [&](const absl::StatusOr<std::string>& s) { ended = s.status(); });
    saver.WaitForSaves();
    return ended;
  };
  train::SavedModel model;
  Graph graph;
  WalkThrough({
      {"Save of an empty Saver", [&] { return none.Save(*session, "mem://empty/m").status(); }},
      {"SaveAsync of an empty Saver", [&] { return async(none); }},
      {"Restore of an empty Saver", [&] { return none.Restore(*session, "mem://empty/m"); }},
      {"a Saver of an empty Variable",
       Built([](const Scope& s) { train::Saver saver(s, {train::Saved(Variable())}); })},
      {"a Saver of no variables", Built([](const Scope& s) { train::Saver saver(s); })},
      {"Save without a path", [&] { return none.Save(*session, "").status(); }},
      {"ReadMetaGraph into nothing", [&] { return train::ReadMetaGraph("mem://empty/m.meta", nullptr).status(); }},
      {"ReadSavedModel into nothing", [&] { return train::ReadSavedModel("mem://empty/model", nullptr).status(); }},
      {"ReadSavedModel of no folder", [&] { return train::ReadSavedModel("", &graph).status(); }},
      {"WriteSavedModel by an empty Saver",
       [&] { return train::WriteSavedModel("mem://empty/model", *session, *root.graph(), &none, {}); }},
      {"WriteSavedModel into no folder",
       [&] { return train::WriteSavedModel("", *session, *root.graph(), nullptr, {}); }},
      {"LatestCheckpoint of no folder name", [&] { return train::LatestCheckpoint("mem://empty/none", "").status(); }},
  });
}

BOOST_AUTO_TEST_CASE(branches_and_loops) {
  using Branch = std::function<Output(const Scope&)>;
  using Branches = std::function<OutputList(const Scope&)>;
  const Branch one = [](const Scope& s) { return Const(s, 1); };
  const Branches ones = [](const Scope& s) { return OutputList{Const(s, 1)}; };
  const auto same = [](const Scope&, const Output& v) { return v; };
  const auto same_list = [](const Scope&, const OutputList& v) { return v; };
  const auto built = [](std::function<void(const Scope&)> build) {
    return [build = std::move(build)] {
      const Scope root = Scope::NewRootScope();
      build(root);
      const absl::Status s = root.status();
      BOOST_TEST(absl::IsInvalidArgument(s), s);
      BOOST_TEST(s.ToString().find("empty_arguments_test.cc:") != std::string::npos, s);
      return s;
    };
  };
  WalkThrough({
      {"Cond without a true branch", built([&](const Scope& s) { Cond(s, Const(s, true), Branch(), one); })},
      {"Cond without a false branch", built([&](const Scope& s) { Cond(s, Const(s, true), one, Branch()); })},
      {"CondList", built([&](const Scope& s) { CondList(s, Const(s, true), nullptr, nullptr); })},
      {"Case without branches", built([&](const Scope& s) { Case(s, {}, nullptr); })},
      {"Case with an empty branch", built([&](const Scope& s) {
         Case(s, {{Const(s, true), ones}, {Const(s, true), nullptr}}, ones);
       })},
      {"Case without the rest", built([&](const Scope& s) {
         Case(s, {{Const(s, true), ones}}, nullptr);
       })},
      {"While without a condition", built([&](const Scope& s) { While(s, Input(Const(s, 1)), nullptr, same); })},
      {"While without a body", built([&](const Scope& s) {
         While(
             s, Input(Const(s, 1)), [](const Scope& l, const Output& v) { return ops::Less(l, v, 3); }, nullptr);
       })},
      {"While of a list without a condition",
       built([&](const Scope& s) { While(s, InputList{Const(s, 1)}, nullptr, same_list); })},
      {"While with a bound, without a body", built([&](const Scope& s) {
         While(s, InputList{Const(s, 1)}, [](const Scope& l, const OutputList& v) { return ops::Less(l, v[0], 3); },
               nullptr, {.maximum_iterations = 2});
       })},
      {"Map", built([&](const Scope& s) {
         Map(s, Const(s, {1, 2}), nullptr);
       })},
      {"Map of a list", built([&](const Scope& s) {
         Map(s, OutputList{Const(s, {1, 2})}, nullptr);
       })},
      {"Fold", built([&](const Scope& s) {
         Fold(s, Const(s, {1, 2}), 0, nullptr);
       })},
      {"Fold of a list", built([&](const Scope& s) {
         Fold(s, OutputList{Const(s, {1, 2})}, {}, nullptr);
       })},
      {"Scan", built([&](const Scope& s) {
         Scan(s, Const(s, {1, 2}), 0, nullptr);
       })},
      {"Scan of a list", built([&](const Scope& s) {
         Scan(s, OutputList{Const(s, {1, 2})}, {}, nullptr);
       })},
  });
}

BOOST_AUTO_TEST_CASE(variables_and_optimizers) {
  const Variable none;
  train::GradientDescent descent(0.1f);
  const auto loss = [](const Scope& s) { return ops::Square(s, Variable(s, 1.0f)); };
  WalkThrough({
      {"Read", Built([&](const Scope& s) { none.Read(s); })},
      {"Assign", Built([&](const Scope& s) { none.Assign(s, 1.0f); })},
      {"AssignAdd", Built([&](const Scope& s) { none.AssignAdd(s, 1.0f); })},
      {"AssignSub", Built([&](const Scope& s) { none.AssignSub(s, 1.0f); })},
      {"IsInitialized", Built([&](const Scope& s) { none.IsInitialized(s); })},
      {"an initial value of nothing", Built([&](const Scope& s) { Variable(s, Output()); })},
      {"VariablesInitializer", Built([&](const Scope& s) { VariablesInitializer(s, {none}); })},
      {"ReportUninitializedVariables", Built([&](const Scope& s) { ReportUninitializedVariables(s, {none}); })},
      {"Minimize of nothing", Built([&](const Scope& s) { descent.Minimize(s, Output()); })},
      {"Minimize for nothing", Built([&](const Scope& s) { descent.Minimize(s, loss(s), {none}); })},
      {"ComputeGradients of nothing", Built([&](const Scope& s) { descent.ComputeGradients(s, Output()); })},
      {"ApplyGradients to nothing", Built([&](const Scope& s) {
         descent.ApplyGradients(s, {{loss(s), none}});
       })},
      {"ApplyGradients of no gradients", Built([&](const Scope& s) { descent.ApplyGradients(s, {}); })},
      {"an average of nothing", Built([&](const Scope& s) { train::ExponentialMovingAverage(0.9).Apply(s, {none}); })},
      {"an average of no tensor",
       Built([&](const Scope& s) { train::ExponentialMovingAverage(0.9).ApplyToTensors(s, {Output()}); })},
      {"accumulate nothing", Built([&](const Scope& s) {
         train::GradientAccumulator().Add(s, {{Output(), none}});
       })},
      {"apply what was not accumulated",
       Built([&](const Scope& s) { train::GradientAccumulator().Apply(s, descent); })},
      {"ClipByGlobalNorm of nothing",
       Built([&](const Scope& s) { train::ClipByGlobalNorm(s, std::vector<Output>{Output()}, 1.0f); })},
      {"GlobalNorm of nothing", Built([&](const Scope& s) { train::GlobalNorm(s, {}); })},
      {"ClipByNorm of nothing", Built([&](const Scope& s) { train::ClipByNorm(s, Output(), 1.0f); })},
      {"ExponentialDecay of nothing",
       Built([&](const Scope& s) { train::ExponentialDecay(s, 0.1f, Output(), 10, 2); })},
      {"PiecewiseConstant of nothing", Built([&](const Scope& s) {
         train::PiecewiseConstant(s, Output(), {1}, {1, 2});
       })},
      {"WarmUp of nothing", Built([&](const Scope& s) { train::WarmUp(s, 0.1f, Output(), 10); })},
      {"RegularizationLoss by nothing",
       Built([&](const Scope& s) { train::RegularizationLoss(s, nullptr, {Variable(s, 1.0f)}); })},
      {"RegularizationLoss of nothing",
       Built([&](const Scope& s) { train::RegularizationLoss(s, train::L2Regularizer(1), {none}); })},
      {"SumRegularizer of nothing",
       Built([&](const Scope& s) { train::SumRegularizer({nullptr})(s, Const(s, 1.0f)); })},
      {"a partitioned variable without an initializer", Built([&](const Scope& s) {
         train::PartitionedVariable(s, nullptr, TensorShape({4}), DType::kFloat, train::FixedParts(2));
       })},
      {"a partitioned variable without a partitioner", Built([&](const Scope& s) {
         train::PartitionedVariable(s, init::Zeros(), TensorShape({4}), DType::kFloat, nullptr);
       })},
      {"an empty partitioned variable", Built([&](const Scope& s) { train::PartitionedVariable().Value(s); })},
      {"rows of an empty partitioned variable",
       Built([&](const Scope& s) { train::PartitionedVariable().Lookup(s, Const(s, {0})); })},
      {"EmbeddingLookup in nothing", Built([&](const Scope& s) { train::EmbeddingLookup(s, none, Const(s, {0})); })},
      {"EmbeddingLookup in no parts",
       Built([&](const Scope& s) { train::EmbeddingLookup(s, std::vector<Variable>(), Const(s, {0})); })},
      {"EmbeddingLookup of nothing",
       Built([&](const Scope& s) { train::EmbeddingLookup(s, Variable(s, {{1.0f}}), Output()); })},
      {"EmbeddingLookupSparse of nothing",
       Built([&](const Scope& s) { train::EmbeddingLookupSparse(s, {Variable(s, {{1.0f}})}, {}); })},
      {"SampleClasses of nothing", Built([&](const Scope& s) { train::SampleClasses(s, Output(), 1, 2, 4); })},
      {"NceLoss of nothing", Built([&](const Scope& s) { train::NceLoss(s, {}, {}, Output(), Output(), 2, 4); })},
      {"NceLoss by nothing",
       Built([&](const Scope& s) { train::NceLoss(s, {none}, {none}, Output(), Output(), 2, 4); })},
  });
}

BOOST_AUTO_TEST_CASE(layers_and_images) {
  const auto x = [](const Scope& s) { return Const(s, {{1.0f, 2.0f}}); };
  layers::LayerOptions no_kernel, no_bias;
  no_kernel.kernel_initializer = nullptr;
  no_bias.bias_initializer = nullptr;
  layers::ConvOptions no_filter;
  no_filter.kernel_initializer = nullptr;
  layers::BatchNormOptions no_mean;
  no_mean.moving_mean_initializer = nullptr;
  layers::EmbeddingOptions no_table;
  no_table.initializer = nullptr;
  struct NoCell : layers::RnnCell {
    std::vector<int64_t> StateSizes() const override { return {}; }
    Output Project(const ScopeAt&, const Output&) const override { return Output(); }
    OutputList Step(const ScopeAt&, const Output&, const OutputList&) const override { return {}; }
  } no_cell;
  const Output none;
  WalkThrough({
      {"Dense of nothing", Built([&](const Scope& s) { layers::Dense(s, none, 3); })},
      {"Dense without a kernel", Built([&](const Scope& s) { layers::Dense(s, x(s), 3, no_kernel); })},
      {"Dense without a bias", Built([&](const Scope& s) { layers::Dense(s, x(s), 3, no_bias); })},
      {"Conv2D of nothing", Built([&](const Scope& s) {
         layers::Conv2D(s, none, 3, {1, 1});
       })},
      {"Conv2D without a filter", Built([&](const Scope& s) {
         layers::Conv2D(s, Const(s, Literal(Tensor(DType::kFloat, {1, 2, 2, 1}))), 3, {1, 1}, no_filter);
       })},
      {"MaxPool2D of nothing", Built([&](const Scope& s) {
         layers::MaxPool2D(s, none, {2, 2}, {2, 2});
       })},
      {"BatchNorm of nothing", Built([&](const Scope& s) { layers::BatchNorm(s, none, true); })},
      {"BatchNorm without a mean", Built([&](const Scope& s) { layers::BatchNorm(s, x(s), true, no_mean); })},
      {"BatchNorm while nothing", Built([&](const Scope& s) { layers::BatchNorm(s, x(s), none); })},
      {"LayerNorm of nothing", Built([&](const Scope& s) { layers::LayerNorm(s, none); })},
      {"Embedding of nothing", Built([&](const Scope& s) { layers::Embedding(s, none, 3, 2); })},
      {"Embedding without a table",
       Built([&](const Scope& s) { layers::Embedding(s, Const(s, {0}), 3, 2, no_table); })},
      {"DotProductAttention of nothing",
       Built([&](const Scope& s) { layers::DotProductAttention(s, none, none, none); })},
      {"MultiHeadAttention of nothing",
       Built([&](const Scope& s) { layers::MultiHeadAttention(s, none, none, 2, 2); })},
      {"Dropout of nothing", Built([&](const Scope& s) { layers::Dropout(s, none, 0.5); })},
      {"Flatten of nothing", Built([&](const Scope& s) { layers::Flatten(s, none); })},
      {"Lstm of nothing", Built([&](const Scope& s) { layers::Lstm(s, none, 3); })},
      {"Gru of nothing", Built([&](const Scope& s) { layers::Gru(s, none, 3); })},
      {"Rnn by a cell that gives nothing", Built([&](const Scope& s) {
         layers::Rnn(s, no_cell, Const(s, Literal(Tensor(DType::kFloat, {1, 2, 2}))));
       })},
      {"Rnn by a cell that gives nothing, unrolled", Built([&](const Scope& s) {
         layers::Rnn(s, no_cell, Const(s, Literal(Tensor(DType::kFloat, {1, 2, 2}))), {.unrolled = true});
       })},
      {"CropToBoundingBox", Built([&](const Scope& s) { image::CropToBoundingBox(s, none, 0, 0, 1, 1); })},
      {"CentralCrop", Built([&](const Scope& s) { image::CentralCrop(s, none, 0.5); })},
      {"RandomFlipLeftRight", Built([&](const Scope& s) { image::RandomFlipLeftRight(s, none); })},
      {"RandomBrightness", Built([&](const Scope& s) { image::RandomBrightness(s, none, 0.5); })},
      {"RandomHue", Built([&](const Scope& s) { image::RandomHue(s, none, 0.1); })},
      {"RgbToGrayscale", Built([&](const Scope& s) { image::RgbToGrayscale(s, none); })},
      {"GrayscaleToRgb", Built([&](const Scope& s) { image::GrayscaleToRgb(s, none); })},
      {"PerImageStandardization", Built([&](const Scope& s) { image::PerImageStandardization(s, none); })},
  });
}

BOOST_AUTO_TEST_CASE(queues_readers_and_tables) {
  const Queue none;
  const Reader no_reader;
  const LookupTable no_table;
  const IndexTable no_index;
  const WordTable no_words;
  const auto session = AnySession();
  AddQueueRunner(static_cast<Graph*>(nullptr), QueueRunner());
  WalkThrough({
      {"Enqueue", Built([&](const Scope& s) { none.Enqueue(s, {Const(s, 1.0f)}); })},
      {"EnqueueMany", Built([&](const Scope& s) { none.EnqueueMany(s, {Const(s, {1.0f})}); })},
      {"Dequeue", Built([&](const Scope& s) { none.Dequeue(s); })},
      {"DequeueMany", Built([&](const Scope& s) { none.DequeueMany(s, 1); })},
      {"DequeueUpTo", Built([&](const Scope& s) { none.DequeueUpTo(s, 1); })},
      {"Close", Built([&](const Scope& s) { none.Close(s); })},
      {"Size", Built([&](const Scope& s) { none.Size(s); })},
      {"IsClosed", Built([&](const Scope& s) { none.IsClosed(s); })},
      {"a queue of no types", Built([&](const Scope& s) { Queue::Fifo(s, {}); })},
      {"a queue of no handle", Built([&](const Scope& s) { Queue::Of(Output(), {DType::kFloat}).Dequeue(s); })},
      {"Enqueue of nothing", Built([&](const Scope& s) { Queue::Fifo(s, {DType::kFloat}).Enqueue(s, {Output()}); })},
      {"a runner of no queue", Built([&](const Scope& s) { MakeQueueRunner(s, none, {}); })},
      {"a runner of no ops",
       Built([&](const Scope& s) { AddQueueRunner(s, MakeQueueRunner(s, Queue::Fifo(s, {DType::kFloat}), {})); })},
      {"a runner of an empty op", Built([&](const Scope& s) {
         AddQueueRunner(s, MakeQueueRunner(s, Queue::Fifo(s, {DType::kFloat}), {Operation()}));
       })},
      {"Read", Built([&](const Scope& s) { no_reader.Read(s, Queue::Fifo(s, {DType::kString})); })},
      {"Read from nothing", Built([&](const Scope& s) { Reader::TextLines(s).Read(s, none); })},
      {"ReadUpTo", Built([&](const Scope& s) { no_reader.ReadUpTo(s, none, int64_t{1}); })},
      {"NumRecordsProduced", Built([&](const Scope& s) { no_reader.NumRecordsProduced(s); })},
      {"SerializeState", Built([&](const Scope& s) { no_reader.SerializeState(s); })},
      {"Reset", Built([&](const Scope& s) { no_reader.Reset(s); })},
      {"a reader of no handle", Built([&](const Scope& s) { Reader::Of(Output()).Reset(s); })},
      {"Initialize", Built([&](const Scope& s) { no_table.Initialize(s, {"a"}, {1}); })},
      {"Find", Built([&](const Scope& s) { no_table.Find(s, {"a"}, 1); })},
      {"Insert", Built([&](const Scope& s) { no_table.Insert(s, {"a"}, {1}); })},
      {"Remove", Built([&](const Scope& s) { no_table.Remove(s, {"a"}); })},
      {"Size of a table", Built([&](const Scope& s) { no_table.Size(s); })},
      {"Export", Built([&](const Scope& s) { no_table.Export(s); })},
      {"Import", Built([&](const Scope& s) { no_table.Import(s, {"a"}, {1}); })},
      {"Lookup of ids", Built([&](const Scope& s) { no_index.Lookup(s, {"a"}); })},
      {"Size of ids", Built([&](const Scope& s) { no_index.Size(s); })},
      {"Lookup of words", Built([&](const Scope& s) { no_words.Lookup(s, {int64_t{1}}); })},
      {"an index of nothing", Built([&](const Scope& s) { IndexTable::FromTensor(s, Output()); })},
      {"Batch of nothing", Built([&](const Scope& s) { train::Batch(s, {}, {}); })},
      {"Batch of an empty output", Built([&](const Scope& s) { train::Batch(s, {Output()}, {}); })},
      {"BatchJoin of nothing", Built([&](const Scope& s) { train::BatchJoin(s, {}, {}); })},
      {"ShuffleBatch of nothing", Built([&](const Scope& s) { train::ShuffleBatch(s, {}, {}, 1); })},
      {"InputProducer of nothing", Built([&](const Scope& s) { train::InputProducer(s, Output()); })},
      {"StringInputProducer of nothing", Built([&](const Scope& s) { train::StringInputProducer(s, {}); })},
      {"SliceInputProducer of nothing", Built([&](const Scope& s) { train::SliceInputProducer(s, {}); })},
      {"Bucket of nothing", Built([&](const Scope& s) { train::Bucket(s, {}, Output(), 2, {}); })},
      {"BucketBySequenceLength of nothing",
       Built([&](const Scope& s) { train::BucketBySequenceLength(s, Output(), {}, {4}, {}); })},
      {"StartQueueRunners of an empty runner",
       [&] {
         train::Coordinator coordinator(*session);
         return train::StartQueueRunners(*session, coordinator, std::vector<QueueRunner>{QueueRunner()});
       }},
  });
}

BOOST_AUTO_TEST_CASE(files_and_summaries) {
  const auto writer = train::FileWriter::Create("mem://empty/events");
  TROUPE_REQUIRE_OK(writer.status());
  proto::GraphDef def;
  WalkThrough({
      {"a summary that is none", [&] { return (*writer)->AddSummary("\xff", 1); }},
      {"a FileWriter without a folder", [&] { return train::FileWriter::Create("").status(); }},
      {"a CheckpointReader without a path", [&] { return CheckpointReader::Open("").status(); }},
      {"a CheckpointWriter without a path", [&] { return CheckpointWriter::Create("").status(); }},
      {"a tensor without a value",
       [&] {
         const auto to = CheckpointWriter::Create("mem://empty/values");
         return to.ok() ? (*to)->Add("w", Tensor()) : to.status();
       }},
      {"merging nothing", [&] { return MergeCheckpoints({}, "mem://empty/merged"); }},
      {"ImportGraphDef into nothing", [&] { return ImportGraphDef(def, {}, nullptr).status(); }},
      {"ReadGraphDef into nothing", [&] { return ReadGraphDef("mem://empty/graph.pb", nullptr); }},
      {"a file system that is none", [&] { return files::RegisterFileSystem("empty", nullptr); }},
      {"records into nothing",
       [&] {
         TROUPE_RETURN_IF_ERROR((*files::RecordWriter::Create("mem://empty/records"))->Close());
         return (*files::RecordReader::Open("mem://empty/records"))->Next(nullptr).status();
       }},
  });
}

BOOST_AUTO_TEST_CASE(coordinators) {
  const auto session = AnySession();
  train::Coordinator coordinator(*session);
  coordinator.WhenStopped(nullptr);
  train::Coordinator::Member none, member = coordinator.Enter("a");
  none.Leave();
  train::Coordinator::Member taken = std::move(member);
  member.Leave();  // NOLINT: what is tested
  taken.Leave();
  taken.Leave();
  coordinator.RequestStop();
  coordinator.WhenStopped(nullptr);
  TROUPE_REQUIRE_OK(coordinator.Join());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace empty_arguments_test
}  // namespace troupe
