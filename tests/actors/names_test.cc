// Sessions take names as text and as builders returned them; Get and Set of variables.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

#include "troupe/ops.h"
#include "troupe/troupe.h"

namespace troupe {
namespace names_test {

BOOST_AUTO_TEST_SUITE(names)

std::unique_ptr<Session> SessionOf(const Scope& root) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const absl::Status s = (*session)->Extend(*root.graph());
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  return *std::move(session);
}

void RequireOk(const absl::Status& s) { BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString()); }

BOOST_AUTO_TEST_CASE(what_builders_return_is_a_name) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 3.0f;
  const Variable w(root.WithOpName("w"), 4.0f);
  const Output next = w.AssignAdd(root, x);
  const Operation init = GlobalVariablesInitializer(root);
  const auto session = SessionOf(root);
  RequireOk(session->Run({}, {}, {init}, nullptr));
  const Tensor two = Tensor::Scalar(2.0f);
  std::vector<Tensor> out;
  RequireOk(session->Run({{x, two}}, {y, w, "x"}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 6.0f);
  BOOST_TEST(out[1].scalar<float>() == 4.0f);
  BOOST_TEST(out[2].scalar<float>() == 2.0f);
  // An Output as a target is its node.
  RequireOk(session->Run({{"x:0", two}}, {}, {next}, nullptr));
  const Callable call = *session->Prepare({x}, {y}, {next});
  RequireOk(call.Run({two}, &out));
  RequireOk(session->Run({}, {w}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 8.0f);
}

BOOST_AUTO_TEST_CASE(vectors_of_what_builders_return_are_lists) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const std::vector<Output> fetches = {x + 1.0f, x + 2.0f};
  const std::vector<Operation> targets = {fetches[0], fetches[1]};
  const std::vector<std::pair<Output, Tensor>> feeds = {{x, Tensor::Scalar(1.0f)}};
  const auto session = SessionOf(root);
  std::vector<Tensor> out;
  RequireOk(session->Run(feeds, fetches, targets, &out));
  BOOST_TEST(out[1].scalar<float>() == 3.0f);
  const Feeds old_feeds = {{"Placeholder", Tensor::Scalar(5.0f)}};
  const Names old_names = {fetches[0].name()};
  RequireOk(session->Run(old_feeds, old_names, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 6.0f);
}

BOOST_AUTO_TEST_CASE(partial_and_asynchronous_runs_take_them_too) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat), y = x * 2.0f;
  const auto session = SessionOf(root);
  const auto handle = session->PartialRunSetup({x}, {y}, {});
  RequireOk(handle.status());
  std::vector<Tensor> out;
  RequireOk(session->PartialRun(*handle, {{x, Tensor::Scalar(3.0f)}}, {y}, &out));
  BOOST_TEST(out[0].scalar<float>() == 6.0f);
  auto answer = std::make_shared<std::promise<float>>();
  session->RunAsync({{x, Tensor::Scalar(4.0f)}}, {y}, {}, [answer](absl::Status s, std::vector<Tensor> got) {
    answer->set_value(s.ok() ? got[0].scalar<float>() : -1.0f);
  });
  BOOST_TEST(answer->get_future().get() == 8.0f);
}

// A null pointer is no name: written out it does not compile, and at run time it is an empty one.
static_assert(!std::is_constructible_v<GraphName, std::nullptr_t>);
static_assert(!std::is_convertible_v<std::nullptr_t, NameList> && !std::is_convertible_v<std::nullptr_t, FeedList>);
static_assert(std::is_convertible_v<const char*, GraphName>);

BOOST_AUTO_TEST_CASE(a_null_pointer_is_an_empty_name) {
  const Scope root = Scope::NewRootScope();
  const Output c = Const(root, 1.0f);
  const auto session = SessionOf(root);
  const char* const none = nullptr;
  std::vector<Tensor> out;
  BOOST_TEST(absl::IsInvalidArgument(session->Run({}, {none}, {}, &out)));
  BOOST_TEST(absl::IsInvalidArgument(session->Get(none).status()));
}

