// The chief's knowledge of its workers, edge by edge (actors/train/sync_rounds.h).
#include "actors/train/sync_rounds.h"

#include <boost/test/unit_test.hpp>

namespace troupe::train {
namespace sync_rounds_test {

constexpr int64_t kFirst = int64_t{5} << kLifeBits, kSecond = int64_t{6} << kLifeBits;

struct Heard {
  explicit Heard(int workers, int take = 0) : rounds(workers, take == 0 ? workers : take) { rounds.Begin(10); }
  void Hello(int64_t worker, int64_t life) {
    const int64_t notice[] = {SyncReplicas::kHello, worker, life, 0};
    rounds.Hear(notice, 0);
  }
  void Gradient(int64_t worker, int64_t life, int64_t step, float loss = 0) {
    const int64_t notice[] = {SyncReplicas::kGradient, worker, life, step};
    rounds.Hear(notice, loss);
  }
  // "worker:life:step ..." of what is handed out; lives below their process.
  std::string Handed() {
    std::string text;
    for (const SyncRounds::Token& t : rounds.TakeTokens())
      StrAppend(&text, text.empty() ? "" : " ", t.worker, ":", t.life >> kLifeBits, ".", t.life & 0xff, ":", t.step);
    return text;
  }
  SyncRounds rounds;
};

BOOST_AUTO_TEST_SUITE(sync_rounds)

BOOST_AUTO_TEST_CASE(edges_1_2_and_5_all_workers_step_after_step) {
  Heard h(2);
  h.Hello(1, kFirst);
  h.Hello(0, kSecond);
  BOOST_TEST(h.Handed() == "1:5.0:10 0:6.0:10");
  h.Gradient(1, kFirst, 10, 4);
  BOOST_TEST(!h.rounds.complete());
  BOOST_TEST(h.rounds.is_taken(1));
  BOOST_TEST(!h.rounds.is_taken(0));
  BOOST_TEST(h.rounds.misses(0));
  BOOST_TEST(!h.rounds.misses(1));
  h.Gradient(0, kSecond, 10, 2);
  BOOST_TEST(h.rounds.complete());
  BOOST_TEST(h.rounds.mean_loss() == 3.0);
  BOOST_TEST(!h.rounds.has_tokens());
  h.rounds.Next();
  BOOST_TEST(h.rounds.step() == 11);
  BOOST_TEST(h.Handed() == "0:6.0:11 1:5.0:11");
  BOOST_TEST(h.Handed() == "");
  BOOST_TEST(!h.rounds.complete());
  BOOST_TEST(h.rounds.dropped() == 0);
  BOOST_TEST(h.rounds.restarts() == 0);
}

BOOST_AUTO_TEST_CASE(edges_3_and_4_a_worker_that_begins_anew) {
  Heard h(2);
  h.Hello(0, kFirst);
  h.Hello(1, kFirst);
  h.Handed();
  // It was asked, and is asked again; what its first life sent is void.
  h.Hello(1, kSecond);
  BOOST_TEST(h.Handed() == "1:6.0:10");
  h.Gradient(1, kFirst, 10);
  BOOST_TEST(h.rounds.dropped() == 1);
  BOOST_TEST(!h.rounds.is_taken(1));
  h.Gradient(1, kSecond, 10);
  BOOST_TEST(h.rounds.is_taken(1));
  // Its gradient is in its place: it has a token when the step is over, in its new life.
  h.Hello(1, kSecond + 1);
  BOOST_TEST(h.Handed() == "");
  BOOST_TEST(h.rounds.is_taken(1));
  h.Gradient(0, kFirst, 10);
  h.rounds.Next();
  BOOST_TEST(h.Handed() == "0:5.0:11 1:6.1:11");
  // Only another process counts as a restart.
  BOOST_TEST(h.rounds.restarts() == 1);
}

BOOST_AUTO_TEST_CASE(edges_6_7_and_8_a_worker_is_late) {
  Heard h(3, 2);
  for (int w = 0; w < 3; ++w) h.Hello(w, kFirst);
  h.Handed();
  h.Gradient(2, kFirst, 10, 8);
  h.Gradient(0, kFirst, 10, 4);
  BOOST_TEST(h.rounds.complete());
  BOOST_TEST(h.rounds.mean_loss() == 6.0);
  BOOST_TEST(!h.rounds.is_taken(1));
  h.rounds.Next();
  BOOST_TEST(h.Handed() == "0:5.0:11 2:5.0:11");
  // Two steps later: dropped, and asked for the step that runs then.
  h.Gradient(0, kFirst, 11);
  h.Gradient(2, kFirst, 11);
  h.rounds.Next();
  h.Handed();
  h.Gradient(1, kFirst, 10);
  BOOST_TEST(h.rounds.dropped() == 1);
  BOOST_TEST(!h.rounds.is_taken(1));
  BOOST_TEST(h.Handed() == "1:5.0:12");
  h.Gradient(0, kFirst, 12);
  h.Gradient(2, kFirst, 12);
  h.rounds.Next();
  h.Handed();
  h.Hello(1, kSecond);
  BOOST_TEST(h.Handed() == "1:6.0:13");
  h.Gradient(1, kFirst, 12);
  BOOST_TEST(h.rounds.dropped() == 2);
  h.Gradient(1, kSecond, 13);
  BOOST_TEST(h.rounds.is_taken(1));
}

BOOST_AUTO_TEST_CASE(edges_9_and_10_what_is_of_no_token_is_dropped) {
  Heard h(1);
  h.Gradient(0, kFirst, 10);  // nobody has said hello
  h.Hello(0, kFirst);
  h.Gradient(0, kFirst, 9);
  h.Gradient(0, kFirst, 11);
  h.Gradient(0, kFirst + 1, 10);
  h.Gradient(1, kFirst, 10);
  h.Gradient(-1, kFirst, 10);
  h.Hello(7, kFirst);
  const int64_t nonsense[] = {77, 0, kFirst, 10};
  h.rounds.Hear(nonsense, 0);
  BOOST_TEST(h.rounds.dropped() == 8);
  BOOST_TEST(!h.rounds.complete());
  h.Gradient(0, kFirst, 10);
  BOOST_TEST(h.rounds.complete());
  h.Gradient(0, kFirst, 10);  // the same once more
  BOOST_TEST(h.rounds.dropped() == 9);
  BOOST_TEST(h.Handed() == "0:5.0:10");
}

BOOST_AUTO_TEST_CASE(edge_11_after_a_loss_nobody_is_known) {
  Heard h(1);
  h.Hello(0, kFirst);
  h.rounds.Begin(4);
  BOOST_TEST(h.Handed() == "");
  h.Gradient(0, kFirst, 10);
  h.Gradient(0, kFirst, 4);
  BOOST_TEST(h.rounds.dropped() == 2);
  h.Hello(0, kFirst + 1);
  BOOST_TEST(h.Handed() == "0:5.1:4");
  BOOST_TEST(h.rounds.restarts() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sync_rounds_test
}  // namespace troupe::train
