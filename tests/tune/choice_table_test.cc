// The trials of a problem's ways by given times: their order, their end, what is chosen; and the
// table, also from many threads.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <thread>
#include <vector>

#include "kernels/tune/choice_table.h"
#include "troupe/strings.h"

namespace troupe::tune {
namespace choice_table_test {

constexpr const char* kNumbers[] = {"size", "threads"};
constexpr Problem kProblem = {"test", kNumbers};
constexpr TuningMode kAll = TuningMode::kAll, kSameBits = TuningMode::kSameBits;

Key KeyOf(int64_t size, int64_t threads = 2) { return {&kProblem, {size, threads}}; }
std::vector<Way> Ways() { return {{"rule", true}, {"split", true}, {"library", false}}; }

// Runs calls of so many milliseconds by way until the choice is made; returns which ways they took.
std::vector<int> Run(Choice* c, TuningMode mode, const std::vector<double>& ms) {
  std::vector<int> taken;
  while (c->Chosen(mode) < 0) {
    BOOST_REQUIRE(taken.size() < 100);
    taken.push_back(c->Begin(mode));
    const bool last = c->End(mode, taken.back(), std::llround(ms[taken.back()] * 1e6));
    BOOST_CHECK_EQUAL(last, c->Chosen(mode) >= 0);
  }
  return taken;
}

BOOST_AUTO_TEST_SUITE(choice_table)

BOOST_AUTO_TEST_CASE(a_problem_is_named_with_its_numbers) {
  BOOST_CHECK_EQUAL(KeyOf(7).Text(), "test(size=7,threads=2)");
  BOOST_CHECK(KeyOf(7) == KeyOf(7));
  BOOST_CHECK(!(KeyOf(7) == KeyOf(8)));
  BOOST_CHECK(!(KeyOf(7) == KeyOf(7, 3)));
}

BOOST_AUTO_TEST_CASE(ways_take_turns_and_the_fastest_is_chosen) {
  Choice c(KeyOf(1), Ways());
  BOOST_CHECK((Run(&c, kAll, {100, 90, 80}) == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 2);
  const TuningChoice d = c.Describe(kAll);
  BOOST_CHECK_EQUAL(d.problem, "test(size=1,threads=2)");
  BOOST_CHECK(d.ways[1].name == "split" && d.ways[1].calls == 3 && d.ways[1].least_us == 90e3 && !d.from_file);
  // A call that comes later takes it, and its time changes nothing.
  BOOST_CHECK_EQUAL(c.Begin(kAll), 2);
  BOOST_CHECK(!c.End(kAll, 2, 1000));
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 2);
}

BOOST_AUTO_TEST_CASE(the_least_time_of_a_way_counts) {
  Choice c(KeyOf(1), Ways());
  int calls = 0;
  while (c.Chosen(kAll) < 0) {
    const int way = c.Begin(kAll);
    // The first call of each way is slow, most of all that of the fastest.
    c.End(kAll, way, calls++ < 3 ? 1000 * (way + 1) : 100 - 20 * way);
  }
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 2);
}

BOOST_AUTO_TEST_CASE(a_hopeless_way_gets_two_calls) {
  Choice c(KeyOf(1), Ways());
  BOOST_CHECK((Run(&c, kAll, {100, 90, 200}) == std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1}));
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 1);
}

// Few short calls tell little: ways that are close to the best are timed on.
BOOST_AUTO_TEST_CASE(short_ways_get_more_calls) {
  Choice c(KeyOf(1), Ways());
  const std::vector<int> taken = Run(&c, kAll, {0.01, 0.011, 0.013});
  BOOST_CHECK_EQUAL(std::count(taken.begin(), taken.end(), 0), Choice::kMostCalls);
  BOOST_CHECK_EQUAL(std::count(taken.begin(), taken.end(), 1), Choice::kMostCalls);
  BOOST_CHECK_EQUAL(std::count(taken.begin(), taken.end(), 2), Choice::kCalls);
  // Three milliseconds of one are enough.
  Choice d(KeyOf(1), Ways());
  BOOST_CHECK_EQUAL(Run(&d, kAll, {0.75, 0.75, 0.75}).size(), 3 * 4);
}

BOOST_AUTO_TEST_CASE(the_fixed_choice_stays_unless_another_way_is_clearly_faster) {
  Choice c(KeyOf(1), Ways());
  Run(&c, kAll, {100, 98, 97.5});
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 0);
  Choice d(KeyOf(1), Ways());
  Run(&d, kAll, {100, 96, 98});
  BOOST_CHECK_EQUAL(d.Chosen(kAll), 1);
}

