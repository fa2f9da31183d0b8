// Remote tasks: who is there, and what sessions hear of it.
#include "actors/runtime/remote_tasks.h"
#include "tests/cast/play.h"

namespace troupe {
namespace tasks_test {

const char* const kPs = "/job:ps/replica:0/task:0";

// A directory, and a list of what went.
struct Known {
  Known() {
    tasks = std::make_shared<RemoteTasks>(
        std::vector<std::string>{kPs}, directory,
        [this](const RemoteTask& t, const absl::Status& why, bool worker_only) {
          StrAppend(&log, "went ", t.incarnation, worker_only ? " (worker) " : " ",
                    absl::StatusCodeToString(why.code()), "; ");
        },
        [this](const RemoteTask& t) { StrAppend(&log, "came ", t.incarnation, "; "); });
  }
  static caf::behavior Nothing(caf::event_based_actor*, int) {
    return {[](int) {}};
  }
  caf::actor New() { return stage.system().spawn(Nothing, 0); }
  std::string Take() { return std::exchange(log, ""); }

  Stage stage;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  std::shared_ptr<RemoteTasks> tasks;
  std::string log;
};

BOOST_AUTO_TEST_CASE(edges_1_and_2_and_6_a_task_that_comes_is_there_once) {
  Known k;
  BOOST_TEST(!k.directory->Find(WorkerName(kPs)));
  BOOST_TEST(absl::IsUnavailable(k.directory->WhyDown(WorkerName(kPs))));
  const caf::actor worker = k.New();
  k.tasks->Came({kPs, 7, worker});
  k.tasks->Came({kPs, 7, worker});
  k.tasks->Came({"/job:nobody/replica:0/task:0", 7, worker});
  BOOST_TEST(k.Take() == "came 7; ");
  BOOST_TEST((k.directory->Find(WorkerName(kPs)) == worker));
  BOOST_TEST(k.tasks->Lives(7));
  k.tasks->TaskGoes(kPs, 6, Unavailable("late"));
  BOOST_TEST(k.Take() == "");
  BOOST_TEST((k.directory->Find(WorkerName(kPs)) == worker));
}

BOOST_AUTO_TEST_CASE(edge_3_a_task_that_comes_anew_has_gone_before) {
  Known k;
  const caf::actor worker = k.New(), next = k.New();
  k.tasks->Came({kPs, 7, worker});
  k.tasks->Came({kPs, 8, next});
  BOOST_TEST(k.Take() == "came 7; went 7 ABORTED; came 8; ");
  const caf::actor third = k.New();
  k.tasks->Came({kPs, 8, third});
  BOOST_TEST(k.Take() == "went 8 (worker) UNAVAILABLE; came 8; ");
  BOOST_TEST((k.directory->Find(WorkerName(kPs)) == third));
}

BOOST_AUTO_TEST_CASE(edge_4_a_task_that_went_is_down_for_the_reason_given) {
  Known k;
  k.tasks->Came({kPs, 7, k.New()});
  k.tasks->TaskGoes(kPs, 7, Unavailable("a cable is cut"));
  k.tasks->TaskGoes(kPs, 7, Unavailable("again"));
  BOOST_TEST(k.Take() == "came 7; went 7 UNAVAILABLE; ");
  BOOST_TEST(!k.directory->Find(WorkerName(kPs)));
  BOOST_TEST(k.directory->WhyDown(WorkerName(kPs)).message().find("a cable is cut") != std::string::npos);
  BOOST_TEST(!k.tasks->Lives(7));
  k.tasks->Came({kPs, 8, k.New()});
  k.Take();
  k.tasks->Leave(Cancelled("over"));
  k.tasks->Came({kPs, 9, k.New()});
  BOOST_TEST(k.Take() == "went 8 CANCELLED; ");
}

BOOST_AUTO_TEST_CASE(edge_5_a_worker_that_ends_is_down_until_the_task_comes_again) {
  Known k;
  const caf::actor worker = k.New();
  k.tasks->Came({kPs, 7, worker});
  k.stage.Kill(worker);
  k.stage.Play();
  BOOST_TEST(k.Take() == "came 7; went 7 (worker) UNAVAILABLE; ");
  BOOST_TEST(!k.directory->Find(WorkerName(kPs)));
  BOOST_TEST(k.tasks->Lives(7));
  k.tasks->Came({kPs, 7, k.New()});
  BOOST_TEST(k.Take() == "came 7; ");
  // The process goes with a worker that has ended.
  k.stage.Kill(k.directory->Find(WorkerName(kPs)));
  k.stage.Play();
  k.Take();
  k.tasks->TaskGoes(kPs, 7, Unavailable("dead"));
  BOOST_TEST(k.Take() == "went 7 UNAVAILABLE; ");
}

// The handles of a runtime's own workers, and who hears of the next one.
BOOST_AUTO_TEST_CASE(a_worker_that_is_restarted_is_told) {
  Play p;
  const std::string task = p.runtime->impl()->tasks[0].name;
  BOOST_TEST(!WorkerOf(*p.runtime, kPs));
  const caf::actor first = WorkerOf(*p.runtime, task);
  BOOST_REQUIRE(!!first);
  caf::actor told;
  WatchWorkers(*p.runtime, [&](const std::string& name, const caf::actor& worker) {
    BOOST_TEST(name == task);
    told = worker;
  });
  p.stage.Kill(first);
  p.stage.Play();
  BOOST_TEST(!WorkerOf(*p.runtime, task));
  p.stage.Advance(std::chrono::milliseconds(2));
  p.stage.Play();
  BOOST_TEST((!!told && told != first && told == WorkerOf(*p.runtime, task)));
  WatchWorkers(*p.runtime, nullptr);
}

BOOST_AUTO_TEST_CASE(names_of_a_cluster_are_checked) {
  Stage stage;
  for (const std::string name : {"/job:ps", "ps", "/job:localhost/replica:0/task:0"}) {
    const auto r = StartRuntimeIn(stage.system(), {.threads = 1}, {.remote_tasks = {name}}, stage.clock());
    BOOST_TEST(absl::IsInvalidArgument(r.status()), r.status());
  }
}

}  // namespace tasks_test
}  // namespace troupe
