// The code of docs/guide/sparse_gradients.md.
#include "tests/docs/pages.h"
#include "troupe/indexed_slices.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/embedding.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(rows_of_a_table_are_trained) {
  // [lookup]
  Scope root = Scope::NewRootScope();
  Variable table(root.WithOpName("table"), init::RandomUniform(-0.1, 0.1, 7)(root, {1000, 16}, DType::kFloat));
  Output words = ops::Placeholder(root.WithOpName("words"), DType::kInt32, {.shape = {-1}});
  Output rows = train::EmbeddingLookup(root, table, words);  // [number of words, 16]
  Output loss = ops::Sum(root, ops::Square(root, rows));
  Operation step = train::Adagrad(0.1).Minimize(root, loss);  // reads and writes the rows of the words, no others
  // [/lookup]
  // [slices]
  Output grad = Gradients(root, {loss}, {table})[0];           // [1000, 16], computed when it is fetched
  std::optional<IndexedSlices> slices = SlicesOf(root, grad);  // what it is built of
  IndexedSlices once = SumDuplicates(root, *slices);           // each row once
  Output halved = FromSlices(root, {once.values * 0.5f, once.indices, once.dense_shape});
  // [/slices]
  Operation init = GlobalVariablesInitializer(root);
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  std::vector<Tensor> out;
  s = session->Run({{words, Tensor::Vector<int32_t>({5, 9, 5})}},
                   {grad, slices->values, slices->indices, once.indices, halved, table}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].TypeAndShape() == "float32 [1000,16]");
  BOOST_TEST(out[1].TypeAndShape() == "float32 [3,16]");
  BOOST_TEST(out[2].DebugString() == "int32 [3] [5 9 5]");
  BOOST_TEST(out[3].DebugString() == "int32 [2] [5 9]");
  BOOST_TEST(out[0].data<float>()[5 * 16] == 4 * out[5].data<float>()[5 * 16]);
  BOOST_TEST(out[4].data<float>()[5 * 16] == 2 * out[5].data<float>()[5 * 16]);
  const Tensor before = *session->Get(table);
  s = session->Run({{words, Tensor::Vector<int32_t>({5, 9, 5})}}, {}, {step}, nullptr);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  const Tensor after = *session->Get(table);
  for (int i = 0; i < 16000; ++i)
    BOOST_TEST((before.data<float>()[i] != after.data<float>()[i]) == (i / 16 == 5 || i / 16 == 9));
}

}  // namespace
}  // namespace troupe
