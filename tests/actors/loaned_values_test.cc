// Values on their way through an executor: moved, shared at once, or loaned. Counts of references
// tell whether each one that was taken is given back, and shapes that do not lie within a tensor
// show that the executor knows how tensors lie in memory.
#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"
#include "troupe/troupe.h"

namespace troupe {
namespace loaned_values_test {

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

BOOST_AUTO_TEST_CASE(an_argument_is_the_callers_own_again_after_the_step) {
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
      BOOST_TEST(SoleOwner(value));  // `out` has copies
      BOOST_TEST(out[0].DebugString() == "float32 [4] [1 2 3 4]");
      BOOST_TEST(out[1].DebugString() == "float32 [2,2] [2 4 6 8]");
      BOOST_TEST(out[2].DebugString() == "float32 [2,2] [1 2 3 4]");
      out.clear();
      BOOST_TEST(SoleOwner(value));
      BOOST_TEST(value.DebugString() == "float32 [2,2] [1 2 3 4]");
    }
  });
}

// A fed tensor's references are not counted for the step; whoever keeps it has one, however it was
// made.
BOOST_AUTO_TEST_CASE(what_is_kept_of_an_argument_stays) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), text = ops::Placeholder(root, DType::kString);
  const Output same = ops::Identity(root, x), same_text = ops::Identity(root, text);
  const Variable v(root.WithOpName("v"), ops::Const(root, {0.0f, 0.0f, 0.0f}));
  const Output assign = v.Assign(root, x), add = v.AssignAdd(root, x);
  InBothModes(root, [&](Session& s) {
    std::vector<Tensor> kept, texts;
    for (int step = 0; step < 6; ++step) {
      const auto f = static_cast<float>(step);
      Tensor rows = Tensor::Of<float>({9, 9, 9, f, f + 1, f + 2}, TensorShape({2, 3}));
      std::vector<Tensor> out;
      absl::Status status;
      {
        // The feed goes with its last owner, before or after what was kept of it; a slice keeps the
        // whole.
        const Tensor row = step % 2 == 0 ? rows.Slice(1, 2).Reshaped(TensorShape({3}))
                                         : Tensor::Of<float>({f, f + 1, f + 2}, TensorShape({3}));
        rows = Tensor();
        const Tensor words =
            Tensor::Of<std::string>({StrCat("a long string that lies on the heap ", step)}, TensorShape({1}));
        status =
            s.Run({{x.name(), row}, {text.name(), words}}, {same.name(), same_text.name(), assign.name()}, {}, &out);
        BOOST_REQUIRE_MESSAGE(status.ok(), status);
        BOOST_TEST(words.BufferUnique());
        if (step % 2 == 1) BOOST_TEST(!row.BufferUnique());  // the variable has it, too
      }
      kept.push_back(out[0]);
      texts.push_back(out[1]);
      // The variable's update must not reach what it was assigned from.
      status = s.Run({{x.name(), Tensor::Of<float>({100, 100, 100}, TensorShape({3}))}}, {add.name()}, {}, &out);
      BOOST_REQUIRE_MESSAGE(status.ok(), status);
      BOOST_TEST(out[0].DebugString() == StrCat("float32 [3] [", 100 + step, " ", 101 + step, " ", 102 + step, "]"));
    }
    for (int step = 0; step < 6; ++step) {
      BOOST_TEST(kept[step].DebugString() == StrCat("float32 [3] [", step, " ", step + 1, " ", step + 2, "]"));
      BOOST_TEST(texts[step].scalar<std::string>() == StrCat("a long string that lies on the heap ", step));
    }
  });
}

BOOST_AUTO_TEST_CASE(a_step_may_be_fed_with_what_its_results_replace) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = ops::Placeholder(root, DType::kFloat);
  const Output sum = ops::Add(root, x, y), same = ops::Identity(root, y);
  InBothModes(root, [&](Session& s) {
    auto step = s.Prepare({x.name(), y.name()}, {same.name(), sum.name()}, {});
    BOOST_REQUIRE_MESSAGE(step.ok(), step.status());
    std::vector<Tensor> values = {Tensor::Of<float>({0, 1}, TensorShape({2})),
                                  Tensor::Of<float>({1, 1}, TensorShape({2}))};
    float a[2] = {0, 1}, b[2] = {1, 1};
    for (int i = 0; i < 12; ++i) {
      const absl::Status status = step->Run(values, &values);
      BOOST_REQUIRE_MESSAGE(status.ok(), status);
      for (int k = 0; k < 2; ++k) {
        const float c = a[k] + b[k];
        a[k] = b[k];
        b[k] = c;
        BOOST_TEST(values[0].data<float>()[k] == a[k]);
        BOOST_TEST(values[1].data<float>()[k] == b[k]);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_constant_that_a_kernel_takes_is_there_in_the_next_step) {
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
BOOST_AUTO_TEST_CASE(shapes_on_the_heap) {
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

BOOST_AUTO_TEST_CASE(a_failure_gives_back_what_was_lent) {
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

}  // namespace loaned_values_test
}  // namespace troupe
