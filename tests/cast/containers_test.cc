// What devices and containers own: limits, trimming and holders of memory; snapshots of state that
// wait for updates, and restoring as a whole. Without a stage: memory and updates are the
// process's.
#include <future>
#include <thread>

#include "actors/messages/ask.h"
#include "actors/threads/aside.h"
#include "kernels/state/variable_slot.h"
#include "tests/cast/play.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/resource_state.h"

namespace troupe {
namespace containers_test {

BOOST_AUTO_TEST_SUITE(containers)

constexpr int64_t kMiB = 1 << 20;

struct OneDevice {
  explicit OneDevice(int64_t limit = 64 * kMiB)
      : runtime(Runtime::Start({.threads = 2, .memory_limit = limit}).value()), name(runtime->devices()[0].name) {
    options.runtime = runtime;
  }
  // Through bytes and without: the answers are the same.
  template <class Reply, class Message>
  Reply AskDevice(const Message& m) {
    CheckBytes(m);
    auto reply = Ask<Reply>(*runtime->impl()->system, DeviceActorOf(*runtime, name), m, true);
    BOOST_REQUIRE_MESSAGE(reply.ok(), reply.status());
    return *std::move(reply);
  }
  template <class Reply, class Message>
  Reply AskContainer(const Message& m) {
    CheckBytes(m);
    auto reply = Ask<Reply>(*runtime->impl()->system, ContainerActorOf(*runtime, name), m, true);
    BOOST_REQUIRE_MESSAGE(reply.ok(), reply.status());
    return *std::move(reply);
  }
  template <class Message>
  void CheckBytes(Message m) {
    BOOST_TEST(wire::ThroughBytes(*runtime->impl()->system, m).ok());
  }
  std::shared_ptr<VariableSlot> Slot(const std::string& of) {
    return runtime->impl()
        ->devices[0]
        ->containers()
        ->LookUpOrCreate<VariableSlot>(
            "c", of, [&] { return std::make_shared<VariableSlot>(of, DType::kFloat, TensorShape({2})); })
        .value();
  }
  std::shared_ptr<Runtime> runtime;
  std::string name;
  SessionOptions options;
};

Output Numbers(const Scope& root, const std::string& name, int mib) {
  return ops::RandomUniform(root.WithOpName(name), Const(root, {mib * int(kMiB / 4) - 16}), DType::kFloat);
}

BOOST_AUTO_TEST_CASE(edge_1_a_device_tells_who_holds_its_memory) {
  OneDevice one;
  const Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Numbers(root, "first", 2));
  const Operation init = GlobalVariablesInitializer(root.WithOpName("init"));
  const Output big = Numbers(root, "big", 5);
  // `big` waits in the slot of a node whose other input never comes.
  const Output y = ops::Add(root.WithOpName("y"), big, Never(root, Const(root, 1.0f)));
  auto session = NewSession(root, one.options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init.name()}, nullptr));
  device_stats stats = one.AskDevice<device_stats>(get_device_stats{});
  BOOST_TEST(stats.device.name == one.name);
  BOOST_TEST(stats.device.memory.bytes_limit == 64 * kMiB);
  BOOST_REQUIRE(stats.holders.size() == 1u);
  BOOST_TEST(stats.holders[0].what.find("variable 'v'") == 0u);
  BOOST_TEST(stats.holders[0].bytes == 2 * kMiB);
  std::promise<absl::Status> answer;
  session->RunAsync({}, {y.name()}, {}, [&](absl::Status s, std::vector<Tensor>) { answer.set_value(std::move(s)); });
  for (int tries = 0; tries < 200 && stats.holders.size() < 2; ++tries) {
    stats = one.AskDevice<device_stats>(get_device_stats{});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  BOOST_REQUIRE(stats.holders.size() == 2u);
  BOOST_TEST(stats.holders[0].what == "node 'big' (RandomUniform)");
  BOOST_TEST(stats.holders[0].bytes == 5 * kMiB);
  BOOST_TEST(stats.holders[0].tensors == 1);
  TROUPE_REQUIRE_OK(session->Close());
  BOOST_TEST((answer.get_future().get().code() == absl::StatusCode::kCancelled));
}

