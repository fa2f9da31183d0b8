// A client's session in a server: what becomes of it, and of its calls, when one of the two is
// silent, dies or stops.
#include "tests/net/office.h"

namespace troupe {
namespace session_ends_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(session_ends)

BOOST_FIXTURE_TEST_CASE(edges_2_and_5_a_call_that_is_cancelled_is_answered_though_the_server_is_silent, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1));
  Play();
  token.Cancel();
  BOOST_TEST(Pass(490ms) == "");
  BOOST_TEST(Pass(20ms) == "twice CANCELLED; ");
  silent.clear();
  Play();
  BOOST_TEST(said == "");  // its own answer is nobody's
  BOOST_TEST(calls->size() == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_3_a_call_with_a_deadline_is_answered_though_the_server_is_silent, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1), stage.system().clock().now() + 300ms);
  Call("later", Step("twice", 1), stage.system().clock().now() + 400ms);
  BOOST_TEST(Pass(290ms) == "");
  BOOST_TEST(Pass(20ms) == "twice DEADLINE_EXCEEDED; ");
  BOOST_TEST(Pass(100ms) == "later DEADLINE_EXCEEDED; ");
}

BOOST_FIXTURE_TEST_CASE(edges_8_and_11_a_client_that_is_silent_loses_its_session, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("agent");
  Pass(900ms);
  BOOST_TEST(sessions->Status({}).size() == 1u);
  Pass(400ms);
  BOOST_TEST(sessions->Status({}).empty());
  silent.clear();
  Play();
  Call("twice", Step("twice", 1));
  BOOST_TEST(said == "twice UNAVAILABLE; ");
  // A server that slept gives the client as much time more.
  DeskCalls table(Policy(), DeskCalls::Time());
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5000ms));
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5250ms));
  BOOST_TEST(!table.Look(DeskCalls::Time() + 5500ms));
  BOOST_TEST(table.Look(DeskCalls::Time() + 5750ms));
}

BOOST_FIXTURE_TEST_CASE(edge_8_a_client_that_sends_is_not_silent, Office) {
  OpenAndPlay();
  silent.insert("agent");  // and so no beat
  uint64_t call = 100;
  for (int i = 0; i < 10; ++i) {
    Tell(ask_session{++call, ask_session::What::kDevices});
    Pass(200ms);
  }
  for (int i = 0; i < 10; ++i) {
    Tell(piece_taken{call});
    Pass(200ms);
  }
  for (int i = 0; i < 10; ++i) {
    parcel_piece piece;
    piece.call = call;
    piece.total = 1000;
    piece.bytes.resize(10);
    Tell(std::move(piece));
    Pass(200ms);
  }
  BOOST_TEST(sessions->Status({}).size() == 1u);
  Pass(1300ms);
  BOOST_TEST(sessions->Status({}).empty());
}

BOOST_FIXTURE_TEST_CASE(edge_8_a_server_that_is_silent_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  silent.insert("desk");
  Call("twice", Step("twice", 1));
  BOOST_TEST(Pass(950ms) == "");
  BOOST_TEST(Pass(300ms) == "twice UNAVAILABLE; ");
  BOOST_TEST(calls->ended().message().find("the server has been silent for ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_10_a_client_that_dies_loses_its_session, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  caf::anon_send_exit(agent, caf::exit_reason::kill);
  BOOST_TEST(Play() == R"(
agent <- exit
desk <- down
host <- down)");
  BOOST_TEST(sessions->Status({}).empty());
  agent = nullptr;
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_server_that_dies_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  caf::anon_send_exit(desk, caf::exit_reason::kill);
  Play();
  BOOST_TEST(std::exchange(said, "") == "never UNAVAILABLE; ");
  Call("next", Step("twice", 1));
  BOOST_TEST(said == "next UNAVAILABLE; ");
  BOOST_TEST(last.reply.status.message().find("the server is gone, and the session with it: ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_12_a_server_that_stops_ends_its_sessions, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  bool stopped = false;
  AskThen<host_stopped>(stage.system(), host, stop_host{},
                        Reply<host_stopped>([&](const host_stopped& s) { stopped = s.status.ok(); }));
  BOOST_TEST(Play() == R"(
host <- stop_host
desk <- end_desk
agent <- session_over
agent <- down
host <- down)");
  BOOST_TEST(stopped);
  BOOST_TEST(std::exchange(said, "") == "never UNAVAILABLE; ");
  BOOST_TEST(last.reply.status.message() == "the server: task /job:localhost/replica:0/task:0 has stopped");
  Open();
  Play();
  BOOST_TEST(said == "opened UNAVAILABLE; ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace session_ends_test
}  // namespace troupe
