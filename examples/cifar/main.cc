// A convolutional net with batch normalization that learns small pictures from records: it shifts,
// mirrors and relights each picture anew whenever it learns from it.
//
//   cifar --records FOLDER --model_dir RUN        FOLDER has train*.tfrecord and test*.tfrecord
//   cifar                                         learns pictures that this program draws
#include <cstdio>
#include <memory>

#include "examples/common/training.h"
#include "records.h"
#include "troupe/dataset.h"
#include "troupe/files.h"
#include "troupe/image.h"

namespace {

using namespace troupe;  // NOLINT: an example reads better with it
using cifar::kClasses;
using cifar::kSide;

struct Flags : example::Flags {
  std::string records;
  int64_t batch = 64, filters = 32, drawn = 5000;
  double learning_rate = 0.002;
};

struct Model {
  Output records, training, loss, accuracy;
  Operation train, init;
};

// float32 [side, side, 3] of [0, 1].
Output Decoded(const Scope& s, const Output& png) {
  const Output bytes = ops::DecodePng(s, png, {.channels = 3});
  const Output image = ops::Cast(s, bytes, DType::kFloat) / 255.0f;
  return ops::EnsureShape(s, image, TensorShape({kSide, kSide, 3}));
}

// The same thing, seen a little differently.
Output Augmented(const Scope& s, const Output& image, int64_t seed) {
  constexpr int64_t kMargin = 4;
  const auto of = [&](int64_t i) { return seed == 0 ? 0 : seed * 10 + i; };
  const Output wide = image::PadToBoundingBox(s, image, kMargin, kMargin, kSide + 2 * kMargin, kSide + 2 * kMargin);
  const Output corner = ops::RandomUniformInt(s, Tensor::Vector<int32_t>({2}), 0, static_cast<int32_t>(2 * kMargin + 1),
                                              {.seed = of(0), .seed2 = of(1)});
  const Output begin = ops::ConcatV2(s, {corner, Const(s, {0})}, 0);
  Output part = ops::Slice(s, wide, begin, Tensor::Vector<int32_t>({kSide, kSide, 3}));
  part = image::RandomFlipLeftRight(s, part, of(2));
  part = image::RandomBrightness(s, part, 0.1, of(3));
  return image::RandomContrast(s, part, 0.8, 1.2, of(4));
}

Model Build(const Scope& root, const Flags& flags) {
  Model m;
  m.records = ops::Placeholder(root.WithOpName("records"), DType::kString, {.shape = {-1}});
  m.training = ops::Placeholder(root.WithOpName("training"), DType::kBool, {.shape = TensorShape()});
  const auto parsed =
      ops::ParseExample(root, m.records, Tensor(DType::kString, {0}), InputList(std::vector<Input>()),
                        {Const(root, std::string(cifar::kImage)), Const(root, std::string(cifar::kLabel))},
                        {Const(root, Tensor(DType::kString, {0})), Const(root, Tensor(DType::kInt64, {0}))}, {},
                        {TensorShape(), TensorShape()});
  const Output pngs = parsed.dense_values[0], labels = parsed.dense_values[1];
  const Output images = Cond(
      root, m.training,
      [&](const Scope& s) {
        return Map(s, pngs,
                   [&](const Scope& in, const Output& png) { return Augmented(in, Decoded(in, png), flags.seed); });
      },
      [&](const Scope& s) {
        return Map(s, pngs, [](const Scope& in, const Output& png) { return Decoded(in, png); });
      });

  int64_t seeds = flags.seed * 100;
  const auto seed = [&] { return flags.seed == 0 ? 0 : ++seeds; };
  const auto conv = [&](const char* name, const Output& x, int64_t filters) {
    layers::ConvOptions o;
    o.padding = "SAME";
    o.use_bias = false;  // what follows subtracts the mean
    o.kernel_initializer = init::HeNormal(seed());
    layers::BatchNormOptions norm;
    norm.momentum = 0.9;
    const Scope s = root.NewSubScope(name);
    return ops::Relu(s, layers::BatchNorm(s, layers::Conv2D(s, x, filters, {3, 3}, o), m.training, norm));
  };
  Output h = images - 0.5f;
  for (int64_t block = 0; block < 3; ++block) {
    const int64_t filters = flags.filters << block;
    h = conv(StrCat("block", block, "a").c_str(), h, filters);
    h = conv(StrCat("block", block, "b").c_str(), h, filters);
    h = layers::MaxPool2D(root, h, {2, 2}, {2, 2});
  }
  h = layers::Dropout(root, layers::GlobalAvgPool2D(root, h), 0.2, m.training, seed());
  layers::LayerOptions last;
  last.kernel_initializer = init::GlorotUniform(seed());
  const Output logits = layers::Dense(root.WithOpName("logits"), h, kClasses, last);
  m.loss = ops::Mean(root.WithOpName("loss"), ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, labels).loss);
  m.accuracy =
      ops::Mean(root.WithOpName("accuracy"), ops::Cast(root, ops::InTopK(root, logits, labels, 1), DType::kFloat));
  // Learning updates the moving means and variances, which tests use.
  const Scope with_updates = root.WithControlDependencies(layers::UpdateOps(root));
  m.train = train::Adam(static_cast<float>(flags.learning_rate)).Minimize(with_updates, m.loss);
  m.init = GlobalVariablesInitializer(root);
  return m;
}

