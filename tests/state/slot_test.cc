// Variables as such: snapshots, updates in place, threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/numerics_check.h"
#include "tests/state/state_test_util.h"

namespace troupe {
namespace slot_test {

BOOST_AUTO_TEST_SUITE(slot)

BOOST_AUTO_TEST_CASE(an_uninitialised_variable_is_named) {
  VariableSlot slot("weights", DType::kFloat, {2});
  CheckFails(slot.Read(), absl::StatusCode::kFailedPrecondition, "weights");
  BOOST_TEST(!slot.Update([](Tensor&) { return absl::OkStatus(); }).ok());
  BOOST_TEST(!slot.initialized());
}

BOOST_AUTO_TEST_CASE(a_snapshot_stays_as_it_is) {
  VariableSlot slot("w", DType::kFloat, {2});
  BOOST_REQUIRE(slot.Assign(Tensor::Vector<float>({1, 2})).ok());
  const Tensor snapshot = *slot.Read();
  BOOST_REQUIRE(slot.Update([](Tensor& t) {
                      t.data<float>()[0] = 7;
                      return absl::OkStatus();
                    })
                    .ok());
  BOOST_TEST(snapshot.data<float>()[0] == 1);
  BOOST_TEST(slot.Read()->data<float>()[0] == 7);
}

BOOST_AUTO_TEST_CASE(an_update_is_in_place_when_no_snapshot_is_out) {
  VariableSlot slot("w", DType::kFloat, {1000});
  BOOST_REQUIRE(slot.Assign(Tensor(DType::kFloat, {1000})).ok());
  const void* const before = slot.Read()->raw();
  const auto touch = [](Tensor& t) {
    t.data<float>()[0] += 1;
    return absl::OkStatus();
  };
  BOOST_REQUIRE(slot.Update(touch).ok());
  BOOST_TEST(slot.Read()->raw() == before);
  const Tensor snapshot = *slot.Read();
  BOOST_REQUIRE(slot.Update(touch).ok());
  BOOST_TEST(slot.Read()->raw() != before);
}

BOOST_AUTO_TEST_CASE(assign_checks_type_and_shape) {
  VariableSlot slot("w", DType::kFloat, {2});
  BOOST_TEST(!slot.Assign(Tensor::Vector<double>({1, 2})).ok());
  BOOST_TEST(!slot.Assign(Tensor::Vector<float>({1})).ok());
  BOOST_TEST(slot.Assign(Tensor::Vector<float>({1}), /*validate_shape=*/false).ok());
}

// Changes that are taken back, as those of steps that failed by their check for NaN.
struct TakenBack {
  // A change that may be taken back: the slot gets `value`.
  std::shared_ptr<VariableSlot::Change> Set(float value) {
    BOOST_REQUIRE(slot.TryBegin());
    const std::shared_ptr<VariableSlot::Change> change = slot.Note();
    slot.Exchange(Tensor::Scalar(value));
    slot.Close(change.get());
    slot.End();
    return change;
  }
  void TakeBack(const std::shared_ptr<VariableSlot::Change>& change) {
    BOOST_REQUIRE(slot.TryBegin());
    slot.TakeBack(change.get());
    slot.End();
  }
  float value() { return slot.Read()->scalar<float>(); }
  VariableSlot slot{"w", DType::kFloat, TensorShape()};
};

BOOST_FIXTURE_TEST_CASE(changes_are_taken_back_in_any_order, TakenBack) {
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::vector<std::shared_ptr<VariableSlot::Change>> changes;
    for (const int i : order) changes.push_back(Set(static_cast<float>(10 + i)));
    for (const int i : order) TakeBack(changes[i]);
    BOOST_TEST(value() == 1);
    BOOST_TEST(slot.version() == 1u);
  } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_FIXTURE_TEST_CASE(a_change_that_stays_keeps_what_it_made, TakenBack) {
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  const auto first = Set(2), second = Set(3);
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(4.0f)).ok());
  const auto third = Set(5);
  TakeBack(second);
  TakeBack(first);
  BOOST_TEST(value() == 5);
  TakeBack(third);
  BOOST_TEST(value() == 4);  // which nobody takes back
  TakeBack(third);
  BOOST_TEST(value() == 4);
}

