// A small classifier that is trained by ten towers of 100 rows, and by one of 1000, and what both
// come to.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_TRAIN_REPLICA_MODEL_H_
#define TROUPE_TESTS_TRAIN_REPLICA_MODEL_H_

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "graph/train/build.h"
#include "tests/common/check_ok.h"
#include "troupe/const.h"
#include "troupe/session.h"
#include "troupe/train/adam.h"
#include "troupe/train/global_step.h"
#include "troupe/train/in_graph_replicas.h"
#include "troupe/train/momentum.h"
#include "troupe/variable.h"

namespace troupe::testing {

constexpr int kTowers = 10, kSteps = 6;
constexpr int64_t kRowsOfTower = 100, kFeatures = 12, kHidden = 16, kLabels = 4;

// Numbers in (-1, 1) that look random, of a place.
inline double Scattered(int64_t a, int64_t b) {
  return static_cast<double>((a * 7919 + b * 104729 + a * b * 31 + 17) % 2003) / 1001.5 - 1.0;
}
inline Tensor Filled(DType dtype, int64_t rows, int64_t columns, int64_t seed, double scale) {
  Tensor t(dtype, TensorShape({rows, columns}));
  for (int64_t i = 0; i < rows * columns; ++i) {
    const double v = scale * Scattered(seed + i / columns, i % columns);
    if (dtype == DType::kDouble) {
      t.data<double>()[i] = v;
    } else {
      t.data<float>()[i] = static_cast<float>(v);
    }
  }
  return t;
}

// The mean loss of rows [first, first + rows). The first layer adds a row of a table, by the row's
// number: that gradient consists of slices.
inline Output LossOfRows(const Scope& on, DType dtype, int64_t first, int64_t rows) {
  using train::Build;
  const auto variable = [&](const std::string& name, int64_t n, int64_t m, int64_t seed) {
    return Variable(on.WithOpName(name), Const(on, Literal(Filled(dtype, n, m, seed, 0.5))));
  };
  const Variable w1 = variable("w1", kFeatures, kHidden, 5000), w2 = variable("w2", kHidden, kLabels, 6000),
                 table = variable("table", 7, kHidden, 7000);
  Tensor labels(dtype, TensorShape({rows, kLabels})), ids(DType::kInt32, TensorShape({rows}));
  for (int64_t r = 0; r < rows; ++r) {
    ids.data<int32_t>()[r] = static_cast<int32_t>((first + r) * 3 % 6);  // row 6 is never read
    for (int64_t c = 0; c < kLabels; ++c) {
      const double is = (first + r) * 11 % kLabels == c ? 1 : 0;
      if (dtype == DType::kDouble) {
        labels.data<double>()[r * kLabels + c] = is;
      } else {
        labels.data<float>()[r * kLabels + c] = static_cast<float>(is);
      }
    }
  }
  const Output x = Const(on, Literal(Filled(dtype, rows, kFeatures, first, 1.0)));
  const Output add = Build(on, "GatherV2", {table, Const(on, Literal(ids)), 0});
  const Output h = Build(on, "Tanh", {Build(on, "AddV2", {Build(on, "MatMul", {x, w1}), add})});
  const Output per_row =
      EmitOp(on, "SoftmaxCrossEntropyWithLogits", {Build(on, "MatMul", {h, w2}), Const(on, Literal(labels))}).output(0);
  return Build(on, "Mean", {per_row, Const(on, {0})});
}

// With Adam in double precision: it divides by what may be small.
inline std::unique_ptr<train::Optimizer> OptimizerFor(DType dtype) {
  if (dtype == DType::kDouble) return std::make_unique<train::Adam>(0.01);
  return std::make_unique<train::Momentum>(0.2, 0.9);
}

inline std::vector<double> NumbersIn(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    v.push_back(t.dtype() == DType::kFloat ? t.data<float>()[i] : t.data<double>()[i]);
  return v;
}

// Of each step: the loss before it, and the values of the three variables afterwards.
struct Trace {
  std::vector<double> losses;
  std::vector<std::vector<double>> values;
};

// One tower of all rows.
inline Trace OneBatch(DType dtype) {
  const Scope s = Scope::NewRootScope();
  const Output loss = LossOfRows(s, dtype, 0, kTowers * kRowsOfTower);
  const Operation step = OptimizerFor(dtype)->Minimize(s, loss);
  const Operation init = GlobalVariablesInitializer(s);
  const std::vector<Variable> vars = VariablesIn(s, kTrainableVariables);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  auto session = Session::Create();
  REQUIRE_OK(session.status());
  REQUIRE_OK((*session)->Extend(*s.graph()));
  REQUIRE_OK((*session)->Run({}, {}, {init}, nullptr));
  Trace trace;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> out;
    REQUIRE_OK((*session)->Run({}, {loss}, {step}, &out));
    trace.losses.push_back(NumbersIn(out[0])[0]);
    std::vector<double>& values = trace.values.emplace_back();
    for (const Variable& v : vars) {
      for (const double x : NumbersIn((*session)->Get(v).value())) values.push_back(x);
    }
  }
  return trace;
}

