// Whose a session's state is: its variables, random streams and counters in a runtime that several
// sessions live in.
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {
namespace session_state_test {

struct Model {
  explicit Model(float value, const VariableOptions& options = {}) {
    w = Variable(root.WithOpName("dense/kernel"), value, options);
    init = GlobalVariablesInitializer(root.WithOpName("init"));
    read = w.Read(root.WithOpName("read"));
    add = w.AssignAdd(root.WithOpName("add"), 1.0f);
  }
  std::unique_ptr<Session> In(const std::shared_ptr<Runtime>& runtime, bool share = false) const {
    SessionOptions options;
    options.runtime = runtime;
    options.share_variables = share;
    return NewSession(root, options);
  }
  void Init(Session& s) const { TROUPE_REQUIRE_OK(s.Run({}, {}, {init.name()}, nullptr)); }
  float Value(Session& s) const { return RunOne(s, {}, read).scalar<float>(); }
  absl::Status Read(Session& s) const {
    std::vector<Tensor> out;
    return s.Run({}, {read.name()}, {}, &out);
  }
  Scope root = Scope::NewRootScope();
  Variable w;
  Operation init;
  Output read, add;
};

struct OneRuntime {
  std::shared_ptr<Runtime> runtime = Runtime::Start({.threads = 2, .cpu_devices = 2}).value();
  std::vector<ResourceContainers::Listing> Entries() const {
    std::vector<ResourceContainers::Listing> all;
    for (const auto& d : runtime->impl()->devices) {
      for (auto& e : d->containers()->List()) all.push_back(std::move(e));
    }
    return all;
  }
};

void CheckFails(const absl::Status& s, absl::StatusCode code, const std::vector<std::string>& parts) {
  BOOST_TEST((s.code() == code), s);
  for (const std::string& part : parts) BOOST_TEST(s.ToString().find(part) != std::string::npos, s);
}

BOOST_FIXTURE_TEST_CASE(variables_of_one_name_are_each_sessions_own, OneRuntime) {
  for (const bool resource : {true, false}) {
    VariableOptions options;
    options.use_resource = resource;
    const Model a(1.0f, options), b(2.0f, options);
    auto in_a = a.In(runtime), in_b = b.In(runtime);
    a.Init(*in_a);
    // What nobody has initialised here is uninitialised, whatever another session has.
    CheckFails(b.Read(*in_b), absl::StatusCode::kFailedPrecondition, {"dense/kernel"});
    b.Init(*in_b);
    BOOST_TEST(a.Value(*in_a) == 1.0f);
    BOOST_TEST(b.Value(*in_b) == 2.0f);
  }
}

BOOST_FIXTURE_TEST_CASE(variables_are_shared_by_option_container_or_shared_name, OneRuntime) {
  const Model plain(1.0f);
  auto one = plain.In(runtime, true), two = plain.In(runtime, true), other = plain.In(runtime);
  plain.Init(*one);
  BOOST_TEST(plain.Value(*two) == 1.0f);
  BOOST_TEST(!plain.Read(*other).ok());
  for (const bool by_container : {true, false}) {
    for (const bool resource : {true, false}) {
      VariableOptions options;
      options.use_resource = resource;
      (by_container ? options.container : options.shared_name) = StrCat("ours", resource);
      const Model named(5.0f, options);
      auto first = named.In(runtime), second = named.In(runtime);
      named.Init(*first);
      BOOST_TEST(named.Value(*second) == 5.0f);
      first = nullptr;
      BOOST_TEST(named.Value(*second) == 5.0f);
    }
  }
}

// Copies of a variable's node bear its name as shared name: they are that variable in every
// session.
BOOST_FIXTURE_TEST_CASE(copies_of_a_variables_node_are_that_variable, OneRuntime) {
  for (const bool share : {false, true}) {
    Model m(3.0f);
    VariableOptions options;
    options.shared_name = "dense/kernel";
    const Variable copy(m.root.WithOpName("copy"), 9.0f, options);
    const Output by_copy = copy.Read(m.root.WithOpName("by_copy"));
    auto s = m.In(runtime, share), other = m.In(runtime, share);
    m.Init(*s);
    TROUPE_REQUIRE_OK(s->Run({}, {}, {m.w.initializer().name()}, nullptr));
    BOOST_TEST(RunOne(*s, {}, by_copy).scalar<float>() == 3.0f);
    BOOST_TEST(m.Read(*other).ok() == share);
  }
}

BOOST_FIXTURE_TEST_CASE(a_container_that_begins_with_a_slash_is_refused, OneRuntime) {
  VariableOptions options;
  options.container = "/session/1/variables";
  const Model m(1.0f, options);
  // Two sessions: whichever has this number, the other is kept out.
  auto a = m.In(runtime), b = m.In(runtime);
  const absl::Status one = a->Run({}, {}, {m.init.name()}, nullptr), two = b->Run({}, {}, {m.init.name()}, nullptr);
  CheckFails(one.ok() ? two : one, absl::StatusCode::kInvalidArgument, {"begins with '/'"});
}

BOOST_FIXTURE_TEST_CASE(a_variable_of_another_shape_or_type_under_a_shared_name_is_refused, OneRuntime) {
  for (const bool resource : {true, false}) {
    VariableOptions options;
    options.use_resource = resource;
    options.shared_name = StrCat("common", resource);
    Scope a = Scope::NewRootScope(), b = Scope::NewRootScope(), c = Scope::NewRootScope();
    const Variable va(a.WithOpName("a"), Const(a, {1.0f, 2.0f}), options);
    const Variable vb(b.WithOpName("b"), Const(b, {1.0f, 2.0f, 3.0f}), options);
    const Variable vc(c.WithOpName("c"), Const(c, {1, 2}), options);
    SessionOptions in;
    in.runtime = runtime;
    auto sa = NewSession(a, in), sb = NewSession(b, in), sc = NewSession(c, in);
    TROUPE_REQUIRE_OK(sa->Run({}, {}, {va.initializer().name()}, nullptr));
    std::vector<Tensor> out;
    CheckFails(sb->Run({}, {}, {vb.initializer().name()}, nullptr), absl::StatusCode::kInvalidArgument, {"[2]", "[3]"});
    CheckFails(sb->Run({}, {vb.name()}, {}, &out), absl::StatusCode::kInvalidArgument, {"[2]", "[3]"});
    CheckFails(sc->Run({}, {}, {vc.initializer().name()}, nullptr), absl::StatusCode::kInvalidArgument,
               {"float32", "int32"});
    TROUPE_REQUIRE_OK(sa->Run({}, {va.name()}, {}, &out));
  }
}

BOOST_FIXTURE_TEST_CASE(a_value_of_another_shape_than_the_handles_is_refused, OneRuntime) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Const(root, {1.0f, 2.0f}));
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output set = v.Assign(root.WithOpName("set"), x);
  SessionOptions in;
  in.runtime = runtime;
  auto s = NewSession(root, in);
  TROUPE_REQUIRE_OK(s->Run({}, {}, {v.initializer().name()}, nullptr));
  const Names target = {Operation(set).name()};
  CheckFails(s->Run({{"x", Tensor::Vector<float>({1, 2, 3})}}, {}, target, nullptr), absl::StatusCode::kInvalidArgument,
             {"'v'", "[2]", "[3]"});
  TROUPE_REQUIRE_OK(s->Run({{"x", Tensor::Vector<float>({4, 5})}}, {}, target, nullptr));
}

