// Layers against what TensorFlow's ops make of the same variables
// (tests/cases/training/layers.txt): outputs, and the gradients of the sum of their squares.
#include <map>

#include "tests/train/recorded.h"
#include "tests/train/run.h"
#include "troupe/gradients.h"
#include "troupe/train/embedding.h"
#include "troupe/train/layers.h"
#include "troupe/train/recurrent.h"

namespace troupe::testing {
namespace layers_recorded_test {

std::vector<Tensor> Recorded(const std::string& name) { return RecordedIn("training/layers.txt", name); }

// As in record/layers.py: the value of input or variable number k.
Tensor Numbers(const TensorShape& shape, int64_t k) {
  Tensor t(DType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    t.data<float>()[i] = static_cast<float>(static_cast<double>((i * 7 + k * 3) % 11) * 0.1 - 0.5);
  return t;
}

// How much of the shapes is known while the graph is built.
enum class Known { kAll, kLastOnly };

class Case {
 public:
  Case(std::string name, Known known) : name_(std::move(name)), known_(known) {}
  // Input number k: all that are made before the variables.
  Output In(const TensorShape& shape) {
    PartialTensorShape given = shape;
    for (int d = 0; known_ == Known::kLastOnly && d + 1 < shape.rank(); ++d) given.set_dim(d, -1);
    const std::string name = StrCat("x", inputs_.size());
    inputs_.push_back(Build(s.WithOpName(name), "Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", given}}));
    feeds_.emplace_back(name, Numbers(shape, static_cast<int64_t>(inputs_.size()) - 1));
    return inputs_.back();
  }
  // The variables are numbered on, in this order. Returns what was fetched of `also`, after `last`.
  std::vector<Tensor> Check(const OutputList& ys, const std::vector<std::string>& variables,
                            const std::vector<std::pair<std::string, Tensor>>& set = {},
                            const std::vector<Operation>& run = {}) {
    BOOST_REQUIRE_MESSAGE(s.ok(), name_ << ": " << s.status().ToString());
    std::map<std::string, Variable> made;
    for (const Variable& v : VariablesIn(s, kGlobalVariables)) made.emplace(v.variable_name(), v);
    OutputList xs = inputs_, squares;
    for (const std::string& v : variables) {
      BOOST_REQUIRE_MESSAGE(made.contains(v), name_ << ": no variable " << v);
      xs.push_back(made[v]);
    }
    for (const Output& y : ys) squares.push_back(Build(s, "L2Loss", {y}));
    const Output loss = EmitLists(s, "AddN", {InputList(squares)}).output(0) * 2.0f;
    const std::vector<Output> grads = Gradients(s, {loss}, xs);
    const auto session = Start(s);
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& v = made[variables[i]];
      const Tensor value = Numbers(TensorShape(v.variable_shape().dims()), static_cast<int64_t>(inputs_.size() + i));
      const absl::Status status = session->Set(v, value);
      BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
    }
    for (const auto& [variable, value] : set) {
      const absl::Status status = session->Set(made.at(variable), value);
      BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
    }
    OutputList fetches = ys;
    fetches.insert(fetches.end(), grads.begin(), grads.end());
    const std::vector<Tensor> got = Fetch(*session, fetches, feeds_), want = Recorded(name_);
    const size_t skipped = want.size() - got.size() - skipped_at_end;  // outputs that are not of the graph
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor& w = want[i < ys.size() ? i : i + skipped];
      BOOST_CHECK_MESSAGE(got[i].shape() == w.shape(), name_ << " " << i << ": " << got[i].TypeAndShape());
      CheckNear(Doubles(got[i]), Doubles(w), 2e-5, StrCat(name_, " ", i));
    }
    Names targets;
    for (const Operation& o : run) targets.push_back(o.name());
    std::vector<Tensor> after;
    if (!run.empty()) {
      Fetch(*session, {}, feeds_, targets);
      for (const auto& [variable, value] : set) after.push_back(*session->Get(made.at(variable)));
    }
    return after;
  }

  const Scope s = Scope::NewRootScope();
  size_t skipped_at_end = 0;
  Feeds& feeds() { return feeds_; }

 private:
  const std::string name_;
  const Known known_;
  OutputList inputs_;
  Feeds feeds_;
};