BOOST_AUTO_TEST_CASE(edge_2_a_limit_holds_from_when_it_is_set) {
  OneDevice one;
  const Scope root = Scope::NewRootScope();
  const Output y = Numbers(root, "y", 8);
  auto session = NewSession(root, one.options);
  const auto run = [&] {
    std::vector<Tensor> out;
    return session->Run({}, {y.name()}, {}, &out).code();
  };
  BOOST_TEST((run() == absl::StatusCode::kOk));
  TROUPE_REQUIRE_OK(one.AskDevice<memory_limit_set>(set_memory_limit{4 * kMiB}).status);
  BOOST_TEST(one.runtime->devices()[0].memory.bytes_limit == 4 * kMiB);
  BOOST_TEST((run() == absl::StatusCode::kResourceExhausted));
  TROUPE_REQUIRE_OK(one.AskDevice<memory_limit_set>(set_memory_limit{0}).status);
  BOOST_TEST((run() == absl::StatusCode::kOk));
  BOOST_TEST(
      (one.AskDevice<memory_limit_set>(set_memory_limit{-1}).status.code() == absl::StatusCode::kInvalidArgument));
  // The process's allocator does not count small blocks, so it could not keep to a limit.
  OneDevice unlimited(0);
  BOOST_TEST((unlimited.AskDevice<memory_limit_set>(set_memory_limit{kMiB}).status.code() ==
              absl::StatusCode::kFailedPrecondition));
}