// Ten towers of 100 rows each come to the same, within 1e-6 a step, and mirrors are equal to the
// bit. `shared_on`: where shared variables are.
inline void CheckTowers(const SessionOptions& session_options, const train::InGraphOptions& options, DType dtype,
                        const std::string& shared_on, const Trace& expected) {
  const std::string what =
      StrCat(Name(dtype), options.variables == train::InGraphOptions::kShared              ? ", shared"
                          : options.all_reduce.algorithm == train::AllReduceOptions::kRing ? ", ring"
                                                                                           : ", tree");
  const Scope root = Scope::NewRootScope();
  const Scope s = shared_on.empty() ? root : root.WithDevice(shared_on);
  const Variable step = train::GetOrCreateGlobalStep(s);
  const train::InGraphReplicas replicas(
      s, [&](const Scope& on, int r) { return LossOfRows(on, dtype, r * kRowsOfTower, kRowsOfTower); },
      [&](const Scope&) { return OptimizerFor(dtype); }, step, options);
  BOOST_REQUIRE_MESSAGE(root.ok(), what << ": " << root.status());
  auto session = Session::Create(session_options);
  REQUIRE_OK(session.status());
  REQUIRE_OK((*session)->Extend(*root.graph()));
  REQUIRE_OK((*session)->Run({}, {}, {replicas.initializer()}, nullptr));
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> out;
    REQUIRE_OK((*session)->Run({}, {replicas.loss()}, {replicas.update()}, &out));
    const auto at = static_cast<size_t>(i);
    BOOST_TEST(std::abs(NumbersIn(out[0])[0] - expected.losses[at]) <= 1e-6 * (i + 1), what << ", step " << i);
    std::vector<double> values;
    for (size_t v = 0; v < 3; ++v) {
      const Tensor first = (*session)->Get(replicas.variables()[0][v]).value();
      for (const double x : NumbersIn(first)) values.push_back(x);
      for (size_t r = 1; r < replicas.variables().size(); ++r) {
        const Tensor mirror = (*session)->Get(replicas.variables()[r][v]).value();
        BOOST_TEST((NumbersIn(mirror) == NumbersIn(first)), what << ", step " << i << ", mirror " << r);
      }
    }
    BOOST_REQUIRE(values.size() == expected.values[at].size());
    double worst = 0;
    for (size_t k = 0; k < values.size(); ++k) worst = std::max(worst, std::abs(values[k] - expected.values[at][k]));
    BOOST_TEST(worst <= 1e-6 * (i + 1), what << ", step " << i << ": " << worst);
  }
  BOOST_TEST((*session)->Get(step)->scalar<int64_t>() == kSteps);
  // Steps that change nothing would be equal, too.
  BOOST_TEST(expected.losses.back() < expected.losses.front() - 0.01, what);
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_TRAIN_REPLICA_MODEL_H_
