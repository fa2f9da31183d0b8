// A variable with readers and writers on many threads: no torn snapshot, no lost update.
#include <boost/test/unit_test.hpp>

#include "kernels/state/variable_slot.h"
#include "tests/race/threads.h"

namespace troupe::race {
namespace variable_slot_test {

constexpr int64_t kElements = 512;

bool Equal(const Tensor& t) {
  const auto values = t.flat<int64_t>();
  for (const int64_t v : values) {
    if (v != values[0]) return false;
  }
  return true;
}

BOOST_AUTO_TEST_CASE(snapshots_are_whole_and_updates_are_counted) {
  constexpr int kWriters = 2, kReaders = 3, kRounds = 1500;
  VariableSlot slot("v", DType::kInt64, PartialTensorShape({kElements}));
  Tensor zero(DType::kInt64, TensorShape({kElements}));
  for (int64_t& v : zero.flat<int64_t>()) v = 0;
  BOOST_TEST(!slot.initialized());
  BOOST_TEST(slot.Assign(std::move(zero)).ok());
  Wrong wrong;
  RunThreads(kWriters + kReaders, [&](int t) {
    uint64_t version = 0;
    int64_t newest = 0;
    std::vector<Tensor> kept;
    for (int i = 0; i < kRounds; ++i) {
      if (t < kWriters) {
        const absl::Status s = slot.Update([](Tensor& value) {
          for (int64_t& v : value.flat<int64_t>()) ++v;
          return absl::OkStatus();
        });
        wrong.Unless(s.ok());
        continue;
      }
      const uint64_t before = slot.version();
      wrong.Unless(before >= version);
      version = before;
      const absl::StatusOr<Tensor> snapshot = slot.Read();
      wrong.Unless(snapshot.ok() && Equal(*snapshot) && snapshot->flat<int64_t>()[0] >= newest);
      newest = snapshot->flat<int64_t>()[0];
      // Some snapshots are kept: updates must leave them alone.
      if (i % 5 == 0) kept.push_back(*snapshot);
      if (kept.size() == 4) {
        for (const Tensor& k : kept) wrong.Unless(Equal(k));
        kept.clear();
      }
    }
  });
  BOOST_TEST(wrong.count() == 0);
  BOOST_TEST(slot.Read()->flat<int64_t>()[0] == kWriters * kRounds);
  BOOST_TEST(slot.version() == static_cast<uint64_t>(1 + kWriters * kRounds));
}

BOOST_AUTO_TEST_CASE(assignments_clears_and_reads_may_cross) {
  VariableSlot slot("v", DType::kInt64, PartialTensorShape({kElements}));
  Wrong wrong;
  RunThreads(4, [&](int t) {
    for (int i = 0; i < 800; ++i) {
      if (t == 0) {
        Tensor value(DType::kInt64, TensorShape({kElements}));
        for (int64_t& v : value.flat<int64_t>()) v = i;
        wrong.Unless(slot.Assign(std::move(value)).ok());
      } else if (t == 1 && i % 8 == 0) {
        slot.Clear();
      } else {
        const absl::StatusOr<Tensor> snapshot = slot.Read();
        wrong.Unless(snapshot.ok() ? Equal(*snapshot)
                                   : snapshot.status().code() == absl::StatusCode::kFailedPrecondition);
      }
    }
  });
  BOOST_TEST(wrong.count() == 0);
}

}  // namespace variable_slot_test
}  // namespace troupe::race