absl::StatusOr<std::vector<std::string>> Files(const Flags& flags, const std::string& part, int64_t drawn) {
  if (flags.records.empty()) {
    const std::string path = StrCat("mem://cifar-", part, ".tfrecord");
    TROUPE_RETURN_IF_ERROR(cifar::DrawRecords(path, drawn, part == "train" ? 1 : 2));
    return std::vector<std::string>{path};
  }
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> paths,
                          files::Match(files::Join(flags.records, part + "*.tfrecord")));
  if (paths.empty()) return NotFound("there is no ", part, "*.tfrecord in ", flags.records);
  return paths;
}

absl::Status Run(const Flags& flags) {
  if (flags.records.empty() && !flags.json)
    std::printf("no --records were given: pictures that this program draws are learned\n");
  TROUPE_ASSIGN_OR_RETURN(const auto train_files, Files(flags, "train", flags.drawn));
  TROUPE_ASSIGN_OR_RETURN(const auto test_files, Files(flags, "test", flags.drawn / 5));
  const Scope root = Scope::NewRootScope();
  const Model m = Build(root, flags);
  TROUPE_RETURN_IF_ERROR(root.status());

  const Dataset learned = Dataset::Records(train_files)
                              .Shuffle(10000, static_cast<uint64_t>(flags.seed))
                              .Repeat()
                              .Batch(flags.batch)
                              .Prefetch(2);
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<DatasetIterator> batches, learned.Iterate());
  absl::StatusOr<Callable> learn = Internal("not started"), judge = Internal("not started");
  example::Job job;
  job.unit = "images";
  job.begin = [&](Session& session) { return session.Run({}, {}, {m.init}, nullptr); };
  job.start = [&](Session& session) -> absl::Status {
    learn = session.Prepare({m.records, m.training}, {m.loss}, {m.train});
    judge = session.Prepare({m.records, m.training}, {m.accuracy}, {});
    TROUPE_RETURN_IF_ERROR(learn.status());
    return judge.status();
  };
  job.step = [&](int64_t, int64_t* units) -> absl::StatusOr<double> {
    Element batch;
    TROUPE_RETURN_IF_ERROR(batches->Next(&batch).status());
    *units += batch[0].num_elements();
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(learn->Run({batch[0], Tensor::Scalar(true)}, &out));
    return static_cast<double>(out[0].scalar<float>());
  };
  job.test = [&]() -> absl::StatusOr<example::Numbers> {
    TROUPE_ASSIGN_OR_RETURN(const auto all, Dataset::Records(test_files).Batch(200).Iterate());
    Element batch;
    double right = 0, n = 0;
    for (;;) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, all->Next(&batch));
      if (!more) break;
      std::vector<Tensor> out;
      TROUPE_RETURN_IF_ERROR(judge->Run({batch[0], Tensor::Scalar(false)}, &out));
      right += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(batch[0].num_elements());
      n += static_cast<double>(batch[0].num_elements());
    }
    return example::Numbers{{"accuracy", right / std::max(1.0, n)}};
  };
  // Where the reading of the records stands, with all that shuffling holds.
  const std::string prefix = "cifar/input/";
  job.position = [&] {
    example::NamedTensors all;
    const ResourceState state = batches->Save();
    all.emplace_back(prefix + "kind", Tensor::Scalar(state.kind));
    for (const auto& [name, tensor] : state.tensors) all.emplace_back(prefix + "of/" + name, tensor);
    return all;
  };
  job.set_position = [&](const CheckpointReader& checkpoint) -> absl::Status {
    ResourceState state;
    TROUPE_ASSIGN_OR_RETURN(const Tensor kind, checkpoint.Read(prefix + "kind"));
    if (kind.dtype() != DType::kString || kind.rank() != 0) return InvalidArgument("the place in the data is damaged");
    state.kind = kind.scalar<std::string>();
    for (const CheckpointReader::Entry& entry : checkpoint.entries()) {
      if (!entry.name.starts_with(prefix + "of/")) continue;
      TROUPE_ASSIGN_OR_RETURN(Tensor value, checkpoint.Read(entry.name));
      state.tensors.emplace_back(entry.name.substr(prefix.size() + 3), std::move(value));
    }
    TROUPE_ASSIGN_OR_RETURN(batches, learned.Iterate(state));
    return absl::OkStatus();
  };
  return example::Train(flags, root, job);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.steps = 1000;
  CLI::App app("Learns small pictures from records", "cifar");
  example::AddFlags(&app, &flags);
  app.add_option("--records", flags.records, "folder with train*.tfrecord and test*.tfrecord");
  const auto number = [&](const char* name, int64_t* value, const char* help) {
    app.add_option(name, *value, help)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  };
  number("--batch", &flags.batch, "pictures a step");
  number("--filters", &flags.filters, "of the first layer");
  number("--drawn", &flags.drawn, "pictures to draw, without --records");
  app.add_option("--learning_rate", flags.learning_rate, "of Adam")->check(CLI::PositiveNumber)->capture_default_str();
  return example::Main(&app, argc, argv, [&] { return Run(flags); });
}
