// Training over several processes on the loopback interface (examples/cluster_mnist), while
// processes of every role are killed with SIGKILL and started again: synchronous training ends with
// the bits of a run in which nobody was killed.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/net/training_processes.h"

#ifdef TROUPE_CLUSTER_MNIST

namespace troupe {
namespace lost_processes_test {

const std::vector<std::string> kSync{"--mode", "sync", "--steps", "60", "--batch", "10", "--save_steps", "10"};

const UndisturbedRun& Undisturbed() {
  static const UndisturbedRun expected(2, 2, kSync, 60);
  return expected;
}

BOOST_AUTO_TEST_SUITE(lost_processes)

BOOST_AUTO_TEST_CASE(a_killed_worker_costs_nothing) {
  Training t(2, 2, kSync);
  for (const int64_t step : {5, 23}) {
    t.Until(step);
    t.Kill(t.worker[1]);
    t.Work(1);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(Field(t.end, "restarts") == "2");
  BOOST_TEST(Field(t.end, "lost_updates") == "0");
}

BOOST_AUTO_TEST_CASE(a_killed_chief_goes_on_with_what_the_servers_have) {
  Training t(2, 2, kSync);
  int64_t last = 0;
  // At 20 and 40 it is killed when it saves, or soon after.
  for (const int64_t step : {7, 20, 33, 40}) {
    t.Until(step);
    t.Kill(t.worker[0]);
    last = step;
    t.Work(0);
    const size_t begun = t.begins.size();
    while (t.begins.size() == begun) t.Next();
    BOOST_TEST(Field(t.begins.back(), "from") == "servers");
    BOOST_TEST(Whole(t.begins.back(), "step") >= last);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
}

BOOST_AUTO_TEST_CASE(after_a_killed_server_all_go_back_to_one_checkpoint) {
  Training t(2, 2, kSync);
  // At 30 the server is killed when it saves, or soon after.
  for (const auto& [server, step] : {std::pair(1, 14), std::pair(0, 30), std::pair(0, 47)}) {
    t.Until(step);
    t.Kill(t.ps[static_cast<size_t>(server)]);
    t.Serve(server);
    const size_t begun = t.begins.size();
    while (t.begins.size() == begun) t.Next();
    BOOST_TEST(Field(t.begins.back(), "from") == "checkpoint");
    BOOST_TEST(Whole(t.begins.back(), "restored_to") % 10 == 0);
    BOOST_TEST(Whole(t.begins.back(), "lost_updates") >= step - Whole(t.begins.back(), "step"));
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(Whole(t.end, "recoveries") >= 3);
  for (const auto& [step, told] : Undisturbed().losses) BOOST_TEST(t.losses.contains(step), "step " << step);
}

// It says goodbye; for the others that is a loss like another.
BOOST_AUTO_TEST_CASE(a_server_that_is_stopped_in_order_and_started_again_is_one_that_was_lost) {
  Training t(2, 2, kSync);
  for (const auto& [server, step] : {std::pair(1, 14), std::pair(0, 33)}) {
    t.Until(step);
    t.Stop(t.ps[static_cast<size_t>(server)]);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    t.Serve(server);
    const size_t begun = t.begins.size();
    while (t.begins.size() == begun) t.Next();
    BOOST_TEST(Field(t.begins.back(), "from") == "checkpoint");
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
}

BOOST_AUTO_TEST_CASE(one_after_the_other_and_two_at_once) {
  Training t(2, 2, kSync);
  t.Until(12);
  t.Kill(t.ps[0]);
  t.Kill(t.worker[0]);
  t.Serve(0);
  t.Work(0);
  t.Until(25);
  t.Kill(t.worker[1]);
  t.Kill(t.ps[1]);
  t.Work(1);
  t.Serve(1);
  t.Until(38);
  for (auto& process : t.worker) t.Kill(process);
  for (const int w : {0, 1}) t.Work(w);
  t.Until(52);
  for (auto& process : t.ps) t.Kill(process);
  for (const int p : {0, 1}) t.Serve(p);
  t.ToTheEnd();
  Undisturbed().Check(t);
}

// Each server has a replica of the other's variables: whoever is lost, nothing is restored, and no
// update that was told of is made again. Two that hold each other's cost a checkpoint.
BOOST_AUTO_TEST_CASE(with_live_replicas_a_killed_server_comes_back_as_it_was) {
  std::vector<std::string> options = kSync;
  options.push_back("--live_replicas");
  Training t(2, 2, options);
  for (const auto& [server, step] : {std::pair(1, 14), std::pair(0, 30), std::pair(0, 36), std::pair(1, 47)}) {
    t.Until(step);
    t.Kill(t.ps[static_cast<size_t>(server)]);
    t.Serve(server);
    const size_t begun = t.begins.size();
    while (t.begins.size() == begun) t.Next();
    BOOST_TEST(Field(t.begins.back(), "from") == "servers");
    BOOST_TEST(Whole(t.begins.back(), "step") >= step);
  }
  t.Until(53);
  for (auto& process : t.ps) t.Kill(process);
  for (const int p : {0, 1}) t.Serve(p);
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(Field(t.begins.back(), "from") == "checkpoint");
  for (const auto& [step, told] : t.losses) {
    if (step <= 50) BOOST_TEST(told.size() == 1u, "step " << step);
  }
}

// Taken for dead, and alive again: what it has is still there, so nothing is restored.
BOOST_AUTO_TEST_CASE(a_stopped_process_goes_on_where_it_was) {
  Training t(2, 2, kSync);
  const std::pair<int, Process*> stops[] = {
      {8, t.worker[1].get()}, {20, t.ps[1].get()}, {32, t.worker[0].get()}, {44, t.ps[0].get()}};
  for (const auto& [step, process] : stops) {
    t.Until(step);
    process->Signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    process->Signal(SIGCONT);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(Field(t.end, "lost_updates") == "0");
  for (const std::string& begin : t.begins) BOOST_TEST(Field(begin, "from") != "checkpoint");
}

// Everything was killed, and is started again.
BOOST_AUTO_TEST_CASE(a_run_goes_on_from_its_folder) {
  Training t(2, 2, kSync);
  t.Until(26);
  for (auto* all : {&t.worker, &t.ps}) {
    for (auto& process : *all) t.Kill(process);
  }
  for (const int p : {0, 1}) t.Serve(p);
  for (const int w : {1, 0}) t.Work(w);
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(Field(t.begins.back(), "from") == "checkpoint");
}

BOOST_AUTO_TEST_CASE(with_backup_workers_nobody_waits_for_a_killed_one) {
  Training t(1, 3, {"--mode", "backup", "--steps", "60", "--batch", "10", "--save_steps", "20"});
  t.Until(5);
  t.Kill(t.worker[2]);
  t.Until(40);
  t.Work(2);
  t.ToTheEnd();
  BOOST_TEST(Field(t.end, "recoveries") == "0");
  BOOST_TEST(Whole(t.end, "dropped") >= 0);
  BOOST_TEST(std::atof(Field(t.end, "accuracy").c_str()) > 0.2);
}

BOOST_AUTO_TEST_CASE(in_asynchronous_training_only_the_killed_server_goes_back) {
  Training t(2, 2, {"--mode", "async", "--steps", "300", "--batch", "10", "--save_steps", "1000"});
  t.Until(50);
  t.Kill(t.worker[1]);
  t.Work(1);
  t.Until(70);
  t.Kill(t.ps[1]);
  t.Serve(1);
  const size_t begun = t.begins.size();
  while (t.begins.size() == begun) t.Next();
  // The global step is the other server's.
  const std::string begin = t.begins.back();
  BOOST_TEST(Field(begin, "from") == "checkpoint");
  BOOST_TEST(Whole(begin, "step") >= 70);
  // The only checkpoint is that of step 0.
  BOOST_TEST(Whole(begin, "lost_updates") >= 70);
  BOOST_TEST(Whole(begin, "lost_updates") == Whole(begin, "step"));
  t.Until(90);
  const size_t before = t.begins.size();
  t.Stop(t.ps[0]);
  t.Serve(0);
  while (t.begins.size() == before) t.Next();
  t.ToTheEnd();
  BOOST_TEST(Whole(t.end, "lost_updates") >= Whole(begin, "lost_updates"));
  BOOST_TEST(std::atof(Field(t.end, "accuracy").c_str()) > 0.2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lost_processes_test
}  // namespace troupe

#endif  // TROUPE_CLUSTER_MNIST
