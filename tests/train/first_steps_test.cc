// The losses of the first steps of all eight experiments of examples/mnist, dropout and optimizers
// included, against those of TensorFlow running the same graphs on the same batches.
// cases/record/first_steps.py makes the recording; it asks this program for graphs and batches:
//
//   TROUPE_WRITE_FIRST_STEPS=FOLDER train_test --run_test=write_what_is_recorded
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "examples/mnist/data.h"
#include "examples/mnist/model.h"
#include "tests/cases/case_file.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace first_steps_test {

constexpr int64_t kBatch = 100, kSteps = 6, kSeed = 1;
const char* const kExperiments[] = {"E1", "E2", "E3", "E4", "E5", "E6", "E7", "E8"};

mnist::DataSet SmallDigits() {
  auto digits = mnist::ReadSmallDigits(TROUPE_DIGITS_FILE);
  BOOST_REQUIRE_MESSAGE(digits.ok(), digits.status().ToString());
  return std::move(digits->train);
}

mnist::Model Build(const Scope& root, const std::string& experiment) {
  auto model = mnist::BuildModel(root, experiment, kSeed);
  BOOST_REQUIRE_MESSAGE(model.ok(), model.status().ToString());
  return *std::move(model);
}

// How far the loss of a step may be from the recorded one. Adam's first steps are as long for a
// gradient of rounding errors as for any other, so a difference in the seventh digit, which every
// level of instructions makes, is one in the third some steps later; with gradient descent it stays
// where it is.
double Tolerance(const std::string& experiment, int64_t step) {
  const double adam[kSteps] = {2e-6, 5e-5, 2e-3, 5e-3, 1e-2, 2e-2};
  return experiment == "E1" ? 1e-5 : adam[step];
}

std::map<std::string, std::vector<double>> Recorded() {
  std::map<std::string, std::vector<double>> losses;
  for (const test::CaseLine& line : test::ReadLines("training/first_steps.txt")) {
    std::istringstream words(line.text);
    std::string experiment;
    words >> experiment;
    for (double loss; words >> loss;) losses[experiment].push_back(loss);
  }
  return losses;
}

BOOST_AUTO_TEST_CASE(first_steps_are_those_of_tensorflow) {
  const auto recorded = Recorded();
  const mnist::DataSet digits = SmallDigits();
  for (const char* experiment : kExperiments) {
    BOOST_REQUIRE_MESSAGE(recorded.count(experiment) == 1 && recorded.at(experiment).size() == kSteps,
                          "nothing is recorded for " << experiment);
    for (const int threads : {1, 2}) {
      const Scope root = Scope::NewRootScope();
      const mnist::Model model = Build(root, experiment);
      SessionOptions options;
      options.runtime_options.threads = threads;
      auto session = Session::Create(options);
      BOOST_REQUIRE(session.ok());
      BOOST_REQUIRE((*session)->Extend(*root.graph()).ok());
      BOOST_REQUIRE((*session)->Run({}, {}, {model.init.name()}, nullptr).ok());
      for (int64_t step = 0; step < kSteps; ++step) {
        std::vector<Tensor> out;
        const absl::Status s = (*session)->Run(
            {{model.images.name(), digits.Images(step * kBatch, (step + 1) * kBatch)},
             {model.labels.name(), digits.Labels(step * kBatch, (step + 1) * kBatch)},
             {model.keep.name(), Tensor::Scalar(static_cast<float>(model.train_keep))},
             {model.learning_rate.name(), Tensor::Scalar(static_cast<float>(model.LearningRate(step)))}},
            {model.loss.name()}, {model.train.name()}, &out);
        BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
        const double want = recorded.at(experiment)[step], got = out[0].scalar<float>();
        BOOST_CHECK_MESSAGE(std::abs(got - want) <= Tolerance(experiment, step) * std::abs(want),
                            experiment << " step " << step << " on " << threads << " threads: loss " << got
                                       << ", TensorFlow's is " << want);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(write_what_is_recorded, *boost::unit_test::disabled()) {
  const char* folder = std::getenv("TROUPE_WRITE_FIRST_STEPS");
  BOOST_REQUIRE_MESSAGE(folder != nullptr, "TROUPE_WRITE_FIRST_STEPS names a folder");
  const mnist::DataSet digits = SmallDigits();
  const std::string to = folder;
  const auto write = [&](const std::string& name, const Tensor& t) {
    std::ofstream(to + "/" + name, std::ios::binary)
        .write(static_cast<const char*>(t.raw()), static_cast<std::streamsize>(t.bytes()));
  };
  write("images.f32", digits.Images(0, kSteps * kBatch));
  write("labels.f32", digits.Labels(0, kSteps * kBatch));
  std::ofstream list(to + "/experiments.txt");
  for (const char* experiment : kExperiments) {
    const Scope root = Scope::NewRootScope();
    const mnist::Model m = Build(root, experiment);
    proto::GraphDef def;
    ExportGraphDef(*root.graph(), &def, true);
    std::ofstream(to + "/" + experiment + ".pb", std::ios::binary) << def.SerializeAsString();
    list << experiment;
    for (const Output& o : {m.images, m.labels, m.keep, m.learning_rate, m.loss}) list << " " << o.name();
    list << " " << m.train.name() << " " << m.init.name() << " " << m.train_keep;
    for (int64_t step = 0; step < kSteps; ++step) list << " " << m.LearningRate(step);
    list << "\n";
  }
  BOOST_TEST(list.good());
}

}  // namespace first_steps_test
}  // namespace troupe
