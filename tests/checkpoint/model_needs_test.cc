// A SavedModel has all that its signatures use: each kind of variable comes back, and what cannot
// is refused by name.
#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"
#include "troupe/checkpoint.h"
#include "troupe/lookup.h"
#include "troupe/train/initializers.h"
#include "troupe/train/moving_average.h"
#include "troupe/train/partitioned.h"
#include "troupe/train/saved_model.h"

namespace troupe::train {
namespace model_needs_test {

BOOST_AUTO_TEST_SUITE(model_needs)

// y = x * (a variable of each kind).
struct Kinds {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  Variable plain{root.WithOpName("plain"), 2.0f};
  Variable reference{root.WithOpName("reference"), 3.0f, {.use_resource = false}};
  Variable frozen{root.WithOpName("frozen"), 5.0f, {.trainable = false}};
  Variable unlisted{root.WithOpName("unlisted"), 7.0f, {.trainable = false, .collections = {}}};
  Variable shared{root.WithOpName("shared"), 11.0f, {.shared_name = "other_name"}};
  Variable apart{root.WithOpName("apart"), 13.0f, {.container = "elsewhere"}};
  PartitionedVariable parts{root.WithOpName("parts"), init::Constant(1.0f), TensorShape({5}), DType::kFloat,
                            FixedParts(2)};
  Output y;
  std::unique_ptr<Session> session;
  SavedModelOptions options;

  Kinds() {
    ExponentialMovingAverage mean(0.5);
    const Operation averaged = mean.Apply(root, {plain});
    y = x * plain;
    for (const Variable* v : {&reference, &frozen, &unlisted, &shared, &apart}) y = ops::Mul(root, y, *v);
    y = ops::Mul(root, y, ops::Sum(root, parts.Value(root), {0}));
    y = ops::Mul(root.WithOpName("y"), y, mean.Average(plain));
    Operation init = GlobalVariablesInitializer(root);
    session = NewSession(root);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {init, unlisted.initializer()}, nullptr));
    options.signatures["serve"] = {.inputs = {{"x", x}}, .outputs = {{"y", y}}};
  }
  absl::Status Write(const std::string& folder, Saver* saver) {
    return WriteSavedModel(folder, *session, *root.graph(), saver, options);
  }
  // What the model in the folder gives for x = 1.
  static float Serve(const std::string& folder) {
    Graph graph;
    auto model = ReadSavedModel(folder, &graph);
    BOOST_REQUIRE_MESSAGE(model.ok(), model.status());
    const auto session = *Session::Create();
    TROUPE_REQUIRE_OK(session->Extend(graph));
    TROUPE_REQUIRE_OK(model->Load(*session));
    const ModelSignature& serve = model->signatures.at("serve");
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({{serve.inputs.at("x"), Tensor::Scalar(1.0f)}}, {serve.outputs.at("y")}, {}, &out));
    return out[0].scalar<float>();
  }
};
constexpr float kAll = 2.0f * 3 * 5 * 7 * 11 * 13 * 5 * 2;

BOOST_AUTO_TEST_CASE(without_a_saver_all_that_is_used_is_saved) {
  Kinds k;
  const Variable more(k.root.WithOpName("more"), 1.0f);  // has no value, and is not used
  TROUPE_REQUIRE_OK(k.session->Extend(*k.root.graph()));
  const int before = k.root.graph()->num_nodes();
  TROUPE_REQUIRE_OK(k.Write("mem://needs/none", nullptr));
  BOOST_TEST(k.root.graph()->num_nodes() == before);
  BOOST_TEST(Kinds::Serve("mem://needs/none") == kAll);
  std::vector<std::string> names;
  const auto reader = *CheckpointReader::Open("mem://needs/none/variables/variables");
  for (const auto& e : reader->entries()) names.push_back(e.name);
  BOOST_TEST(StrJoin(names, " ") ==
             "apart frozen parts plain plain/ExponentialMovingAverage reference shared unlisted");
}