BOOST_AUTO_TEST_CASE(get_of_a_handle_says_what_to_get) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("fc/w"), 1.0f);
  const auto session = SessionOf(root);
  RequireOk(session->Set(w, Tensor::Scalar(2.0f)));
  for (const GraphName& name : {GraphName("fc/w"), GraphName("fc/w:0"), GraphName(w.handle())}) {
    const absl::Status s = session->Get(name).status();
    BOOST_TEST(absl::IsInvalidArgument(s));
    BOOST_TEST(s.message() ==
               "Get of 'fc/w': this is a resource handle, not a value; to get the value of a variable, give Get the "
               "Variable, or the name of a node that reads it ('fc/w/Read' when a Variable built it)");
  }
  BOOST_TEST(session->Get("fc/w/Read")->scalar<float>() == 2.0f);
}

// A callback that comes on a thread of the runtime's.
BOOST_AUTO_TEST_CASE(get_and_set_in_a_callback_are_refused_by_their_names) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 1.0f);
  SessionOptions options;
  options.lend_thread_us = 0;
  const auto session = *Session::Create(options);
  RequireOk(session->Extend(*root.graph()));
  RequireOk(session->Set(w, Tensor::Scalar(2.0f)));
  std::promise<std::pair<absl::Status, absl::Status>> answer;
  session->RunAsync({}, {w}, {}, [&](absl::Status, std::vector<Tensor>) {
    answer.set_value({session->Get(w).status(), session->Set(w, Tensor::Scalar(3.0f))});
  });
  const auto [get, set] = answer.get_future().get();
  const std::string rest = " waits for other threads, so it may not be called in an actor's handler or a callback";
  BOOST_TEST(get.message() == "Get" + rest);
  BOOST_TEST(set.message() == "Set" + rest);
}

BOOST_AUTO_TEST_CASE(an_update_that_is_fetched_by_its_name_is_refused_with_the_name_of_its_value) {
  const Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), 1.0f);
  const Output count = v.AssignAdd(root.WithOpName("count"), 1.0f);
  BOOST_TEST(count.name() == "count/Read:0");
  const auto session = SessionOf(root);
  std::vector<Tensor> out;
  BOOST_TEST(
      session->Run({}, {"count"}, {}, &out).message() ==
      "fetch 'count': node 'count' (AssignAddVariableOp) has 0 outputs; it can be a target, and the value behind "
      "it is 'count/Read'");
  BOOST_TEST(session->Run({}, {v.initializer().name()}, {}, &out).message() ==
             "fetch 'v/Assign': node 'v/Assign' (AssignVariableOp) has 0 outputs; it can be a target");
}

BOOST_AUTO_TEST_CASE(an_invalid_output_is_refused) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const auto session = SessionOf(root);
  std::vector<Tensor> out;
  const absl::Status s = session->Run({}, {Output()}, {}, &out);
  BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(
      s.message() ==
      "a fetch has an empty name. An invalid Output has one: its builder failed, and the scope's status() says why; or "
      "its node has no such output");
  BOOST_TEST(session->Run({}, {}, {"Placeholder:1"}, &out).message() ==
             "the graph has no node for target 'Placeholder:1'; did you mean 'Placeholder'?");
  BOOST_TEST(session->Run({}, {}, {Operation()}, &out).message() ==
             "a target has an empty name. An invalid Operation has one: its builder failed, and the scope's status() "
             "says why; or it was made empty");
}

// Both kinds of variables.
BOOST_AUTO_TEST_CASE(get_and_set_a_variable) {
  for (const bool resource : {true, false}) {
    const Scope root = Scope::NewRootScope();
    const Variable w(root.WithOpName("w"), {1.0f, 2.0f}, {.use_resource = resource});
    const auto session = SessionOf(root);
    BOOST_TEST(session->Get(w).status().code() == absl::StatusCode::kFailedPrecondition);  // not initialised
    Tensor value = Tensor::Of<float>({3.0f, 4.0f}, TensorShape({2}));
    RequireOk(session->Set(w, value));
    value.data<float>()[0] = 99.0f;  // the variable has a copy
    const absl::StatusOr<Tensor> before = session->Get(w);
    RequireOk(before.status());
    BOOST_TEST(before->DebugString() == "float32 [2] [3 4]");
    RequireOk(session->Set(w, Tensor::Of<float>({5.0f, 6.0f}, TensorShape({2}))));
    BOOST_TEST(before->DebugString() == "float32 [2] [3 4]");  // a snapshot
    BOOST_TEST(session->Get("w/Read:0")->DebugString() == "float32 [2] [5 6]");
    BOOST_TEST(session->Set(w, Tensor::Scalar(1.0)).code() == absl::StatusCode::kInvalidArgument);
    BOOST_TEST(session->Set(w, Tensor::Of<float>({1, 2, 3}, TensorShape({3}))).code() ==
               absl::StatusCode::kInvalidArgument);
    BOOST_TEST(session->Set(w, Tensor()).code() == absl::StatusCode::kInvalidArgument);
    BOOST_TEST(session->Set(Variable(), value).code() == absl::StatusCode::kInvalidArgument);
    BOOST_TEST(session->Get(w)->DebugString() == "float32 [2] [5 6]");
    // The graph may still grow.
    const Variable later(root.WithOpName("later"), 1.0f, {.use_resource = resource});
    BOOST_TEST(!session->Set(later, Tensor::Scalar(1.0f)).ok());
    RequireOk(session->Extend(*root.graph()));
    RequireOk(session->Set(later, Tensor::Scalar(7.0f)));
    BOOST_TEST(session->Get(later)->scalar<float>() == 7.0f);
  }
}

