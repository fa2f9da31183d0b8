// Runtimes with a memory limit: what counts, what does not, and tensors that outlive them.
#include "tests/actors/graphs.h"

namespace troupe {
namespace memory_limit_test {

SessionOptions Limited(int64_t bytes) {
  SessionOptions o;
  o.runtime = Runtime::Start({.threads = 1, .memory_limit = bytes}).value();
  return o;
}
AllocatorStats Memory(const SessionOptions& o) { return o.runtime->devices()[0].memory; }

BOOST_AUTO_TEST_CASE(tensors_outlive_their_runtime) {
  std::vector<Tensor> out, views;
  {
    Scope root = Scope::NewRootScope();
    Output x = ops::Placeholder(root, DType::kFloat);
    Output sum = ops::Add(root, x, x);
    Output word = ops::Placeholder(root, DType::kString), text = ops::Fill(root, ops::Shape(root, sum), word);
    OutputList rows = ops::Unpack(root, ops::Neg(root, x), 2, {.axis = 0});
    SessionOptions o = Limited(64 << 20);
    auto session = NewSession(root, o);
    for (const int64_t n : {1, 4, 1 << 17}) {
      std::vector<Tensor> some;
      TROUPE_REQUIRE_OK(
          session->Run({{x.name(), Tensor::Of<float>(std::vector<float>(2 * n, 1.5f), TensorShape({2, n}))},
                        {word.name(), Tensor::Scalar("a word that needs memory of its own")}},
                       {sum.name(), text.name(), rows[0].name(), rows[1].name()}, {}, &some));
      for (Tensor& t : some) out.push_back(t);
      views.push_back(some[0].Slice(1, 2));
      views.push_back(some[1].Slice(0, 1));
      views.push_back(some[0].Clone());
    }
    BOOST_TEST(Memory(o).bytes_in_use > 3 << 20);
  }
  for (const Tensor& t : out) BOOST_TEST(t.num_elements() > 0);
  BOOST_TEST(out[8].data<float>()[0] == 3);
  BOOST_TEST(out[9].data<std::string>()[0] == "a word that needs memory of its own");
  BOOST_TEST(out[11].data<float>()[(1 << 17) - 1] == -1.5f);
  out.clear();
  views.push_back(views[0].Slice(0, 1));
  BOOST_TEST(views[6].data<float>()[0] == 3);
  BOOST_TEST(views[7].data<std::string>()[5].size() == 35);
  BOOST_TEST(views.back().data<float>()[0] == 3);
}

// 500 outputs of 8 KB a step. The program keeps tensors of its own, which come from the blocks that
// the step has freed.
BOOST_AUTO_TEST_CASE(what_the_program_keeps_is_not_charged) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root, DType::kFloat);
  std::vector<std::string> fetches;
  for (int i = 0; i < 500; ++i) fetches.push_back(ops::Mul(root, x, ops::Const(root, 1.0f * i)).name());
  SessionOptions o = Limited(8 << 20);
  auto session = NewSession(root, o);
  const Tensor v(DType::kFloat, TensorShape({2000}));
  std::vector<Tensor> mine;
  for (int round = 0; round < 5; ++round) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({{x.name(), v}}, fetches, {}, &out));
    BOOST_TEST(Memory(o).bytes_in_use == 500 * 8192);
    out.clear();
    BOOST_TEST(Memory(o).bytes_in_use == 0);
    BOOST_TEST(Memory(o).peak_bytes_in_use < 6 << 20);
    for (int i = 0; i < 500; ++i) mine.emplace_back(DType::kFloat, TensorShape({2000}));
  }
  // And the limit holds, although the process has free blocks enough.
  mine.clear();
  std::vector<Tensor> first, second;
  TROUPE_REQUIRE_OK(session->Run({{x.name(), v}}, fetches, {}, &first));
  TROUPE_REQUIRE_OK(session->Run({{x.name(), v}}, fetches, {}, &second));
  std::vector<Tensor> third;
  const absl::Status s = session->Run({{x.name(), v}}, fetches, {}, &third);
  BOOST_TEST(s.code() == absl::StatusCode::kResourceExhausted, s);
  BOOST_TEST(Memory(o).bytes_in_use == 1000 * 8192);
  first.clear();
  second.clear();
  BOOST_TEST(Memory(o).bytes_in_use == 0);
  TROUPE_REQUIRE_OK(session->Run({{x.name(), v}}, fetches, {}, &third));
}

