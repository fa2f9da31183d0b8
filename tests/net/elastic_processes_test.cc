// Processes that are added to a training run on the loopback interface, leave it in order, and are
// lost, while it goes on: it ends with the bits of a run in which each part of a step had a worker
// of its own from the beginning to the end.
#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "tests/net/training_processes.h"

#ifdef TROUPE_CLUSTER_MNIST

namespace troupe {
namespace elastic_processes_test {

constexpr int64_t kSteps = 600;

std::vector<std::string> Options(int parts) {
  return {"--mode", "sync", "--steps", StrCat(kSteps), "--batch", "10", "--save_steps", "50", "--parts", StrCat(parts)};
}
// Nobody waits for processes that come and go: so that they do before the end, the chief may be
// ahead of who reads its output by no more than a page.
void HoldBack(Training* t) {
  t->Next();  // it is there
  const int out = ::open(StrCat("/proc/", static_cast<int64_t>(t->worker[0]->pid()), "/fd/1").c_str(),
                         O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  BOOST_TEST(out >= 0);
  BOOST_TEST(::fcntl(out, F_SETPIPE_SZ, 4096) >= 0);
  ::close(out);
}
// Two workers, each with a part of its own.
struct Expected {
  Expected() {
    Training t(2, 2, Options(0));
    t.ToTheEnd();
    hash = Field(t.end, "hash");
    losses = t.losses;
    BOOST_TEST(losses.size() == static_cast<size_t>(kSteps));
  }
  std::string hash;
  std::map<int64_t, std::vector<std::string>> losses;
};
void CheckSame(const Training& t) {
  static const Expected expected;
  BOOST_TEST(Field(t.end, "hash") == expected.hash);
  BOOST_TEST(t.losses.size() == static_cast<size_t>(kSteps));
  for (const auto& [step, told] : t.losses) {
    for (const std::string& loss : told) BOOST_TEST(loss == expected.losses.at(step)[0], "step " << step);
  }
}

BOOST_AUTO_TEST_SUITE(elastic_processes)

BOOST_AUTO_TEST_CASE(workers_are_added_leave_and_are_killed_and_the_bits_are_the_same) {
  Training t(2, 4, Options(2), /*started=*/1);
  HoldBack(&t);
  t.Until(6);
  t.Work(1);
  t.UntilChange("joined 1");
  t.Work(3);
  t.UntilChange("joined 3");
  t.Until(Whole(t.Next(), "step") + 3);
  // In order.
  t.worker[1]->Signal(SIGTERM);
  t.UntilChange("left 1");
  BOOST_TEST(t.worker[1]->Wait() == 0, t.worker[1]->errors());
  t.worker[1] = nullptr;
  // Without a word.
  t.Kill(t.worker[3]);
  t.UntilChange("gone 3");
  t.worker[3] = nullptr;
  // One that has left comes again, and a server is lost.
  t.Work(1);
  t.UntilChange("joined 1");
  t.Kill(t.ps[1]);
  t.Serve(1);
  const size_t begun = t.begins.size();
  while (t.begins.size() == begun) t.Next();
  BOOST_TEST(Field(t.begins.back(), "from") == "checkpoint");
  t.ToTheEnd();
  CheckSame(t);
}

// Taken for gone, it goes on with what it had: nobody takes that.
BOOST_AUTO_TEST_CASE(a_worker_that_was_stopped_is_not_waited_for_and_comes_back) {
  Training t(2, 2, Options(2));
  HoldBack(&t);
  t.UntilChange("joined 1");
  t.Until(10);
  t.worker[1]->Signal(SIGSTOP);
  t.UntilChange("gone 1");
  const int64_t at = t.losses.rbegin()->first;
  t.Until(at + 5);
  t.worker[1]->Signal(SIGCONT);
  t.UntilChange("joined 1");
  t.ToTheEnd();
  CheckSame(t);
  BOOST_TEST(Field(t.end, "lost_updates") == "0");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace elastic_processes_test
}  // namespace troupe

#endif  // TROUPE_CLUSTER_MNIST