BOOST_AUTO_TEST_CASE(what_get_gave_is_the_callers_alone) {
  const Scope root = Scope::NewRootScope();
  const Variable a(root.WithOpName("a"), {1.0f, 2.0f}), b(root.WithOpName("b"), {1.0f, 2.0f});
  const Operation init = GlobalVariablesInitializer(root);
  const auto session = SessionOf(root);
  RequireOk(session->Run({}, {}, {init}, nullptr));
  Tensor got = *session->Get(a);
  got.data<float>()[0] = 100.0f;
  BOOST_TEST(session->Get(a)->DebugString() == "float32 [2] [1 2]");
  BOOST_TEST(session->Get(b)->DebugString() == "float32 [2] [1 2]");
}

BOOST_AUTO_TEST_CASE(set_of_what_the_session_does_not_have_leaves_it_as_it_is) {
  const Scope root = Scope::NewRootScope(), other = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 1.0f), same_name(other.WithOpName("w"), 1);
  const Variable nope(other.WithOpName("nope"), 1.0f);
  const Variable rows(root.WithOpName("rows"), {{1.0f, 2.0f, 3.0f}}, {.shape = {-1, 3}, .use_resource = false});
  const auto session = SessionOf(root);
  BOOST_TEST(!session->Set(same_name, Tensor::Scalar(3)).ok());
  RequireOk(session->Set(w, Tensor::Scalar(3.0f)));
  BOOST_TEST(session->Get(w)->scalar<float>() == 3.0f);
  BOOST_TEST(absl::IsNotFound(session->Set(nope, Tensor::Scalar(3.0f))));
  const absl::Status s = session->Set(rows, Tensor::Vector<float>({1, 2}));
  BOOST_TEST(s.message() == "Set of 'rows': the variable is float32 [?,3], but the value is float32 [2]");
  RequireOk(session->Set(rows, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({2, 3}))));
}

BOOST_AUTO_TEST_CASE(set_from_many_threads) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 0.0f);
  const auto session = SessionOf(root);
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) failed += !session->Set(w, Tensor::Scalar(static_cast<float>(t))).ok();
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(failed == 0);
  BOOST_TEST(session->Get(w)->scalar<float>() <= 3.0f);
}

BOOST_AUTO_TEST_CASE(reductions_without_axes_are_over_all_of_them) {
  const Scope root = Scope::NewRootScope();
  const Output known = Const(root, {{1.0f, 2.0f}, {3.0f, 6.0f}});
  const Output unknown = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output mean = ops::Mean(root.WithOpName("mean"), known), sum = ops::Sum(root.WithOpName("sum"), unknown);
  const Output kept = ops::Max(root, unknown, ops::MaxAttrs{.keep_dims = true});
  const Output rows = ops::Sum(root, known, {0});
  const Output all = ops::All(root, {true, false});
  BOOST_TEST(mean.name() == "mean:0");
  BOOST_TEST(sum.name() == "sum:0");
  BOOST_TEST(mean.shape().DebugString() == "[]");
  const auto session = SessionOf(root);
  std::vector<Tensor> out;
  RequireOk(session->Run({{unknown, Tensor::Of<float>({1, 2, 3, 4}, TensorShape({1, 2, 2}))}},
                         {mean, sum, kept, rows, all}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "float32 [] [3]");
  BOOST_TEST(out[1].DebugString() == "float32 [] [10]");
  BOOST_TEST(out[2].DebugString() == "float32 [1,1,1] [4]");
  BOOST_TEST(out[3].DebugString() == "float32 [2] [4 8]");
  BOOST_TEST(!out[4].scalar<bool>());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace names_test
}  // namespace troupe