BOOST_FIXTURE_TEST_CASE(a_value_that_was_forgotten_or_lost_since_does_not_come_back, TakenBack) {
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  const auto first = Set(2);
  slot.Clear();
  TakeBack(first);
  CheckFails(slot.Read(), absl::StatusCode::kFailedPrecondition, "'w'");

  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  const auto second = Set(2);
  BOOST_REQUIRE(slot.TryBegin());
  slot.BeginWriting();
  slot.End();
  TakeBack(second);
  CheckFails(slot.Read(), absl::StatusCode::kDataLoss, "'w'");
  // Neither does a value that a lost one was made of: it is lost again.
  const auto third = Set(3);
  TakeBack(third);
  CheckFails(slot.Read(), absl::StatusCode::kDataLoss, "'w'");
}

BOOST_FIXTURE_TEST_CASE(an_update_that_was_refused_is_no_change, TakenBack) {
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  const auto change = Set(2);
  BOOST_TEST(!slot.Update([](Tensor&) { return absl::InvalidArgumentError("no"); }).ok());
  TakeBack(change);
  BOOST_TEST(value() == 1);
}

BOOST_AUTO_TEST_CASE(one_update_that_cannot_be_taken_back_keeps_no_other_from_it) {
  UpdateLog log;
  std::string undone;
  BOOST_TEST(log.Add([&] { undone += 'a'; }));
  BOOST_TEST(log.Add([] { throw std::bad_alloc(); }));
  BOOST_TEST(log.Add([&] { undone += 'c'; }));
  BOOST_TEST(!log.failed());
  BOOST_TEST(log.Fail());
  BOOST_TEST(!log.Fail());  // the first alone
  BOOST_TEST(log.failed());
  BOOST_CHECK_THROW(log.UndoAll(), std::bad_alloc);
  BOOST_TEST(undone == "ca");
  BOOST_TEST(!log.Add([&] { undone += 'd'; }));
  BOOST_CHECK_THROW(log.UndoAll(), std::bad_alloc);  // kept, and tried again: alone
  BOOST_TEST(undone == "ca");
}

BOOST_AUTO_TEST_CASE(what_could_not_be_taken_back_is_taken_back_later_and_once) {
  UpdateLog log;
  std::string undone;
  bool memory = false;
  const auto needs_memory = [&](char name) {
    return [&undone, &memory, name] {
      if (!memory) throw std::bad_alloc();
      undone += name;
    };
  };
  BOOST_TEST(log.Add([&] { undone += 'a'; }));
  BOOST_TEST(log.Add(needs_memory('b')));
  BOOST_TEST(log.Add([&] { undone += 'c'; }));
  BOOST_TEST(log.Add(needs_memory('d')));
  BOOST_CHECK_THROW(log.UndoAll(), std::bad_alloc);
  BOOST_TEST(undone == "ca");
  memory = true;
  log.UndoAll();
  BOOST_TEST(undone == "cadb");  // the newest first, as before
  log.UndoAll();
  BOOST_TEST(undone == "cadb");
}

BOOST_AUTO_TEST_CASE(eight_threads_add_and_no_update_is_lost) {
  constexpr int kThreads = 8, kTimes = 1024;
  VariableSlot slot("counter", DType::kInt64, {64});
  Tensor zero(DType::kInt64, {64});
  std::fill_n(zero.data<int64_t>(), 64, 0);
  BOOST_REQUIRE(slot.Assign(zero).ok());
  std::atomic<int> torn{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTimes; ++i) {
        const absl::StatusOr<Tensor> snapshot = slot.Read();
        if (!snapshot.ok()) ++failed;
        const absl::Status s = slot.Update([](Tensor& v) {
          for (int k = 0; k < 64; ++k) v.data<int64_t>()[k] += 1;
          return absl::OkStatus();
        });
        if (!s.ok()) ++failed;
        // All elements of one snapshot come from one update.
        const int64_t* v = snapshot->data<int64_t>();
        for (int k = 1; k < 64; ++k) torn += v[k] != v[0];
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_TEST(failed == 0);
  BOOST_TEST(torn == 0);
  BOOST_TEST(slot.Read()->data<int64_t>()[63] == kThreads * kTimes);
  BOOST_TEST(slot.version() == uint64_t{kThreads * kTimes + 1});
}

// A step of a loop notes one for each iteration, and they all live until it ends: to look through
// all at each would take minutes here.
BOOST_AUTO_TEST_CASE(many_changes_that_live_are_noted_in_time) {
  constexpr size_t kChanges = 300'000;
  VariableSlot slot("w", DType::kFloat, {});
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar(1.0f)).ok());
  std::vector<std::shared_ptr<VariableSlot::Change>> live;
  const auto start = std::chrono::steady_clock::now();
  BOOST_REQUIRE(slot.TryBegin());
  while (live.size() < kChanges) live.push_back(slot.Note());
  slot.End();
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(10)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace slot_test
}  // namespace troupe
