// From a topology to processes: addresses, commands, environments, policies, and hosts.
#include "net/play/plan.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "net/play/wiring.h"
#include "tests/play/topologies.h"
#include "troupe/cluster.h"

namespace troupe::play {
namespace plan_test {

absl::StatusOr<Plan> PlanOf(const std::string& text) {
  const auto topology = Topology::Parse(text, "a.play");
  if (!topology.ok()) return topology.status();
  PlayOptions options;
  options.command = {"/bin/part", "--name={part}"};
  options.dir = "/tmp/x";
  return MakePlan(*topology, options);
}
std::string VariableOf(const PlannedProcess& p, const std::string& name) {
  for (const auto& [key, value] : p.spec.environment) {
    if (key == name) return value;
  }
  return "none";
}
std::string Refused(const std::string& text) {
  const auto plan = PlanOf(text);
  return plan.ok() ? "" : std::string(plan.status().message());
}

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(each_process_gets_addresses_a_command_and_its_wiring) {
  const auto plan = PlanOf(WholeTopology());
  BOOST_REQUIRE_MESSAGE(plan.ok(), plan.status());
  std::vector<std::string> names;
  for (const PlannedProcess& p : plan->processes) names.push_back(p.spec.name);
  BOOST_TEST(StrJoin(names, " ") == "ps:0 ps:1 worker:0 worker:1 model fall");
  BOOST_TEST(plan->stop_within.count() == 5000);
  const PlannedProcess &ps = plan->processes[1], &worker = plan->processes[3];
  BOOST_TEST(StrJoin(ps.spec.command, " ") == "/bin/part --name=ps:1");
  BOOST_TEST((ps.spec.service && !ps.spec.held && ps.ready_line == "troupe: ps:1 is ready"));
  BOOST_TEST((ps.spec.policy.restart == ProcessPolicy::Restart::kAlways));
  BOOST_TEST(ps.spec.policy.min_delay.count() == 10);
  const Part& all = *plan->topology.Find("ps");
  const std::string both = StrCat(AddressOf(all, 0), ",", AddressOf(all, 1));
  BOOST_TEST(ps.address == AddressOf(all, 1));
  const std::vector<std::string> command = {
      "sh",          "-c", StrCat("echo \"task 1 of worker at ", worker.address, "\""), "", both, "--more",
      "{literally}", "a b"};
  BOOST_TEST(worker.spec.command == command, boost::test_tools::per_element());
  BOOST_TEST((worker.spec.held && !worker.spec.service && worker.ready_line.empty()));
  BOOST_TEST((worker.spec.policy.restart == ProcessPolicy::Restart::kAfterFailure));
  BOOST_TEST(VariableOf(worker, "SEED") == "1");
  BOOST_TEST(VariableOf(worker, "NAME") == "two words");
  BOOST_TEST(VariableOf(worker, "TROUPE_PART") == "worker:1");
  BOOST_TEST(VariableOf(worker, "TROUPE_TARGET") == StrCat("troupe://", AddressOf(all, 0)));
}

// What the process reads from its environment is what was planned, by the cluster's own readers.
BOOST_AUTO_TEST_CASE(a_process_reads_its_place_from_its_environment) {
  const auto plan = PlanOf(WholeTopology());
  BOOST_REQUIRE(plan.ok());
  const PlannedProcess& worker = plan->processes[3];
  const auto read = [&](const char* name) -> std::optional<std::string> { return VariableOf(worker, name); };
  const auto spec = ServerSpecFromTfConfig(read);
  BOOST_REQUIRE_MESSAGE(spec.ok(), spec.status());
  BOOST_TEST((spec->task == ClusterTask{"worker", 1}));
  BOOST_TEST(spec->cluster.AddressOf(spec->task)->ToString() == worker.address);
  BOOST_TEST(spec->cluster.ToFlags() == VariableOf(worker, "TROUPE_CLUSTER"));
  const auto topology = Topology::Parse(VariableOf(worker, "TROUPE_PLAY"));
  BOOST_REQUIRE(topology.ok());
  BOOST_TEST(topology->ToText() == plan->topology.ToText());
  // One that is no task of the cluster.
  const std::string config = VariableOf(plan->processes[4], "TF_CONFIG");
  BOOST_TEST(config.find("\"task\"") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(another_host_needs_a_launcher_and_addresses) {
  const std::string server = "server ps\n  at: 127.0.0.1:12345\n  host: gpu1\n";
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  BOOST_TEST(Refused(server) == StrCat("a.play:3:9: host: 'gpu1' is not this host (", name,
                                       "), and nothing says how to start a program ",
                                       "there; a part `host gpu1` with `launcher: ssh gpu1` does"));
  const std::string host = "host gpu1\n  launcher: ssh -x gpu1\n";
  BOOST_TEST(Refused(host + "server ps\n  host: gpu1\n") ==
             "a.play:4:9: host: the free ports of 'gpu1' are not known here: give 'ps' its addresses by `at`");
  const auto plan = PlanOf(host + server + "  env: A='it''s'\n  folder: '/a b'\n");
  BOOST_REQUIRE_MESSAGE(plan.ok(), plan.status());
  const ProcessSpec& spec = plan->processes[0].spec;
  BOOST_REQUIRE(spec.command.size() == 4u);
  BOOST_TEST((spec.command[0] == "ssh" && spec.command[1] == "-x" && spec.command[2] == "gpu1"));
  BOOST_TEST(spec.command[3].starts_with("cd '/a b' && exec env 'TROUPE_PLAY="), spec.command[3]);
  BOOST_TEST(spec.command[3].ends_with("A=its /bin/part --name=ps:0"), spec.command[3]);
  BOOST_TEST((spec.environment.empty() && spec.folder.empty()));
  // By any name of this machine no launcher is needed.
  BOOST_TEST(Refused(StrCat("program a\n  run: true\n  host: ", name, "\n")) == "");
  BOOST_TEST(Refused("program a\n  run: true\n  host: localhost\n") == "");
}

// Comments and blank lines do not move it.
BOOST_AUTO_TEST_CASE(what_has_addresses_keeps_its_places) {
  const auto plan = PlanOf("# One.\n\nserver ps   # two\n\n  tasks: 2\n");
  BOOST_REQUIRE(plan.ok());
  const Part* const ps = plan->topology.Find("ps");
  BOOST_REQUIRE(ps != nullptr);
  BOOST_TEST(ps->at.line == 3);
  BOOST_TEST(ps->Find("tasks")->at.line == 5);
  BOOST_TEST(ps->Find("at")->words.size() == 2u);
  const auto again = Topology::Parse(plan->topology.ToText());
  BOOST_REQUIRE(again.ok());
  BOOST_TEST(again->ToText() == plan->topology.ToText());
  // A process could not read more.
  std::string much = "program a\n  tasks: 900\n  run: x";
  much.append(Topology::kMostBytes - much.size() - 1, 'y');
  BOOST_TEST(Refused(much + "\n").starts_with("a.play:1:1: with its addresses the topology has "));
}

BOOST_AUTO_TEST_CASE(a_port_that_is_taken_is_named_with_its_place) {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  BOOST_REQUIRE(::bind(s, reinterpret_cast<sockaddr*>(&address), size) == 0);
  BOOST_REQUIRE(::listen(s, 1) == 0);
  ::getsockname(s, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string taken = StrCat("127.0.0.1:", static_cast<int>(ntohs(address.sin_port)));
  const auto plan = PlanOf(StrCat("server ps\n  at: ", taken, "\n"));
  BOOST_TEST(absl::IsUnavailable(plan.status()));
  BOOST_TEST(plan.status().message() ==
             StrCat("a.play:2:7: the port of ", taken, " cannot be had: Address already in use"));
  ::close(s);
}

BOOST_AUTO_TEST_CASE(what_would_be_started_is_told) {
  const auto topology =
      Topology::Parse("server ps\n  at: 127.0.0.1:12345\nprogram a\n  run: echo 'a b' {ps.port}\n  after: ps\n");
  BOOST_REQUIRE(topology.ok());
  PlayOptions options;
  options.command = {"part", "{part}"};
  BOOST_TEST(Describe(*topology, options).value() ==
             "ps:0 (server) at 127.0.0.1:12345: part ps:0\na (program), after ps: echo 'a b' 12345\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace plan_test
}  // namespace troupe::play
