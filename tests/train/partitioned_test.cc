// Variables in parts: how they are cut, that they train as one, and that they are one tensor in
// checkpoints.
#include "tests/train/run.h"
#include "troupe/checkpoint.h"
#include "troupe/gradients.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/partitioned.h"
#include "troupe/train/saver.h"

namespace troupe::testing {
namespace partitioned_test {

// Values 0, 1, 2, ... of any shape.
Output Counted(const ScopeAt& at, const TensorShape& shape, DType) {
  Tensor t(DType::kDouble, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<double>()[i] = static_cast<double>(i);
  return Const(at, Literal(t));
}

std::vector<int64_t> LengthsOf(const train::PartitionedVariable& v) {
  std::vector<int64_t> lengths;
  for (const Variable& p : v.parts()) lengths.push_back(p.variable_shape().dim(v.axis()));
  return lengths;
}

BOOST_AUTO_TEST_CASE(every_cut_holds_the_whole) {
  struct Try {
    train::Partitioner partitioner;
    std::vector<int64_t> lengths;
  };
  const std::vector<Try> tries = {{train::FixedParts(1), {7}},
                                  {train::FixedParts(3), {3, 2, 2}},
                                  {train::FixedParts(9), {1, 1, 1, 1, 1, 1, 1}},
                                  {train::FixedParts(2, 1), {2, 1}},
                                  {train::PartsOfBytes(3 * 8 * 2), {2, 2, 2, 1}},
                                  {train::PartsOfBytes(1), {1, 1, 1, 1, 1, 1, 1}},
                                  {train::PartsOfBytes(1, 0, 2), {4, 3}},
                                  {train::PartsOfBytes(7 * 8 * 2, 1), {2, 1}}};
  for (size_t i = 0; i < tries.size(); ++i) {
    for (const bool resource : {true, false}) {
      const Scope s = Scope::NewRootScope();
      VariableOptions options;
      options.use_resource = resource;
      const train::PartitionedVariable v(s.WithOpName("table"), Counted, {7, 3}, DType::kDouble, tries[i].partitioner,
                                         options);
      BOOST_REQUIRE_MESSAGE(s.ok(), i << ": " << s.status().ToString());
      BOOST_TEST(v.name() == "table");
      BOOST_TEST(v.parts()[0].variable_name() == "table/part_0");
      BOOST_TEST(LengthsOf(v) == tries[i].lengths, boost::test_tools::per_element());
      const Output whole = v.Value(s);
      const auto session = Start(s);
      const Tensor value = Fetch(*session, {whole})[0];
      BOOST_REQUIRE((value.shape() == TensorShape({7, 3})));
      for (int64_t k = 0; k < 21; ++k) BOOST_TEST(value.data<double>()[k] == static_cast<double>(k));
    }
  }
}

BOOST_AUTO_TEST_CASE(cuts_that_do_not_fit) {
  for (const train::Partitioner& bad : {train::FixedParts(2, 2), train::FixedParts(0), train::FixedParts(2, -1)}) {
    const Scope s = Scope::NewRootScope();
    const train::PartitionedVariable v(s, Counted, {7, 3}, DType::kDouble, bad);
    BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
  }
  const Scope s = Scope::NewRootScope();
  const train::PartitionedVariable columns(s, Counted, {7, 3}, DType::kDouble, train::FixedParts(3, 1));
  BOOST_TEST(s.ok(), s.status());
  columns.Lookup(s, Const(s, {1}));
  BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
}

struct Model {
  explicit Model(const train::Partitioner& partitioner) {
    table = train::PartitionedVariable(s.WithOpName("table"), Counted, {7, 3}, DType::kDouble, partitioner);
    const Output rows = table.Lookup(s, Const(s, {6, 0, 3, 6}));
    loss = Build(s, "Sum", {rows * rows, Const(s, {0, 1})});
    step = adagrad.Minimize(s, loss, table.parts());
    std::vector<Output> sums;
    for (const Variable& p : table.parts()) sums.push_back(adagrad.Slot(p, "Adagrad").Read(s));
    slot = sums.size() == 1 ? sums[0] : EmitLists(s, "ConcatV2", {InputList(sums), InputList({Input(0)})}).output(0);
    whole = table.Value(s);
    saver = train::Saver(s);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  }
  Scope s = Scope::NewRootScope();
  train::Adagrad adagrad{0.5};
  train::PartitionedVariable table;
  Output loss, slot, whole;
  Operation step;
  train::Saver saver;
};

BOOST_AUTO_TEST_CASE(parts_are_one_tensor_in_checkpoints) {
  Model three(train::FixedParts(3)), one(train::FixedParts(1)), two(train::FixedParts(2));
  const auto session = Start(three.s), alone = Start(one.s), other = Start(two.s);
  for (int i = 0; i < 3; ++i) {
    Fetch(*session, {}, {}, {three.step.name()});
    Fetch(*alone, {}, {}, {one.step.name()});
  }
  const std::vector<Tensor> want = Fetch(*alone, {one.whole, one.slot});
  const std::vector<Tensor> got = Fetch(*session, {three.whole, three.slot});
  for (int k = 0; k < 2; ++k) CheckNear(Doubles(got[k]), Doubles(want[k]), 1e-13, "trained in parts");

  const auto saved = three.saver.Save(*session, "mem://partitioned/model");
  BOOST_REQUIRE_MESSAGE(saved.ok(), saved.status());
  const auto reader = CheckpointReader::Open(*saved);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  const absl::StatusOr<Tensor> table = (*reader)->Read("table"), sums = (*reader)->Read("table/Adagrad");
  BOOST_REQUIRE_MESSAGE(table.ok(), table.status());
  BOOST_REQUIRE_MESSAGE(sums.ok(), sums.status());
  CheckNear(Doubles(*table), Doubles(got[0]), 0, "table");
  CheckNear(Doubles(*sums), Doubles(got[1]), 0, "table/Adagrad");

  for (Model* m : {&two, &one}) {
    Session& into = m == &two ? *other : *alone;
    const absl::Status s = m->saver.Restore(into, *saved);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    const std::vector<Tensor> now = Fetch(into, {m->whole, m->slot});
    for (int k = 0; k < 2; ++k) CheckNear(Doubles(now[k]), Doubles(got[k]), 0, "read into other parts");
  }
}

}  // namespace partitioned_test
}  // namespace troupe::testing
