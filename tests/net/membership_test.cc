// Who is alive: every numbered edge of membership.h, without actors, on a clock of the test's own.
#include "net/membership.h"

#include <boost/test/unit_test.hpp>
#include <optional>

namespace troupe {
namespace membership_test {

using namespace std::chrono_literals;
using Kind = Membership::Action::Kind;

// One server's view; what it does is a line of text.
struct View {
  explicit View(const char* task = "worker", double jitter = 0) {
    options.spec.cluster = ClusterSpec::FromFlags("ps=a:1;worker=b:1;z=c:1").value();
    options.spec.task = {task, 0};
    options.connect.jitter = jitter;
    members.emplace(options, 100, 1, 7, now);
  }
  std::string Shown(const Membership::Actions& actions) {
    constexpr const char* kNames[] = {"dial", "hello", "welcome", "refuse", "up",
                                      "down", "beat",  "who",     "noted",  "forget"};
    std::string text;
    for (const auto& a : actions) {
      StrAppend(&text, text.empty() ? "" : "; ", kNames[static_cast<int>(a.kind)]);
      if (a.peer >= 0) StrAppend(&text, " ", members->task(a.peer).job);
      if (a.kind == Kind::kUp || a.kind == Kind::kDown || a.kind == Kind::kWelcome) StrAppend(&text, " ", a.number);
      if (!a.status.ok()) StrAppend(&text, " (", std::string(a.status.message()), ")");
    }
    return text;
  }
  // Lets time pass, looking whenever a look is due. What was done, beats left out.
  std::string Pass(std::chrono::milliseconds time) {
    const auto end = now + time;
    std::string text;
    for (;;) {
      const auto next = std::max(members->NextLook(), now);
      if (next > end) break;
      now = next;
      Membership::Actions actions = members->Look(now);
      std::erase_if(actions, [](const auto& a) { return a.kind == Kind::kBeat; });
      if (!actions.empty()) StrAppend(&text, text.empty() ? "" : "; ", (now - begin) / 1ms, ": ", Shown(actions));
    }
    now = end;
    return text;
  }
  // As an answer, to the last call.
  Greeting From(const char* job, uint64_t incarnation) const {
    const int peer = Peer(job);
    const uint64_t number = peer < 0 ? 0 : members->Own(peer).number;
    return {1, options.spec.cluster.Id(), {job, 0}, options.spec.task, incarnation, number};
  }
  int Peer(const char* job) const { return members->PeerOf({job, 0}); }
  std::string Hello(const char* job, uint64_t incarnation) {
    return Shown(members->Hello(From(job, incarnation), now));
  }
  // The health of a peer, and why.
  std::string Health(const char* job) {
    const TaskStatus t = members->Status(now).others[static_cast<size_t>(Peer(job))];
    return StrCat(ToString(t.health), t.why.empty() ? "" : ": ", t.why);
  }
  const Membership::Time begin{};
  Membership::Time now = begin;
  ServerOptions options;
  std::optional<Membership> members;
};

BOOST_AUTO_TEST_SUITE(membership)

BOOST_AUTO_TEST_CASE(edges_1_and_3_and_4_the_later_one_calls_and_greets) {
  View v;
  // The worker is later than ps and earlier than z.
  BOOST_TEST(v.Pass(0ms) == "0: dial ps");
  const int ps = v.Peer("ps");
  BOOST_TEST(v.Shown(v.members->Dialled(ps, 1, absl::OkStatus(), v.now)) == "hello ps");
  BOOST_TEST((v.members->Own(ps).to == ClusterTask{"ps", 0}));
  BOOST_TEST(v.Shown(v.members->Welcome(ps, v.From("ps", 7), 99, absl::OkStatus(), v.now)) == "");  // of another call
  BOOST_TEST(v.Shown(v.members->Welcome(ps, v.From("ps", 7), 100, absl::OkStatus(), v.now)) == "up ps 7");
  BOOST_TEST(v.Health("ps") == "alive");
  BOOST_TEST(v.Health("z") == "absent");
  BOOST_TEST(v.Shown(v.members->Dialled(ps, 1, absl::OkStatus(), v.now)) == "forget");  // too late
  // Beats go to those who are up.
  v.now = v.members->NextLook();
  BOOST_TEST((v.now - v.begin == 200ms));
  BOOST_TEST(v.Shown(v.members->Look(v.now)) == "beat ps");
}

BOOST_AUTO_TEST_CASE(edges_1_and_2_who_does_not_answer_is_called_again_after_longer_and_longer) {
  View v;
  std::string calls = v.Pass(0ms);
  for (uint64_t call = 1; call <= 8; ++call) {
    BOOST_TEST(v.Shown(v.members->Dialled(v.Peer("ps"), call, Unavailable("a:1: refused"), v.now)) == "");
    StrAppend(&calls, "; ", v.Pass(500ms));
    v.now -= 500ms;
    v.now = std::max(v.now, v.begin);
    const auto delay = std::min(500ms, 20ms * (1 << (call - 1)));
    v.now += delay;
  }
  BOOST_TEST(calls ==
             "0: dial ps; 20: dial ps; 60: dial ps; 140: dial ps; 300: dial ps; 620: dial ps; 1120: dial ps; "
             "1620: dial ps; 2120: dial ps");
  BOOST_TEST(v.Health("ps") == "absent: a:1: refused");
  // With jitter the delays differ by at most so much.
  View w("worker", 0.5);
  w.Pass(0ms);
  w.members->Dialled(w.Peer("ps"), 1, Unavailable("no"), w.now);
  const auto next = w.members->NextLook() - w.now;
  BOOST_TEST((next >= 10ms && next <= 30ms && next != 20ms));
}

BOOST_AUTO_TEST_CASE(edge_5_who_refuses_is_called_again_and_its_sentence_is_known) {
  const auto greeted = [](View* v, Greeting answer, const absl::Status& status) {
    v->Pass(0ms);
    const int ps = v->Peer("ps");
    v->members->Dialled(ps, 1, absl::OkStatus(), v->now);
    answer.number = 1;
    const std::string done = v->Shown(v->members->Welcome(ps, answer, 100, status, v->now));
    return StrCat(done, " | ", v->Health("ps"), " | ", v->Pass(20ms));
  };
  View a, b, c, d;
  BOOST_TEST(greeted(&a, a.From("ps", 7), AlreadyExists("alive already")) ==
             "forget ps | absent: alive already | 20: dial ps");
  BOOST_TEST(greeted(&b, b.From("z", 7), absl::OkStatus()) ==
             "forget ps | absent: at a:1 is /job:z/replica:0/task:0, not /job:ps/replica:0/task:0 | 20: dial ps");
  Greeting old = c.From("ps", 7);
  old.protocol = 2;
  BOOST_TEST(greeted(&c, old, absl::OkStatus()) ==
             "forget ps | absent: /job:worker/replica:0/task:0 speaks version 1 of the protocol, and the other version "
             "2: run the same version of Troupe | 20: dial ps");
  Greeting other = d.From("ps", 7);
  other.cluster = 5;
  BOOST_TEST(greeted(&d, other, absl::OkStatus()).find("and the other to cluster 5: their specifications differ") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(edge_6_a_call_that_nobody_answers_ends) {
  View v;
  BOOST_TEST(v.Pass(3000ms) == "0: dial ps; 3000: forget ps");
  BOOST_TEST(v.Health("ps") == "absent: no answer from a:1");
  BOOST_TEST(v.Pass(20ms) == "3020: dial ps");
  v.members->Dialled(v.Peer("ps"), 2, absl::OkStatus(), v.now);
  BOOST_TEST(v.Shown(v.members->Closed(v.Peer("ps"), "cut", v.now)) == "");
  BOOST_TEST(v.Health("ps") == "absent: the connection to a:1 ended: cut");
  BOOST_TEST(v.Pass(40ms) == "3060: dial ps");
}

BOOST_AUTO_TEST_CASE(edges_7_and_8_a_hello_is_checked) {
  View v;
  BOOST_TEST(v.Hello("z", 8) == "welcome z 8; up z 8");
  Greeting to_other = v.From("z", 9);
  to_other.to = {"ps", 0};
  BOOST_TEST(v.Shown(v.members->Hello(to_other, v.now)) ==
             "refuse (this is /job:worker/replica:0/task:0; it was greeted as /job:ps/replica:0/task:0 by "
             "/job:z/replica:0/task:0)");
  BOOST_TEST(v.Hello("stranger", 8).starts_with("refuse (this is "));
  BOOST_TEST(v.Hello("worker", 8).starts_with("refuse (this is "));  // its own name
  Greeting old = v.From("z", 9);
  old.protocol = 0;
  BOOST_TEST(
      v.Shown(v.members->Hello(old, v.now)).starts_with("refuse (/job:worker/replica:0/task:0 speaks version 1"));
  Greeting other = v.From("z", 9);
  other.cluster = 0;
  BOOST_TEST(v.Shown(v.members->Hello(other, v.now)).find("their specifications differ") != std::string::npos);
  v.members->Leave();
  BOOST_TEST(v.Hello("ps", 9) == "refuse (/job:worker/replica:0/task:0 is stopping)");
  BOOST_TEST(v.Health("z") == "alive");
}

BOOST_AUTO_TEST_CASE(edges_9_to_11_a_live_task_has_one_incarnation) {
  View v;
  v.Hello("z", 8);
  v.now += 5ms;
  BOOST_TEST(v.Hello("z", 9) ==
             "refuse (task /job:z/replica:0/task:0 is alive already, as incarnation 8, heard 5 ms ago)");
  v.Pass(295ms);
  BOOST_TEST(v.Health("z") == "suspected");
  BOOST_TEST(v.Hello("z", 9) ==
             "down z 8 (task /job:z/replica:0/task:0 was replaced by a new process); welcome z 9; up z 9");
  BOOST_TEST(v.Hello("z", 9) == "down z 9 (task /job:z/replica:0/task:0 had lost the connection); welcome z 9; up z 9");
  BOOST_TEST(v.members->incarnation(v.Peer("z")) == 9u);
}

BOOST_AUTO_TEST_CASE(edges_12_to_14_silence_is_suspected_then_dead) {
  View v("ps");  // the earliest calls nobody
  v.Hello("z", 8);
  v.Pass(190ms);
  v.members->Beat(v.Peer("z"), 8, v.now);
  v.Pass(299ms);
  BOOST_TEST(v.Health("z") == "alive");
  v.Pass(1ms);
  BOOST_TEST(v.Health("z") == "suspected");
  v.members->Beat(v.Peer("z"), 7, v.now);  // of an incarnation that is over
  BOOST_TEST(v.Health("z") == "suspected");
  v.members->Beat(v.Peer("z"), 8, v.now);
  BOOST_TEST(v.Health("z") == "alive");
  BOOST_TEST(v.Pass(389ms) == "");
  BOOST_TEST(v.Pass(1ms) == "880: down z 8 (task /job:z/replica:0/task:0 is taken for dead: it was silent for 390 ms)");
  BOOST_TEST(v.Pass(10s) == "");
}

BOOST_AUTO_TEST_CASE(edges_15_and_16_a_closed_connection_and_a_goodbye_are_told_at_once) {
  View v("ps");
  v.Hello("z", 8);
  BOOST_TEST(v.Shown(v.members->Closed(v.Peer("z"), "reset", v.now)) ==
             "down z 8 (task /job:z/replica:0/task:0 is gone: reset)");
  BOOST_TEST(v.Shown(v.members->Closed(v.Peer("z"), "reset", v.now)) == "");
  v.Hello("z", 9);
  BOOST_TEST(v.Shown(v.members->Goodbye(v.Peer("z"), 8, v.now)) == "noted");  // of the one before
  BOOST_TEST(v.Shown(v.members->Goodbye(v.Peer("z"), 9, v.now)) ==
             "down z 9 (task /job:z/replica:0/task:0 has stopped); noted");
  BOOST_TEST(v.Health("z") == "stopped: task /job:z/replica:0/task:0 has stopped");
  BOOST_TEST(v.Shown(v.members->Goodbye(-1, 9, v.now)) == "noted");
}

BOOST_AUTO_TEST_CASE(edges_17_and_18_who_was_taken_for_dead_greets_again) {
  View ps("ps");
  ps.Hello("worker", 100);
  ps.Pass(400ms);
  BOOST_TEST(ps.Health("worker").starts_with("dead"));
  BOOST_TEST(ps.Shown(ps.members->Beat(-1, 100, ps.now)) == "who");
  View v;
  v.Pass(0ms);
  v.members->Dialled(v.Peer("ps"), 1, absl::OkStatus(), v.now);
  v.members->Welcome(v.Peer("ps"), v.From("ps", 7), 100, absl::OkStatus(), v.now);
  BOOST_TEST(v.Shown(v.members->AskedWho(v.Peer("ps"), 99, v.now)) == "");
  BOOST_TEST(v.Shown(v.members->AskedWho(v.Peer("ps"), 100, v.now)) ==
             "down ps 7 (task /job:ps/replica:0/task:0 has taken this one for dead, and is greeted again)");
  BOOST_TEST(v.Pass(0ms) == "0: dial ps");
  BOOST_TEST(ps.Hello("worker", 100) == "welcome worker 100; up worker 100");
}

BOOST_AUTO_TEST_CASE(edge_19_who_slept_does_not_judge) {
  View v("ps");
  v.Hello("z", 8);
  v.Pass(100ms);
  // The process is stopped for ten seconds: its own timer is late.
  v.now += 10s;
  BOOST_TEST(v.Shown(v.members->Look(v.now)) == "beat z");
  BOOST_TEST(v.Health("z") == "alive");
  BOOST_TEST(v.Pass(389ms).find("down z") != std::string::npos);  // it is silent from then on
}

BOOST_AUTO_TEST_CASE(edge_20_silences_that_were_not_death_make_patient) {
  View v("ps");
  v.Hello("z", 8);
  const auto beat = [&](int peer) { return v.Shown(v.members->Beat(peer, 8, v.now)); };
  // After how long it is dead now.
  const auto dead_after = [&] {
    v.Hello("z", 8);
    const auto begin = v.now;
    while (v.Health("z").find("dead") != 0 && v.now - begin < 10s) v.Pass(10ms);
    return (v.now - begin) / 1ms;
  };
  // It was only suspected: 380 ms were no death, so death takes 475 ms.
  BOOST_TEST(v.Pass(380ms) == "");
  BOOST_TEST(beat(v.Peer("z")) == "");
  BOOST_TEST(v.Pass(470ms) == "");
  BOOST_TEST(v.Pass(10ms).find("down z 8") != std::string::npos);
  // Its next beat comes soon after its death: 710 ms were none.
  v.Pass(230ms);
  BOOST_TEST(beat(-1) == "who");
  BOOST_TEST(dead_after() == 890);
  // It comes later than that, or it is another one's.
  v.Pass(601ms);
  BOOST_TEST(beat(-1) == "who");
  BOOST_TEST(dead_after() == 890);
  BOOST_TEST(v.Shown(v.members->Beat(-1, 9, v.now)) == "who");
  BOOST_TEST(dead_after() == 890);
  // There is an end to it.
  for (int i = 0; i < 20; ++i) {
    v.Hello("z", 8);
    v.Pass(std::chrono::milliseconds(300));
    while (v.Health("z").find("dead") != 0) v.Pass(10ms);
    beat(-1);
  }
  BOOST_TEST(dead_after() == 3900);
  // Half of it after each minute in which nobody was late.
  for (const int64_t ms : {1950, 980, 490, 390, 390}) {
    v.Pass(61s);
    BOOST_TEST(dead_after() == ms);
  }
}

BOOST_AUTO_TEST_CASE(many_tasks_of_a_host_beat_less_often) {
  // 41 tasks of one host, each with 41 others: 1681 beats in a round, 0.84 s between two. One of
  // another host has 200 ms.
  View v("ps");
  std::string hosts = "ps=127.0.0.1:1;far=b:1;worker=localhost:2";
  for (int i = 3; i <= 40; ++i) StrAppend(&hosts, ",localhost:", i);
  StrAppend(&hosts, ";z=localhost:41");
  v.options.spec.cluster = ClusterSpec::FromFlags(hosts).value();
  v.members.emplace(v.options, 100, 1, 7, v.now);
  v.Hello("z", 8);
  v.Hello("far", 9);
  v.Hello("worker", 10);
  int beats = 0;
  for (const auto end = v.now + 8405ms; v.now < end;) {
    v.now = std::max(v.members->NextLook(), v.now);
    for (const auto& a : v.members->Look(v.now)) beats += a.kind == Kind::kBeat && a.peer == v.Peer("worker");
    for (const auto& [job, incarnation] : {std::pair("z", 8), std::pair("far", 9), std::pair("worker", 10)})
      v.members->Beat(v.Peer(job), static_cast<uint64_t>(incarnation), v.now);
  }
  BOOST_TEST(beats >= 9);
  BOOST_TEST(beats <= 11);
  BOOST_TEST(v.Pass(389ms) == "");
  BOOST_TEST(v.Pass(2ms).find("down far 9") != std::string::npos);
  BOOST_TEST(v.Health("z") == "alive");
  BOOST_TEST(v.Pass(860ms) == "");
  BOOST_TEST(v.Health("z") == "alive");
  BOOST_TEST(v.Pass(20ms) == "");
  BOOST_TEST(v.Health("z") == "suspected");
  BOOST_TEST(v.Pass(380ms).find("down z 8") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_more_calls_at_a_time_than_allowed) {
  View v("z");
  v.options.connect.most_calls = 1;
  v.members.emplace(v.options, 100, 1, 7, v.now);
  BOOST_TEST(v.Pass(100ms) == "0: dial ps");
  v.members->Dialled(v.Peer("ps"), 1, Unavailable("no"), v.now);
  BOOST_TEST(v.Pass(0ms) == "100: dial worker");
}

BOOST_AUTO_TEST_CASE(who_never_answers_does_not_keep_others_from_being_called) {
  View v;
  v.options.spec.cluster = ClusterSpec::FromFlags("a=a:1;b=b:1;c=c:1;d=d:1").value();
  v.options.spec.task = {"d", 0};
  v.options.connect.most_calls = 1;
  v.members.emplace(v.options, 100, 1, 7, v.now);
  const auto silent = [&](const char* job, uint64_t call) {
    const std::string before = v.Pass(1000ms);
    v.members->Dialled(v.Peer(job), call, Unavailable("no answer in time"), v.now);
    return before;
  };
  BOOST_TEST(silent("a", 1) == "0: dial a");
  BOOST_TEST(silent("b", 1) == "1000: dial b");
  BOOST_TEST(v.Pass(0ms) == "2000: dial c");
  v.members->Dialled(v.Peer("c"), 1, absl::OkStatus(), v.now);
  v.members->Welcome(v.Peer("c"), v.From("c", 7), 100, absl::OkStatus(), v.now);
  BOOST_TEST(v.Health("c") == "alive");
  BOOST_TEST(v.Pass(0ms) == "2000: dial a");
}

// It would be up here for the hello before, and told "down, up" there for the next one.
BOOST_AUTO_TEST_CASE(a_welcome_that_comes_late_does_not_answer_the_next_hello) {
  View v;
  BOOST_TEST(v.Pass(0ms) == "0: dial ps");
  const int ps = v.Peer("ps");
  v.members->Dialled(ps, 1, absl::OkStatus(), v.now);
  const Greeting late = v.From("ps", 7);
  BOOST_TEST(v.Pass(1100ms) == "1000: forget ps; 1020: dial ps");
  BOOST_TEST(v.Shown(v.members->Dialled(ps, 2, absl::OkStatus(), v.now)) == "hello ps");
  BOOST_TEST(v.Shown(v.members->Welcome(ps, late, 100, absl::OkStatus(), v.now)) == "");
  BOOST_TEST(v.Shown(v.members->Welcome(ps, v.From("ps", 7), 100, absl::OkStatus(), v.now)) == "up ps 7");
}

BOOST_AUTO_TEST_CASE(who_leaves_greets_nobody) {
  View v;
  BOOST_TEST(v.Pass(0ms) == "0: dial ps");
  v.members->Leave();
  BOOST_TEST(v.Shown(v.members->Dialled(v.Peer("ps"), 1, absl::OkStatus(), v.now)) == "forget");
  BOOST_TEST(v.Pass(10s) == "3000: forget ps");
}

BOOST_AUTO_TEST_CASE(who_leaves_is_not_alive_for_the_others_any_more) {
  View v;
  v.Pass(0ms);
  v.members->Dialled(v.Peer("ps"), 1, absl::OkStatus(), v.now);
  v.members->Welcome(v.Peer("ps"), v.From("ps", 7), 100, absl::OkStatus(), v.now);
  v.now = v.members->NextLook();
  BOOST_TEST(v.Shown(v.members->Look(v.now)) == "beat ps");
  v.members->Leave();
  v.members->Beat(v.Peer("ps"), 7, v.now);
  const auto next = v.members->NextLook();
  BOOST_TEST((next > v.now));
  v.now = next;
  BOOST_TEST(v.Shown(v.members->Look(v.now)) == "");
  BOOST_TEST((v.members->NextLook() > v.now));
}

// Times that are stretched beyond all numbers are for ever, and not negative.
BOOST_AUTO_TEST_CASE(a_crowd_on_one_host_with_long_times_is_not_taken_for_dead) {
  std::string flags = "ps=localhost:1;worker=localhost:2";
  for (int t = 3; t <= 1500; ++t) StrAppend(&flags, ",localhost:", t);
  View v;
  v.options.spec.cluster = ClusterSpec::FromFlags(flags).value();
  v.options.heartbeat = {10ms, 23h, 24h};
  v.members.emplace(v.options, 100, 1, 7, v.now);
  const int ps = v.Peer("ps");
  v.Pass(0ms);
  v.members->Dialled(ps, 1, absl::OkStatus(), v.now);
  BOOST_TEST(v.Shown(v.members->Welcome(ps, v.From("ps", 7), 100, absl::OkStatus(), v.now)) == "up ps 7");
  v.Pass(1000ms);
  BOOST_TEST(v.Health("ps") == "alive");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace membership_test
}  // namespace troupe