const Known kBoth[] = {Known::kAll, Known::kLastOnly};

BOOST_AUTO_TEST_CASE(convolutions_equal_tensorflows) {
  for (const Known known : kBoth) {
    {
      Case c("transposed_same", known);
      layers::ConvOptions o;
      o.strides = {2, 1};
      o.padding = "SAME";
      const Output y = layers::Conv2DTranspose(c.s.WithOpName("up"), c.In({2, 3, 4, 2}), 3, {3, 3}, o);
      BOOST_TEST(c.s.ShapeOf(y).DebugString() == (known == Known::kAll ? "[2,6,4,3]" : "[?,?,?,3]"));
      c.Check({y}, {"up/kernel", "up/bias"});
    }
    {
      Case c("transposed_valid", known);
      layers::ConvOptions o;
      o.strides = {2, 3};
      c.Check({layers::Conv2DTranspose(c.s, c.In({1, 2, 3, 2}), 3, {3, 2}, o)},
              {"conv2d_transpose/kernel", "conv2d_transpose/bias"});
    }
    {
      Case c("separable", known);
      layers::SeparableConvOptions o;
      o.strides = {2, 2};
      o.padding = "SAME";
      o.depth_multiplier = 2;
      o.activation = "Relu";
      c.Check({layers::SeparableConv2D(c.s, c.In({2, 5, 4, 2}), 3, {3, 3}, o)},
              {"separable_conv2d/depthwise_kernel", "separable_conv2d/pointwise_kernel", "separable_conv2d/bias"});
    }
    {
      Case c("depthwise", known);
      layers::SeparableConvOptions o;
      o.dilations = {2, 2};
      o.depth_multiplier = 3;
      c.Check({layers::DepthwiseConv2D(c.s, c.In({1, 6, 5, 2}), {2, 2}, o)},
              {"depthwise_conv2d/depthwise_kernel", "depthwise_conv2d/bias"});
    }
  }
}

BOOST_AUTO_TEST_CASE(recurrent_layers_equal_tensorflows) {
  for (const Known known : kBoth) {
    for (const bool unrolled : {false, true}) {
      if (unrolled && known != Known::kAll) continue;
      for (const bool lengths : {false, true}) {
        Case c(lengths ? "lstm_lengths" : "lstm", known);
        layers::LstmOptions o;
        o.forget_bias = 0.5;
        layers::RnnOptions rnn;
        rnn.time_major = true;
        rnn.unrolled = unrolled;
        if (lengths) rnn.sequence_lengths = Const(c.s, {3, 1});
        const layers::RnnResult r = layers::Lstm(c.s, c.In({4, 2, 3}), 2, o, rnn);
        BOOST_REQUIRE_MESSAGE(c.s.ok(), c.s.status());
        BOOST_TEST(c.s.ShapeOf(r.outputs).DebugString() == (known == Known::kAll ? "[4,2,2]" : "[?,?,2]"));
        c.Check({r.outputs, r.state[0], r.state[1]}, {"rnn/basic_lstm_cell/kernel", "rnn/basic_lstm_cell/bias"});
      }
      for (const bool reverse : {false, true}) {
        Case c(reverse ? "gru_reverse" : "gru", known);
        layers::RnnOptions rnn;
        rnn.time_major = true;
        rnn.unrolled = unrolled;
        rnn.reverse = reverse;
        const layers::RnnResult r = layers::Gru(c.s, c.In({3, 2, 3}), 2, {}, rnn);
        BOOST_REQUIRE_MESSAGE(c.s.ok(), c.s.status());
        c.Check({r.outputs, r.state[0]}, {"rnn/gru_cell/gates/kernel", "rnn/gru_cell/gates/bias",
                                          "rnn/gru_cell/candidate/kernel", "rnn/gru_cell/candidate/bias"});
      }
    }
  }
}

