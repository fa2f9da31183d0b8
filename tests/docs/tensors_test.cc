// The code of docs/guide/tensors.md.
#include "tests/docs/pages.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

BOOST_AUTO_TEST_CASE(tensors_are_made) {
  // [make]
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Tensor matrix = Tensor::Of<float>(values, {2, 3});         // float32 [2,3], row by row; copies the values
  Tensor vector = Tensor::Vector<float>(values);             // float32 [6]
  Tensor row = Tensor::Vector<int32_t>({1, 2, 3});           // int32 [3]
  Tensor scalar = Tensor::Scalar(0.5f);                      // float32 []; 0.5 would be float64
  Tensor flag = Tensor::Scalar(true);                        // bool []
  Tensor big = Tensor::Scalar<int64_t>(1);                   // int64 []
  Tensor point = Tensor::Scalar(std::complex<float>(0, 1));  // complex64 []
  // [/make]
  BOOST_TEST(matrix.DebugString() == "float32 [2,3] [1 2 3 4 5 6]");
  BOOST_TEST(vector.TypeAndShape() == "float32 [6]");
  BOOST_TEST(row.TypeAndShape() == "int32 [3]");
  BOOST_TEST(scalar.DebugString() == "float32 [] [0.5]");
  BOOST_TEST(flag.TypeAndShape() == "bool []");
  BOOST_TEST(big.TypeAndShape() == "int64 []");
  BOOST_TEST(point.TypeAndShape() == "complex64 []");

  // [fill]
  Tensor image(DType::kFloat, {28, 28});  // its elements have no value yet
  if (!image.valid()) return;             // memory is exhausted
  absl::Span<float> pixels = image.flat<float>();
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = i % 2;
  // [/fill]
  BOOST_TEST(image.flat<float>()[3] == 1);

  // [read]
  const Tensor t = matrix;
  int64_t rows = t.dim(0), columns = t.dim(1);
  float last = t.data<float>()[(rows - 1) * columns + 2];
  float sum = 0;
  for (float v : t.flat<float>()) sum += v;
  std::vector<float> back(t.flat<float>().begin(), t.flat<float>().end());
  float half = scalar.scalar<float>();
  std::string text = t.DebugString();  // "float32 [2,3] [1 2 3 4 5 6]"
  // [/read]
  BOOST_TEST(last == 6);
  BOOST_TEST(sum == 21);
  BOOST_TEST((back == values));
  BOOST_TEST(half == 0.5f);
  BOOST_TEST(text == "float32 [2,3] [1 2 3 4 5 6]");

  // [strings]
  Tensor word = Tensor::Scalar("north");
  Tensor words = Tensor::Vector<std::string>({"north", "south"});
  const std::string& second = words.flat<std::string>()[1];
  // [/strings]
  BOOST_TEST(word.DebugString() == "string [] [\"north\"]");
  BOOST_TEST(second == "south");

  // [half]
  Tensor h = Tensor::Vector<Half>({1.5f, 0.1f});  // float16; BFloat16 is the other one
  float rounded = h.flat<Half>()[1];              // 0.099975586
  // [/half]
  BOOST_TEST(rounded == 0.099975586f);
}

BOOST_AUTO_TEST_CASE(tensors_are_shared) {
  // [share]
  Tensor a = Tensor::Vector<float>({1, 2, 3, 4});
  Tensor b = a;                   // the same bytes
  Tensor c = a.Reshaped({2, 2});  // the same bytes, as a matrix
  Tensor d = a.Slice(1, 3);       // the same bytes, elements 1 and 2
  Tensor e = a.Clone();           // bytes of its own
  a.data<float>()[1] = 20;        // seen by a, b, c and d
  bool alone = e.BufferUnique();  // true; false for a, b, c and d
  // [/share]
  BOOST_TEST(b.DebugString() == "float32 [4] [1 20 3 4]");
  BOOST_TEST(c.DebugString() == "float32 [2,2] [1 20 3 4]");
  BOOST_TEST(d.DebugString() == "float32 [2] [20 3]");
  BOOST_TEST(e.DebugString() == "float32 [4] [1 2 3 4]");
  BOOST_TEST(alone);
  BOOST_TEST((!a.BufferUnique() && !b.BufferUnique() && !c.BufferUnique() && !d.BufferUnique()));

  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {2}});
  const Output total = ops::Sum(root, x);
  std::unique_ptr<Session> session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  float sum = 0;
  absl::Status status;
  // [batches]
  Tensor batch(DType::kFloat, {2});
  for (int i = 0; i < 10 && status.ok(); ++i) {
    if (!batch.BufferUnique()) batch = Tensor(DType::kFloat, {2});  // somebody kept the last one
    for (float& v : batch.flat<float>()) v = i;
    status = session->Run({{x, batch}}, {total}, {}, &out);
    if (status.ok()) sum += out[0].scalar<float>();
  }
  // [/batches]
  BOOST_REQUIRE_MESSAGE(status.ok(), status);
  BOOST_TEST(sum == 90);
}

BOOST_AUTO_TEST_CASE(wrong_access_throws) {
  std::string what;
  // [throws]
  Tensor t = Tensor::Vector<float>({1, 2, 3});
  try {
    t.data<double>();
  } catch (const std::logic_error& e) {
    what = e.what();
  }
  // [/throws]
  BOOST_TEST(Like(what + "\n", BlockOf("docs/guide/tensors.md", "message")), what);
}

}  // namespace
}  // namespace troupe
