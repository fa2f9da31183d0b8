// A data set as the input of a monitored session: whoever goes on from a checkpoint goes on with
// the element that followed.
#include "troupe/train/dataset_hook.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <future>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "actors/runtime/runtime_impl.h"
#include "tests/common/check_ok.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"
#include "troupe/actors.h"
#include "troupe/resource_container.h"
#include "troupe/resource_state.h"
#include "troupe/troupe.h"

namespace troupe {
namespace dataset_hook_test {

using namespace train;  // NOLINT

Dataset Numbers() { return Dataset::Range(0, 40).Shuffle(7, 5).Batch(2).Prefetch(2); }
std::vector<int64_t> InOrder() {
  std::vector<int64_t> all;
  auto it = *Numbers().Iterate();
  for (Element e; *it->Next(&e);) all.insert(all.end(), e[0].data<int64_t>(), e[0].data<int64_t>() + 2);
  return all;
}

// A run of a program, which sums what it is fed.
struct Program {
  explicit Program(const std::string& folder, Dataset data = Numbers()) {
    options.checkpoint_folder = folder;
    options.save_checkpoint = {.steps = 3};
    options.hooks = {std::make_shared<DatasetHook>(std::move(data), NameList{x})};
    global = GetOrCreateGlobalStep(root);
    const Output add = sum.AssignAdd(root, ops::Sum(root, x, 0));
    update = Operation(global.AssignAdd(root.WithControlDependencies(add), int64_t{1}));
  }
  absl::Status Start() {
    auto made = MonitoredTrainingSession(root, options);
    if (made.ok()) session = *std::move(made);
    return made.status();
  }
  // What the next step is fed.
  absl::Status Step(std::vector<int64_t>* fed) {
    std::vector<Tensor> out;
    const absl::Status s = session->Run({}, {x}, {update}, &out);
    if (s.ok()) fed->insert(fed->end(), out[0].data<int64_t>(), out[0].data<int64_t>() + out[0].num_elements());
    return s;
  }
  int64_t Sum() { return session->session()->Get(sum)->scalar<int64_t>(); }
  int64_t Steps() { return session->session()->Get(global)->scalar<int64_t>(); }

  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt64, {.shape = {-1}});
  Variable sum{root.WithOpName("sum"), int64_t{0}}, global;
  Operation update;
  MonitoredTrainingOptions options;
  std::unique_ptr<MonitoredSession> session;
};

BOOST_AUTO_TEST_CASE(a_run_that_was_killed_goes_on_with_the_element_that_followed) {
  const std::vector<int64_t> all = InOrder();
  BOOST_REQUIRE(all.size() == 40u);
  for (const bool saves_at_its_end : {false, true}) {
    const std::string folder = StrCat("mem://dataset_hook/killed", saves_at_its_end);
    std::vector<int64_t> first, second;
    {
      Program p(folder);
      REQUIRE_OK(p.Start());
      for (int i = 0; i < 5; ++i) REQUIRE_OK(p.Step(&first));
      if (saves_at_its_end) REQUIRE_OK(p.session->Close());
    }
    BOOST_TEST(first == std::vector<int64_t>(all.begin(), all.begin() + 10), boost::test_tools::per_element());
    Program p(folder);
    REQUIRE_OK(p.Start());
    const int64_t done = p.Steps();
    BOOST_TEST(done == (saves_at_its_end ? 5 : 3));
    absl::Status s;
    while ((s = p.Step(&second)).ok()) {
    }
    BOOST_TEST(absl::IsOutOfRange(s), s);
    BOOST_TEST(second == std::vector<int64_t>(all.begin() + 2 * done, all.end()), boost::test_tools::per_element());
    BOOST_TEST(p.Sum() == std::accumulate(all.begin(), all.end(), int64_t{0}));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_an_error) {
  const std::string folder = "mem://dataset_hook/other";
  std::vector<int64_t> fed;
  {
    Program p(folder);
    REQUIRE_OK(p.Start());
    REQUIRE_OK(p.Step(&fed));
    REQUIRE_OK(p.session->Close());
  }
  Program other(folder, Dataset::Range(0, 3).Repeat());
  const absl::Status s = other.Start();
  BOOST_TEST(absl::IsInvalidArgument(s), s);
  BOOST_TEST(s.ToString().find("the data set of 'input'") != std::string::npos, s);
  Program pairs("mem://dataset_hook/pairs", Dataset::Zip({Numbers(), Numbers()}));
  REQUIRE_OK(pairs.Start());
  const absl::Status two = pairs.Step(&fed);
  BOOST_TEST(absl::IsInvalidArgument(two), two);
  BOOST_TEST(two.ToString().find("has 2 tensors, which are to be fed to 1 names") != std::string::npos, two);
}

// A data set whose function takes its time, and counts who is in it.
struct Watched {
  std::atomic<int> running{0}, most{0}, calls{0};
  std::chrono::milliseconds takes{20};
  Dataset Data() {
    return Dataset::Range(0, 400)
        .Map([this](Element e) {
          const int now = ++running;
          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          ++calls;
          std::this_thread::sleep_for(takes);
          --running;
          return e;
        })
        .Batch(2)
        .Prefetch(3);
  }
};

BOOST_AUTO_TEST_CASE(functions_of_a_data_set_are_not_called_after_the_close) {
  for (int i = 0; i < 5; ++i) {
    Watched watched;
    Program p(StrCat("mem://dataset_hook/after_close", i), watched.Data());
    std::vector<int64_t> fed;
    REQUIRE_OK(p.Start());
    REQUIRE_OK(p.Step(&fed));
    REQUIRE_OK(p.session->Close());
    const int calls = watched.calls;
    BOOST_TEST(watched.running == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    BOOST_TEST(watched.calls == calls);
  }
}

// The place of a program's data set in its session's container.
std::shared_ptr<Resource> PlaceOf(const Program& p) {
  for (const auto& device : p.session->session()->runtime()->impl()->devices) {
    for (const ResourceContainers::Entry& e : device->containers()->Entries()) {
      if (e.object->DebugString() == "position in a data set") return e.object;
    }
  }
  return nullptr;
}

// Whoever saves at that moment has a share of the place.
BOOST_AUTO_TEST_CASE(the_close_ends_an_iterator_although_somebody_has_its_place) {
  Watched watched;
  Program p("mem://dataset_hook/share", watched.Data());
  std::vector<int64_t> fed;
  REQUIRE_OK(p.Start());
  REQUIRE_OK(p.Step(&fed));
  const std::shared_ptr<Resource> place = PlaceOf(p);
  BOOST_REQUIRE(place != nullptr);
  REQUIRE_OK(p.session->Close());
  const int calls = watched.calls;
  BOOST_TEST(watched.running == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST(watched.calls == calls);
  // There is no position any more, and none is made up.
  std::promise<absl::Status> late;
  place->Save([&](const absl::StatusOr<ResourceState>& s) { late.set_value(s.status()); });
  const absl::Status told = late.get_future().get();
  BOOST_TEST(absl::IsAborted(told), told);
}

BOOST_AUTO_TEST_CASE(who_asks_for_a_position_and_throws_hurts_nobody_else) {
  Program p("mem://dataset_hook/throws");
  std::vector<int64_t> fed;
  REQUIRE_OK(p.Start());
  REQUIRE_OK(p.Step(&fed));
  std::promise<absl::Status> other;
  {
    const std::shared_ptr<Resource> place = PlaceOf(p);
    BOOST_REQUIRE(place != nullptr);
    place->Save([](const absl::StatusOr<ResourceState>&) { throw std::runtime_error("a visitor's own"); });
    place->Save([&](const absl::StatusOr<ResourceState>& s) { other.set_value(s.status()); });
  }
  BOOST_TEST(other.get_future().get().ok());
  REQUIRE_OK(p.Step(&fed));
  REQUIRE_OK(p.session->Close());
}

BOOST_AUTO_TEST_CASE(a_recovery_begins_no_second_iterator_beside_the_first) {
  Watched watched;
  watched.takes = std::chrono::milliseconds(60);
  Program p("mem://dataset_hook/recovery", watched.Data());
  p.options.save_checkpoint = {.steps = 1};
  std::vector<int64_t> fed;
  REQUIRE_OK(p.Start());
  for (int i = 0; i < 3; ++i) {
    REQUIRE_OK(p.Step(&fed));
    // The state in memory is given up for the checkpoint's, which puts another place there.
    const auto state = p.session->session()->SnapshotState();
    REQUIRE_OK(state.status());
    REQUIRE_OK(p.session->session()->RestoreState(*state));
  }
  REQUIRE_OK(p.Step(&fed));
  REQUIRE_OK(p.session->Close());
  std::vector<int64_t> expected(fed.size());
  std::iota(expected.begin(), expected.end(), 0);
  BOOST_TEST(fed == expected, boost::test_tools::per_element());
  BOOST_TEST(watched.most == 1);
}

BOOST_AUTO_TEST_CASE(a_slow_function_holds_up_no_container_and_no_more_than_one_thread) {
  std::atomic<bool> open{false};
  const Dataset held = Dataset::Range(0, 40)
                           .Map([&](Element e) {
                             while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                             return e;
                           })
                           .Batch(2);
  Program p("mem://dataset_hook/held", held);
  REQUIRE_OK(p.Start());
  std::vector<int64_t> fed;
  std::thread step([&] { (void)p.Step(&fed); });
  // The step is in the function, and has the iterator.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Whatever it does in the runtime's actor system ends before the runtime does.
  auto asker = std::make_unique<caf::scoped_actor>(*p.session->session()->runtime()->impl()->system);
  caf::scoped_actor& self = *asker;
  const auto& runtime = *p.session->session()->runtime();
  caf::actor container = ContainerActorOf(runtime, runtime.devices()[0].name);
  BOOST_REQUIRE(container != nullptr);
  const auto threads = [] {
    int n = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) n += each.exists();
    return n;
  };
  std::string own;
  const auto list = [&] {
    bool answered = false;
    self->request(container, std::chrono::seconds(5), list_resources{})
        .receive(
            [&](const resource_list& l) {
              answered = true;
              for (const auto& e : l.entries) {
                if (e.what.find("data set") != std::string::npos) own = e.container;
              }
            },
            [](const caf::error&) {});
    return answered;
  };
  BOOST_TEST(list());
  BOOST_REQUIRE(!own.empty());
  for (int i = 0; i < 4; ++i) self->send(container, snapshot_resources{{own}});
  BOOST_TEST(list());
  const int before = threads();
  for (int i = 0; i < 16; ++i) self->send(container, snapshot_resources{{own}});
  BOOST_TEST(list());
  BOOST_TEST(threads() == before);
  open = true;
  step.join();
  for (int i = 0; i < 20; ++i) {
    self->receive([&](const resource_snapshot& s) { BOOST_TEST(s.status.ok(), s.status); },
                  caf::after(std::chrono::seconds(20)) >> [] { BOOST_FAIL("a snapshot was not answered"); });
  }
  asker = nullptr;
  container = nullptr;
  REQUIRE_OK(p.session->Close());
}

}  // namespace dataset_hook_test
}  // namespace troupe
