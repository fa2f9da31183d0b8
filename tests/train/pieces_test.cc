// Averages, metrics, sampled losses, penalties and accumulated gradients: against what TensorFlow 1
// gives for the same (tests/cases/training/pieces.txt), or against a plain computation.
#include <map>

#include "tests/train/recorded.h"
#include "tests/train/run.h"
#include "troupe/indexed_slices.h"
#include "troupe/train/accumulate.h"
#include "troupe/train/adam.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/initializers.h"
#include "troupe/train/metrics.h"
#include "troupe/train/moving_average.h"
#include "troupe/train/regularizers.h"
#include "troupe/train/sampled_loss.h"
#include "troupe/train/schedules.h"

namespace troupe::testing {
namespace pieces_test {

std::vector<Tensor> Recorded(const std::string& name) { return RecordedIn("training/pieces.txt", name); }

// As Start, with the local variables.
std::unique_ptr<Session> StartAll(const Scope& s) {
  const Operation locals = LocalVariablesInitializer(s.WithOpName("locals"));
  auto session = Start(s);
  Fetch(*session, {}, {}, {locals.name()});
  return session;
}

Output Fed(const Scope& s, const char* name, DType dtype, TensorShape shape) {
  return Build(s.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", PartialTensorShape(shape)}});
}

BOOST_AUTO_TEST_CASE(moving_averages_equal_tensorflows) {
  for (const bool resource : {true, false}) {
    for (const std::string name : {"average", "average_num_updates", "average_debiased"}) {
      const Scope s = Scope::NewRootScope();
      VariableOptions kind;
      kind.use_resource = resource;
      const Variable w(s.WithOpName("w"), Const(s, {1.0, -2.0, 0.5}), kind);
      VariableOptions fixed;
      fixed.trainable = false;
      const Variable n(s.WithOpName("n"), int64_t{0}, fixed);
      train::MovingAverageOptions options;
      if (name == "average_num_updates") options.num_updates = n;
      options.zero_debias = name == "average_debiased";
      train::ExponentialMovingAverage ema(0.75, options);
      const Operation step(w.AssignAdd(s, Const(s, {0.5, 0.25, -1.0})));
      const Scope after = s.WithControlDependencies({step, Operation(n.AssignAdd(s, 1))});
      if (options.num_updates.valid()) {
        options.num_updates = n.Read(after);
        ema = train::ExponentialMovingAverage(0.75, options);
      }
      Operation update;
      Variable average;
      if (options.zero_debias) {
        const Output value = Build(after.WithOpName("value"), "Identity", {w.Read(after)});
        update = ema.ApplyToTensors(after, {value});
        average = ema.Average(value);
        BOOST_TEST(average.variable_name() == "value/ExponentialMovingAverage");
      } else {
        BOOST_TEST(!ema.Average(w).handle().valid());
        update = ema.Apply(after);
        average = ema.Average(w);
        BOOST_TEST(average.variable_name() == "w/ExponentialMovingAverage");
        BOOST_TEST(ema.AverageName(w) == average.variable_name());
        const std::map<std::string, Variable> restore = ema.VariablesToRestore(s);
        BOOST_TEST(restore.size() == 2u);
        BOOST_TEST(restore.at("w/ExponentialMovingAverage").variable_name() == "w");
        BOOST_TEST(restore.at("n").variable_name() == "n");
      }
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
      const Output read = average.Read(s);
      const auto session = Start(s);
      for (int i = 0; i < 5; ++i) Fetch(*session, {}, {}, {update.name()});
      CheckNear(Doubles(Fetch(*session, {read})[0]), Doubles(Recorded(name)[0]), 1e-12, name);
    }
  }
}

BOOST_AUTO_TEST_CASE(metrics_equal_tensorflows) {
  const std::vector<Feeds> feeds = {{{"labels", Tensor::Vector<int64_t>({1, 0, 1, 1, 0, 0})},
                                     {"scores", Tensor::Vector<float>({0.9f, 0.2f, 0.4f, 0.7f, 0.6f, 0.1f})},
                                     {"weights", Tensor::Vector<float>({1, 2, 0.5f, 1, 1, 3})}},
                                    {{"labels", Tensor::Vector<int64_t>({0, 1, 1, 0, 1, 0})},
                                     {"scores", Tensor::Vector<float>({0.3f, 0.8f, 0.55f, 0.5f, 0.15f, 0.45f})},
                                     {"weights", Tensor::Vector<float>({0.5f, 1, 1, 2, 1, 1})}}};
  for (const std::string name : {"mean", "accuracy", "precision", "recall", "auc_roc", "auc_pr"}) {
    for (const bool weighted : {false, true}) {
      const Scope s = Scope::NewRootScope();
      const Output labels = Fed(s, "labels", DType::kInt64, {6}), scores = Fed(s, "scores", DType::kFloat, {6});
      const Output all = Fed(s, "weights", DType::kFloat, {6}), weights = weighted ? all : Output();
      const Output said = Build(s, "Greater", {scores, 0.5f});
      const Output number = Build(s, "Cast", {said}, {{"DstT", DType::kInt64}});
      const train::Metric metric =
          name == "mean"        ? train::MeanMetric(s, scores, weights)
          : name == "accuracy"  ? train::AccuracyMetric(s, labels, number, weights)
          : name == "precision" ? train::PrecisionMetric(s, labels, number, weights)
          : name == "recall"
              ? train::RecallMetric(s, labels, said, weights)
              : train::AucMetric(s, labels, scores, weights, 50,
                                 name == "auc_roc" ? train::AucCurve::kRoc : train::AucCurve::kPrecisionRecall);
      BOOST_REQUIRE_MESSAGE(s.ok(), name << ": " << s.status().ToString());
      const auto session = StartAll(s);
      double last = 0;
      for (const Feeds& f : feeds) last = Doubles(Fetch(*session, {metric.update}, f)[0])[0];
      const std::vector<double> want = Doubles(Recorded(name + (weighted ? "_weighted" : ""))[0]);
      CheckNear(Doubles(Fetch(*session, {metric.value})[0]), want, 1e-6, name);
      CheckNear({last}, want, 1e-6, name);
      BOOST_TEST(metric.variables.size() >= 2u);
    }
  }
}

// 3 of 4 are right, whatever the shapes: nothing is compared with every other.
BOOST_AUTO_TEST_CASE(metrics_broadcast_nothing) {
  const auto run = [](const TensorShape& of_labels, const TensorShape& of_predictions, int64_t weights) {
    const Scope s = Scope::NewRootScope();
    const Output labels =
        Build(s, "Reshape", {Const(s, {1, 0, 1, 1}), Const(s, Literal(Tensor::Vector<int64_t>(of_labels.dims())))});
    const Output all = Const(s, {1, 0, 1, 0});
    const Output predictions =
        Build(s, "Reshape",
              {Build(s, "Slice", {all, Const(s, {0}), Const(s, {static_cast<int>(of_predictions.num_elements())})}),
               Const(s, Literal(Tensor::Vector<int64_t>(of_predictions.dims())))});
    const Output weighed = weights == 0 ? Output() : Const(s, 1.0f, TensorShape({weights}));
    const train::Metric metric = train::AccuracyMetric(s, labels, predictions, weighed);
    return s.ok() ? Doubles(Fetch(*StartAll(s), {metric.update})[0])[0] : -1.0;
  };
  const TensorShape flat({4}), column({4, 1}), one({1});
  BOOST_TEST(run(flat, flat, 0) == 0.75);
  BOOST_TEST(run(flat, column, 0) == 0.75);
  BOOST_TEST(run(column, flat, 4) == 0.75);
  BOOST_TEST(run(flat, one, 0) == -1);
  BOOST_TEST(run(flat, flat, 3) == -1);
  // As many elements in another shape are no pairs.
  const TensorShape square({2, 2}), row({1, 4});
  BOOST_TEST(run(square, square, 0) == 0.75);
  BOOST_TEST(run(flat, row, 0) == 0.75);
  BOOST_TEST(run(square, flat, 0) == -1);
}

// Shapes that are known in the step alone are looked at there.
BOOST_AUTO_TEST_CASE(metrics_pair_by_the_shapes_of_the_step) {
  const Scope s = Scope::NewRootScope();
  const Output labels = Build(s, "Placeholder", {}, {{"dtype", DType::kInt32}});
  const Output predictions = Build(s, "Placeholder", {}, {{"dtype", DType::kInt32}});
  const std::vector<train::Metric> metrics = {
      train::AccuracyMetric(s, labels, predictions), train::PrecisionMetric(s, labels, predictions),
      train::RecallMetric(s, labels, predictions), train::AucMetric(s, labels, predictions)};
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const auto session = StartAll(s);
  const auto of = [](const TensorShape& shape) {
    Tensor t(DType::kInt32, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) t.data<int32_t>()[i] = i % 2;
    return t;
  };
  using Shapes = std::pair<TensorShape, TensorShape>;
  for (const train::Metric& metric : metrics) {
    const auto run = [&](const Shapes& shapes) {
      std::vector<Tensor> out;
      return session->Run({{labels, of(shapes.first)}, {predictions, of(shapes.second)}}, {metric.update}, {}, &out);
    };
    for (const Shapes& fit : {Shapes({2, 3}, {2, 3}), Shapes({6}, {6, 1}), Shapes({1, 6}, {6}), Shapes({1}, {1, 1})})
      BOOST_TEST(run(fit).ok(), run(fit));
    for (const Shapes& bad : {Shapes({2, 3}, {3, 2}), Shapes({6}, {2, 3}), Shapes({6}, {1}), Shapes({2, 1}, {3})})
      BOOST_TEST(absl::IsInvalidArgument(run(bad)), run(bad));
  }
}

// Weights of which not even the rank is known are one number, or as many as the values.
BOOST_AUTO_TEST_CASE(weights_of_unknown_rank_are_counted) {
  const Scope s = Scope::NewRootScope();
  const Output values = Build(s, "Placeholder", {}, {{"dtype", DType::kFloat}});
  const Output weights = Build(s, "Placeholder", {}, {{"dtype", DType::kFloat}});
  const train::Metric metric = train::MeanMetric(s, values, weights);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const auto session = StartAll(s);
  const auto run = [&](const Tensor& v, const Tensor& w) {
    std::vector<Tensor> out;
    return session->Run({{values, v}, {weights, w}}, {metric.update}, {}, &out);
  };
  BOOST_TEST(run(Tensor::Vector<float>({1, 2}), Tensor::Scalar(2.0f)).ok());
  BOOST_TEST(run(Tensor::Vector<float>({1, 2}), Tensor::Vector<float>({1, 3})).ok());
  const absl::Status bad = run(Tensor::Vector<float>({1}), Tensor::Vector<float>({1, 2, 3}));
  BOOST_TEST(absl::IsInvalidArgument(bad), bad);
}

// However threads run: the step counts before the average moves.
BOOST_AUTO_TEST_CASE(an_average_reads_the_number_of_updates_behind_the_update) {
  for (int i = 0; i < 20; ++i) {
    const Scope s = Scope::NewRootScope();
    const Variable w(s.WithOpName("w"), Const(s, {0.0})), n(s.WithOpName("n"), Const(s, 0));
    const Operation step(w.AssignAdd(s, Const(s, {1.0})));
    const Scope after = s.WithControlDependencies({step, Operation(n.AssignAdd(s, 1))});
    train::MovingAverageOptions options;
    options.num_updates = n;
    train::ExponentialMovingAverage ema(0.9999, options);
    const Operation update = ema.Apply(after);
    const Output read = ema.Average(w).Read(s);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    const auto session = Start(s);
    Fetch(*session, {}, {}, {update.name()});
    // Of 1 update the decay is 2 / 11, of none 1 / 10.
    CheckNear(Doubles(Fetch(*session, {read})[0]), {9.0 / 11}, 1e-6, "average");
  }
}

// In bfloat16, powers of 0.99 would stand still after some steps.
BOOST_AUTO_TEST_CASE(adam_counts_its_powers_in_float32) {
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    const Scope s = Scope::NewRootScope();
    const Variable w(s.WithOpName("w"), Build(s, "Cast", {Const(s, {1.0, -2.0})}, {{"DstT", dtype}}));
    train::Adam adam(0.125, 0.9, 0.99);
    const Operation step = adam.ApplyGradients(s, {{Build(s, "OnesLike", {w.Read(s)}), w}});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    for (const char* name : {"beta1_power", "beta2_power"})
      BOOST_TEST((Variable::Find(s, name).variable_dtype() == DType::kFloat), Name(dtype));
    const Output read = Build(s, "Cast", {w.Read(s)}, {{"DstT", DType::kDouble}});
    const auto session = Start(s);
    for (int i = 0; i < 4; ++i) Fetch(*session, {}, {}, {step.name()});
    CheckNear(Doubles(Fetch(*session, {read})[0]), {0.5, -2.5}, dtype == DType::kBfloat16 ? 0.2 : 0.02, "moved");
  }
}

BOOST_AUTO_TEST_CASE(sampled_losses_equal_tensorflows) {
  for (const std::string name : {"nce_1", "nce_2", "softmax_1", "softmax_2", "nce_hits", "nce_drawn"}) {
    const Scope s = Scope::NewRootScope();
    Tensor w0(DType::kFloat, {7, 3}), b0(DType::kFloat, {7}), x0(DType::kFloat, {4, 3});
    for (int i = 0; i < 21; ++i) w0.data<float>()[i] = static_cast<float>(i % 8 - 3) * 0.25f;
    for (int i = 0; i < 7; ++i) b0.data<float>()[i] = static_cast<float>(i * 0.1 - 0.3);
    for (int i = 0; i < 12; ++i) x0.data<float>()[i] = static_cast<float>(i % 5 - 2) * 0.5f;
    const Variable w(s.WithOpName("w"), Const(s, Literal(w0))), b(s.WithOpName("b"), Const(s, Literal(b0)));
    const Output x = Const(s, Literal(x0));
    train::SampledLossOptions options;
    options.num_true = name == "nce_2" || name == "softmax_2" || name == "nce_hits" ? 2 : 1;
    options.remove_accidental_hits = name == "nce_hits";
    const int64_t k = options.num_true, all[4][2] = {{1, 5}, {0, 2}, {6, 3}, {3, 4}};
    Tensor labels(DType::kInt64, {4, k}), expected(DType::kFloat, {4, k});
    for (int64_t i = 0; i < 4 * k; ++i) {
      labels.data<int64_t>()[i] = all[i / k][i % k];
      expected.data<float>()[i] = static_cast<float>((i + 1) * 0.1);
    }
    const Output classes = Const(s, Literal(labels));
    if (name == "nce_drawn") {
      options.seed = 11;
    } else {
      options.sampled = {Const(s, Literal(Tensor::Vector<int64_t>({5, 0, 3, 3}))), Const(s, Literal(expected)),
                         Const(s, {0.5f, 0.25f, 0.75f, 0.75f})};
    }
    const Output y = name.rfind("nce", 0) == 0 ? train::NceLoss(s, {w}, {b}, classes, x, 4, 7, options)
                                               : train::SampledSoftmaxLoss(s, {w}, {b}, classes, x, 4, 7, options);
    const std::vector<Output> grads = Gradients(s, {y}, {w, b});
    BOOST_REQUIRE_MESSAGE(s.ok(), name << ": " << s.status().ToString());
    for (const Output& g : grads) BOOST_TEST(IsSlices(g.out()));
    const auto session = Start(s);
    const std::vector<Tensor> got = Fetch(*session, {y, grads[0], grads[1]}), want = Recorded(name);
    for (int i = 0; i < 3; ++i) CheckNear(Doubles(got[i]), Doubles(want[i]), 2e-6, StrCat(name, " ", i));
  }
}

// With every class drawn, the loss is that of all classes: log of the sum of exp.
BOOST_AUTO_TEST_CASE(all_classes_and_classes_by_weight) {
  const Scope s = Scope::NewRootScope();
  const Variable w(s.WithOpName("w"), Const(s, {{0.5f, 1.0f}, {-1.0f, 0.25f}, {0.0f, 2.0f}}));
  const Variable b(s.WithOpName("b"), Const(s, {0.1f, -0.2f, 0.3f}));
  const Output x = Const(s, {{1.0f, -0.5f}}), labels = Const<int64_t>(s, {{2}});
  train::SampledLossOptions options;
  options.sampled = train::SampleClasses(s, labels, 1, 3, 3, train::ClassSampler::kAll);
  const Output loss = train::SampledSoftmaxLoss(s, {w}, {b}, labels, x, 3, 3, options);
  const train::SampledClasses drawn = train::SampleClassesByWeight(s, labels, 1, 4, {1, 0, 3}, 1, false, 5);
  const train::SampledClasses learned = train::SampleClasses(s, labels, 1, 2, 3, train::ClassSampler::kLearnedUnigram);
  const auto session = Start(s);
  const std::vector<Tensor> got =
      Fetch(*session, {loss, drawn.expected_true, drawn.expected_sampled, drawn.classes, learned.classes});
  const double logits[] = {0.5 - 0.5 + 0.1, -1.0 - 0.125 - 0.2, 0.0 - 1.0 + 0.3};
  double sum = 0;
  for (const double l : logits) sum += std::exp(l);
  CheckNear(Doubles(got[0]), {std::log(sum) - logits[2]}, 1e-5, "the loss of all classes");
  CheckNear(Doubles(got[1]), {4 * 0.75}, 1e-6, "expected of the label");
  for (int i = 0; i < 4; ++i) {
    const int64_t c = got[3].data<int64_t>()[i];
    BOOST_TEST(c != 1);
    BOOST_TEST(std::abs(got[2].data<float>()[i] - (c == 0 ? 1 : 3)) < 1e-6);
  }
  BOOST_TEST(got[4].num_elements() == 2);
  const Scope wrong = Scope::NewRootScope();
  train::SampleClasses(wrong, Const<int64_t>(wrong, {{2}}), 1, 2, 3, train::ClassSampler::kAll);
  BOOST_TEST(wrong.status().ToString().find("all 3 classes are sampled, but num_sampled is 2") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(penalties) {
  const Scope s = Scope::NewRootScope();
  const Variable a(s.WithOpName("a"), Const(s, {1.0, -2.0})), b(s.WithOpName("b"), Const(s, {{3.0}}));
  const train::Regularizer l1 = train::L1Regularizer(0.1), l2 = train::L2Regularizer(0.2);
  const Output sizes = train::RegularizationLoss(s, l1), squares = train::RegularizationLoss(s, l2, {a});
  const Output both = train::RegularizationLoss(s, train::SumRegularizer({l1, l2}), {b});
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, {sizes, squares, both});
  CheckNear({got[0].scalar<double>(), got[1].scalar<double>(), got[2].scalar<double>()}, {0.6, 0.5, 0.3 + 0.9}, 1e-12,
            "penalties");
  const Scope none = Scope::NewRootScope();
  train::RegularizationLoss(none, l1);
  BOOST_TEST(!none.ok());
}

// Three parts of a batch, added up, move the variables as their mean does.
BOOST_AUTO_TEST_CASE(accumulated_gradients_are_a_larger_batch) {
  for (const bool resource : {true, false}) {
    const Scope s = Scope::NewRootScope();
    VariableOptions options;
    options.use_resource = resource;
    const Variable table(s.WithOpName("table"), Const(s, {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}), options);
    const Variable b(s.WithOpName("b"), Const(s, {0.5, -0.5}), options);
    const Output ids = Fed(s, "ids", DType::kInt32, {2});
    const Output rows = train::EmbeddingLookup(s, table, ids) + b;
    const Output loss = Build(s, "Sum", {rows * rows, Const(s, {0, 1})});
    train::GradientDescent sgd(0.1);
    train::GradientAccumulator sums;
    const Operation add = sums.Add(s, sgd.ComputeGradients(s, loss));
    const Operation apply = sums.Apply(s, sgd);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    const Output table_now = table.Read(s), b_now = b.Read(s), count = sums.count().Read(s);
    const auto session = Start(s);
    std::vector<Tensor> out;
    BOOST_TEST(!session->Run({}, {}, {apply.name()}, &out).ok());
    std::vector<double> want = {1, 2, 3, 4, 5, 6}, want_b = {0.5, -0.5};
    for (int round = 0; round < 2; ++round) {
      std::vector<double> d(6), db(2);
      for (const auto& [i, j] : std::vector<std::pair<int, int>>{{0, 2}, {2, 2}, {1, 0}}) {
        Fetch(*session, {}, {{"ids", Tensor::Vector<int32_t>({i, j})}}, {add.name()});
        for (const int row : {i, j}) {
          for (int c = 0; c < 2; ++c) {
            const double slope = 2 * (want[2 * row + c] + want_b[c]);
            d[2 * row + c] += slope / 3;
            db[c] += slope / 3;
          }
        }
      }
      BOOST_TEST(Fetch(*session, {count})[0].scalar<int64_t>() == 3);
      Fetch(*session, {}, {}, {apply.name()});
      for (int i = 0; i < 6; ++i) want[i] -= 0.1 * d[i];
      for (int i = 0; i < 2; ++i) want_b[i] -= 0.1 * db[i];
      CheckNear(Doubles(Fetch(*session, {table_now})[0]), want, 1e-12, "table");
      CheckNear(Doubles(Fetch(*session, {b_now})[0]), want_b, 1e-12, "b");
      BOOST_TEST(Fetch(*session, {count})[0].scalar<int64_t>() == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_rate_that_warms_up) {
  const Scope s = Scope::NewRootScope();
  const Output step = Fed(s, "step", DType::kInt64, {});
  const Output line = train::WarmUp(s, 0.5f, step, 4, 0.1);
  const Output decayed = train::WarmUp(s, train::ExponentialDecay(s, 1.0f, step, 1, 0.5), step, 2);
  const auto session = Start(s);
  for (int64_t i = 0; i < 7; ++i) {
    const std::vector<Tensor> got = Fetch(*session, {line, decayed}, {{"step", Tensor::Scalar(i)}});
    CheckNear(Doubles(got[0]), {i < 4 ? 0.1 + 0.1 * static_cast<double>(i) : 0.5}, 1e-6, "line");
    const double rate = std::pow(0.5, static_cast<double>(i));
    CheckNear(Doubles(got[1]), {i < 2 ? rate * static_cast<double>(i) / 2 : rate}, 1e-6, "decayed");
  }
}

BOOST_AUTO_TEST_CASE(orthogonal_values) {
  for (const TensorShape& shape : {TensorShape({5, 3}), TensorShape({3, 5}), TensorShape({2, 3, 4})}) {
    const Scope s = Scope::NewRootScope();
    const Output q = init::Orthogonal(2.0, 7)(s, shape, DType::kDouble);
    const auto session = Start(s);
    const Tensor t = Fetch(*session, {q})[0];
    BOOST_REQUIRE((t.shape() == shape));
    const int64_t columns = shape.dim(shape.rank() - 1), rows = shape.num_elements() / columns;
    const bool tall = rows >= columns;
    const int64_t n = std::min(rows, columns), m = std::max(rows, columns);
    const auto at = [&](int64_t vector, int64_t k) {
      return t.data<double>()[tall ? k * columns + vector : vector * columns + k];
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < m; ++k) dot += at(i, k) * at(j, k);
        BOOST_TEST(std::abs(dot - (i == j ? 4 : 0)) < 1e-9);
      }
    }
  }
  const Scope s = Scope::NewRootScope();
  init::Orthogonal()(s, TensorShape({3}), DType::kFloat);
  BOOST_TEST(!s.ok());
}

}  // namespace pieces_test
}  // namespace troupe::testing
