// Values on their way through an executor: moved, shared at once, or lent. Counts of references tell whether each one that was taken is given back, and
// shapes that do not lie within a tensor show that the executor knows how tensors lie in memory.
#include <boost/test/unit_test.hpp>

#include "actors/graphs.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

// True when every reference that the executor took has been given back.
bool SoleOwner(const Tensor& t) { return t.BufferUnique(); }

absl::StatusOr<std::unique_ptr<Session>> Start(const Scope& root, bool token_messages) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  SessionOptions options;
  options.runtime_options.threads = 1;
  options.fold_constants = false;
  options.merge_common_subexpressions = false;
  options.token_messages = token_messages;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> s, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(s->Extend(*root.graph()));
  return s;
}

void InBothModes(const Scope& root, const std::function<void(Session&)>& check) {
  for (const bool token_messages : {false, true}) {
    BOOST_TEST_CONTEXT("token_messages " << token_messages) {
      auto session = Start(root, token_messages);
      BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
      check(**session);
    }
  }
}

BOOST_AUTO_TEST_CASE(AnArgumentIsTheCallersOwnAgainAfterTheStep) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), same = ops::Identity(root, x);
  const Output flat = ops::Reshape(root, x, ops::Const(root, {-1}));  // takes its input for its output
  const Output sum = ops::Add(root, ops::Add(root, x, same), ops::Add(root, x, ops::Neg(root, same)));
  InBothModes(root, [&](Session& s) {
    const Tensor value = Tensor::Of<float>({1, 2, 3, 4}, TensorShape({2, 2}));
    for (int step = 0; step < 5; ++step) {
      std::vector<Tensor> out;
      const absl::Status status = s.Run({{x.name(), value}}, {flat.name(), sum.name(), same.name()}, {}, &out);
      BOOST_REQUIRE_MESSAGE(status.ok(), status);
      BOOST_TEST(!SoleOwner(value));  // `out` shares it
      BOOST_TEST(out[0].DebugString() == "float32 [4] [1 2 3 4]");
      BOOST_TEST(out[1].DebugString() == "float32 [2,2] [2 4 6 8]");
      BOOST_TEST(out[2].DebugString() == "float32 [2,2] [1 2 3 4]");
      out.clear();
      BOOST_TEST(SoleOwner(value));
      BOOST_TEST(value.DebugString() == "float32 [2,2] [1 2 3 4]");
    }
  });
}

BOOST_AUTO_TEST_CASE(AConstantThatAKernelTakesIsThereInTheNextStep) {
  Scope root = Scope::NewRootScope();
  const Output c = ops::Const(root, {1.0f, 2.0f, 3.0f, 4.0f});
  const Output square = ops::Reshape(root, c, ops::Const(root, {2, 2})), twice = ops::Add(root, square, square);
  const Output kept = ops::Identity(root, ops::Identity(root, c));
  InBothModes(root, [&](Session& s) {
    std::vector<Tensor> held;
    for (int step = 0; step < 5; ++step) {
      std::vector<Tensor> out;
      const absl::Status status = s.Run({}, {square.name(), twice.name(), kept.name(), c.name()}, {}, &out);
      BOOST_REQUIRE_MESSAGE(status.ok(), status);
      BOOST_TEST(out[0].DebugString() == "float32 [2,2] [1 2 3 4]");
      BOOST_TEST(out[1].DebugString() == "float32 [2,2] [2 4 6 8]");
      BOOST_TEST(out[2].DebugString() == "float32 [4] [1 2 3 4]");
      BOOST_TEST(out[3].DebugString() == "float32 [4] [1 2 3 4]");
      held.push_back(out[0]);
    }
    for (const Tensor& t : held) BOOST_TEST(t.DebugString() == "float32 [2,2] [1 2 3 4]");
  });
}

// Six dimensions, and one that 32 bits do not hold.
BOOST_AUTO_TEST_CASE(ShapesOnTheHeap) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output a = ops::Neg(root, x), b = ops::Abs(root, a), c = ops::Add(root, a, x), d = ops::Square(root, a);
  const Output shape = ops::Shape(root, x), fixed = ops::Reshape(root, x, shape);
  for (const TensorShape& dims : {TensorShape({1, 2, 1, 1, 1, 2}), TensorShape({int64_t{1} << 33, 0})}) {
    const Tensor value = [&] {
      Tensor t(DType::kFloat, dims);
      for (float& v : t.flat<float>()) v = 3;
      return t;
    }();
    const bool wide = dims.rank() == 2;
    InBothModes(root, [&](Session& s) {
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> out;
        Names fetches = {a.name(), b.name(), c.name(), d.name()};
        if (!wide) fetches.push_back(fixed.name());  // a size of 2^33 is no int32
        const absl::Status status = s.Run({{x.name(), value}}, fetches, {}, &out);
        BOOST_REQUIRE_MESSAGE(status.ok(), status);
        const float want[] = {-3, 3, 0, 9, 3};
        for (size_t i = 0; i < out.size(); ++i) {
          BOOST_TEST(out[i].HasShape(dims));
          for (const float v : out[i].flat<float>()) BOOST_TEST(v == want[i]);
        }
      }
      BOOST_TEST(SoleOwner(value));
    });
  }
}

BOOST_AUTO_TEST_CASE(AFailureGivesBackWhatWasLent) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Output late = ops::Add(root, ops::Neg(root, x), x), bad = ops::Reshape(root, x, ops::Const(root, {7}));
  const Output sum = ops::Add(root, late, bad);
  InBothModes(root, [&](Session& s) {
    const Tensor value = Tensor::Of<float>({1, 2}, TensorShape({2}));
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor> out;
      BOOST_TEST(!s.Run({{x.name(), value}}, {sum.name()}, {}, &out).ok());
      BOOST_TEST(SoleOwner(value));
    }
  });
}

}  // namespace
}  // namespace troupe
