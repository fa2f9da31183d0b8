// The actor of docs/add_an_actor.md, and its tests.
#include "tests/cast/stage.h"

// [messages]
namespace troupe {

// To a tally: a step has ended.
struct step_ended {
  bool ok = true;
};
// To a tally, answered by tally_counts.
struct get_tally {};
struct tally_counts {
  int64_t good = 0, bad = 0;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, step_ended& x) {
  return f(caf::meta::type_name("step_ended"), x.ok);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, get_tally&) {
  return f(caf::meta::type_name("get_tally"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tally_counts& x) {
  return f(caf::meta::type_name("tally_counts"), x.good, x.bad);
}

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(tally_messages, caf::id_block::troupe_cast::end)
CAF_ADD_TYPE_ID(tally_messages, (troupe::step_ended))
CAF_ADD_TYPE_ID(tally_messages, (troupe::get_tally))
CAF_ADD_TYPE_ID(tally_messages, (troupe::tally_counts))
CAF_END_TYPE_ID_BLOCK(tally_messages)
// [/messages]

// [header]
// The tally actor: counts how steps end.
//
//   state      message             action                                    next
//   counting   step_ended {ok}     1 count it                                counting
//   counting   get_tally           2 reply tally_counts                      counting
//   counting   exit                3 refuse questions from now on            gone
//                                    (CAF's request_receiver_down)
//
// Blocks: never. Thread rule: a Tally belongs to its actor; SpawnTally may be called from any
// thread.
//
// Tests of the edges, tests/cast/add_an_actor_test.cc:
//   1, 2  edges_1_and_2_steps_are_counted_until_somebody_asks
//   3     edge_3_a_question_to_a_killed_tally_is_refused
namespace troupe {

class Tally {
 public:
  explicit Tally(tally_counts so_far = {}) : counts_(so_far) {}
  void Count(bool ok) { ++(ok ? counts_.good : counts_.bad); }
  const tally_counts& counts() const { return counts_; }

 private:
  tally_counts counts_;
};

// `so_far`: where the counting begins.
caf::actor SpawnTally(caf::actor_system& system, tally_counts so_far = {});

}  // namespace troupe
// [/header]

// [actor]
namespace troupe {
namespace {

struct TallyState {
  const char* name = "troupe.tally";
  Tally tally;
};

caf::behavior TallyBehavior(caf::stateful_actor<TallyState>* self, tally_counts so_far) {
  self->state.tally = Tally(so_far);
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  return {
      [self](const step_ended& m) { self->state.tally.Count(m.ok); },
      [self](get_tally) { return self->state.tally.counts(); },
  };
}

}  // namespace

caf::actor SpawnTally(caf::actor_system& system, tally_counts so_far) {
  return system.spawn<caf::hidden>(TallyBehavior, so_far);
}

}  // namespace troupe
// [/actor]

// [test]
namespace troupe {
namespace {

struct Counted {
  Stage stage;
  caf::actor tally = SpawnTally(stage.system(), {10, 0});
  std::string said;

  void Ask() {
    const auto asker = [this](caf::event_based_actor* self, const caf::actor& to) {
      self->request(to, caf::infinite, get_tally{})
          .then([this](const tally_counts& c) { StrAppend(&said, c.good, " good, ", c.bad, " bad"); },
                [this](const caf::error& e) {
                  StrAppend(&said, e == caf::sec::request_receiver_down ? "it is down" : "another error");
                });
    };
    stage.system().spawn(asker, tally);
  }
};

BOOST_FIXTURE_TEST_CASE(edges_1_and_2_steps_are_counted_until_somebody_asks, Counted) {
  for (const bool ok : {true, false, true}) caf::anon_send(tally, step_ended{ok});
  Ask();
  BOOST_TEST(stage.Play() == R"(
tally <- (step_ended(true))
tally <- (step_ended(false))
tally <- (step_ended(true))
scheduled_actor <- init
tally <- (get_tally())
scheduled_actor <- (tally_counts(12, 1)))");
  BOOST_TEST(said == "12 good, 1 bad");
}

BOOST_FIXTURE_TEST_CASE(edge_3_a_question_to_a_killed_tally_is_refused, Counted) {
  stage.Kill(tally);
  Ask();
  BOOST_TEST(stage.Play() == R"(
tally <- exit
scheduled_actor <- init)");
  BOOST_TEST(said == "it is down");
}

}  // namespace
}  // namespace troupe
// [/test]
