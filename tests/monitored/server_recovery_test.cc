// What a chief does with its servers, as it finds them (actors/train/server_recovery.h).
#include "actors/train/server_recovery.h"

#include <boost/test/unit_test.hpp>

#include "tests/monitored/training_runs.h"

namespace troupe {
namespace server_recovery_test {

BOOST_AUTO_TEST_SUITE(server_recovery)

// What a chief finds decides for each server; the servers of two variables, w and b.
BOOST_AUTO_TEST_CASE(what_is_done_with_each_server_follows_from_its_mark) {
  const auto cluster = NewCluster(1);
  Adam adam(0.1);
  const Model m(0, 1, adam, false);
  const ServerState& state = m.sync->state();
  ServerRecovery recovery(m.root, state, {.folder = "mem://together_marks"}, /*each_alone=*/false);
  auto session = Session::Create({.runtime = cluster, .share_variables = true}).value();
  REQUIRE_OK(session->Extend(*m.root.graph()));
  BOOST_TEST(!StepOfServers(*session, state)->has_value());
  BOOST_TEST((recovery.Begin(*session, 0)->from == TrainingEvent::kStart));
  BOOST_TEST(StepOfServers(*session, state)->value() == 0);
  BOOST_TEST(LatestCheckpoint("mem://together_marks").value() == "mem://together_marks/model.ckpt-0");
  BOOST_REQUIRE(state.servers().size() == 2u);
  const auto server_of = [&](const Variable& v) {
    return state.servers()[0].device == v.handle().node()->requested_device() ? 0u : 1u;
  };
  const size_t of_w = server_of(m.w), of_b = server_of(m.b);
  BOOST_REQUIRE(of_w != of_b);
  const Tensor b = session->Get(m.b).value(), w = session->Get(m.w).value();
  const Tensor other_b = Tensor::Vector<float>({5, 6});
  Tensor other_w(DType::kFloat, w.shape());
  std::fill_n(other_w.data<float>(), other_w.num_elements(), 9.0f);
  const auto first = [&](const Variable& v) { return session->Get(v)->data<float>()[0]; };
  // As in the middle of an update of step 0: what was changed is taken back.
  REQUIRE_OK(session->Set(m.b, other_b));
  ServerRecovery::Begun begun = recovery.Begin(*session, 0).value();
  BOOST_TEST((begun.from == TrainingEvent::kServers));
  BOOST_TEST(first(m.b) == b.data<float>()[0]);
  // As when it is done, and one server has not kept it: that is kept, and not taken back.
  REQUIRE_OK(session->Set(m.b, other_b));
  REQUIRE_OK(session->Set(m.w, other_w));
  REQUIRE_OK(session->Set(m.step, Tensor::Scalar(int64_t{1})));
  REQUIRE_OK(session->Run({}, {}, {state.servers()[of_w].keep}, nullptr));
  for (int i = 0; i < 2; ++i) {
    begun = recovery.Begin(*session, 0).value();
    BOOST_TEST((begun.from == TrainingEvent::kServers));
    BOOST_TEST(begun.step == 1);
    BOOST_TEST(first(m.b) == 5);
    BOOST_TEST(first(m.w) == 9);
  }
  // Marks that are of no one step: from the checkpoint. As when a server has none, or was being
  // restored.
  for (const int64_t mark : {int64_t{7}, int64_t{-1}}) {
    REQUIRE_OK(session->Set(state.servers()[of_b].mark, Tensor::Scalar(mark)));
    BOOST_TEST(StepOfServers(*session, state)->has_value() == (mark >= 0));
    begun = recovery.Begin(*session, 3).value();
    BOOST_TEST((begun.from == TrainingEvent::kCheckpoint));
    BOOST_TEST(begun.step == 0);
    BOOST_TEST(begun.lost_updates == std::max<int64_t>(3, mark));
    BOOST_TEST(first(m.b) == b.data<float>()[0]);
    BOOST_TEST(first(m.w) == w.data<float>()[0]);
  }
  // A server that began anew, and whose chief was lost before it had restored more than the mark.
  for (const auto& d : cluster->impl()->devices) {
    if (d->name().find("/job:ps") != std::string::npos) d->shared_containers()->Clear("");
  }
  REQUIRE_OK(session->Run({}, {}, {state.unmark()}, nullptr));
  BOOST_TEST(!StepOfServers(*session, state)->has_value());
  BOOST_TEST((recovery.Begin(*session, 0)->from == TrainingEvent::kCheckpoint));
  BOOST_TEST(first(m.w) == w.data<float>()[0]);
}

BOOST_AUTO_TEST_CASE(a_saver_whose_nodes_save_takes_variables_alone) {
  const Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), 1.0f);
  Saver saver(root, {.session_state = false, .by_nodes = true});
  Saver wrong(root, {.by_nodes = true});
  const Operation init = GlobalVariablesInitializer(root);
  auto session = Session::Create().value();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  BOOST_TEST(absl::IsInvalidArgument(wrong.Save(*session, "mem://by_nodes/m").status()));
  SaveOptions more;
  more.extra = {{"x", Tensor::Scalar(1.0f)}};
  BOOST_TEST(absl::IsInvalidArgument(saver.Save(*session, "mem://by_nodes/m", more).status()));
  const auto path = saver.Save(*session, "mem://by_nodes/m", 3);
  BOOST_TEST((path.ok() && *path == "mem://by_nodes/m-3"), path.status());
  BOOST_TEST(LatestCheckpoint("mem://by_nodes").value() == *path);
  REQUIRE_OK(session->Set(v, Tensor::Scalar(2.0f)));
  REQUIRE_OK(saver.Restore(*session, *path));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace server_recovery_test
}  // namespace troupe
