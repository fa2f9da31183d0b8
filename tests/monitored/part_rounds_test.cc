// The chief's knowledge of workers that come and go, edge by edge (actors/train/part_rounds.h).
#include "actors/train/part_rounds.h"

#include <boost/test/unit_test.hpp>

namespace troupe::train {
namespace part_rounds_test {

constexpr int64_t kFirst = int64_t{5} << kLifeBits, kSecond = int64_t{6} << kLifeBits;

struct Heard {
  Heard(int workers, int parts) : rounds(workers, parts, 100) { rounds.Begin(10); }
  void Say(int64_t kind, int64_t worker, int64_t life, int64_t number = 0, float loss = 0) {
    const int64_t notice[] = {kind, worker, life, number};
    rounds.Hear(notice, loss);
  }
  void Hello(int64_t worker, int64_t life) { Say(SyncReplicas::kHello, worker, life); }
  void Gradient(int64_t worker, int64_t life, int64_t number, float loss = 0) {
    Say(SyncReplicas::kGradient, worker, life, number, loss);
  }
  // "worker:life:step.part#number ..." of what is handed out; lives below their process.
  std::string Handed() {
    std::string text;
    for (const Rounds::Token& t : rounds.TakeTokens())
      StrAppend(&text, text.empty() ? "" : " ", t.worker, ":", t.life >> kLifeBits, ".", t.life & 0xff, ":", t.step,
                ".", t.part, "#", t.number);
    return text;
  }
  // "+1 -2 !3": joined, left, gone.
  std::string Changes() {
    std::string text;
    for (const Rounds::Change& c : rounds.TakeChanges()) {
      StrAppend(&text, text.empty() ? "" : " ",
                c.kind == Rounds::Change::kJoined ? "+"
                : c.kind == Rounds::Change::kLeft ? "-"
                                                  : "!",
                c.worker);
    }
    return text;
  }
  PartRounds rounds;
};

BOOST_AUTO_TEST_SUITE(part_rounds)

BOOST_AUTO_TEST_CASE(edges_1_2_3_and_14_parts_go_to_whoever_is_idle) {
  Heard h(3, 4);
  h.Hello(2, kFirst);
  h.Hello(0, kSecond);
  BOOST_TEST(h.Handed() == "2:5.0:10.0#101 0:6.0:10.1#102");
  BOOST_TEST(h.Changes() == "+2 +0");
  h.Gradient(0, kSecond, 102, 3);
  BOOST_TEST(h.Handed() == "0:6.0:10.2#103");
  h.Gradient(0, kSecond, 103, 5);
  BOOST_TEST(h.Handed() == "0:6.0:10.3#104");
  BOOST_TEST(h.rounds.missing() == "of these parts: 0 (worker 2 has it), 3 (worker 0 has it)");
  for (const int w : {0, 1, 2}) BOOST_TEST(h.rounds.misses(w) == (w != 1), "worker " << w);
  h.Gradient(0, kSecond, 104, 7);
  BOOST_TEST(!h.rounds.complete());
  h.Gradient(2, kFirst, 101, 1);
  BOOST_TEST(h.rounds.complete());
  BOOST_TEST(h.rounds.mean_loss() == 4.0);
  // Who comes now has a part of the next step: in the order of the workers.
  h.Hello(1, kFirst);
  BOOST_TEST(h.Handed() == "");
  BOOST_TEST(h.Changes() == "+1");
  h.rounds.Next();
  BOOST_TEST(h.rounds.step() == 11);
  BOOST_TEST(h.Handed() == "1:5.0:11.0#105 0:6.0:11.1#106 2:5.0:11.2#107");
  BOOST_TEST(!h.rounds.complete());
  BOOST_TEST(h.rounds.workers() == 3);
  BOOST_TEST(h.rounds.restarts() == 0);
}

BOOST_AUTO_TEST_CASE(with_more_workers_than_parts_all_have_their_turn) {
  Heard h(3, 1);
  for (int w = 0; w < 3; ++w) h.Hello(w, kFirst);
  std::string whom;
  for (int64_t number = 101; number < 107; ++number) {
    const std::vector<Rounds::Token> tokens = h.rounds.TakeTokens();
    BOOST_REQUIRE(tokens.size() == 1u);
    StrAppend(&whom, tokens[0].worker);
    h.Gradient(tokens[0].worker, kFirst, number);
    BOOST_REQUIRE(h.rounds.complete());
    h.rounds.Next();
  }
  BOOST_TEST(whom == "012012");
}

BOOST_AUTO_TEST_CASE(edges_4_and_5_a_worker_that_begins_anew) {
  Heard h(2, 2);
  h.Hello(0, kFirst);
  h.Hello(1, kFirst);
  h.Handed();
  // It had a part, and is given it again under another number; what its first life sent is void.
  h.Hello(1, kSecond);
  BOOST_TEST(h.Handed() == "1:6.0:10.1#103");
  h.Gradient(1, kFirst, 102);
  h.Gradient(1, kSecond, 102);
  BOOST_TEST(h.rounds.dropped() == 2);
  h.Gradient(1, kSecond, 103);
  // It had none: what is done stays so.
  h.Hello(1, kSecond + 1);
  BOOST_TEST(h.Handed() == "");
  h.Gradient(0, kFirst, 101);
  BOOST_TEST(h.rounds.complete());
  BOOST_TEST(h.rounds.restarts() == 1);
  BOOST_TEST(h.Changes() == "+0 +1");
}

BOOST_AUTO_TEST_CASE(edges_6_7_8_and_13_a_worker_leaves) {
  Heard h(3, 3);
  for (int w = 0; w < 3; ++w) h.Hello(w, kFirst);
  h.Gradient(0, kFirst, 101);
  h.Handed();
  h.Changes();
  // It has a part, which goes to the one who is idle.
  h.Say(SyncReplicas::kLeaves, 1, kFirst);
  BOOST_TEST(h.Handed() == "0:5.0:10.1#104");
  BOOST_TEST(h.Changes() == "-1");
  h.Gradient(1, kFirst, 102);
  BOOST_TEST(h.rounds.dropped() == 1);
  // A life before this one leaves nothing.
  h.Hello(1, kSecond);
  h.Say(SyncReplicas::kLeaves, 1, kFirst);
  BOOST_TEST(h.Changes() == "+1");
  BOOST_TEST(h.Handed() == "");
  for (int i = 0; i < 2; ++i) h.Say(SyncReplicas::kLeaves, 1, kSecond);
  BOOST_TEST(h.Changes() == "-1");
  h.Gradient(0, kFirst, 104);
  h.Gradient(2, kFirst, 103);
  BOOST_TEST(h.rounds.complete());
  h.rounds.Next();
  BOOST_TEST(h.Handed() == "0:5.0:11.0#105 2:5.0:11.1#106");
  BOOST_TEST(h.rounds.workers() == 2);
  BOOST_TEST(h.rounds.restarts() == 0);
  // One whose last hello was not heard; and one of before.
  h.Hello(2, kFirst + 2);
  BOOST_TEST(h.Handed() == "2:5.2:11.1#107");
  h.Say(SyncReplicas::kLeaves, 2, kFirst + 1);
  BOOST_TEST(h.Changes() == "");
  h.Say(SyncReplicas::kLeaves, 2, kFirst + 3);
  BOOST_TEST(h.Changes() == "-2");
}

BOOST_AUTO_TEST_CASE(edges_9_10_and_11_a_worker_is_gone_and_comes_back) {
  Heard h(2, 2);
  h.Hello(0, kFirst);
  h.Hello(1, kFirst);
  h.Handed();
  h.Changes();
  for (int i = 0; i < 2; ++i) h.Say(SyncReplicas::kGone, 1, 0);
  BOOST_TEST(h.Changes() == "!1");
  BOOST_TEST(h.Handed() == "");  // nobody is idle
  h.Gradient(0, kFirst, 101);
  BOOST_TEST(h.Handed() == "0:5.0:10.1#103");
  // It was only slow: what it sends is void, and it has parts again.
  h.Gradient(1, kFirst, 102);
  BOOST_TEST(h.rounds.dropped() == 1);
  BOOST_TEST(h.Changes() == "+1");
  h.Gradient(0, kFirst, 103);
  h.rounds.Next();
  BOOST_TEST(h.Handed() == "0:5.0:11.0#104 1:5.0:11.1#105");
  h.Gradient(1, kFirst, 105);
  h.Say(SyncReplicas::kGone, 1, 0);
  BOOST_TEST(h.Changes() == "!1");
  h.Gradient(0, kFirst, 104);
  BOOST_TEST(h.rounds.complete());
  h.rounds.Next();
  BOOST_TEST(h.Handed() == "0:5.0:12.0#106");
  h.Hello(1, kSecond);
  BOOST_TEST(h.Handed() == "1:6.0:12.1#107");
  BOOST_TEST(h.rounds.restarts() == 1);
}

BOOST_AUTO_TEST_CASE(edges_12_and_16_what_is_of_no_token_is_dropped) {
  Heard h(1, 1);
  h.Gradient(0, kFirst, 101);  // nobody has said hello
  BOOST_TEST(h.Changes() == "");
  h.Hello(0, kFirst);
  h.Gradient(0, kFirst, 100);
  h.Gradient(0, kFirst, 102);
  h.Gradient(0, kFirst + 1, 101);
  h.Gradient(1, kFirst, 101);
  h.Gradient(-1, kFirst, 101);
  h.Hello(7, kFirst);
  h.Say(77, 0, kFirst);
  BOOST_TEST(h.rounds.dropped() == 8);
  BOOST_TEST(!h.rounds.complete());
  h.Gradient(0, kFirst, 101);
  BOOST_TEST(h.rounds.complete());
  h.Gradient(0, kFirst, 101);  // the same once more
  BOOST_TEST(h.rounds.dropped() == 9);
  BOOST_TEST(h.Handed() == "0:5.0:10.0#101");
}

BOOST_AUTO_TEST_CASE(edge_15_after_a_loss_nobody_is_known) {
  Heard h(2, 1);
  h.Hello(0, kFirst);
  h.Changes();
  h.rounds.Begin(4);
  BOOST_TEST(h.Handed() == "");
  h.Gradient(0, kFirst, 101);
  BOOST_TEST(h.rounds.dropped() == 1);
  BOOST_TEST(h.rounds.missing() == "of these parts: 0 (nobody has it)");
  BOOST_TEST(h.rounds.misses(0));
  h.Hello(0, kFirst + 1);
  BOOST_TEST(h.Handed() == "0:5.1:4.0#102");
  BOOST_TEST(h.Changes() == "");  // it has not come just now
  BOOST_TEST(h.rounds.workers() == 1);
}

BOOST_AUTO_TEST_CASE(edges_17_18_and_19_who_had_come_before_a_loss_is_still_told_of) {
  Heard h(4, 4);
  for (int w = 0; w < 3; ++w) h.Hello(w, kFirst);
  BOOST_TEST(h.Changes() == "+0 +1 +2");
  h.Handed();
  h.rounds.Begin(4);
  BOOST_TEST(h.rounds.workers() == 3);
  // Nobody has a part before it says hello, and what its life of before sends is void.
  h.Gradient(1, kFirst, 102);
  BOOST_TEST(h.rounds.dropped() == 1);
  BOOST_TEST(h.Handed() == "");
  h.Hello(0, kFirst + 1);
  BOOST_TEST(h.Changes() == "");
  BOOST_TEST(h.Handed() == "0:5.1:4.0#104");
  for (int i = 0; i < 2; ++i) h.Say(SyncReplicas::kGone, 1, 0);
  BOOST_TEST(h.Changes() == "!1");
  BOOST_TEST(!h.rounds.is_member(1));
  for (int i = 0; i < 2; ++i) h.Say(SyncReplicas::kLeaves, 2, kFirst);
  BOOST_TEST(h.Changes() == "-2");
  BOOST_TEST(h.rounds.workers() == 1);
  // Who had not come is away as before.
  BOOST_TEST(!h.rounds.is_member(3));
  h.Say(SyncReplicas::kGone, 3, 0);
  BOOST_TEST(h.Changes() == "");
  h.Hello(1, kFirst + 1);
  BOOST_TEST(h.Changes() == "+1");
  BOOST_TEST(h.Handed() == "1:5.1:4.1#105");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace part_rounds_test
}  // namespace troupe::train
