// Who is ready, and who may start because of that, edge by edge.
#include "net/play/conductor.h"

#include <boost/test/unit_test.hpp>

namespace troupe::play {
namespace conductor_test {

PlannedProcess Process(const std::string& name, Kind kind, std::vector<std::string> after = {}) {
  PlannedProcess p;
  p.spec.name = name;
  p.part = name.substr(0, name.find(':'));
  p.kind = kind;
  p.spec.service = kind != Kind::kProgram;
  p.after = std::move(after);
  p.spec.held = !p.after.empty();
  if (kind != Kind::kProgram) p.ready_line = ReadyLine(name);
  p.anywhere_in_line = kind == Kind::kProgram;
  return p;
}

ProcessStatus Status(ProcessState state, uint64_t incarnation = 1) {
  ProcessStatus s;
  s.state = state;
  s.incarnation = incarnation;
  return s;
}

constexpr auto kRunning = ProcessState::kRunning, kHeld = ProcessState::kHeld, kEnded = ProcessState::kEnded,
               kWaiting = ProcessState::kWaiting, kGivenUp = ProcessState::kGivenUp;

// The names of those that are released now.
std::string Step(Conductor* c, const std::vector<ProcessStatus>& status) {
  c->OnStatus(status);
  return StrJoin(c->Release(), " ");
}

BOOST_AUTO_TEST_SUITE(conductor)

BOOST_AUTO_TEST_CASE(edges_1_and_2_who_comes_after_another_waits_until_that_is_ready) {
  Conductor c({Process("ps:0", Kind::kServer), Process("ps:1", Kind::kServer), Process("a", Kind::kActor, {"ps"}),
               Process("b", Kind::kProgram, {"ps", "a"})});
  const std::vector<ProcessStatus> start = {Status(kRunning), Status(kRunning), Status(kHeld, 0), Status(kHeld, 0)};
  BOOST_TEST(Step(&c, start) == "");
  BOOST_TEST(!c.OnLine("ps:0", 1, "troupe: ps:1 is ready"));
  BOOST_TEST(!c.OnLine("ps:0", 1, "so says troupe: ps:0 is ready"));
  BOOST_TEST(c.OnLine("ps:0", 1, "troupe: ps:0 is ready at 127.0.0.1:1"));
  BOOST_TEST(Step(&c, start) == "");
  BOOST_TEST(StrJoin(c.NotReady(), " ") == "ps:1 a");
  BOOST_TEST(c.OnLine("ps:1", 1, "troupe: ps:1 is ready"));
  BOOST_TEST(Step(&c, start) == "a");
  BOOST_TEST(c.AnyHeld());
  BOOST_TEST(Step(&c, start) == "");
  BOOST_TEST(c.OnLine("a", 1, "troupe: a is ready"));
  BOOST_TEST(Step(&c, {start[0], start[1], Status(kRunning), Status(kHeld, 0)}) == "b");
  BOOST_TEST(!c.AnyHeld());
  BOOST_TEST(c.NotReady().empty());
}

BOOST_AUTO_TEST_CASE(edge_3_programs_are_ready_when_they_run_or_have_ended) {
  PlannedProcess service = Process("service", Kind::kProgram), says = Process("says", Kind::kProgram);
  service.spec.service = true;
  says.ready_line = "listening";
  Conductor c({service, Process("job", Kind::kProgram), says, Process("x", Kind::kProgram, {"service"}),
               Process("y", Kind::kProgram, {"job"}), Process("z", Kind::kProgram, {"says"})});
  const ProcessStatus held = Status(kHeld, 0);
  BOOST_TEST(Step(&c, {Status(ProcessState::kStarting), Status(kRunning), Status(kRunning), held, held, held}) == "");
  BOOST_TEST(Step(&c, {Status(kRunning), Status(kRunning), Status(kRunning), held, held, held}) == "x");
  BOOST_TEST(Step(&c, {Status(kRunning), Status(kEnded), Status(kRunning), held, held, held}) == "y");
  BOOST_TEST(c.OnLine("says", 1, "now listening at 80"));
  BOOST_TEST(Step(&c, {Status(kRunning), Status(kEnded), Status(kEnded), held, held, held}) == "z");
}

BOOST_AUTO_TEST_CASE(edge_4_a_new_incarnation_has_to_be_ready_again) {
  Conductor c({Process("ps", Kind::kServer)});
  c.OnLine("ps", 1, "troupe: ps is ready");
  Step(&c, {Status(kRunning)});
  BOOST_TEST(c.ready(0));
  Step(&c, {Status(kWaiting)});
  BOOST_TEST(!c.ready(0));
  Step(&c, {Status(kRunning, 2)});
  BOOST_TEST(!c.ready(0));
  c.OnLine("ps", 2, "troupe: ps is ready");
  Step(&c, {Status(kRunning, 2)});
  BOOST_TEST(c.ready(0));
}

BOOST_AUTO_TEST_CASE(edge_5_who_waits_for_one_that_is_over_would_wait_forever) {
  Conductor c({Process("job", Kind::kProgram), Process("x", Kind::kProgram, {"job"})});
  Step(&c, {Status(kRunning), Status(kHeld, 0)});
  BOOST_TEST(c.hopeless().ok());
  BOOST_TEST(Step(&c, {Status(kGivenUp), Status(kHeld, 0)}) == "");
  BOOST_TEST(c.hopeless().message() == "x cannot start: it comes after job, which is over and was not ready");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace conductor_test
}  // namespace troupe::play
