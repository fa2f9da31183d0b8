// Training by all-reduce over several processes (examples/cluster_mnist --mode allreduce), while
// workers and the chief are killed with SIGKILL and started again, or stopped: it ends with the
// bits of a run in which nobody was killed, and while one process is left no update is lost.
#include <cmath>
#include <cstdlib>
#include <thread>

#include "tests/net/training_processes.h"

#ifdef TROUPE_CLUSTER_MNIST

namespace troupe {
namespace lost_mirrors_test {

std::vector<std::string> Options(const std::string& how) {
  return {"--mode", "allreduce", "--all_reduce", how, "--steps", "60", "--batch", "10", "--save_steps", "10"};
}

const UndisturbedRun& Undisturbed() {
  static const UndisturbedRun expected(0, 3, Options("ring"), 60);
  static const bool learns = std::atof(expected.losses.at(60)[0].c_str()) < std::atof(expected.losses.at(1)[0].c_str());
  BOOST_TEST(learns);
  return expected;
}

// The chief's next "begin".
std::string NextBegin(Training* t) {
  const size_t begun = t->begins.size();
  while (t->begins.size() == begun) t->Next();
  return t->begins.back();
}

BOOST_AUTO_TEST_SUITE(lost_mirrors)

BOOST_AUTO_TEST_CASE(a_killed_worker_is_given_what_the_others_have) {
  Training t(0, 3, Options("ring"));
  // At 40 it is killed when the chief saves, or soon after.
  for (const auto& [worker, step] : {std::pair(1, 5), std::pair(2, 23), std::pair(1, 40)}) {
    t.Until(step);
    t.Kill(t.worker[static_cast<size_t>(worker)]);
    t.Work(worker);
    const std::string begin = NextBegin(&t);
    BOOST_TEST(Field(begin, "from") == "servers");
    BOOST_TEST(Whole(begin, "step") >= step);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
  BOOST_TEST(t.losses.size() == 60u);
  BOOST_TEST(Field(t.end, "restarts") == "3");
  BOOST_TEST(Field(t.end, "lost_updates") == "0");
}

BOOST_AUTO_TEST_CASE(a_killed_chief_goes_on_with_what_the_workers_have) {
  Training t(0, 3, Options("ring"));
  for (const int64_t step : {7, 20, 33}) {
    t.Until(step);
    t.Kill(t.worker[0]);
    t.Work(0);
    const std::string begin = NextBegin(&t);
    BOOST_TEST(Field(begin, "from") == "servers");
    BOOST_TEST(Whole(begin, "step") >= step);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
}

BOOST_AUTO_TEST_CASE(several_at_once_and_all) {
  Training t(0, 3, Options("ring"));
  t.Until(12);
  for (const int w : {0, 1}) t.Kill(t.worker[static_cast<size_t>(w)]);
  for (const int w : {0, 1}) t.Work(w);
  BOOST_TEST(Field(NextBegin(&t), "from") == "servers");
  t.Until(25);
  for (const int w : {1, 2}) t.Kill(t.worker[static_cast<size_t>(w)]);
  for (const int w : {1, 2}) t.Work(w);
  BOOST_TEST(Field(NextBegin(&t), "from") == "servers");
  t.Until(38);
  for (auto& process : t.worker) t.Kill(process);
  for (const int w : {2, 0, 1}) t.Work(w);
  const std::string begin = NextBegin(&t);
  BOOST_TEST(Field(begin, "from") == "checkpoint");
  BOOST_TEST(Whole(begin, "restored_to") % 10 == 0);
  t.ToTheEnd();
  Undisturbed().Check(t);
}

// Taken for dead, and alive again: what it has is still there.
BOOST_AUTO_TEST_CASE(a_stopped_process_goes_on_where_it_was) {
  Training t(0, 3, Options("ring"));
  for (const auto& [worker, step] : {std::pair(1, 8), std::pair(0, 20)}) {
    t.Until(step);
    t.worker[static_cast<size_t>(worker)]->Signal(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    t.worker[static_cast<size_t>(worker)]->Signal(SIGCONT);
  }
  t.ToTheEnd();
  Undisturbed().Check(t);
  for (const std::string& begin : t.begins) BOOST_TEST(Field(begin, "from") != "checkpoint");
}

BOOST_AUTO_TEST_CASE(by_tree) {
  const UndisturbedRun expected(0, 3, Options("tree"), 60);
  Training t(0, 3, Options("tree"));
  t.Until(15);
  for (const int w : {0, 2}) t.Kill(t.worker[static_cast<size_t>(w)]);
  for (const int w : {0, 2}) t.Work(w);
  t.ToTheEnd();
  expected.Check(t);
  // Both algorithms train the same.
  const double ring = std::atof(Undisturbed().losses.at(60)[0].c_str()),
               tree = std::atof(expected.losses.at(60)[0].c_str());
  BOOST_TEST(std::abs(ring - tree) < 1e-3);
}

// What big tensors a server has sent to others so far.
int64_t BytesSentBy(const Training& t, int worker) {
  const HostPort address = AddressIn(t.cluster, "worker", worker);
  Process status({"status", address.ToString(), "--metrics"});
  int64_t bytes = 0;
  for (std::string line = status.Line(); !line.empty(); line = status.Line()) {
    if (line.starts_with("troupe_tensor_sent_bytes_total{"))
      bytes += std::atoll(line.substr(line.find("} ") + 2).c_str());
  }
  BOOST_TEST(status.Wait() == 0, status.errors());
  return bytes;
}

// Each worker reads its images: 200 of them are 627200 bytes, what is reduced is less than 256 KiB.
BOOST_AUTO_TEST_CASE(no_image_passes_between_processes) {
  // So many steps that they still run when they are asked; then they are killed.
  const std::vector<std::string> steps{"--steps", "1000000", "--save_steps", "1000000", "--mode", "allreduce"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), steps.begin(), steps.end());
    return more;
  };
  Training t(0, 2, with({"--batch", "200"}));
  t.Until(20);
  for (const int w : {0, 1}) BOOST_TEST(BytesSentBy(t, w) == 0);
  for (auto& process : t.worker) t.Kill(process);
  // Of a bigger net, what is reduced is counted.
  Training big(0, 2, with({"--net", "e8", "--batch", "10"}));
  big.Until(3);
  for (const int w : {0, 1}) BOOST_TEST(BytesSentBy(big, w) > 0);
  for (auto& process : big.worker) big.Kill(process);
}

// A process that comes when all is done ends at once: it sees the last checkpoint.
BOOST_AUTO_TEST_CASE(who_comes_after_the_end_ends) {
  Training t(0, 2, {"--mode", "allreduce", "--steps", "8", "--batch", "10", "--save_steps", "5"});
  t.ToTheEnd();
  const std::string first = std::exchange(t.end, "");
  t.Work(1);
  BOOST_TEST(t.worker[1]->Wait() == 0, t.worker[1]->errors());
  t.Work(0);
  t.Work(1);
  t.ToTheEnd();
  for (const char* const field : {"hash", "accuracy", "step"}) BOOST_TEST(Field(t.end, field) == Field(first, field));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lost_mirrors_test
}  // namespace troupe

#endif  // TROUPE_CLUSTER_MNIST