BOOST_AUTO_TEST_CASE(what_a_saver_misses_is_named) {
  Kinds k;
  Saver listed(k.root);
  const absl::Status s = k.Write("mem://needs/listed", &listed);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(s.message().find("signature 'serve' uses the variable 'unlisted' (VarHandleOp)") != std::string::npos, s);
  Graph graph;
  BOOST_TEST(absl::IsNotFound(ReadSavedModel("mem://needs/listed", &graph).status()));
  // A variable that was made after the Saver, and is used.
  const Variable late(k.root.WithOpName("late"), 1.0f);
  k.options.signatures.at("serve").outputs.at("y") = ops::Mul(k.root, k.y, late);
  TROUPE_REQUIRE_OK(k.session->Extend(*k.root.graph()));
  const absl::Status later = k.Write("mem://needs/late", &listed);
  BOOST_TEST(absl::IsFailedPrecondition(later), later);
  // The init op sets both.
  k.options.init_op = VariablesInitializer(k.root.WithOpName("load"), {k.unlisted, late}).name();
  TROUPE_REQUIRE_OK(k.session->Extend(*k.root.graph()));
  TROUPE_REQUIRE_OK(k.Write("mem://needs/load", &listed));
  BOOST_TEST(Kinds::Serve("mem://needs/load") == kAll);
}

BOOST_AUTO_TEST_CASE(a_saver_without_nodes_of_this_graph_is_refused) {
  Kinds k;
  Saver none;
  BOOST_TEST(absl::IsFailedPrecondition(k.Write("mem://needs/empty", &none)));
  const Scope other = Scope::NewRootScope();
  const Variable w(other.WithOpName("w"), 1.0f);
  Saver foreign(other.NewSubScope("there"), {Saved(w)});
  TROUPE_REQUIRE_OK(other.status());
  const absl::Status s = k.Write("mem://needs/foreign", &foreign);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(s.message().find("another graph") != std::string::npos, s);
}

BOOST_AUTO_TEST_CASE(a_variable_without_a_value_is_named) {
  Kinds k;
  const Variable later(k.root.WithOpName("later"), 1.0f);
  k.options.signatures.at("serve").outputs.at("y") = ops::Mul(k.root, k.y, later);
  TROUPE_REQUIRE_OK(k.session->Extend(*k.root.graph()));
  const absl::Status s = k.Write("mem://needs/value", nullptr);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(s.message().find("'later' has no value") != std::string::npos, s);
}

BOOST_AUTO_TEST_CASE(a_table_that_nothing_fills_is_named) {
  const Scope root = Scope::NewRootScope();
  const Output words = ops::Placeholder(root.WithOpName("words"), DType::kString);
  const LookupTable table = LookupTable::Hash(root.WithOpName("table"), DType::kString, DType::kInt64);
  table.Initialize(root, Const(root, Literal(Tensor::Vector<std::string>({"a", "b"}))),
                   Const(root, Literal(Tensor::Vector<int64_t>({1, 2}))));
  const Output found = table.Find(root, words, int64_t{-1});
  const Operation fill = TablesInitializer(root.WithOpName("fill"));
  const auto session = NewSession(root);
  SavedModelOptions options;
  options.signatures["serve"] = {.inputs = {{"words", words}}, .outputs = {{"ids", found}}};
  const absl::Status s = WriteSavedModel("mem://needs/table", *session, *root.graph(), nullptr, options);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
  BOOST_TEST(s.message().find("uses the table 'table' (HashTableV2)") != std::string::npos, s);
  options.init_op = fill.name();
  TROUPE_REQUIRE_OK(WriteSavedModel("mem://needs/table", *session, *root.graph(), nullptr, options));
  Graph graph;
  auto model = ReadSavedModel("mem://needs/table", &graph);
  BOOST_REQUIRE_MESSAGE(model.ok(), model.status());
  const auto later = *Session::Create();
  TROUPE_REQUIRE_OK(later->Extend(graph));
  TROUPE_REQUIRE_OK(model->Load(*later));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(later->Run({{"words:0", Tensor::Vector<std::string>({"b", "c"})}}, {found.name()}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int64 [2] [2 -1]");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace model_needs_test
}  // namespace troupe::train