BOOST_AUTO_TEST_CASE(edges_3_and_4_free_blocks_go_back_when_asked_and_when_idle) {
  OneDevice one;
  const auto cached = [] { return Allocator::Cpu()->stats().bytes_cached; };
  const auto leave_some = [] { const Tensor t(DType::kFloat, TensorShape({8 * kMiB})); };
#if !TROUPE_TEST_ASAN  // nothing is kept there
  leave_some();
  BOOST_REQUIRE(cached() >= 32 * kMiB);
  BOOST_TEST(one.AskDevice<memory_trimmed>(trim_memory{}).bytes >= 32 * kMiB);
  BOOST_TEST(cached() < kMiB);
  leave_some();
  Runtime::Impl& impl = *one.runtime->impl();
  const caf::actor idle = SpawnDevice(
      *impl.system, impl.devices[0], 1, [](const auto&) { return std::vector<std::shared_ptr<StepQuestion>>(); },
      std::make_shared<UnderWay>(), std::chrono::milliseconds(20));
  for (int tries = 0; tries < 500 && cached() >= kMiB; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST(cached() < kMiB);
  caf::anon_send_exit(idle, caf::exit_reason::user_shutdown);
#endif
}

// Whoever asks hears of it when there is no memory for the answer.
BOOST_AUTO_TEST_CASE(a_question_without_memory_is_answered_with_an_error) {
  OneDevice one;
  Runtime::Impl& impl = *one.runtime->impl();
  bool none = true;
  const caf::actor device = SpawnDevice(
      *impl.system, impl.devices[0], 1,
      [&](const auto&) {
        if (none) throw std::bad_alloc();
        return std::vector<std::shared_ptr<StepQuestion>>();
      },
      nullptr);
  const auto ask = [&] {
    return Ask<device_stats>(*impl.system, device, get_device_stats{}, false, caf::duration(std::chrono::seconds(10)));
  };
  const auto asked = ask();
  BOOST_TEST(!asked.ok());
  BOOST_TEST(!absl::IsDeadlineExceeded(asked.status()), asked.status());
  none = false;
  const auto again = ask();
  BOOST_TEST(again.ok(), again.status());
  caf::anon_send_exit(device, caf::exit_reason::user_shutdown);
}

const Tensor* ValueIn(const resource_snapshot& s, const std::string& name) {
  for (const resource_snapshot::Entry& e : s.entries) {
    if (e.name != name) continue;
    for (const auto& [key, t] : e.tensors) {
      if (key == "value") return &t;
    }
  }
  return nullptr;
}

BOOST_AUTO_TEST_CASE(edges_8_and_9_a_snapshot_waits_for_an_update) {
  OneDevice one;
  const auto v = one.Slot("v"), w = one.Slot("w"), none = one.Slot("none");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({1, 2})));
  TROUPE_REQUIRE_OK(w->Assign(Tensor::Vector<float>({3, 4})));
  resource_snapshot at_once = one.AskContainer<resource_snapshot>(snapshot_resources{{"c"}});
  TROUPE_REQUIRE_OK(at_once.status);
  BOOST_TEST(at_once.entries.size() == 3u);
  BOOST_TEST(ValueIn(at_once, "v")->data<float>()[1] == 2);
  BOOST_TEST(ValueIn(at_once, "none") == nullptr);
  BOOST_TEST(one.AskContainer<resource_snapshot>(snapshot_resources{{"d", ""}}).entries.empty());
  // An update has the slot; half of it is written.
  BOOST_REQUIRE(v->TryBegin());
  BOOST_REQUIRE(v->MakeUnique().ok());
  v->BeginWriting();
  v->value().data<float>()[0] = 5;
  auto waiting = std::async(std::launch::async, [&] {
    return Ask<resource_snapshot>(*one.runtime->impl()->system, ContainerActorOf(*one.runtime, one.name),
                                  snapshot_resources{{"c"}}, false);
  });
  BOOST_TEST((waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout));
  // The actor answers others meanwhile.
  BOOST_TEST(one.AskContainer<resource_list>(list_resources{}).entries.size() == 3u);
  v->value().data<float>()[1] = 6;
  v->Commit();
  v->End();
  const absl::StatusOr<resource_snapshot> later = waiting.get();
  BOOST_REQUIRE_MESSAGE(later.ok(), later.status());
  TROUPE_REQUIRE_OK(later->status);
  BOOST_TEST(ValueIn(*later, "v")->data<float>()[0] == 5);
  BOOST_TEST(ValueIn(*later, "v")->data<float>()[1] == 6);
  // An update that breaks off loses its variable, and the snapshot says which.
  BOOST_REQUIRE(w->TryBegin());
  w->BeginWriting();
  w->End();
  const absl::Status lost = one.AskContainer<resource_snapshot>(snapshot_resources{{"c"}}).status;
  BOOST_TEST((lost.code() == absl::StatusCode::kDataLoss), lost);
  BOOST_TEST(lost.ToString().find("'w'") != std::string::npos, lost);
}

BOOST_AUTO_TEST_CASE(edge_10_restoring_is_all_or_nothing) {
  OneDevice one;
  const auto v = one.Slot("v"), w = one.Slot("w");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({1, 2})));
  TROUPE_REQUIRE_OK(w->Assign(Tensor::Vector<float>({3, 4})));
  const resource_snapshot saved = one.AskContainer<resource_snapshot>(snapshot_resources{{"c"}});
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({7, 8})));
  one.Slot("later");
  const auto now = [&](const std::string& of) { return one.Slot(of)->Read().value().data<float>()[0]; };
  // The second entry is of no kind.
  restore_resources bad{saved.entries, {"c"}};
  bad.entries[1].kind = "riddle";
  const absl::Status refused = one.AskContainer<resources_restored>(bad).status;
  BOOST_TEST((refused.code() == absl::StatusCode::kUnimplemented), refused);
  BOOST_TEST(now("v") == 7);
  BOOST_TEST(one.AskContainer<resource_list>(list_resources{}).entries.size() == 3u);
  // Without `whole` what is not among the entries stays.
  TROUPE_REQUIRE_OK(one.AskContainer<resources_restored>(restore_resources{{saved.entries[0]}, {}}).status);
  BOOST_TEST(now("v") == 1);
  BOOST_TEST(one.AskContainer<resource_list>(list_resources{}).entries.size() == 3u);
  TROUPE_REQUIRE_OK(one.AskContainer<resources_restored>(restore_resources{saved.entries, {"c"}}).status);
  BOOST_TEST(now("w") == 3);
  BOOST_TEST(one.AskContainer<resource_list>(list_resources{}).entries.size() == 2u);
  // Who has the slot of before keeps it.
  BOOST_TEST(v->Read().value().data<float>()[0] == 7);
}

