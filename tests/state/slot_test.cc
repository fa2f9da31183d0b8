// Variables as such: snapshots, updates in place, threads.
#include <atomic>
#include <thread>

#include "tests/state/state_test_util.h"

namespace troupe {
namespace {

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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