// The limit holds the result and nothing more: a view of it is refused, and does not come out as a
// value that is not there.
BOOST_AUTO_TEST_CASE(views_are_charged_and_refused) {
  constexpr int64_t kRow = 87376, kCharge = 1 << 20;  // 3 rows, whose bytes are multiples of 64
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape({3, kRow})}), neg = ops::Neg(root, x);
  const Tensor rows = Tensor::Of<float>(std::vector<float>(3 * kRow, 2.0f), TensorShape({3, kRow}));
  const Output views[] = {
      ops::Unpack(root, neg, 3)[1], ops::Split(root, ops::Const(root, 0), neg, 3)[1],
      ops::Slice(root, neg, ops::Const(root, {1, 0}), ops::Const(root, {1, -1})),
      ops::StridedSlice(root, neg, ops::Const(root, {1}), ops::Const(root, {2}), ops::Const(root, {1}))};
  for (const int64_t more : {0, 3 * 64}) {
    SessionOptions o = Limited(kCharge + more);
    auto session = NewSession(root, o);
    for (const Output& view : views) {
      std::vector<Tensor> out;
      const absl::Status s = session->Run({{x.name(), rows}}, {view.name()}, {}, &out);
      if (more == 0) {
        BOOST_TEST(s.code() == absl::StatusCode::kResourceExhausted, s);
      } else {
        BOOST_REQUIRE_MESSAGE(s.ok(), s);
        BOOST_TEST(out[0].data<float>()[kRow - 1] == -2);
        BOOST_TEST(Memory(o).bytes_in_use == kCharge + 64);
      }
      out.clear();
      BOOST_TEST(Memory(o).bytes_in_use == 0);
    }
  }
}

// Small floats are computed in float32: the wide copies count, and where there is no room for them
// the step fails.
BOOST_AUTO_TEST_CASE(wide_copies_are_charged) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kHalf);
  const Output results[] = {ops::Relu(root, x), ops::Softmax(root, x), ops::LogSoftmax(root, x)};
  const auto feed = [&x](int64_t rows) {
    Tensor t(DType::kHalf, TensorShape({rows, 1024}));
    std::memset(t.raw(), 0, t.bytes());
    return Feeds{{x.name(), t}};
  };
  SessionOptions o = Limited(1 << 20);
  auto session = NewSession(root, o);
  for (const Output& y : results) {
    std::vector<Tensor> out;
    BOOST_TEST(!session->Run(feed(300), {y.name()}, {}, &out).ok(), y.name());
    BOOST_TEST(Memory(o).bytes_in_use == 0);
    TROUPE_REQUIRE_OK(session->Run(feed(100), {y.name()}, {}, &out));
    BOOST_TEST(Memory(o).bytes_in_use >= 100 * 1024 * 2);
    out.clear();
    BOOST_TEST(Memory(o).bytes_in_use == 0);
  }
}

// A variable keeps what its initialiser computed; the copy that an update makes because the old
// value is still held is charged as well.
BOOST_AUTO_TEST_CASE(variables_are_charged) {
  constexpr int64_t kElements = (1 << 18) - 16, kCharge = 1 << 20;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = TensorShape({kElements})});
  const Variable v(root, ops::Neg(root, x), {.name = "v"});
  const Output add = v.AssignAdd(root, x), read = v.Read(root);
  SessionOptions o = Limited(8 * kCharge);
  auto session = NewSession(root, o);
  const Feeds feeds = {{x.name(), Tensor::Of<float>(std::vector<float>(kElements, 2.0f), TensorShape({kElements}))}};
  TROUPE_REQUIRE_OK(session->Run(feeds, {}, {v.initializer().name()}, nullptr));
  BOOST_TEST(Memory(o).bytes_in_use == kCharge);
  std::vector<Tensor> kept;
  for (int i = 1; i <= 3; ++i) {
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({}, {read.name()}, {}, &out));
    kept.push_back(out[0]);
    out.clear();
    TROUPE_REQUIRE_OK(session->Run(feeds, {}, {add.node()->name()}, nullptr));
    BOOST_TEST(Memory(o).bytes_in_use == (1 + i) * kCharge);
  }
  BOOST_TEST(kept[2].data<float>()[5] == 2);
  kept.clear();
  BOOST_TEST(Memory(o).bytes_in_use == kCharge);
  TROUPE_REQUIRE_OK(session->Run(feeds, {}, {add.node()->name()}, nullptr));
  BOOST_TEST(Memory(o).bytes_in_use == kCharge);
}

}  // namespace memory_limit_test
}  // namespace troupe
