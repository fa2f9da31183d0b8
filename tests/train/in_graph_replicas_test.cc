// Replicas within one graph, on devices of one process: they are one batch, mirrors stay equal,
// names are those of a model without replicas; and what cannot be built.
#include "troupe/train/in_graph_replicas.h"

#include <algorithm>
#include <stdexcept>

#include "tests/common/folder.h"
#include "tests/train/replica_model.h"
#include "tests/train/run.h"
#include "troupe/train/initializers.h"
#include "troupe/train/layers.h"
#include "troupe/train/regularizers.h"
#include "troupe/train/saver.h"

namespace troupe::testing {
namespace in_graph_replicas_test {

using train::AllReduceOptions;
using train::InGraphOptions;
using train::InGraphReplicas;

std::vector<std::string> DevicesOf(int replicas) {
  std::vector<std::string> devices;
  for (int r = 0; r < replicas; ++r) devices.push_back(StrCat("/device:CPU:", r));
  return devices;
}
SessionOptions WithDevices(int devices) {
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = devices;
  return options;
}

BOOST_AUTO_TEST_SUITE(in_graph_replicas)

BOOST_AUTO_TEST_CASE(ten_replicas_of_100_are_one_batch_of_1000) {
  for (const DType dtype : {DType::kFloat, DType::kDouble}) {
    const Trace expected = OneBatch(dtype);
    InGraphOptions options;
    options.devices = DevicesOf(kTowers);
    for (const AllReduceOptions::Algorithm algorithm : {AllReduceOptions::kRing, AllReduceOptions::kTree}) {
      options.all_reduce.algorithm = algorithm;
      CheckTowers(WithDevices(kTowers), options, dtype, "", expected);
    }
    options.variables = InGraphOptions::kShared;
    CheckTowers(WithDevices(kTowers), options, dtype, "/device:CPU:3", expected);
  }
}

// Layers make their variables themselves, and draw their first values.
Output LayersLoss(const Scope& on, int) {
  const Output x = Const(on, Literal(Filled(DType::kFloat, 8, 5, 1, 1.0)));
  const Output h = layers::Dense(on.WithOpName("fc1"), x, 6, {.activation = "Relu"});
  return Build(on, "Mean", {layers::Dense(on.WithOpName("fc2"), h, 3), Const(on, {0, 1})});
}
std::vector<std::string> NamesIn(const Scope& s, const char* collection) { return s.graph()->collection(collection); }

BOOST_AUTO_TEST_CASE(variables_are_those_of_a_model_without_replicas) {
  const Scope alone = Scope::NewRootScope();
  train::Momentum(0.1, 0.9).Minimize(alone, LayersLoss(alone, 0));
  BOOST_REQUIRE_MESSAGE(alone.ok(), alone.status());
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    const Scope s = Scope::NewRootScope();
    const InGraphReplicas replicas(s, LayersLoss,
                                   [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {},
                                   {.devices = DevicesOf(3), .variables = kind});
    const testing::Folder folder;
    train::Saver saver(s);
    const Operation mirror = replicas.Mirror(s);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
    BOOST_TEST(NamesIn(s, kGlobalVariables) == NamesIn(alone, kGlobalVariables), boost::test_tools::per_element());
    BOOST_TEST(NamesIn(s, kTrainableVariables) == NamesIn(alone, kTrainableVariables),
               boost::test_tools::per_element());
    BOOST_TEST(replicas.variables().size() == (kind == InGraphOptions::kShared ? 1u : 3u));
    BOOST_TEST(replicas.variables()[0].size() == NamesIn(s, kGlobalVariables).size());
    auto session = Session::Create(WithDevices(3));
    REQUIRE_OK(session.status());
    REQUIRE_OK((*session)->Extend(*s.graph()));
    REQUIRE_OK((*session)->Run({}, {}, {replicas.initializer()}, nullptr));
    const auto bytes = [&](size_t replica) {
      std::string all;
      for (const Variable& v : replicas.variables()[replica]) {
        const Tensor t = (*session)->Get(v).value();
        all.append(static_cast<const char*>(t.raw()), t.bytes());
      }
      return all;
    };
    const auto path = saver.Save(**session, StrCat(folder.path(), "/model"));
    REQUIRE_OK(path.status());
    const std::string start = bytes(0);
    for (int i = 0; i < 3; ++i) REQUIRE_OK((*session)->Run({}, {}, {replicas.update()}, nullptr));
    for (size_t r = 0; r < replicas.variables().size(); ++r) {
      BOOST_TEST((bytes(r) == bytes(0)), "replica " << r);
      BOOST_TEST((bytes(r) != start), "replica " << r);
      if (r > 0) {
        const std::string& device = replicas.variables()[r][0].handle().node()->requested_device();
        BOOST_TEST(device == StrCat("/device:CPU:", r));
        BOOST_TEST(replicas.variables()[r][0].variable_name() ==
                   StrCat("mirror_", r, "/", replicas.variables()[0][0].variable_name()));
      }
    }
    // A checkpoint has replica 0.
    REQUIRE_OK(saver.Restore(**session, *path));
    REQUIRE_OK((*session)->Run({}, {}, {mirror}, nullptr));
    for (size_t r = 0; r < replicas.variables().size(); ++r) BOOST_TEST((bytes(r) == start), "replica " << r);
  }
}

// Rows of a table that all towers share, gathered from the variable itself: the gradient asks for
// the table's shape, on the table's device.
BOOST_AUTO_TEST_CASE(towers_share_a_table) {
  const auto loss_of = [](const Scope& on, std::vector<int32_t> ids) {
    const layers::EmbeddingOptions options{.initializer = init::Constant(0.5)};
    const Output rows =
        layers::Embedding(on, Const(on, Literal(Tensor::Vector<int32_t>(std::move(ids)))), 5, 3, options);
    return Build(on, "Mean", {Build(on, "Square", {rows}), Const(on, {0, 1})});
  };
  const auto table_after_a_step = [](const Scope& s, const Operation& init, const Operation& step) {
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
    auto session = Session::Create(WithDevices(2));
    REQUIRE_OK(session.status());
    REQUIRE_OK((*session)->Extend(*s.graph()));
    REQUIRE_OK((*session)->Run({}, {}, {init}, nullptr));
    REQUIRE_OK((*session)->Run({}, {}, {step}, nullptr));
    return NumbersIn((*session)->Get(VariablesIn(s, kTrainableVariables)[0]).value());
  };
  const Scope alone = Scope::NewRootScope();
  const Operation step = train::GradientDescent(0.1f).Minimize(alone, loss_of(alone, {0, 2, 2, 4}));
  const std::vector<double> want = table_after_a_step(alone, GlobalVariablesInitializer(alone), step);
  for (const char* shared_on : {"", "/device:CPU:1"}) {
    const Scope root = Scope::NewRootScope();
    const Scope s = root.WithDevice(shared_on);
    const InGraphReplicas replicas(
        s,
        [&](const Scope& on, int r) {
          return loss_of(on, r == 0 ? std::vector<int32_t>{0, 2} : std::vector<int32_t>{2, 4});
        },
        [](const Scope&) { return std::make_unique<train::GradientDescent>(0.1f); }, {},
        {.devices = DevicesOf(2), .variables = InGraphOptions::kShared});
    const std::vector<double> got = table_after_a_step(root, replicas.initializer(), replicas.update());
    BOOST_REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) BOOST_TEST(std::abs(got[i] - want[i]) <= 1e-6, shared_on << " " << i);
    BOOST_TEST(got[6] < 0.499);  // row 2 has moved
  }
}

// Of a block of two layers in each tower, the value between them is told to be computed again: each
// tower has a copy of its own, on its device, and the updates are the same to the bit.
std::string BytesAfterSteps(const RecomputeOptions& recompute, InGraphOptions::Variables kind, int copies_of_tower) {
  const Scope s = Scope::NewRootScope();
  const auto tower = [](const Scope& on, int replica) {
    const double first = 1.0 + replica;
    Output h = Const(on, Literal(Filled(DType::kFloat, 8, 5, 1, first)));
    const Scope block = on.NewSubScope("block");
    for (int i = 0; i < 3; ++i) {
      h = layers::Dense((i < 2 ? block : on).WithOpName(StrCat("layer", i)), h, 6,
                        {.activation = "Tanh", .kernel_initializer = init::Constant(0.1 * (i + 1))});
    }
    return Build(on, "Mean", {h, Const(on, {0, 1})});
  };
  const InGraphReplicas replicas(s, tower, [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {},
                                 {.devices = DevicesOf(2), .variables = kind, .recompute = recompute});
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  std::vector<int> copies(2);
  for (const Node* n : s.graph()->op_nodes()) {
    if (n->op().name != "Tanh" || !n->attrs().Has("_recomputes")) continue;
    for (size_t r = 0; r < 2; ++r) copies[r] += n->requested_device() == StrCat("/device:CPU:", r) ? 1 : 0;
  }
  BOOST_TEST((copies == std::vector<int>{copies_of_tower, copies_of_tower}), copies[0] << ", " << copies[1]);
  SessionOptions options = WithDevices(2);
  options.fuse = false;
  auto session = Session::Create(options);
  REQUIRE_OK(session.status());
  REQUIRE_OK((*session)->Extend(*s.graph()));
  REQUIRE_OK((*session)->Run({}, {}, {replicas.initializer()}, nullptr));
  for (int i = 0; i < 3; ++i) REQUIRE_OK((*session)->Run({}, {}, {replicas.update()}, nullptr));
  std::string all;
  for (const Variable& v : replicas.variables()[0]) {
    const Tensor t = (*session)->Get(v).value();
    all.append(static_cast<const char*>(t.raw()), t.bytes());
  }
  return all;
}

BOOST_AUTO_TEST_CASE(towers_compute_again_what_is_said) {
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    const std::string kept = BytesAfterSteps({}, kind, 0);
    BOOST_TEST((BytesAfterSteps({.scopes = {"block"}}, kind, 1) == kept));
  }
  const Scope s = Scope::NewRootScope();
  const InGraphReplicas none(s, LayersLoss, [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); },
                             {}, {.devices = DevicesOf(2), .recompute = {.scopes = {"towers/tower_0/fc1"}}});
  BOOST_TEST(s.status().code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(s.status().ToString().find("towers/tower_0/towers/tower_0/fc1") != std::string::npos, s.status());
}

BOOST_AUTO_TEST_CASE(one_replica_is_a_model_alone) {
  const Trace expected = OneBatch(DType::kFloat);
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    const Scope s = Scope::NewRootScope();
    const InGraphReplicas one(
        s, [](const Scope& on, int) { return LossOfRows(on, DType::kFloat, 0, kTowers * kRowsOfTower); },
        [](const Scope&) { return OptimizerFor(DType::kFloat); }, {}, {.devices = {""}, .variables = kind});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
    const auto session = Start(s);
    for (const double loss : expected.losses) {
      std::vector<Tensor> out;
      REQUIRE_OK(session->Run({}, {one.loss()}, {one.update()}, &out));
      BOOST_TEST(NumbersIn(out[0])[0] == loss);
    }
  }
}