BOOST_FIXTURE_TEST_CASE(the_state_of_a_session_goes_with_it, OneRuntime) {
  Model m(1.0f);
  const Output r = ops::RandomUniform(m.root.WithOpName("r").WithDevice("/device:CPU:1"), Const(m.root, {4}),
                                      DType::kFloat, {.seed = 1});
  Tensor first;
  for (const bool close : {true, false}) {
    auto s = m.In(runtime);
    m.Init(*s);
    const Tensor drawn = RunOne(*s, {}, r);
    // Every session begins its streams anew.
    if (first.valid()) BOOST_TEST(first.DebugString(100) == drawn.DebugString(100));
    first = drawn;
    BOOST_TEST(Entries().size() == 2u);
    Callable kept = s->Prepare({}, {m.read.name()}, {}).value();
    if (close) TROUPE_REQUIRE_OK(s->Close());
    if (!close) s = nullptr;
    BOOST_TEST(Entries().empty());
    std::vector<Tensor> out;
    BOOST_TEST(kept.Run({}, &out).code() == absl::StatusCode::kCancelled);
  }
  // Steps that run while their session ends make nothing that stays.
  for (int i = 0; i < 20; ++i) {
    auto s = m.In(runtime);
    m.Init(*s);
    std::atomic<int> answered{0};
    for (int k = 0; k < 10; ++k) {
      s->RunAsync({}, {m.read.name(), r.name()}, {}, [&](absl::Status, std::vector<Tensor>) { ++answered; });
    }
    s = nullptr;
    for (int wait = 0; wait < 10000 && answered < 10; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    BOOST_REQUIRE(answered == 10);
  }
  for (int wait = 0; wait < 10000 && !Entries().empty(); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  BOOST_TEST(Entries().empty());
}

BOOST_FIXTURE_TEST_CASE(reset_of_the_default_container_drops_the_sessions_own_variables_and_no_others, OneRuntime) {
  const Model m(1.0f);
  auto s = m.In(runtime), other = m.In(runtime), shared = m.In(runtime, true);
  for (Session* each : {s.get(), other.get(), shared.get()}) m.Init(*each);
  TROUPE_REQUIRE_OK(s->Reset({"elsewhere"}));
  BOOST_TEST(m.Value(*s) == 1.0f);
  TROUPE_REQUIRE_OK(s->Reset({""}));
  CheckFails(m.Read(*s), absl::StatusCode::kFailedPrecondition, {"dense/kernel"});
  CheckFails(m.Read(*shared), absl::StatusCode::kFailedPrecondition, {"dense/kernel"});
  BOOST_TEST(m.Value(*other) == 1.0f);
  m.Init(*s);
  BOOST_TEST(m.Value(*s) == 1.0f);
}

}  // namespace session_state_test
}  // namespace troupe