BOOST_AUTO_TEST_CASE(long_trials_end_with_the_best_so_far) {
  Choice c(KeyOf(1), Ways());
  // Of seconds: the second call is the last, and the third way is not tried at all.
  BOOST_CHECK((Run(&c, kAll, {600, 500, 1}) == std::vector<int>{0, 1}));
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 1);
}

BOOST_AUTO_TEST_CASE(ways_of_other_bits_compete_only_when_asked) {
  Choice c(KeyOf(1), Ways());
  BOOST_CHECK((Run(&c, kSameBits, {100, 90, 10}) == std::vector<int>{0, 1, 0, 1, 0, 1}));
  BOOST_CHECK_EQUAL(c.Chosen(kSameBits), 1);
  BOOST_CHECK_EQUAL(c.Chosen(kAll), -1);
  BOOST_CHECK((Run(&c, kAll, {100, 90, 10}) == std::vector<int>{2, 2, 2}));
  BOOST_CHECK_EQUAL(c.Chosen(kAll), 2);
  BOOST_CHECK_EQUAL(c.Chosen(kSameBits), 1);
}

BOOST_AUTO_TEST_CASE(without_trials_the_fixed_choice_is_taken) {
  Choice c(KeyOf(1), Ways());
  BOOST_CHECK_EQUAL(c.Chosen(TuningMode::kFixed), 0);
  Run(&c, kAll, {100, 90, 10});
  BOOST_CHECK_EQUAL(c.Chosen(TuningMode::kFixed), 0);
  // One way alone is not timed.
  BOOST_CHECK_EQUAL(Choice(KeyOf(1), {{"rule", false}}).Chosen(kAll), 0);
  BOOST_CHECK_EQUAL(Choice(KeyOf(1), {{"rule", false}, {"library", false}}).Chosen(kSameBits), 0);
}

BOOST_AUTO_TEST_CASE(a_call_that_failed_does_not_count) {
  Choice c(KeyOf(1), Ways());
  BOOST_CHECK_EQUAL(c.Begin(kAll), 0);
  BOOST_CHECK_EQUAL(c.Begin(kAll), 1);  // of another thread meanwhile
  c.Abandon(0);
  BOOST_CHECK_EQUAL(c.Begin(kAll), 0);
  BOOST_CHECK_EQUAL(c.Describe(kAll).ways[0].calls, 0);
}

BOOST_AUTO_TEST_CASE(a_file_decides_for_problems_that_are_there_and_that_come) {
  ChoiceTable table;
  Choice* const there = table.FindOrAdd(KeyOf(1), Ways);
  Choice* const tried = table.FindOrAdd(KeyOf(3), Ways);
  Run(tried, kAll, {100, 90, 80});
  table.Learn({{KeyOf(1).Text(), {"split", {{"rule", 3.0}, {"split", 1.5}}}},
               {KeyOf(2).Text(), {"library", {{"library", 7.0}}}},
               {KeyOf(3).Text(), {"rule", {{"rule", 7.0}}}},
               {KeyOf(4).Text(), {"unheard_of", {{"unheard_of", 7.0}}}}});
  Choice* const comes = table.FindOrAdd(KeyOf(2), Ways);
  Choice* const odd = table.FindOrAdd(KeyOf(4), Ways);
  for (const TuningMode mode : {TuningMode::kFixed, kAll}) {
    BOOST_CHECK_EQUAL(there->Chosen(mode), 1);
    BOOST_CHECK_EQUAL(comes->Chosen(mode), 2);
    BOOST_CHECK_EQUAL(tried->Chosen(mode), 0);
  }
  BOOST_CHECK_EQUAL(there->Chosen(kSameBits), 1);
  BOOST_CHECK_EQUAL(comes->Chosen(kSameBits), -1);  // the library has other bits
  BOOST_CHECK_EQUAL(odd->Chosen(kAll), -1);
  BOOST_CHECK_EQUAL(odd->Chosen(TuningMode::kFixed), 0);
  const TuningChoice d = there->Describe(kAll);
  BOOST_CHECK(d.from_file && d.ways[0].least_us == 3.0 && d.ways[1].least_us == 1.5 && d.ways[2].least_us == 0);
}

