// Live replicas of what parameter servers have: whatever moment a server is lost in, all go on from
// one step, and nothing is restored (troupe/train/server_state.h).
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

#include "actors/train/server_recovery.h"
#include "tests/monitored/training_runs.h"

namespace troupe {
namespace live_replicas_test {

BOOST_AUTO_TEST_SUITE(live_replicas)

BOOST_AUTO_TEST_CASE(replicas_that_could_not_help_are_refused) {
  const auto refused = [](const train::ServerStateOptions& options, const std::vector<std::string>& devices,
                          const std::string& text) {
    const Scope root = Scope::NewRootScope();
    const Variable step = train::GetOrCreateGlobalStep(root.WithDevice(devices[0]));
    for (const std::string& d : devices) Variable(root.WithDevice(d).WithOpName("v"), 0.0f);
    const train::ServerState state(root, step, options);
    BOOST_TEST(absl::IsInvalidArgument(root.status()), root.status());
    BOOST_TEST(root.status().ToString().find(text) != std::string::npos, root.status());
  };
  const std::string first = "/job:ps/task:0", second = "/job:ps/task:1";
  refused({.live_replicas = true}, {""}, "live replicas need servers that are tasks");
  refused({.live_replicas = true}, {first, first}, "live replicas need variables on two tasks");
  refused({.live_replicas = true}, {first, "/job:ps/replica:0/task:0"}, "live replicas need variables on two tasks");
  refused({.undo = false, .live_replicas = true}, {first, second}, "live replicas need undo");
}

// What dies together has one replica, however its devices are spelled, so that it is of one step.
BOOST_AUTO_TEST_CASE(a_server_is_a_task_with_all_its_devices) {
  const Scope root = Scope::NewRootScope();
  const Variable step = train::GetOrCreateGlobalStep(root.WithDevice("/job:ps/task:0"));
  for (const char* d : {"/job:ps/task:0", "/job:ps/task:0/cpu:1", "/job:ps/replica:0/task:0/cpu:0", "/job:ps/task:1"})
    Variable(root.WithDevice(d).WithOpName("v"), 0.0f);
  const train::ServerState state(root, step, {.live_replicas = true});
  REQUIRE_OK(root.status());
  BOOST_REQUIRE(state.servers().size() == 2u);
  BOOST_TEST(state.servers()[0].variables.size() == 4u);
  BOOST_TEST(state.servers()[1].variables.size() == 1u);
  BOOST_TEST(state.servers()[0].holder == 1u);
}

// A model of two servers that has begun, and what its chief does to find servers and bring them to
// one step.
struct Led {
  explicit Led(const std::string& folder)
      : cluster(NewCluster(1)),
        adam(0.1),
        m(0, 1, adam, false, 0, false, 0, /*live_replicas=*/true),
        state(m.sync->state()),
        recovery(m.root, state, {.folder = folder}, /*each_alone=*/false),
        session(Session::Create({.runtime = cluster, .share_variables = true}).value()) {
    REQUIRE_OK(session->Extend(*m.root.graph()));
    BOOST_REQUIRE(state.servers().size() == 2u);
    BOOST_REQUIRE(state.servers()[0].holder == 1u);
    BOOST_REQUIRE(state.servers()[1].holder == 0u);
    BOOST_TEST((Begin(0).from == TrainingEvent::kStart));
  }
  ServerRecovery::Begun Begin(int64_t seen) {
    const auto begun = recovery.Begin(*session, seen);
    REQUIRE_OK(begun.status());
    return *begun;
  }
  void Do(const std::vector<Operation>& ops, int64_t step = 0) {
    REQUIRE_OK(session->Run({{state.fed_step().name(), Tensor::Scalar(step)}}, {}, ops, nullptr));
  }
  // All variables but the global step, as updates leave them: a number.
  void SetAll(float value, size_t server) {
    for (const Variable& v : state.servers()[server].variables) {
      if (v.variable_name() == m.step.variable_name()) continue;
      Tensor t = session->Get(v)->Clone();
      std::fill_n(t.data<float>(), t.num_elements(), value);
      REQUIRE_OK(session->Set(v, t));
    }
  }
  void SetStep(int64_t step) { REQUIRE_OK(session->Set(m.step, Tensor::Scalar(step))); }
  // An update as far as it is done: all variables are `value` then.
  void Update(int64_t step, float value) {
    for (const size_t s : {0u, 1u}) SetAll(value, s);
    SetStep(step);
  }
  void Keep() {
    Do({state.servers()[0].replicate, state.servers()[1].replicate});
    Do({state.servers()[0].keep, state.servers()[1].keep});
  }
  void Lose(size_t server) {
    for (const auto& d : cluster->impl()->devices) {
      if (DeviceIs(d->name(), state.servers()[server].device)) d->shared_containers()->Clear("");
    }
  }
  static bool DeviceIs(const std::string& name, const std::string& asked) {
    const size_t at = asked.find("/task:");
    return name.find("/job:ps/") != std::string::npos && name.find(asked.substr(at, 7)) != std::string::npos;
  }
  // Everything is of this step, and every variable is `value`.
  void Check(int64_t step, float value, const std::string& where) {
    BOOST_TEST_CONTEXT(where) {
      BOOST_TEST(StepOfServers(*session, state)->value_or(-1) == step);
      for (const ServerState::Server& s : state.servers()) {
        BOOST_TEST(session->Get(s.mark)->scalar<int64_t>() == step);
        std::vector<Tensor> replica;
        REQUIRE_OK(session->Run({}, {s.replica}, {}, &replica));
        BOOST_TEST(replica[0].scalar<int64_t>() == step);
        for (const Variable& v : s.variables) {
          const Tensor t = session->Get(v).value();
          if (v.variable_name() == m.step.variable_name()) continue;
          for (int64_t i = 0; i < t.num_elements(); ++i) BOOST_TEST(t.data<float>()[i] == value, v.variable_name());
        }
      }
    }
  }
  const std::shared_ptr<Runtime> cluster;
  Adam adam;
  const Model m;
  const ServerState& state;
  ServerRecovery recovery;
  const std::unique_ptr<Session> session;
};

BOOST_AUTO_TEST_CASE(a_server_that_is_lost_in_any_moment_of_an_update_comes_back_from_its_replica) {
  for (const size_t lost : {0u, 1u}) {
    const size_t other = 1 - lost;
    Led led(StrCat("mem://live_", lost));
    // Step 1 is whole.
    led.Update(1, 1.0f);
    led.Keep();
    const auto find = [&](int64_t seen, int64_t step, float value, const std::string& where) {
      led.Lose(lost);
      const ServerRecovery::Begun begun = led.Begin(seen);
      BOOST_TEST((begun.from == TrainingEvent::kServers), where);
      BOOST_TEST(begun.step == step, where);
      BOOST_TEST(begun.lost_updates == 0, where);
      BOOST_TEST(begun.filled == 1, where);
      led.Check(step, value, StrCat(where, ", server ", lost));
    };
    find(1, 1, 1.0f, "between two updates");
    led.SetAll(7.0f, other);
    find(1, 1, 1.0f, "the other one has been updated");
    led.Update(2, 2.0f);
    find(1, 1, 1.0f, "the update is done, and no replica is left");
    led.Update(2, 2.0f);
    led.Do({led.state.servers()[other].replicate});
    find(1, 1, 1.0f, "the replica of the other one is left");
    led.Update(2, 2.0f);
    led.Do({led.state.servers()[lost].replicate});
    find(1, 2, 2.0f, "its replica is left");
    led.Update(3, 3.0f);
    led.Do({led.state.servers()[0].replicate, led.state.servers()[1].replicate});
    find(2, 3, 3.0f, "all replicas are left");
    led.Update(4, 4.0f);
    led.Do({led.state.servers()[0].replicate, led.state.servers()[1].replicate});
    led.Do({led.state.servers()[other].keep});
    find(3, 4, 4.0f, "the other one has kept it");
    led.Update(5, 5.0f);
    led.Do({led.state.servers()[0].replicate, led.state.servers()[1].replicate});
    led.Do({led.state.servers()[lost].keep});
    find(4, 5, 5.0f, "it has kept it");
  }
}

// The next chief finds what the last one left, wherever that was lost.
BOOST_AUTO_TEST_CASE(a_chief_that_is_lost_while_it_fills_a_server_is_followed_by_one_that_does_the_same) {
  for (const size_t lost : {0u, 1u}) {
    const size_t other = 1 - lost;
    Led led(StrCat("mem://live_chief_", lost));
    led.Update(1, 1.0f);
    led.Keep();
    const auto& servers = led.state.servers();
    for (int done = 0; done < 5; ++done) {
      led.SetAll(7.0f, other);
      led.Lose(lost);
      if (done > 0) led.Do({servers[other].undo});
      if (done > 1) led.Do({servers[lost].fill}, 1);
      if (done > 2) led.Do({led.state.set_step()}, 1);
      if (done > 3) led.Do({servers[0].replicate, servers[1].replicate});
      const ServerRecovery::Begun begun = led.Begin(1);
      BOOST_TEST((begun.from == TrainingEvent::kServers));
      BOOST_TEST(begun.filled == 1);
      led.Check(1, 1.0f, StrCat("after ", done, " of its moves, server ", lost));
    }
    // And when it has given the mark.
    led.Lose(lost);
    led.Do({servers[lost].fill, led.state.set_step()}, 1);
    led.Do({servers[0].replicate, servers[1].replicate});
    led.Do({servers[lost].keep});
    BOOST_TEST((led.Begin(1).from == TrainingEvent::kServers));
    led.Check(1, 1.0f, "after all of its moves");
  }
}

BOOST_AUTO_TEST_CASE(servers_that_are_lost_with_those_that_hold_their_replicas_come_from_the_checkpoint) {
  Led led("mem://live_both");
  const float first = led.session->Get(led.m.w)->data<float>()[0];
  led.Update(1, 1.0f);
  led.Keep();
  for (const size_t s : {0u, 1u}) led.Lose(s);
  const ServerRecovery::Begun begun = led.Begin(1);
  BOOST_TEST((begun.from == TrainingEvent::kCheckpoint));
  BOOST_TEST(begun.step == 0);
  BOOST_TEST(begun.lost_updates == 1);
  BOOST_TEST(led.session->Get(led.m.w)->data<float>()[0] == first);
  BOOST_TEST(StepOfServers(*led.session, led.state)->value_or(-1) == 0);
  // Both have replicas of that step.
  led.Lose(1);
  BOOST_TEST((led.Begin(0).from == TrainingEvent::kServers));
  BOOST_TEST(led.session->Get(led.m.w)->data<float>()[0] == first);
}

// What a step that was given up leaves too late is of no step that the others are at.
BOOST_AUTO_TEST_CASE(a_replica_of_a_later_step_than_the_global_one_is_not_believed) {
  Led led("mem://live_late");
  led.Update(1, 1.0f);
  led.Keep();
  led.SetStep(2);
  led.Do({led.state.servers()[1].replicate});
  led.SetStep(0);
  led.Lose(1);
  BOOST_TEST((led.Begin(1).from == TrainingEvent::kCheckpoint));
}

// Whatever an update of the graph keeps, it keeps when all replicas are left: or servers could be
// kept of a step whose replica a lost one does not have.
BOOST_AUTO_TEST_CASE(nothing_is_kept_before_all_replicas_are_left) {
  Adam adam(0.1);
  const Model m(0, 1, adam, false, 0, false, 0, /*live_replicas=*/true);
  int kept = 0;
  for (const Node* node : m.root.graph()->op_nodes()) {
    if (node->op().name != "AssignVariableOp" || node->name().find("/keep/") == std::string::npos) continue;
    ++kept;
    std::set<std::string> left;
    std::set<const Node*> seen{node};
    for (std::vector<const Node*> next{node}; !next.empty();) {
      const Node* const n = next.back();
      next.pop_back();
      if (n->op().name == "_PutNumbered") left.insert(n->name());
      for (const Edge* e : n->in_edges()) {
        if (seen.insert(e->src).second) next.push_back(e->src);
      }
    }
    BOOST_TEST(left.size() == 2u, node->name());
  }
  BOOST_TEST(kept >= 2 + 2 * 3);  // two marks, and two variables with their slots
}

BOOST_AUTO_TEST_CASE(training_goes_on_from_replicas_with_the_bits_of_a_run_in_which_nobody_was_lost) {
  const auto [bits, losses] = Undisturbed(2);
  for (const int parts : {0, 2}) {
    for (const int server : {0, 1}) {
      Run run(2);
      run.live_replicas = true;
      run.parts = parts;
      std::atomic<int> deaths{1};
      run.before_update = [&](int64_t step) {
        if (step == 6 && deaths-- > 0) run.LoseServer(server);
        return absl::OkStatus();
      };
      const TrainingReport report = run.All();
      BOOST_TEST((run.bits == bits), "server " << server << ", parts " << parts);
      CheckLosses(run, losses);
      BOOST_REQUIRE(run.begins.size() == 2u);
      BOOST_TEST(run.begins[1].from == TrainingEvent::kServers);
      BOOST_TEST(run.begins[1].step == 6);
      BOOST_TEST(report.lost_updates == 0);
      for (const auto& [step, told] : run.losses) BOOST_TEST(told.size() == 1u, "step " << step);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_held_is_told) {
  const auto told = [](const std::string& w, const std::string& b) {
    const Scope root = Scope::NewRootScope();
    const Scope first = root.WithDevice(w), second = root.WithDevice(b);
    const Variable v(first.WithOpName("v"), Tensor::Vector<float>({1, 2}));
    const Variable u(second.WithOpName("u"), Tensor::Vector<float>({1, 2}));
    const Variable step = GetOrCreateGlobalStep(first);
    const ServerState state(root, step, {.live_replicas = true});
    return root.status();
  };
  REQUIRE_OK(told("/job:ps/task:0", "/job:ps/task:1"));
  for (const auto& [w, b, part] :
       {std::tuple("/job:ps/task:0", "/job:ps/task:0", "all are on '/job:ps/task:0'"),
        std::tuple("/job:ps/task:0/device:CPU:0", "/job:ps/task:0/device:CPU:1", "all are on '/job:ps/task:0'"),
        std::tuple("", "/job:ps/task:1", "the first of which is 'v'"),
        std::tuple("/job:ps/task:1", "/cpu:0", "the first of which is 'u'")}) {
    const absl::Status s = told(w, b);
    BOOST_TEST(absl::IsInvalidArgument(s), s);
    BOOST_TEST(s.message().find(part) != std::string::npos, s);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace live_replicas_test
}  // namespace troupe
