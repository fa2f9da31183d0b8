// Memory for what steps copy beside a save (actors/train/save_memory.h, graph/core/warm_memory.h).
#include "actors/train/save_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include "tests/checkpoint/held_files.h"
#include "tests/common/check_ok.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/train/global_step.h"
#include "troupe/train/hooks.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace save_memory_test {

using train::SaveMemory;
using Sizes = std::vector<size_t>;

constexpr int64_t kMib = 1 << 20;

int64_t Cached() { return Allocator::Cpu()->stats().bytes_cached; }

bool Soon(const std::function<bool()>& what) {
  for (int i = 0; i < 20'000 && !what(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

Tensor Of(int64_t mib) { return Tensor(DType::kFloat, TensorShape({mib * kMib / 4})); }

// A save that took the values 'a', 'b' and what a queue held, beside a step that then changed 'a'.
struct Taken {
  Tensor a = Of(2), b = Of(3), element = Of(5);
  StateSnapshot snapshot;
  Taken() {
    snapshot.entries = {{"", "", "a", "variable", {{"value", a}}},
                        {"", "", "b", "variable", {{"value", b}}},
                        {"", "", "sent", "variable", {{"value", Of(7)}}},
                        {"", "", "q", "queue", {{"0", element}}}};
  }
};

BOOST_AUTO_TEST_CASE(what_nobody_else_has_at_the_end_was_copied) {
  Taken t;
  const auto shared = SaveMemory::Shared(t.snapshot);
  BOOST_TEST(shared.size() == 2u);
  t.a = t.element = Tensor();
  const auto memory = std::make_shared<SaveMemory>();
  std::promise<Sizes> asked;
  const auto make = [&](const Sizes& sizes) {
    asked.set_value(sizes);
    return std::make_unique<WarmMemory>(Sizes{});
  };
  SaveMemory::Expect(memory, make);  // nothing is known yet
  memory->Learn(shared);
  SaveMemory::Expect(memory, make);
  BOOST_TEST(asked.get_future().get() == Sizes({2 << 20}), boost::test_tools::per_element());
}

struct Making {
  const std::shared_ptr<SaveMemory> memory = std::make_shared<SaveMemory>();
  std::atomic<int> made{0};
  FileGate go_on;
  Making() {
    Taken t;
    const auto shared = SaveMemory::Shared(t.snapshot);
    t.a = Tensor();
    memory->Learn(shared);
  }
  void Expect() {
    SaveMemory::Expect(memory, [this](const Sizes& sizes) {
      ++made;
      go_on.Wait();
      return std::make_unique<WarmMemory>(sizes);
    });
  }
  void Save() {
    memory->Begin();
    memory->End();
  }
};

BOOST_AUTO_TEST_CASE(edge_2_memory_is_made_ready_once) {
  Making m;
  m.Expect();
  m.Expect();
  m.go_on.Open();
  BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  m.Expect();  // it is ready
  BOOST_TEST(m.memory.use_count() == 1);
  BOOST_TEST(m.made == 1);
  m.Save();
  m.Expect();
  BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  BOOST_TEST(m.made == 2);
}

BOOST_AUTO_TEST_CASE(edge_7_the_memory_is_kept_until_the_last_save_has_ended) {
  Making m;
  m.go_on.Open();
  m.memory->Begin();
  m.Expect();
  BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  m.Save();
  m.Expect();
  BOOST_TEST(m.memory.use_count() == 1);
  BOOST_TEST(m.made == 1);
  m.memory->End();
  m.Expect();
  BOOST_REQUIRE(Soon([&] { return m.made == 2 && m.memory.use_count() == 1; }));
}

BOOST_AUTO_TEST_CASE(edges_4_and_5_who_comes_late_keeps_nothing) {
  Making m;
  m.Expect();
  m.Save();
  m.Expect();  // one is being made still
  m.go_on.Open();
  BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  BOOST_TEST(m.made == 1);
  m.Expect();
  BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  BOOST_TEST(m.made == 2);
}

BOOST_AUTO_TEST_CASE(who_finds_no_memory_is_asked_again) {
  Making m;
  std::atomic<int> asked{0};
  for (int i = 0; i < 2; ++i) {
    SaveMemory::Expect(m.memory, [&](const Sizes&) -> std::unique_ptr<WarmMemory> {
      ++asked;
      throw std::bad_alloc();
    });
    BOOST_REQUIRE(Soon([&] { return m.memory.use_count() == 1; }));
  }
  BOOST_TEST(asked == 2);
}

// Nothing is kept under AddressSanitizer.
#if !TROUPE_TEST_ASAN

// How many pages of the buffer the system has provided.
int64_t Resident(Buffer* b) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(b->data());
  const uintptr_t begin = (start + page - 1) / page * page, end = (start + b->size()) / page * page;
  std::vector<unsigned char> pages((end - begin) / page);
  BOOST_REQUIRE(::mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) == 0);
  int64_t n = 0;
  for (const unsigned char p : pages) n += p & 1;
  return n;
}

