// troupe cluster: up, status, logs and down, with real servers and with programs that are shells.
#include <csignal>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "tests/net/processes.h"
#include "troupe/tls.h"

namespace troupe {
namespace cluster_command_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Folder {
  Folder() : path((fs::temp_directory_path() / StrCat("troupe_up_", ::getpid())).string()) { fs::remove_all(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  const std::string path;
};

std::unique_ptr<Process> Cluster(std::vector<std::string> arguments, const Folder& folder) {
  arguments.insert(arguments.begin(), "cluster");
  arguments.insert(arguments.end(), {"--dir", folder.path});
  return std::make_unique<Process>(arguments);
}
// All of its output.
std::string Said(Process* p) {
  std::string text;
  for (std::string line = p->Line(); !line.empty(); line = p->Line()) text += line + "\n";
  return text;
}
bool Has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }
// Lines until one has this in it.
std::string Until(Process* p, const std::string& what) {
  std::string text;
  for (std::string line = p->Line(); !line.empty(); line = p->Line()) {
    text += line + "\n";
    if (Has(line, what)) break;
  }
  return text;
}

BOOST_AUTO_TEST_SUITE(cluster_command)

BOOST_AUTO_TEST_CASE(up_serves_a_job_runs_the_programs_of_another_and_ends_with_them) {
  Folder folder;
  // The program of task 1 fails once, and every one reports two steps.
  const auto up = Cluster(
      {"up", "ps=1;worker=2", "--program",
       "worker=sh -c 'test {task} = 0 -o -e {dir}/again || { touch {dir}/again; echo sorry; exit 5; }; "
       "echo \"{\\\"event\\\": \\\"step\\\", \\\"step\\\": 7, \\\"loss\\\": 0.5}\"; echo {job} {task} \"{cluster}\" {address}'"},
      folder);
  const std::string said = Said(up.get());
  BOOST_TEST(up->Wait() == 0);
  BOOST_TEST_INFO(said + up->errors());
  BOOST_TEST(Has(said, "worker:1: ended, 1 restart, step 7, loss 0.5\n"));
  BOOST_TEST_INFO(said);
  BOOST_TEST(Has(said, "worker:0: ended, 0 restarts, step 7, loss 0.5\n"));
  BOOST_TEST(Has(said, "ps:0: stopped, 0 restarts\n"));
  BOOST_TEST(Has(said, "all ended well: step 7, loss 0.5, 1 restart\n"));
  BOOST_TEST(Has(said, "worker:0: step 7, loss 0.5\n"));
  const auto logs = Cluster({"logs", "worker:1"}, folder);
  const std::string log = Said(logs.get());
  BOOST_TEST(Has(log, "sorry\ntroupe: worker:1 exited with status 5\n"));
  BOOST_TEST(Has(log, "\nworker 1 ps=127.0.0.1:"));
  const auto all = Cluster({"logs", "--lines", "1"}, folder);
  BOOST_TEST(Has(Said(all.get()), "worker:0  troupe: worker:0 exited with status 0\n"));
  const auto status = Cluster({"status"}, folder);
  BOOST_TEST(Has(Said(status.get()), StrCat("the cluster in ", folder.path, " is over: OK\n  ps:0 at 127.0.0.1:")));
  BOOST_TEST(status->Wait() == 0);
}

BOOST_AUTO_TEST_CASE(down_stops_what_up_has_started_and_a_second_up_is_refused) {
  Folder folder;
  const auto up = Cluster({"up", "ps=2"}, folder);
  BOOST_TEST(Has(Until(up.get(), "ps:1 runs"), "ps:0 runs as process "));
  const auto second = Cluster({"up", "ps=1"}, folder);
  BOOST_TEST(second->Wait() == 1);
  BOOST_TEST(Has(second->errors(), StrCat("ALREADY_EXISTS: process ", static_cast<int64_t>(up->pid()),
                                          " runs a cluster in ", folder.path)));
  const auto ready = [&] {
    const auto status = Cluster({"status", "--json"}, folder);
    const std::string said = Said(status.get());
    return status->Wait() == 0 && Has(said, "\"alive\": true") && Has(said, "\"name\": \"ps:1\"") &&
           Has(said, "\"state\": \"running\", \"pid\": ");
  };
  BOOST_TEST(Await(ready));
  const auto down = Cluster({"down"}, folder);
  BOOST_TEST(down->Wait() == 0);
  BOOST_TEST(up->Wait() == 0);
  BOOST_TEST(Has(Said(up.get()), "ps:1: stopped, 0 restarts\n"));
  const auto again = Cluster({"down"}, folder);
  BOOST_TEST(again->Wait() == 1);
  BOOST_TEST(Has(again->errors(), "NOT_FOUND: no cluster runs in "));
}

BOOST_AUTO_TEST_CASE(a_kill_at_a_step_hits_the_process_and_is_noted) {
  Folder folder;
  // The chief counts on from where it was, and ends at 30 when both workers were killed.
  const std::string count =
      "i=$(cat {dir}/at.{task} 2>/dev/null || echo 0); while [ $i -lt 30 ]; do i=$((i+1)); echo $i > {dir}/new.{task}; "
      "mv {dir}/new.{task} {dir}/at.{task}; echo \"{\\\"step\\\": $i}\"; sleep 0.05; done";
  const auto up = Cluster({"up", "worker=2", "--program", StrCat("worker=sh -c '", count, "'"), "--kill", "chief@5",
                           "--kill", "worker:1@8", "--freeze", "worker:1@20:50", "--json"},
                          folder);
  const std::string said = Said(up.get());
  BOOST_TEST(up->Wait() == 0);
  BOOST_TEST_INFO(said + up->errors());
  BOOST_TEST(Has(said, "{\"event\": \"killed\", \"name\": \"worker:0\", \"step\": "));
  BOOST_TEST(Has(said, "{\"event\": \"killed\", \"name\": \"worker:1\", \"step\": "));
  BOOST_TEST(Has(said, "{\"event\": \"frozen\", \"name\": \"worker:1\", \"step\": "));
  BOOST_TEST(Has(said, "was ended by signal 9 (Killed)"));
  BOOST_TEST(Has(said, "{\"event\": \"end\", \"ok\": true, \"restarts\": 2, \"cluster\": {"));
  const auto late = Cluster({"up", "worker=1", "--program", "worker=true", "--kill", "worker@5"}, folder);
  BOOST_TEST(late->Wait() == 1);
  BOOST_TEST(Has(late->errors(), "all ended before these steps were reported: worker@5"));
}

BOOST_AUTO_TEST_CASE(a_process_joins_at_a_step_and_another_one_is_told_to_leave) {
  Folder folder;
  // The chief counts until the one who joins is there and the one who leaves has left.
  const std::string program =
      "case {task} in "
      "0) i=0; until [ -e {dir}/came -a -e {dir}/went ]; do i=$((i+1)); echo \"{\\\"step\\\": $i}\"; sleep 0.05; done;; "
      "1) trap \"touch {dir}/went; exit 0\" TERM; touch {dir}/deaf; while :; do sleep 0.05; done;; "
      "2) touch {dir}/came;; esac";
  const auto up = Cluster({"up", "worker=3", "--program", StrCat("worker=sh -c '", program, "'"), "--join",
                           "worker:2@5", "--leave", "worker:1@40", "--json"},
                          folder);
  const std::string said = Said(up.get());
  BOOST_TEST(up->Wait() == 0, up->errors());
  BOOST_TEST_INFO(said);
  BOOST_TEST(Has(said, "{\"event\": \"process\", \"name\": \"worker:2\", \"state\": \"held\""));
  const size_t joins = said.find("{\"event\": \"joins\", \"name\": \"worker:2\", \"step\": 5}");
  const size_t leaves = said.find("{\"event\": \"leaves\", \"name\": \"worker:1\", \"step\": 40}");
  BOOST_TEST(joins != std::string::npos);
  BOOST_TEST(leaves != std::string::npos);
  BOOST_TEST(joins < leaves);
  BOOST_TEST(Has(said, "{\"event\": \"end\", \"ok\": true, \"restarts\": 0, \"cluster\": {"));
  // Who was to join later than all others ended, is not waited for.
  const auto late = Cluster({"up", "ps=1;worker=2", "--program", "worker=true", "--join", "worker:1@5"}, folder);
  BOOST_TEST(late->Wait() == 1);
  BOOST_TEST(Has(late->errors(), "FAILED_PRECONDITION: all ended before these steps were reported: worker:1@5"),
             late->errors());
}

BOOST_AUTO_TEST_CASE(up_with_tls_makes_a_certificate_that_its_processes_use) {
  Folder folder;
  if (absl::IsUnimplemented(MakeClusterCertificate(folder.path + "_tls"))) {  // a library without OpenSSL
    const auto refused = Cluster({"up", "ps=1", "--tls"}, folder);
    BOOST_TEST(refused->Wait() == 1);
    BOOST_TEST(Has(refused->errors(), "UNIMPLEMENTED: this Troupe was built without OpenSSL"));
    return;
  }
  fs::remove_all(folder.path + "_tls");
  // The program asks the server with the certificate, and without.
  const std::string troupe = TROUPE_PROGRAM;
  const auto up = Cluster(
      {"up", "ps=1;worker=1", "--tls", "--program",
       StrCat("worker=sh -c 'a=\"{cluster}\"; a=${a%%;*}; a=${a#ps=}; until ", troupe,
              " status $a; do sleep 0.2; done; ",
              "env -u TROUPE_TLS_CERTIFICATE -u TROUPE_TLS_KEY -u TROUPE_TLS_CA_FILE ", troupe, " status $a || true'")},
      folder);
  const std::string said = Said(up.get());
  BOOST_TEST_INFO(said);
  BOOST_TEST(up->Wait() == 0);
  const auto logs = Cluster({"logs", "worker:0"}, folder);
  const std::string log = Said(logs.get());
  BOOST_TEST(Has(log, "/job:ps/replica:0/task:0 at "), log);
  BOOST_TEST(Has(log, "its connections are encrypted (TLS), and this process has no certificate"), log);
  BOOST_TEST(fs::exists(folder.path + "/tls/node.key"));
  const auto certificate =
      std::make_unique<Process>(std::vector<std::string>{"cluster", "certificate", folder.path + "/more"});
  BOOST_TEST(certificate->Wait() == 0);
  BOOST_TEST(fs::exists(folder.path + "/more/ca.crt"));
}

BOOST_AUTO_TEST_CASE(a_program_that_goes_on_failing_ends_the_cluster) {
  Folder folder;
  const auto up = Cluster(
      {"up", "ps=1;worker=1", "--program", "worker=sh -c 'echo what a pity; exit 3'", "--most_restarts", "1"}, folder);
  BOOST_TEST(up->Wait() == 1);
  BOOST_TEST(Has(up->errors(),
                 "ABORTED: worker:0 exited with status 3, after 1 restarts, and is given up; its last "
                 "line: what a pity"));
  const auto never = Cluster({"up", "worker=1", "--program", "worker=false", "--restart", "worker=never"}, folder);
  BOOST_TEST(never->Wait() == 1);
  BOOST_TEST(Has(never->errors(), "ABORTED: worker:0 exited with status 1"));
}

BOOST_AUTO_TEST_CASE(an_interrupt_stops_in_order_and_a_second_one_at_once) {
  Folder folder;
  const auto up =
      Cluster({"up", "worker=1", "--program", "worker=sh -c 'trap \"\" TERM; echo {\\}; while :; do sleep 0.1; done'",
               "--stop_within", "3600000"},
              folder);
  BOOST_TEST(Has(Until(up.get(), "worker:0 runs"), "worker:0 runs"));
  // It is deaf once it has said something.
  BOOST_TEST(Await([&] {
    const auto logs = Cluster({"logs", "worker:0"}, folder);
    return Has(Said(logs.get()), "{}");
  }));
  up->Signal(SIGINT);
  BOOST_TEST(Has(Until(up.get(), "stopping"), "stopping; once more ends all at once\n"));
  up->Signal(SIGINT);
  BOOST_TEST(up->Wait() == 1);
  BOOST_TEST(Has(up->errors(), "CANCELLED: stopped before these had ended: worker:0"));
}

BOOST_AUTO_TEST_CASE(a_killed_up_takes_its_processes_along_and_the_next_one_takes_the_folder) {
  Folder folder;
  const auto up = Cluster({"up", "ps=1"}, folder);
  const std::string line = Until(up.get(), "ps:0 runs as process ");
  const size_t at = line.find("process ");
  BOOST_REQUIRE(at != std::string::npos);
  const pid_t server = static_cast<pid_t>(std::stol(line.substr(at + 8)));
  BOOST_TEST(Await([&] { return fs::exists(folder.path + "/state.json"); }));
  up->Signal(SIGKILL);
  BOOST_TEST(up->Wait() == -SIGKILL);
  BOOST_TEST(Await([&] {
    std::ifstream stat(StrCat("/proc/", static_cast<int64_t>(server), "/stat"));
    std::string number, name, state;
    return !(stat >> number >> name >> state) || state == "Z";
  }));
  const auto status = Cluster({"status"}, folder);
  BOOST_TEST(status->Wait() == 1);
  BOOST_TEST(Has(Said(status.get()), "is gone, and its processes with it; it was running\n"));
  const auto next = Cluster({"up", "worker=1", "--program", "worker=true"}, folder);
  BOOST_TEST(next->Wait() == 0);
}

BOOST_AUTO_TEST_CASE(wrong_flags_files_and_folders_are_told) {
  Folder folder;
  const auto told = [&](std::vector<std::string> arguments, int status) {
    arguments.insert(arguments.begin(), "up");
    const auto p = Cluster(arguments, folder);
    BOOST_TEST(p->Wait() == status);
    return p->errors();
  };
  BOOST_TEST(told({"ps=0"}, 2) ==
             "troupe: INVALID_ARGUMENT: a job has at least one task, and a local cluster at most 1000: ps=0\n");
  BOOST_TEST(Has(told({"ps=1;worker"}, 2), "INVALID_ARGUMENT: cluster, column "));
  BOOST_TEST(Has(told({"/no/such/file"}, 1), "NOT_FOUND: "));
  BOOST_TEST(
      Has(told({"ps=10.1.2.3:99"}, 1), "FAILED_PRECONDITION: the address 10.1.2.3:99 of ps:0 is not of this machine"));
  BOOST_TEST(
      Has(told({"ps=1", "--program", "worker=true"}, 2), "--program 'worker=true': the cluster has no job 'worker'"));
  BOOST_TEST(Has(told({"ps=1", "--program", "true"}, 2), "--program 'true': it is JOB=..."));
  BOOST_TEST(Has(told({"ps=1", "--program", "ps='a"}, 2), "the quote ' is not closed in: 'a"));
  BOOST_TEST(Has(told({"ps=1", "--program", "ps=/no/such/program"}, 1),
                 "NOT_FOUND: ps:0: there is no program /no/such/program"));
  BOOST_TEST(
      Has(told({"ps=1", "--restart", "ps=maybe"}, 2), "--restart: 'maybe' is none of always, on-failure, never"));
  BOOST_TEST(
      Has(told({"ps=1", "--kill", "ps@3"}, 2), "--kill 'ps@3': no program reports steps: name one with --program"));
  BOOST_TEST(Has(told({"ps=1", "--program", "ps=true", "--kill", "ps:1@3"}, 2), "the cluster has no task ps:1"));
  BOOST_TEST(Has(told({"ps=1", "--program", "ps=true", "--kill", "ps"}, 2), "--kill 'ps': it is ROLE[:TASK]@STEP"));
  const std::vector<std::string> two{"ps=1;worker=2", "--program", "worker=true"};
  const auto of_two = [&](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    return told(more, 2);
  };
  BOOST_TEST(Has(of_two({"--join", "chief@3"}), "--join 'chief@3': the chief is there from the beginning to the end"));
  BOOST_TEST(Has(of_two({"--leave", "ps@3"}), "--leave 'ps@3': only a program joins and leaves"));
  BOOST_TEST(Has(of_two({"--join", "worker:1@3", "--join", "worker:1@4"}), "--join: worker:1 joins twice"));
  // A port that somebody has.
  const std::string cluster = LocalCluster(0);
  const Process server({"serve", "--cluster", cluster, "--job", "ps", "--task", "0"});
  BOOST_TEST(Await([&] { return AskServer(AddressIn(cluster, "ps", 0), 1s).ok(); }));
  BOOST_TEST(Has(told({cluster}, 1), StrCat("UNAVAILABLE: ps:0: the port of ", AddressIn(cluster, "ps", 0).ToString(),
                                            " cannot be had: ")));
  for (const char* what : {"status", "logs", "down"}) {
    Folder nothing;
    fs::remove_all(folder.path);
    const auto p = Cluster({what}, nothing);
    BOOST_TEST(p->Wait() == 1);
    BOOST_TEST(Has(p->errors(), "NOT_FOUND: there is no cluster in "));
  }
  fs::create_directories(folder.path + "/holiday_pictures");
  BOOST_TEST(Has(told({"ps=1"}, 1), StrCat("the folder ", folder.path, " has other things in it than a cluster")));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cluster_command_test
}  // namespace troupe
