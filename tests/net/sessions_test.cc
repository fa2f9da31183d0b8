// A client's session in a server: how it is opened and used, how many calls it may have, and how
// calls and answers travel in pieces.
#include "net/parcels.h"
#include "tests/net/office.h"

namespace troupe {
namespace sessions_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(sessions)

BOOST_FIXTURE_TEST_CASE(edges_1_to_3_and_9_a_session_is_used_from_elsewhere, Office) {
  NewAgent();
  Open();
  BOOST_TEST(Play() == R"(
agent <- init
host <- open_session
desk <- init
agent <- desk_opened
desk <- client_beat
agent <- beat_noted)");
  BOOST_TEST(std::exchange(said, "") == "opened OK; ");
  BOOST_REQUIRE(sessions->Status({}).size() == 1u);
  BOOST_TEST(sessions->Status({})[0].client == "tester");
  BuildGraph();
  Call("extend", Extension());
  BOOST_TEST(Play() == R"(
desk <- extend_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "extend OK; ");
  Call("prepare", prepare_session{0, {"x"}, {"twice"}, {}});
  BOOST_TEST(Play() == R"(
desk <- prepare_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "prepare OK; ");
  Call("run", Step("twice", 4));
  BOOST_TEST(Play() == R"(
desk <- run_session
agent <- call_begun
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(std::exchange(said, "") == "run OK; float32 [] [8]; ");
  Call("nothing", Step("nothing", 4));
  Play();
  BOOST_TEST(std::exchange(said, "") == "nothing NOT_FOUND; ");
  BOOST_TEST(last.reply.status.message().find("nothing") != std::string::npos);
  // Beats keep both.
  BOOST_TEST(Pass(5000ms) == "");
  BOOST_TEST(sessions->Status({}).size() == 1u);
  // An answer that nobody waits for.
  Call("run", Step("twice", 5));
  const std::shared_ptr<AgentCall> nobody = calls->Take(5);
  // How long the step before took decides where this one runs, and so the order.
  BOOST_TEST(Play().find("agent <- call_answer") != std::string::npos);
  BOOST_TEST(std::exchange(said, "") == "");
  Call("never", Step("never", 5));
  Play();
  BOOST_TEST(std::exchange(said, "") == "");
  caf::anon_send(agent, end_agent{});
  BOOST_TEST(Play() == R"(
agent <- end_agent
desk <- close_session
host <- down)");
  BOOST_TEST(std::exchange(said, "") == "never CANCELLED; ");
  BOOST_TEST(sessions->Status({}).empty());
  agent = nullptr;
}

BOOST_AUTO_TEST_CASE(a_client_gets_no_more_than_a_server_keeps) {
  SessionOptions o;
  o.max_signatures = 0;  // all
  o.max_partial_runs = int64_t{1} << 40;
  o.stall_report_ms = 1;
  const SessionOptions kept = WithinBounds(o);
  BOOST_TEST(kept.max_signatures == 1024);
  BOOST_TEST(kept.max_partial_runs == 1024);
  BOOST_TEST(kept.stall_report_ms == 1000);
  BOOST_TEST(WithinBounds({}).max_signatures == SessionOptions().max_signatures);
  BOOST_TEST(WithinBounds({}).stall_report_ms == 0);
}

BOOST_FIXTURE_TEST_CASE(edge_2_sessions_are_bounded_and_options_are_checked, Office) {
  NewAgent();
  Open(kNetProtocol + 1);
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened FAILED_PRECONDITION; ");
  Open();
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened OK; opened OK; ");
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened RESOURCE_EXHAUSTED; ");
  // One that ends makes room.
  StopSurely(stage.system(), desk);
  Play();
  Open();
  Play();
  BOOST_TEST(std::exchange(said, "") == "opened OK; ");
  // Of all clients together.
  HostedSessions three(Policy());
  const auto calls = std::make_shared<std::atomic<int64_t>>(0);
  three.Opened(1, "a", "", {}, calls);
  three.Opened(2, "a", "", {}, calls);
  BOOST_TEST(absl::IsResourceExhausted(three.MayOpen("a")));
  BOOST_TEST(three.MayOpen("b").ok());
  three.Opened(3, "b", "", {}, calls);
  BOOST_TEST(three.MayOpen("b").message().find("most_sessions (") != std::string::npos);
  three.Gone(1);
  three.Gone(1);
  BOOST_TEST(three.MayOpen("a").ok());
}

BOOST_FIXTURE_TEST_CASE(edge_5_a_client_asks_for_devices, Office) {
  OpenAndPlay();
  Call("devices", ask_session{0, ask_session::What::kDevices});
  Play();
  BOOST_TEST(std::exchange(said, "") == "devices OK; ");
  BOOST_REQUIRE(last.devices.size() == 1u);
  BOOST_TEST(last.devices[0].name == "/job:localhost/replica:0/task:0/device:CPU:0");
}

BOOST_FIXTURE_TEST_CASE(edge_6_calls_are_bounded_and_have_numbers, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  const uint64_t first = Call("first", Step("never", 1));
  Call("second", Step("never", 1));
  Call("third", Step("twice", 1));
  Play();
  BOOST_TEST(std::exchange(said, "") == "third RESOURCE_EXHAUSTED; ");
  BOOST_TEST(sessions->Status({})[0].calls == 2);
  // A number that is in use is refused, and what has it goes on.
  run_session again = Step("twice", 1);
  again.call = first;
  Tell(std::move(again));
  Play();
  BOOST_TEST(std::exchange(said, "") == "first ALREADY_EXISTS; ");
  DeskCalls table(ClientPolicy{}, {});
  for (uint64_t i = 0; i < DeskCalls::kMostWaiting; ++i) BOOST_TEST(table.Begin(i, true).ok());
  BOOST_TEST(absl::IsResourceExhausted(table.Begin(1000, true).status()));
  BOOST_TEST(table.Begin(1000, false).ok());
  BOOST_TEST(table.Over(0));
  BOOST_TEST(!table.Over(0));
  BOOST_TEST(table.Begin(1001, true).ok());
}

BOOST_FIXTURE_TEST_CASE(edge_7_a_cancelled_call_ends_its_step, Office) {
  OpenAndPlay();
  ExtendAndPlay();
  Call("never", Step("never", 1));
  Play();
  token.Cancel();
  BOOST_TEST(Play() == R"(
agent <- cancel_begun
desk <- cancel_call
desk <- call_over
agent <- call_answer)");
  BOOST_TEST(said == "never CANCELLED; ");
  BOOST_TEST(sessions->Status({})[0].calls == 0);
}

BOOST_FIXTURE_TEST_CASE(edge_13_the_metadata_of_a_step_travels_in_pieces, Office) {
  OpenAndPlay();
  std::vector<float> many(400000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = float(i);
  const Output big = ops::Const(root.WithOpName("big"), many);
  ops::Add(root.WithOpName("more"), big, ops::Placeholder(root.WithOpName("y"), DType::kFloat));
  ExtendAndPlay();
  run_session step = Step("more", 1);
  step.step.feeds[0].first = "y";
  step.step.fetches.clear();
  step.step.targets = {"more"};
  step.step.options.partition_graphs = true;
  // Nobody takes the answer, which would be read on another thread.
  const std::shared_ptr<AgentCall> nobody = calls->Take(Call("graphs", std::move(step)));
  const std::string text = Play();
  BOOST_TEST(text.find("agent <- parcel_piece\n") != std::string::npos, text);
  BOOST_TEST(text.find("agent <- call_answer") == std::string::npos, text);
}

// Who takes no pieces keeps no more answers in the server than it may have calls.
BOOST_FIXTURE_TEST_CASE(edge_6_answers_in_pieces_are_calls_until_they_were_taken, Office) {
  OpenAndPlay();
  ops::Const(root.WithOpName("big"), std::vector<float>(400000));
  ExtendAndPlay();
  run_session step = Step("big", 1);
  step.step.feeds.clear();
  silent.insert("agent");
  const uint64_t first = Call("first", step), second = Call("second", step);
  Play();
  Call("third", step);
  Play();
  const std::shared_ptr<AgentCall> nobody = calls->Take(first), nobody_either = calls->Take(second);
  silent.clear();
  const std::string text = Play();
  BOOST_TEST(text.find("agent <- parcel_piece\n") != std::string::npos, text);
  BOOST_TEST(std::exchange(said, "").find("third RESOURCE_EXHAUSTED; ") == 0u);
  // They were cancelled, and there is room again.
  Call("fourth", Step("twice", 1));
  Play();
  BOOST_TEST(said.find("fourth OK; ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(edge_6_calls_in_pieces_are_calls_before_they_have_been_read, Office) {
  OpenAndPlay();
  for (const char* name : {"first", "second", "third"}) {
    parcel_piece piece;
    piece.kind = parcel_piece::Kind::kRun;
    piece.total = 1;
    piece.bytes = {'x'};
    Call(name, std::move(piece));
  }
  Play();
  BOOST_TEST(said.find("third RESOURCE_EXHAUSTED; ") != std::string::npos, said);
  BOOST_TEST(said.find("first INVALID_ARGUMENT; ") != std::string::npos, said);
  BOOST_TEST(said.find("second INVALID_ARGUMENT; ") != std::string::npos, said);
}

// Each number once: otherwise a client could have any number of them read at a time.
BOOST_FIXTURE_TEST_CASE(edge_6_a_call_in_pieces_has_its_number_while_it_is_read, Office) {
  OpenAndPlay();
  parcel_piece piece;
  piece.kind = parcel_piece::Kind::kRun;
  piece.total = 1;
  piece.bytes = {'x'};
  parcel_piece again = piece;
  again.call = Call("first", std::move(piece));
  Tell(std::move(again));
  Play();
  BOOST_TEST(said == "first ALREADY_EXISTS; ");
}

// Who cancels what is being read would have any number of threads otherwise, each with a call.
BOOST_FIXTURE_TEST_CASE(edge_6_a_cancelled_call_has_its_place_while_it_is_read, Office) {
  OpenAndPlay();
  for (const char* name : {"first", "second", "third"}) {
    parcel_piece piece;
    piece.kind = parcel_piece::Kind::kRun;
    piece.total = 1;
    piece.bytes = {'x'};
    Tell(cancel_call{Call(name, std::move(piece))});
  }
  // Of those that are cancelled, nothing is told; their news come behind all of these messages.
  Play();
  BOOST_TEST(std::exchange(said, "") == "third RESOURCE_EXHAUSTED; ");
  ExtendAndPlay();
  Call("fourth", Step("twice", 1));
  Play();
  BOOST_TEST(said.find("fourth OK; ") == 0u, said);
}

// As is one whose answer is made bytes.
BOOST_FIXTURE_TEST_CASE(edge_6_a_cancelled_call_has_its_place_while_its_answer_is_made, Office) {
  OpenAndPlay();
  ops::Const(root.WithOpName("big"), std::vector<float>(400000));
  ExtendAndPlay();
  run_session step = Step("big", 1);
  step.step.feeds.clear();
  const uint64_t first = Call("first", step);
  Play("desk <- call_over");
  // It comes between the answer and its bytes.
  Tell(cancel_call{first});
  Call("second", Step("never", 1));
  Call("third", Step("never", 1));
  Play();
  BOOST_TEST(std::exchange(said, "") == "third RESOURCE_EXHAUSTED; ");
  Call("fourth", Step("twice", 1));
  Play();
  BOOST_TEST(said.find("fourth OK; ") == 0u, said);
}

// Its pieces, which were under way, would take the place of another one's.
BOOST_FIXTURE_TEST_CASE(edge_7_a_cancelled_call_takes_no_pieces, Office) {
  OpenAndPlay();
  const auto call = std::make_shared<AgentCall>([this](const call_answer& a) { Note("call", a.reply.status); }, [] {});
  const uint64_t number = calls->Begin(call, AgentCalls::Time::max(), DeadlineExceeded("too late")).value();
  caf::anon_send(agent, cancel_begun{number});
  Play();
  BOOST_TEST(!calls->Waits(number));
  // A small answer still is one.
  call_answer answer;
  answer.call = number;
  caf::anon_send(agent, std::move(answer));
  Play();
  BOOST_TEST(said == "call OK; ");
}

BOOST_FIXTURE_TEST_CASE(edge_10_a_call_that_is_over_is_not_sent, Office) {
  OpenAndPlay();
  const auto bytes = std::make_shared<const std::vector<char>>(20 * ParcelsOut::kPiece);
  caf::anon_send(agent, send_parcel{77, parcel_piece::Kind::kRun, bytes});
  BOOST_TEST(Play() == "\nagent <- send_parcel");
  // And no further when its answer comes.
  const auto number = calls->Begin(std::make_shared<AgentCall>([](const call_answer&) {}, [] {}),
                                   AgentCalls::Time::max(), absl::OkStatus());
  silent.insert("desk");
  caf::anon_send(agent, send_parcel{*number, parcel_piece::Kind::kRun, bytes});
  call_answer refused;
  refused.call = *number;
  refused.reply.status = absl::ResourceExhaustedError("too many");
  caf::anon_send(agent, std::move(refused));
  Play();
  silent.clear();
  const std::string text = Play();
  size_t pieces = 0;
  for (size_t at = text.find("desk <- parcel_piece"); at != std::string::npos;
       at = text.find("desk <- parcel_piece", at + 1))
    ++pieces;
  BOOST_TEST(pieces == static_cast<size_t>(ParcelsOut::kUnderWay));
  BOOST_TEST(text.find("desk <- cancel_call") != std::string::npos, text);
}

BOOST_FIXTURE_TEST_CASE(edge_2_a_partial_run_that_nobody_waits_for_is_given_up, Office) {
  OpenAndPlay();
  call_answer begun;
  begun.call = 99;
  begun.partial_run = "one";
  caf::anon_send(agent, std::move(begun));
  BOOST_TEST(Play() == R"(
agent <- call_answer
desk <- give_up_partial)");
}

BOOST_AUTO_TEST_CASE(a_call_that_is_dropped_is_answered) {
  std::string said;
  const auto call = [&] {
    return std::make_shared<AgentCall>(
        [&](const call_answer& a) { StrAppend(&said, absl::StatusCodeToString(a.reply.status.code()), "; "); }, [] {});
  };
  call()->Answer({});
  BOOST_TEST(std::exchange(said, "") == "OK; ");
  call();
  BOOST_TEST(said == "ABORTED; ");
}

// Who begins a call that is due first tells the agent: the others count on it.
BOOST_AUTO_TEST_CASE(a_call_that_is_due_first_is_known) {
  AgentCalls table;
  const auto first = [&](AgentCalls::Time due) {
    bool is = false;
    const auto call = std::make_shared<AgentCall>([](const call_answer&) {}, [] {});
    BOOST_TEST(table.Begin(call, due, absl::OkStatus(), &is).ok());
    return is;
  };
  BOOST_TEST(!first(AgentCalls::Time::max()));
  BOOST_TEST(first(AgentCalls::Time(5s)));
  BOOST_TEST(!first(AgentCalls::Time(6s)));
  BOOST_TEST(first(AgentCalls::Time(4s)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sessions_test
}  // namespace troupe