constexpr size_t kBytes = 6 << 20;
constexpr int64_t kBlock = 7 << 20;  // by its size class

BOOST_AUTO_TEST_CASE(warm_memory_is_there) {
  Allocator::Cpu()->Trim();
  {
    const WarmMemory two({kBytes, kBytes, 1000});
    BOOST_TEST(two.made() == 2 * kBlock);
    BOOST_TEST(Cached() == 2 * kBlock);
    Buffer* const b = Allocator::Cpu()->Allocate(kBytes);
    BOOST_TEST(Cached() == kBlock);
    BOOST_TEST(Resident(b) >= static_cast<int64_t>(kBytes) / ::sysconf(_SC_PAGESIZE) - 1);
    b->Unref();
    const WarmMemory third({kBytes});  // those are for others
    BOOST_TEST(third.made() == kBlock);
  }
  // What fits into the quota stays, and what lies there for nobody is taken.
  BOOST_TEST(Cached() == 3 * kBlock);
  const WarmMemory again({kBytes});
  BOOST_TEST(again.made() == 0);
  Allocator::Cpu()->Trim();
}

// Steps have a block of that size each time, which lies in the list between two of them.
BOOST_AUTO_TEST_CASE(what_steps_ask_for_again_and_again_is_not_counted_on) {
  Allocator::Cpu()->Trim();
  const auto step = [] { Allocator::Cpu()->Allocate(kBytes)->Unref(); };
  for (int i = 0; i < 3; ++i) step();
  BOOST_TEST(Cached() == kBlock);
  const WarmMemory memory({kBytes});
  BOOST_TEST(memory.made() == kBlock);
  step();
  Allocator::Cpu()->Trim();
}

// So often that each list is visited.
void AskForOthers() {
  for (int i = 0; i < 200'000; ++i) Allocator::Cpu()->Allocate(100'000)->Unref();
}

// Lists are visited in turn, and give up what nobody asks for.
BOOST_AUTO_TEST_CASE(what_is_expected_stays_however_long_it_takes) {
  Allocator::Cpu()->Trim();
  {
    const WarmMemory memory({kBytes, kBytes});
    AskForOthers();
    BOOST_TEST(Cached() >= 2 * kBlock);
  }
  AskForOthers();
  BOOST_TEST(Cached() < kBlock);
  Allocator::Cpu()->Trim();
}

BOOST_AUTO_TEST_CASE(warm_memory_beyond_the_quota_goes_with_it) {
  Allocator::Cpu()->Trim();
  constexpr int64_t kQuota = int64_t{1} << 30;
  const Sizes sizes(9, (128 << 20) - 64);
  {
    const WarmMemory memory(sizes, /*populate=*/false);
    BOOST_REQUIRE(memory.made() == 9 * 128 * kMib);
    BOOST_TEST(Cached() == 9 * 128 * kMib);
    // What is freed meanwhile takes the place of nothing that is expected.
    Allocator::Cpu()->Allocate((128 << 20) - 64)->Unref();
    BOOST_TEST(Cached() == 9 * 128 * kMib);
  }
  BOOST_TEST(Cached() == kQuota);
  Allocator::Cpu()->Trim();
}

// A save whose files wait for a gate.
struct HeldSave {
  std::mutex mu;
  std::shared_ptr<FileGate> gate = OpenGate();
  absl::Status saved;
  static std::shared_ptr<FileGate> OpenGate() {
    auto gate = std::make_shared<FileGate>();
    gate->Open();
    return gate;
  }
  void Close() {
    std::lock_guard<std::mutex> lock(mu);
    gate = std::make_shared<FileGate>();
  }
  HeldSave() {
    REQUIRE_OK(files::RegisterFileSystem("warm", std::make_shared<HeldFiles>([this](auto op, const std::string&) {
                                           std::unique_lock<std::mutex> lock(mu);
                                           const std::shared_ptr<FileGate> now = gate;
                                           lock.unlock();
                                           if (op == "Append") now->Wait();
                                         })));
  }
  void Begin(train::Saver& saver, Session& session) {
    Close();
    saver.SaveAsync(session, "warm://m", {}, [&](const absl::StatusOr<std::string>& s) { saved = s.status(); });
  }
  void End(const train::Saver& saver) {
    gate->Open();
    saver.WaitForSaves();
    REQUIRE_OK(saved);
  }
};

// A session of one thread, whose variables have their first values.
std::unique_ptr<Session> Begun(const Scope& root, const Operation& init) {
  REQUIRE_OK(root.status());
  SessionOptions options;
  options.runtime_options.threads = 1;
  auto session = *Session::Create(options);
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  return session;
}

// File systems stay registered.
HeldSave& TheHeldSave() {
  static HeldSave save;
  return save;
}

