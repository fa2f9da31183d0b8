// How the answers of a step's parts become a report, from answers made up.
#include "actors/watch/stall_report.h"

#include <boost/test/unit_test.hpp>

#include "kernels/run_kernel.h"
#include "troupe/strings.h"

namespace troupe {
namespace stall_lines_test {

struct Parts {
  Parts() {
    for (int i = 0; i < 2; ++i) {
      auto part = std::make_shared<CompiledPart>();
      part->info.resize(2);
      part->info[0].device = part->info[1].device = EvaluationDevice(1);
      part->info[0].name = i == 0 ? "recv0" : "recv1";
      part->info[1].name = i == 0 ? "send0" : "send1";
      part->info[0].op = "_Recv";
      part->info[1].op = "_Send";
      part->recvs = {{Key(1 - i), 0}};
      part->sends = {{Key(i), 1}};
      answers.push_back({part, "", StepReport{true, {}}, StrCat("part ", i, " is silent")});
    }
  }
  static std::string Key(int from) { return StrCat("d", from, ";0;d", 1 - from, ";t"); }
  StepReport::Root& Add(int part, const char* text, int64_t nanos, StepReport::Link takes = {}) {
    answers[part].report->roots.push_back({text, nanos, std::move(takes), {}, {}});
    return answers[part].report->roots.back();
  }
  std::string Lines(size_t limit = 40) { return "\n" + StrJoin(StallLines(answers, limit), "\n"); }
  std::vector<PartAnswer> answers;
};

BOOST_FIXTURE_TEST_CASE(the_oldest_culprit_comes_first_and_iterations_are_told_apart, Parts) {
  Add(0, "young", 1).chains = {{{"c"}, {Key(0), {{8}}, false}}};
  Add(0, "old", 2).chains = {{{"a", "b"}, {Key(0), {{7}}, false}}, {{"a", "result"}, {}}};
  Add(1, "recv of 7", 2, {Key(0), {{7}}, false}).chains = {{{"d"}, {}}};
  Add(1, "recv of 8", 2, {Key(0), {{8}}, false});
  BOOST_TEST(Lines() == "\nold\n  <- a\n  <- b\n  <- result\n  <- recv of 7\n  <- d\nyoung\n  <- c\n  <- recv of 8");
  BOOST_TEST(Lines(3) == "\nold\n  <- a\n  <- b\nand 6 lines more");
}

BOOST_FIXTURE_TEST_CASE(a_receive_of_an_iteration_that_has_not_begun_waits_for_what_keeps_the_loop, Parts) {
  Add(0, "stuck", 1).later = {Key(0)};
  Add(1, "recv", 2, {Key(0), {{9}}, false});
  BOOST_TEST(Lines() == "\nstuck\n  <- recv");
}

BOOST_FIXTURE_TEST_CASE(a_dead_end_is_named, Parts) {
  answers[0].report = StepReport{};  // done
  Add(1, "recv", 2, {Key(0), {}, false});
  BOOST_TEST(Lines().find("\nrecv; its other end, node 'send0' (_Send) on ") == 0u, Lines());
  BOOST_TEST(Lines().find(", did not run before its part ended") != std::string::npos, Lines());
  answers[1].report->roots[0].takes.key = "nobody's";
  BOOST_TEST(Lines() == "\nrecv; no part sends it");
  answers[1].report->roots[0].takes.grant = true;
  BOOST_TEST(Lines() == "\nrecv; no part receives it");
}

BOOST_FIXTURE_TEST_CASE(a_part_that_does_not_answer_is_a_culprit, Parts) {
  answers[0].report.reset();
  Add(1, "recv", 2, {Key(0), {}, false}).chains = {{{"a"}, {}}};
  BOOST_TEST(Lines() == "\npart 0 is silent\n  <- recv\n  <- a");
}

BOOST_FIXTURE_TEST_CASE(a_held_value_waits_for_what_its_receiver_waits_for, Parts) {
  Add(0, "held", 2, {Key(0), {{3}}, true});
  Add(1, "slow", 1).chains = {{{"recv that asks"}, {Key(0), {{3}}, true}}};
  BOOST_TEST(Lines() == "\nslow\n  <- recv that asks\n  <- held");
}

BOOST_FIXTURE_TEST_CASE(a_held_value_whose_receiver_waits_for_nothing_is_the_culprit, Parts) {
  Add(0, "held", 2, {Key(0), {{3}}, true}).chains = {{{"send's successor"}, {}}};
  Add(1, "slow", 1).chains = {{{"a"}, {}}};
  const std::string device(EvaluationDevice(1)->name());
  BOOST_TEST(Lines() == StrCat("\nheld; nothing holds its other end up, node 'recv1' (_Recv) on ", device,
                               "\n  <- send's successor\nslow\n  <- a"));
  answers[1].report = StepReport{};  // done
  BOOST_TEST(Lines() == StrCat("\nheld; its other end, node 'recv1' (_Recv) on ", device,
                               ", did not run before its part ended\n  <- send's successor"));
}

BOOST_FIXTURE_TEST_CASE(a_circle_is_told_as_one, Parts) {
  Add(0, "recv 0", 1, {Key(1), {}, false}).chains = {{{"send 0"}, {Key(0), {}, false}}};
  Add(1, "recv 1", 1, {Key(0), {}, false}).chains = {{{"send 1"}, {Key(1), {}, false}}};
  BOOST_TEST(Lines() ==
             "\na circle of parts that wait for each other:\n  <- recv 0\n  <- send 0\n  <- recv 1\n  <- send 1");
}

}  // namespace stall_lines_test
}  // namespace troupe
