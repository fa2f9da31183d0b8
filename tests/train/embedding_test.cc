// Lookups in whole and in parted tables, and their gradients.
#include "tests/train/run.h"
#include "troupe/gradients.h"
#include "troupe/indexed_slices.h"
#include "troupe/train/embedding.h"

namespace troupe::testing {
namespace embedding_test {

// Row i of a table of `rows` rows is [10 i, 10 i + 1].
Tensor TableRows(const std::vector<int>& rows) {
  Tensor t(DType::kDouble, {static_cast<int64_t>(rows.size()), 2});
  for (size_t i = 0; i < rows.size(); ++i) {
    t.data<double>()[2 * i] = 10 * rows[i];
    t.data<double>()[2 * i + 1] = 10 * rows[i] + 1;
  }
  return t;
}

std::vector<Variable> Parts(const Scope& s, const std::vector<std::vector<int>>& rows, bool resource) {
  std::vector<Variable> parts;
  VariableOptions options;
  options.use_resource = resource;
  for (const std::vector<int>& r : rows) {
    parts.emplace_back(s.WithOpName(StrCat("part_", parts.size())), Const(s, Literal(TableRows(r))), options);
  }
  return parts;
}

BOOST_AUTO_TEST_CASE(every_parting_finds_the_rows) {
  struct Try {
    std::vector<std::vector<int>> rows;
    train::Parting parting;
  };
  const std::vector<Try> tries = {{{{0, 1, 2, 3, 4, 5, 6}}, train::Parting::kMod},
                                  {{{0, 3, 6}, {1, 4}, {2, 5}}, train::Parting::kMod},
                                  {{{0, 1, 2}, {3, 4}, {5, 6}}, train::Parting::kDiv}};
  for (size_t k = 0; k < tries.size(); ++k) {
    for (const bool resource : {true, false}) {
      for (const bool wide : {true, false}) {
        const Scope s = Scope::NewRootScope();
        const std::vector<Variable> parts = Parts(s, tries[k].rows, resource);
        const Output ids = wide ? Const(s, {{int64_t{5}, int64_t{0}, int64_t{6}}, {int64_t{3}, int64_t{5}, int64_t{1}}})
                                : Const(s, {{5, 0, 6}, {3, 5, 1}});
        const Output rows = train::EmbeddingLookup(s, parts, ids, tries[k].parting);
        BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
        BOOST_TEST(rows.shape().DebugString() == "[2,3,2]");
        const Output loss = Build(s, "Sum", {rows * rows, Const(s, {0, 1, 2})});
        const std::vector<Output> grads = Gradients(s, {loss}, std::vector<Output>(parts.begin(), parts.end()));
        BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
        const auto session = Start(s);
        CheckNear(Doubles(Fetch(*session, {rows})[0]), {50, 51, 0, 1, 60, 61, 30, 31, 50, 51, 10, 11}, 0, "rows");
        // d(x^2) = 2 x, twice for row 5, nothing for rows 2 and 4.
        for (size_t p = 0; p < parts.size(); ++p) {
          BOOST_TEST(IsSlices(grads[p].out()));
          std::vector<double> want;
          for (int row : tries[k].rows[p]) {
            const double times = row == 5 ? 4 : row == 2 || row == 4 ? 0 : 2;
            want.push_back(times * 10 * row);
            want.push_back(times * (10 * row + 1));
          }
          CheckNear(Doubles(Fetch(*session, {grads[p]})[0]), want, 0, "gradient");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_looked_up) {
  const Scope none = Scope::NewRootScope();
  train::EmbeddingLookup(none, std::vector<Variable>(), Const(none, {1}));
  BOOST_TEST(none.status().ToString().find("no table") != std::string::npos);

  const Scope s = Scope::NewRootScope();
  const std::vector<Variable> parts = Parts(s, {{0, 1, 2}, {3, 4}}, true);
  const Output ids = Build(s.WithOpName("ids"), "Placeholder", {},
                           {{"dtype", DType::kInt32}, {"shape", PartialTensorShape(TensorShape({1}))}});
  const Output rows = train::EmbeddingLookup(s, parts, ids, train::Parting::kDiv);
  const auto session = Start(s);
  for (const int32_t id : {5, -1, 100}) {
    std::vector<Tensor> out;
    const absl::Status status = session->Run({{"ids", Tensor::Vector<int32_t>({id})}}, {rows.name()}, {}, &out);
    BOOST_TEST(absl::IsInvalidArgument(status), id << ": " << status);
  }
}

}  // namespace embedding_test
}  // namespace troupe::testing