// Its mean over the others would be no mean of one batch; left out, it would never be trained.
BOOST_AUTO_TEST_CASE(a_variable_that_some_losses_do_not_depend_on_is_told) {
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    for (const int without : {0, 1}) {
      const Scope s = Scope::NewRootScope();
      const InGraphReplicas replicas(
          s,
          [&](const Scope& on, int r) {
            const Variable w(on.WithOpName("w"), 1.0f), b(on.WithOpName("b"), 1.0f);
            const Output square = Build(on, "Square", {w});
            return r == without ? square : Build(on, "Add", {square, Build(on, "Square", {b})});
          },
          [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {},
          {.devices = DevicesOf(2), .variables = kind});
      BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
      for (const std::string& part : {StrCat("replica ", without), StrCat("replica ", 1 - without)})
        BOOST_TEST(s.status().ToString().find(part) != std::string::npos, s.status());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_replicated_is_told) {
  const auto make = [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); };
  const auto told = [&](const InGraphReplicas::Tower& tower, const std::string& what, InGraphOptions options = {}) {
    if (options.devices.empty()) options.devices = DevicesOf(2);
    const Scope s = Scope::NewRootScope();
    const InGraphReplicas replicas(s, tower, make, {}, options);
    BOOST_TEST(!s.ok());
    BOOST_TEST(s.status().ToString().find(what) != std::string::npos, s.status());
    BOOST_TEST(!replicas.update().valid());
    // The scope is as before for others: variables are made as ever.
    const Scope other = Scope::NewRootScope();
    BOOST_TEST(Variable(other.WithOpName("v"), 1.0f).variable_name() == "v");
  };
  const auto square = [](const Variable& v, const Scope& on) { return Build(on, "Square", {v}); };
  told([&](const Scope& on, int r) { return square(Variable(on.WithOpName(r == 0 ? "v" : "w"), 1.0f), on); },
       "tower 1 makes 'w' as number 0, where tower 0 makes 'v'");
  told([&](const Scope& on,
           int r) { return square(Variable(on.WithOpName("v"), r == 0 ? Input(1.0f) : Input(1.0)), on); },
       "'v' of tower 1 is float64[], that of tower 0 is float32");
  told(
      [&](const Scope& on, int r) {
        const Variable v(on.WithOpName("v"), 1.0f);
        if (r == 0) Variable(on.WithOpName("more"), 1.0f);
        return square(v, on);
      },
      "tower 1 makes 1, tower 0 makes 2");
  told(
      [&](const Scope& on, int) {
        return square(Variable(on.WithOpName("v"), {1.0f, 2.0f}), on);
      },
      "the loss of tower 0 is no scalar");
  told([](const Scope&, int) { return Output(); }, "the loss of tower 0 is no scalar");
  told([](const Scope&, int) -> Output { throw std::runtime_error("as it likes"); }, "as it likes");
  told([](const Scope& on, int) { return Const(on, 1.0f); }, "no gradient was given");
  told(nullptr, "needs devices");
  // Mirrored, those of replica 0 are all trainable variables that there are.
  told(
      [&](const Scope& on, int) {
        const Output loss = square(Variable(on.WithOpName("v"), 1.0f), on);
        return Build(on, "Add", {loss, train::RegularizationLoss(on, train::L2Regularizer(0.1))});
      },
      "tower 1 trains 'v', which it did not make");
  const Scope s = Scope::NewRootScope();
  const InGraphReplicas replicas(s,
                                 [&](const Scope& on, int) { return square(Variable(on.WithOpName("v"), 1.0f), on); },
                                 make, {}, {.devices = DevicesOf(2)});
  BOOST_TEST(s.ok(), s.status());
  replicas.Copy(s, 0, 2);
  BOOST_TEST(absl::IsOutOfRange(s.status()), s.status());
}

// It has no mirror, whichever towers use it, but may be shared by all.
BOOST_AUTO_TEST_CASE(a_variable_that_was_made_outside_is_not_left_out) {
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    for (const std::vector<bool>& uses : {std::vector<bool>{true, true}, {true, false}, {false, true}}) {
      const Scope s = Scope::NewRootScope();
      const Variable outside(s.WithOpName("outside"), 1.0f);
      const InGraphReplicas replicas(
          s,
          [&](const Scope& on, int r) {
            const Output square = Build(on, "Square", {Variable(on.WithOpName("v"), 2.0f)});
            return uses[static_cast<size_t>(r)] ? Build(on, "Mul", {square, outside}) : square;
          },
          [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {},
          {.devices = DevicesOf(2), .variables = kind});
      const bool shared = kind == InGraphOptions::kShared, all = uses[0] && uses[1];
      if (shared && all) {
        BOOST_TEST(s.ok(), s.status());
        continue;
      }
      BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
      BOOST_TEST(s.status().message().find("'outside'") != std::string::npos, s.status());
      const std::string which = StrCat("tower ", uses[0] ? 0 : 1, " trains 'outside', which it did not make");
      if (!shared) BOOST_TEST(s.status().message().find(which) != std::string::npos, s.status());
    }
  }
}

// Nor is another tower's, which is in no collection, unless that is the first.
BOOST_AUTO_TEST_CASE(a_variable_of_another_tower_is_not_left_out) {
  for (const int of : {0, 1}) {
    const Scope s = Scope::NewRootScope();
    Variable kept;
    const InGraphReplicas replicas(
        s,
        [&](const Scope& on, int r) {
          const Variable v(on.WithOpName("v"), 1.0f);
          if (r == of) kept = v;
          const Output square = Build(on, "Square", {v});
          return r == 2 ? Build(on, "Mul", {square, kept}) : square;
        },
        [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {}, {.devices = DevicesOf(3)});
    BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
    BOOST_TEST(s.status().message().find("tower 2 trains") != std::string::npos, s.status());
  }
}

// The pass that finds variables of others is the one that gives the gradients.
BOOST_AUTO_TEST_CASE(gradients_of_a_tower_are_built_once) {
  for (const InGraphOptions::Variables kind : {InGraphOptions::kMirrored, InGraphOptions::kShared}) {
    const Scope s = Scope::NewRootScope();
    const InGraphReplicas replicas(s, LayersLoss,
                                   [](const Scope&) { return std::make_unique<train::Momentum>(0.1, 0.9); }, {},
                                   {.devices = DevicesOf(3), .variables = kind});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
    int64_t relu_gradients = 0;
    for (const Node* node : s.graph()->op_nodes()) relu_gradients += node->op().name == "ReluGrad";
    BOOST_TEST(relu_gradients == 3);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace in_graph_replicas_test
}  // namespace troupe::testing
