// A wide-and-deep model (Cheng et al., 2016) on records of penguins: which of three species is it?
//
//   wide_and_deep FOLDER [STEPS]
//
// FOLDER has train*.tfrecord.gz and eval*.tfrecord.gz, whose records are Examples with four
// measurements of [0, 1] and the species. The wide part remembers pairs of measurements, by a
// weight for each crossing of two of them in steps; the deep part is a small network.
#include <cstdio>
#include <cstdlib>

#include "troupe/dataset.h"
#include "troupe/files.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

constexpr int64_t kSteps = 10;  // of a measurement, for the wide part
const std::vector<std::string> kMeasurements = {"culmen_length_mm", "culmen_depth_mm", "flipper_length_mm",
                                                "body_mass_g"};

struct Model {
  Output serialized, loss, accuracy;
  Operation train, init;
};

Model Build(const Scope& root) {
  Model m;
  m.serialized = ops::Placeholder(root.WithOpName("serialized"), DType::kString, {.shape = {-1}});
  // Each measurement becomes a column; every Example must have it.
  std::vector<Input> keys, defaults;
  for (const std::string& key : kMeasurements) {
    keys.push_back(Const(root, key));
    defaults.push_back(Const(root, Tensor(DType::kFloat, {0})));
  }
  keys.push_back(Const(root, std::string("species")));
  defaults.push_back(Const(root, Tensor(DType::kInt64, {0})));
  const PartialTensorShape one = {1};
  const auto parsed =
      ops::ParseExample(root, m.serialized, Const(root, Tensor(DType::kString, {0})), InputList(std::vector<Input>()),
                        keys, defaults, {}, {one, one, one, one, TensorShape()});
  const OutputList columns(parsed.dense_values.begin(), parsed.dense_values.begin() + 4);
  const Output species = parsed.dense_values[4];

  // Wide: a weight for each species and each field of a grid of two measurements, for two grids.
  const auto step_of = [&](const Output& x) {
    const Output scaled = ops::Cast(root, ops::Floor(root, x * static_cast<float>(kSteps)), DType::kInt32);
    return ops::Minimum(root, ops::Maximum(root, scaled, 0), static_cast<int32_t>(kSteps - 1));
  };
  Output logits;
  for (int grid = 0; grid < 2; ++grid) {
    const Output field = step_of(columns[grid]) * static_cast<int32_t>(kSteps) + step_of(columns[grid + 2]);
    Variable weights(root.WithOpName(StrCat("wide", grid)),
                     Tensor::Of<float>(std::vector<float>(kSteps * kSteps * 3), TensorShape({kSteps * kSteps, 3})));
    const Output crossing = ops::Gather(root, weights, ops::Squeeze(root, field, {.squeeze_dims = {1}}));
    logits = grid == 0 ? crossing : logits + crossing;
  }
  // Deep.
  const Output all = ops::ConcatV2(root, columns, 1);
  layers::LayerOptions relu;
  relu.activation = "Relu";
  relu.kernel_initializer = init::GlorotUniform(1);
  const Output hidden = layers::Dense(root.WithOpName("deep1"), all, 16, relu);
  layers::LayerOptions linear;
  linear.kernel_initializer = init::GlorotUniform(2);
  logits = logits + layers::Dense(root.WithOpName("deep2"), hidden, 3, linear);

  m.loss = ops::Mean(root, ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, species).loss);
  m.accuracy = ops::Mean(root, ops::Cast(root, ops::InTopK(root, logits, species, 1), DType::kFloat));
  m.train = train::Adam(0.02).Minimize(root, m.loss);
  m.init = GlobalVariablesInitializer(root);
  return m;
}

absl::StatusOr<Dataset> Records(const std::string& folder, const std::string& part) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                          files::Match(files::Join(folder, part + "*.tfrecord.gz")));
  if (paths.empty()) return NotFound("there is no ", part, "*.tfrecord.gz in ", folder);
  return Dataset::Records(paths, files::Compression::kGzip);
}

absl::Status Train(const std::string& folder, int steps) {
  TROUPE_ASSIGN_OR_RETURN(const Dataset train, Records(folder, "train"));
  TROUPE_ASSIGN_OR_RETURN(const Dataset eval, Records(folder, "eval"));
  Scope root = Scope::NewRootScope();
  const Model m = Build(root);
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create());
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {m.init}, nullptr));

  TROUPE_ASSIGN_OR_RETURN(const auto batches, train.Shuffle(256, 1).Repeat().Batch(32).Prefetch(2).Iterate());
  Element batch;
  std::vector<Tensor> out;
  for (int i = 1; i <= steps; ++i) {
    TROUPE_RETURN_IF_ERROR(batches->Next(&batch).status());
    TROUPE_RETURN_IF_ERROR(session->Run({{m.serialized, batch[0]}}, {m.loss}, {m.train}, &out));
    if (i % 50 == 0 || i == steps) std::printf("step %d: loss %.4f\n", i, out[0].scalar<float>());
  }
  TROUPE_ASSIGN_OR_RETURN(const auto tests, eval.Batch(1000).Iterate());
  TROUPE_RETURN_IF_ERROR(tests->Next(&batch).status());
  TROUPE_RETURN_IF_ERROR(session->Run({{m.serialized, batch[0]}}, {m.loss, m.accuracy}, {}, &out));
  std::printf("eval: loss %.4f, accuracy %.3f of %lld records\n", out[0].scalar<float>(), out[1].scalar<float>(),
              static_cast<long long>(batch[0].dim(0)));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: wide_and_deep FOLDER [STEPS]\n");
    return 2;
  }
  const absl::Status s = Train(argv[1], argc > 2 ? std::atoi(argv[2]) : 300);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.ToString().c_str());
  return s.ok() && std::fflush(stdout) == 0 ? 0 : 1;  // output that is lost is a failure, too
}