// By batch, in two pieces of time, is the same as all at once.
BOOST_AUTO_TEST_CASE(a_recurrent_layer_goes_on_with_its_state) {
  const Scope s = Scope::NewRootScope();
  const Output x = Const(s, Literal(Numbers({2, 5, 3}, 0)));
  const layers::LstmCell cell(s, 3, 4);
  const layers::RnnResult all = layers::Rnn(s, cell, x);
  const auto part = [&](int begin, int size) {
    return Build(s, "Slice", {x, Const(s, {0, begin, 0}), Const(s, {-1, size, -1})});
  };
  const layers::RnnResult first = layers::Rnn(s, cell, part(0, 2));
  layers::RnnOptions o;
  o.initial_state = first.state;
  const layers::RnnResult rest = layers::Rnn(s, cell, part(2, 3), o);
  const Output both =
      EmitLists(s, "ConcatV2", {InputList({first.outputs, rest.outputs}), InputList({Input(1)})}).output(0);
  const layers::RnnResult none = layers::Rnn(s, cell, part(0, 0), o);
  const auto session = Start(s);
  const std::vector<Tensor> got =
      Fetch(*session, {all.outputs, both, all.state[0], rest.state[0], none.outputs, none.state[1], first.state[1]});
  BOOST_TEST(got[0].TypeAndShape() == "float32 [2,5,4]");
  CheckNear(Doubles(got[1]), Doubles(got[0]), 1e-6, "outputs");
  CheckNear(Doubles(got[3]), Doubles(got[2]), 1e-6, "c");
  BOOST_TEST(got[4].TypeAndShape() == "float32 [2,0,4]");
  CheckNear(Doubles(got[5]), Doubles(got[6]), 0, "no time passes");

  const Scope wrong = Scope::NewRootScope();
  o.initial_state = {Const(wrong, {{0.0f}})};
  layers::Lstm(wrong, Const(wrong, Literal(Numbers({1, 1, 1}, 0))), 1, {}, o);
  BOOST_TEST(wrong.status().ToString().find("is a list of 2 tensors, but 1 were given") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(normalization_equals_tensorflows) {
  for (const Known known : kBoth) {
    for (const int rank : {4, 2}) {
      for (const int how : {0, 1, 2, 3}) {  // training or not, known while the graph is built or not
        const bool trains = how % 2 == 0, fed = how >= 2;
        Case c(StrCat("batch_norm_", rank, trains ? "" : "_inference"), known);
        layers::BatchNormOptions o;
        o.momentum = 0.9;
        o.epsilon = 0.01;
        const Output x = rank == 4 ? c.In({2, 3, 2, 3}) : c.In({5, 3});
        Input training = trains;
        if (fed) {
          training = Build(c.s.WithOpName("training"), "Placeholder", {},
                           {{"dtype", DType::kBool}, {"shape", PartialTensorShape(TensorShape())}});
          c.feeds().emplace_back("training", Tensor::Scalar(trains));
        }
        const Output y = layers::BatchNorm(c.s.WithOpName("norm"), x, training, o);
        const std::vector<Operation> updates = layers::UpdateOps(c.s);
        BOOST_TEST(updates.size() == (trains || fed ? 2u : 0u));
        Tensor mean = Numbers({3}, 3), variance = Numbers({3}, 4);
        for (int i = 0; i < 3 && !trains; ++i) variance.data<float>()[i] += 1;
        c.skipped_at_end = 2;
        const std::vector<Tensor> after =
            c.Check({y}, {"norm/gamma", "norm/beta"}, {{"norm/moving_mean", mean}, {"norm/moving_variance", variance}},
                    updates);
        const std::string name = StrCat("batch_norm_", rank);
        if (trains) {
          CheckNear(Doubles(after[0]), Doubles(Recorded(name)[1]), 1e-6, name + " mean");
          CheckNear(Doubles(after[1]), Doubles(Recorded(name)[2]), 1e-6, name + " variance");
        } else if (fed) {  // they stay
          CheckNear(Doubles(after[0]), Doubles(mean), 0, name + " mean");
          CheckNear(Doubles(after[1]), Doubles(variance), 0, name + " variance");
        }
      }
    }
    Case c("layer_norm", known);
    layers::NormOptions o;
    o.epsilon = 0.01;
    c.Check({layers::LayerNorm(c.s, c.In({2, 3, 4}), o)}, {"layer_normalization/gamma", "layer_normalization/beta"});
  }
}

BOOST_AUTO_TEST_CASE(attention_equals_tensorflows) {
  for (const Known known : kBoth) {
    for (const bool causal : {false, true}) {
      Case c(causal ? "attention_causal" : "attention", known);
      const Output x = c.In({2, 3, 4}), source = c.In({2, 4, 5});
      layers::MultiHeadOptions o;
      o.causal = causal;
      o.width = 3;
      if (!causal) o.mask = Const(c.s, {{{{true, true, false, true}}}, {{{false, true, true, true}}}});
      const Output y = layers::MultiHeadAttention(c.s.WithOpName("a"), x, source, 2, 3, o);
      BOOST_TEST(c.s.ShapeOf(y).DebugString() == (known == Known::kAll ? "[2,3,3]" : "[?,?,3]"));
      c.Check({y}, {"a/query/kernel", "a/query/bias", "a/key/kernel", "a/key/bias", "a/value/kernel", "a/value/bias",
                    "a/output/kernel", "a/output/bias"});
    }
  }
}

BOOST_AUTO_TEST_CASE(sparse_lookups_equal_tensorflows) {
  for (const std::string combiner : {"sum", "mean", "sqrtn"}) {
    for (const bool weighted : {false, true}) {
      for (const bool parted : {false, true}) {
        const Scope s = Scope::NewRootScope();
        const Tensor table = Numbers({5, 3}, 0);
        std::vector<Variable> parts;
        for (int p = 0; p < (parted ? 2 : 1); ++p) {  // row i is in part i mod 2
          Tensor rows = parted ? Tensor(DType::kFloat, {p == 0 ? 3 : 2, 3}) : table;
          for (int64_t i = 0; parted && i < rows.num_elements(); ++i)
            rows.data<float>()[i] = table.data<float>()[(2 * (i / 3) + p) * 3 + i % 3];
          parts.emplace_back(s.WithOpName("table"), Const(s, Literal(rows)));
        }
        const train::SparseIds ids = {Const<int64_t>(s, {{0, 0}, {0, 1}, {1, 0}, {3, 0}, {3, 1}, {3, 2}}),
                                      parted ? Const<int64_t>(s, {4, 0, 2, 4, 4, 1}) : Const(s, {4, 0, 2, 4, 4, 1}),
                                      Const<int64_t>(s, {4, 3})};
        const Output weights = weighted ? Const(s, {0.5f, 1.5f, 2.0f, 1.0f, -0.25f, 0.75f}) : Output();
        const Output y = train::EmbeddingLookupSparse(s, parts, ids, weights,
                                                      combiner == "sum"    ? train::Combiner::kSum
                                                      : combiner == "mean" ? train::Combiner::kMean
                                                                           : train::Combiner::kSqrtN);
        const Output loss = Build(s, "L2Loss", {y}) * 2.0f;
        const std::vector<Output> grads = Gradients(s, {loss}, OutputList(parts.begin(), parts.end()));
        const auto session = Start(s);
        const std::string name = "sparse_" + combiner + (weighted ? "_weighted" : "");
        const std::vector<Tensor> want = Recorded(name);
        CheckNear(Doubles(Fetch(*session, {y})[0]), Doubles(want[0]), 1e-5, name);
        for (size_t p = 0; p < parts.size(); ++p) {
          const Tensor slope = Fetch(*session, {grads[p]})[0];
          std::vector<double> part;
          for (int64_t i = 0; i < slope.num_elements(); ++i)
            part.push_back(want[1].data<float>()[parted ? (2 * (i / 3) + static_cast<int64_t>(p)) * 3 + i % 3 : i]);
          CheckNear(Doubles(slope), part, 1e-5, name + " gradient");
        }
      }
    }
  }
}

// A row behind the last one that has ids is zero, too.
BOOST_AUTO_TEST_CASE(rows_without_ids_are_zero) {
  const Scope s = Scope::NewRootScope();
  const Variable table(s.WithOpName("table"), Const(s, {{1.0f, 2.0f}}));
  const train::SparseIds ids = {Const<int64_t>(s, {{1, 0}}), Const<int64_t>(s, {0}), Const<int64_t>(s, {3, 1})};
  const Output y = train::EmbeddingLookupSparse(s, {table}, ids);
  const auto session = Start(s);
  BOOST_TEST(Fetch(*session, {y})[0].DebugString() == "float32 [3,2] [0 0 1 2 0 0]");
}

BOOST_AUTO_TEST_CASE(small_layers) {
  const Scope s = Scope::NewRootScope();
  const Output x = Const(s, Literal(Numbers({2, 2, 2, 1}, 0)));  // -.5 .2 -.2 .5, .1 -.3 .4 0
  const Output mean = layers::AvgPool2D(s, x, {2, 2}, {2, 2}), whole = layers::GlobalAvgPool2D(s, x);
  layers::EmbeddingOptions o;
  o.initializer = [](const ScopeAt& at, const TensorShape& shape, DType) {
    return Const(at, Literal(Numbers(shape, 0)));
  };
  const Output rows = layers::Embedding(s, Const(s, {{2, 0}}), 3, 2, o);
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, {mean, whole, rows});
  BOOST_TEST(got[0].TypeAndShape() == "float32 [2,1,1,1]");
  CheckNear(Doubles(got[0]), {0, 0.05}, 1e-6, "mean");
  BOOST_TEST(got[1].TypeAndShape() == "float32 [2,1]");
  CheckNear(Doubles(got[1]), {0, 0.05}, 1e-6, "whole");
  BOOST_TEST(got[2].TypeAndShape() == "float32 [1,2,2]");
  CheckNear(Doubles(got[2]), {0.1, -0.3, -0.5, 0.2}, 1e-6, "rows");
}

BOOST_AUTO_TEST_CASE(layers_refuse_what_they_cannot_do) {
  const auto refused = [](const std::function<void(const Scope&, const Output&)>& f, const std::string& why) {
    const Scope s = Scope::NewRootScope();
    f(s, Build(s.WithOpName("x"), "Placeholder", {},
               {{"dtype", DType::kFloat}, {"shape", PartialTensorShape({-1, 4, 4, 2})}}));
    BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
    BOOST_TEST(s.status().ToString().find(why) != std::string::npos, s.status());
    BOOST_TEST(s.status().ToString().find("layers_recorded_test.cc:") != std::string::npos, s.status());
  };
  layers::SeparableConvOptions uneven;
  uneven.strides = {1, 2};
  layers::ConvOptions dilated;
  dilated.dilations = {2, 2};
  refused(
      [&](const Scope& s, const Output& x) {
        layers::SeparableConv2D(s, x, 3, {2, 2}, uneven);
      },
      "needs strides that are equal");
  refused(
      [&](const Scope& s, const Output& x) {
        layers::Conv2DTranspose(s, x, 3, {2, 2}, dilated);
      },
      "needs dilations of 1");
  refused([&](const Scope& s, const Output& x) { layers::BatchNorm(s, x, 1); }, "must be a bool scalar");
  refused([&](const Scope& s, const Output& x) { layers::Lstm(s, x, 3); }, "Lstm needs an input of rank 3");
  refused([&](const Scope& s, const Output& x) { layers::MultiHeadAttention(s, x, x, 2, 2); },
          "MultiHeadAttention needs an input of rank 3");
  refused([&](const Scope& s, const Output&) { layers::Embedding(s, Const(s, 1), 0, 2); }, "at least one row");
  refused(
      [&](const Scope& s, const Output& x) {
        layers::RnnOptions o;
        o.unrolled = true;
        layers::Gru(s,
                    Build(s, "Reshape",
                          {x, Build(s.WithOpName("n"), "Placeholder", {},
                                    {{"dtype", DType::kInt32}, {"shape", PartialTensorShape({3})}})}),
                    2, {}, o);
      },
      "Gru needs an input of rank 3");
  refused(
      [&](const Scope& s, const Output&) {
        layers::RnnOptions o;
        o.unrolled = true;
        layers::Gru(s,
                    Build(s.WithOpName("y"), "Placeholder", {},
                          {{"dtype", DType::kFloat}, {"shape", PartialTensorShape({2, -1, 3})}}),
                    2, {}, o);
      },
      "must be known where they are unrolled");
}

}  // namespace layers_recorded_test
}  // namespace troupe::testing