BOOST_AUTO_TEST_CASE(what_was_measured_is_saved) {
  Choice c(KeyOf(1), Ways());
  SavedChoice saved;
  BOOST_CHECK(!c.Save(&saved));
  Run(&c, kAll, {100, 90, 80});
  BOOST_REQUIRE(c.Save(&saved));
  BOOST_CHECK_EQUAL(saved.way, "library");
  BOOST_REQUIRE_EQUAL(saved.times.size(), 3);
  BOOST_CHECK(saved.times[1].first == "split" && saved.times[1].second == 90e3);
  // What nothing was measured for is not.
  BOOST_CHECK(!Choice(KeyOf(1), {{"rule", false}}).Save(&saved));
}

BOOST_AUTO_TEST_CASE(the_table_is_bounded) {
  ChoiceTable table;
  std::set<Choice*> all;
  for (size_t i = 0; i < ChoiceTable::kMost; ++i) all.insert(table.FindOrAdd(KeyOf(i), Ways));
  BOOST_CHECK_EQUAL(all.size(), ChoiceTable::kMost);
  BOOST_CHECK(!all.contains(nullptr));
  BOOST_CHECK(table.FindOrAdd(KeyOf(-1), Ways) == nullptr);
  BOOST_CHECK(table.Find(KeyOf(-1)) == nullptr);
  BOOST_CHECK(table.Find(KeyOf(17)) == table.All()[17]);
  BOOST_CHECK_EQUAL(table.All().size(), ChoiceTable::kMost);
}

// Which problems came before the table was full is a matter of time, and changes no bit.
BOOST_AUTO_TEST_CASE(a_file_decides_also_where_the_table_is_full) {
  ChoiceTable table;
  for (size_t i = 0; i < ChoiceTable::kMost; ++i) table.FindOrAdd(KeyOf(i), Ways);
  const Key split = KeyOf(-1), library = KeyOf(-2), odd = KeyOf(-3), unknown = KeyOf(-4);
  BOOST_CHECK_EQUAL(table.SavedWay(split, kAll, Ways), 0);
  table.Learn({{split.Text(), {"split", {{"split", 1.5}}}},
               {library.Text(), {"library", {{"library", 7.0}}}},
               {odd.Text(), {"unheard_of", {{"unheard_of", 7.0}}}}});
  for (const TuningMode mode : {TuningMode::kFixed, kAll}) {
    BOOST_CHECK_EQUAL(table.SavedWay(split, mode, Ways), 1);
    BOOST_CHECK_EQUAL(table.SavedWay(library, mode, Ways), 2);
    BOOST_CHECK_EQUAL(table.SavedWay(odd, mode, Ways), 0);
    BOOST_CHECK_EQUAL(table.SavedWay(unknown, mode, Ways), 0);
  }
  BOOST_CHECK_EQUAL(table.SavedWay(split, kSameBits, Ways), 1);
  BOOST_CHECK_EQUAL(table.SavedWay(library, kSameBits, Ways), 0);  // it has other bits
}

BOOST_AUTO_TEST_CASE(the_nodes_of_a_problem_are_bounded) {
  Choice c(KeyOf(1), Ways());
  for (int i = 0; i < 100; ++i) c.NoteNode(StrCat("n", i / 2), "MatMul");
  BOOST_CHECK_EQUAL(c.Describe(kAll).nodes.size(), Choice::kMostNodes);
  BOOST_CHECK_EQUAL(c.Describe(kAll).nodes[1], "n1 (MatMul)");
}

// Each problem is one for all threads, and its choice is that of the times, whoever tried what.
BOOST_AUTO_TEST_CASE(many_callers) {
  constexpr int kThreads = 8, kProblems = 50;
  ChoiceTable table;
  std::vector<std::vector<Choice*>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        for (int p = 0; p < kProblems; ++p) {
          Choice* const c = table.FindOrAdd(KeyOf(p), Ways);
          if (round == 0) seen[t].push_back(c);
          if (c->Chosen(kAll) >= 0) continue;
          const int way = c->Begin(kAll);
          if ((t + round + p) % 5 == 0) {
            c->Abandon(way);
          } else {
            c->End(kAll, way, way == p % 3 ? 50 : 100);
          }
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  BOOST_CHECK_EQUAL(table.All().size(), kProblems);
  for (int p = 0; p < kProblems; ++p) {
    Choice* const c = table.Find(KeyOf(p));
    for (int t = 0; t < kThreads; ++t) BOOST_CHECK(seen[t][p] == c);
    BOOST_CHECK_EQUAL(c->Chosen(kAll), p % 3);
    // No way was tried much more often than it takes.
    for (const TuningWay& w : c->Describe(kAll).ways)
      BOOST_CHECK(w.calls >= 2 && w.calls <= Choice::kMostCalls + kThreads);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace choice_table_test
}  // namespace troupe::tune