BOOST_AUTO_TEST_CASE(edge_10_what_is_only_checked_changes_nothing) {
  OneDevice one;
  const auto v = one.Slot("v");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({1, 2})));
  restore_resources saved{one.AskContainer<resource_snapshot>(snapshot_resources{{"c"}}).entries, {"c"}, true};
  one.Slot("later");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({7, 8})));
  TROUPE_REQUIRE_OK(one.AskContainer<resources_restored>(saved).status);
  BOOST_TEST(one.Slot("v") == v);
  BOOST_TEST(one.AskContainer<resource_list>(list_resources{}).entries.size() == 2u);
  // It does not fit what is there now.
  for (auto& [key, t] : saved.entries[0].tensors) {
    if (key == "value") t = Tensor::Vector<float>({1, 2, 3});
    if (key == "shape") t = Tensor::Vector<int64_t>({3});
  }
  const absl::Status refused = one.AskContainer<resources_restored>(saved).status;
  BOOST_TEST(absl::IsInvalidArgument(refused), refused);
  BOOST_TEST(refused.ToString().find("resource 'v' of container 'c'") != std::string::npos, refused);
  BOOST_TEST(one.Slot("v") == v);
}

// Whatever it waits for: another session's update may take as long as that likes.
BOOST_AUTO_TEST_CASE(a_snapshot_that_waits_ends_with_its_session) {
  OneDevice one;
  const auto v = one.Slot("v");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({1, 2})));
  BOOST_REQUIRE(v->TryBegin());
  for (const bool between_steps : {false, true}) {
    auto session = NewSession(Scope::NewRootScope(), one.options);
    auto waiting = std::async(std::launch::async, [&] {
      return session->SnapshotState({.containers = {"c"}, .between_steps = between_steps}).status();
    });
    BOOST_TEST((waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout));
    TROUPE_REQUIRE_OK(session->Close());
    const bool ended = waiting.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    BOOST_TEST(ended);
    if (!ended) return v->End();
    const absl::Status s = waiting.get();
    BOOST_TEST(absl::IsCancelled(s), s);
    BOOST_TEST(s.message() == "the session is closed");
  }
  v->End();
}

BOOST_AUTO_TEST_CASE(edge_11_a_snapshot_that_waits_for_a_dying_container_is_aborted) {
  OneDevice one;
  const auto v = one.Slot("v");
  TROUPE_REQUIRE_OK(v->Assign(Tensor::Vector<float>({1, 2})));
  BOOST_REQUIRE(v->TryBegin());
  const caf::actor container = ContainerActorOf(*one.runtime, one.name);
  auto waiting = std::async(std::launch::async, [&] {
    return Ask<resource_snapshot>(*one.runtime->impl()->system, container, snapshot_resources{{"c"}}, false);
  });
  BOOST_TEST((waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout));
  caf::anon_send_exit(container, caf::exit_reason::kill);
  const absl::StatusOr<resource_snapshot> answer = waiting.get();
  BOOST_TEST(((answer.ok() ? answer->status : answer.status()).code() == absl::StatusCode::kAborted));
  v->End();
  // A session's snapshot has a deadline.
  caf::actor next = container;
  for (int tries = 0; tries < 500 && (!next || next == container); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    next = ContainerActorOf(*one.runtime, one.name);
  }
  BOOST_REQUIRE((next && next != container));
  auto session = NewSession(Scope::NewRootScope(), one.options);
  BOOST_REQUIRE(v->TryBegin());
  SnapshotOptions options;
  options.containers = {"c"};
  options.timeout_ms = 30;
  BOOST_TEST((session->SnapshotState(options).status().code() == absl::StatusCode::kDeadlineExceeded));
  v->End();
  BOOST_TEST(session->SnapshotState(options).ok());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace containers_test
}  // namespace troupe