BOOST_AUTO_TEST_CASE(edges_1_3_and_6_the_second_save_finds_the_memory_that_the_first_one_needed) {
  HeldSave& save = TheHeldSave();
  const Scope root = Scope::NewRootScope();
  const auto all = [&](float value, int64_t mib) { return Const(root, value, TensorShape({mib * kMib / 4})); };
  const Variable a(root.WithOpName("a"), all(0, 6)), b(root.WithOpName("b"), all(0, 12));
  const Operation add(a.AssignAdd(root, all(1, 6))), init = GlobalVariablesInitializer(root);
  train::Saver saver(root);
  const auto session = Begun(root, init);
  const auto step = [&] { REQUIRE_OK(session->Run({}, {}, {add}, nullptr)); };
  step();  // the initial value is the constant's
  save.Begin(saver, *session);
  step();
  save.End(saver);
  Allocator::Cpu()->Trim();
  saver.ExpectSave();
  // The class of 6 MiB and a header; nothing for 'b', which did not change.
  BOOST_TEST(Soon([] { return Cached() == 7 * kMib; }), Cached());
  save.Begin(saver, *session);
  step();
  BOOST_TEST(Cached() == 0);
  save.End(saver);
}

// Every ten steps: the second of these saves is expected a step before it comes.
BOOST_AUTO_TEST_CASE(a_hook_expects_its_saves) {
  HeldSave& save = TheHeldSave();
  const Scope root = Scope::NewRootScope();
  const auto all = [&](float value) { return Const(root, value, TensorShape({6 * kMib / 4})); };
  const Variable a(root.WithOpName("a"), all(0)), step = train::GetOrCreateGlobalStep(root);
  const Operation add(a.AssignAdd(root, all(1)));
  const Operation both(step.AssignAdd(root.WithControlDependencies(add), Const(root, int64_t{1})));
  train::CheckpointSaverOptions every_ten;
  every_ten.folder = "warm://hook";
  every_ten.every = {.steps = 10};
  train::CheckpointSaverHook hook(every_ten);
  REQUIRE_OK(hook.Begin(root));
  const Operation init = GlobalVariablesInitializer(root);
  const auto session = Begun(root, init);
  REQUIRE_OK(hook.AfterCreateSession(*session));
  int64_t now = 0;
  const auto run_to = [&](int64_t last) {
    for (; now < last; ++now) {
      REQUIRE_OK(session->Run({}, {}, {both}, nullptr));
      train::RunContext context(*session, {}, {}, {});
      train::RunValues values;
      values.fetches = {Tensor::Scalar(now)};  // read before the step's own update
      REQUIRE_OK(hook.AfterRun(context, values));
    }
  };
  run_to(9);
  save.Close();
  run_to(12);
  save.gate->Open();
  REQUIRE_OK(hook.SessionEnded());  // waits for the save
  Allocator::Cpu()->Trim();
  run_to(18);
  BOOST_TEST(Cached() == 0);
  run_to(19);
  BOOST_TEST(Soon([] { return Cached() == kBlock; }), Cached());
  // The last save is no such one: what is kept for nobody any more goes like other free memory.
  REQUIRE_OK(hook.End(*session));
  AskForOthers();
  BOOST_TEST(Cached() < kBlock);
}

// A save that cannot be taken is one that has ended.
BOOST_AUTO_TEST_CASE(what_was_expected_goes_when_nothing_can_be_saved) {
  HeldSave& save = TheHeldSave();
  const Scope root = Scope::NewRootScope();
  const auto all = [&](float value) { return Const(root, value, TensorShape({6 * kMib / 4})); };
  const Variable a(root.WithOpName("a"), all(0));
  const Operation add(a.AssignAdd(root, all(1))), init = GlobalVariablesInitializer(root);
  train::Saver saver(root);
  auto session = Begun(root, init);
  const auto step = [&] { REQUIRE_OK(session->Run({}, {}, {add}, nullptr)); };
  step();
  save.Begin(saver, *session);
  step();
  save.End(saver);
  Allocator::Cpu()->Trim();
  saver.ExpectSave();
  BOOST_REQUIRE(Soon([] { return Cached() == kBlock; }));
  REQUIRE_OK(session->Close());
  std::promise<absl::Status> saved;
  saver.SaveAsync(*session, "warm://m", {}, [&](const absl::StatusOr<std::string>& s) { saved.set_value(s.status()); });
  BOOST_TEST(!saved.get_future().get().ok());
  // The thread that has made it ready is perhaps about to say so; it lets go of it then.
  const auto gone = [] {
    AskForOthers();
    return Cached() < kBlock;
  };
  BOOST_TEST(Soon(gone), Cached());
  Allocator::Cpu()->Trim();
}

#endif  // !TROUPE_TEST_ASAN

}  // namespace save_memory_test
}  // namespace troupe
