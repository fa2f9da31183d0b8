#include "net/session_agent.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/threads/aside.h"
#include "actors/threads/surely.h"
#include "graph/core/guarded.h"
#include "net/caller.h"
#include "net/parcels.h"

namespace troupe {
namespace {

using AgentTime = AgentCalls::Time;
using std::chrono::milliseconds;

class Agent {
 public:
  Agent(caf::event_based_actor* self, std::shared_ptr<AgentCalls> calls, std::string server)
      : self_(self), calls_(std::move(calls)), server_(std::move(server)) {}
  // However it ends, nobody waits any more.
  ~Agent() { End(absl::AbortedError("the session's agent ended")); }

  void On(const desk_opened& m) {
    desk_ = m.desk;
    runtime_ = m.runtime;
    lease_ = std::clamp(milliseconds(m.lease_ms), milliseconds(1), kLongest);
    self_->monitor(desk_);
    heard_ = expected_ = next_beat_ = Now();
    Look();
  }
  void On(call_answer& m) {
    heard_ = Now();
    if (out_.Has(m.call)) GiveUp(m.call);  // the desk has refused a piece
    if (const std::shared_ptr<AgentCall> call = calls_->Take(m.call)) return call->Answer(std::move(m));
    if (!m.partial_run.empty() && desk_) self_->send(desk_, give_up_partial{std::move(m.partial_run)});
  }
  void On(const beat_noted&) { heard_ = Now(); }
  void On(send_parcel& m) {
    if (!desk_ || !calls_->Waits(m.call)) return;
    Send(out_.Send(m.call, m.kind, std::move(m.bytes)));
  }
  void On(const piece_taken& m) {
    heard_ = Now();
    if (desk_) Send(out_.Taken(m.call));
  }
  void On(parcel_piece& m) {
    heard_ = Now();
    if (!desk_) return;
    const uint64_t call = m.call;
    if (!calls_->Waits(call)) {
      in_.Drop(call);
      return self_->send(desk_, cancel_call{call});
    }
    absl::StatusOr<std::optional<std::vector<char>>> whole = in_.Take(std::move(m));
    if (!whole.ok()) {
      if (const std::shared_ptr<AgentCall> waits = calls_->Take(call)) waits->Fail(whole.status());
      return self_->send(desk_, cancel_call{call});
    }
    self_->send(desk_, piece_taken{call});
    if (!*whole) return;
    // What is captured first goes last: the runtime, and after it what the process's end waits for.
    RunAside(true, [at_exit = UntilExit(), keep = runtime_, &system = self_->system(),
                    me = caf::actor_cast<caf::actor>(self_), call,
                    bytes = std::make_shared<std::vector<char>>(**std::move(whole)),
                    answer = std::make_shared<call_answer>()] {
      const absl::Status read =
          Guarded("an answer in pieces", [&] { return FromParcel(system, *bytes, answer.get()); });
      if (!read.ok()) {
        *answer = {};
        answer->reply.status = read;
      }
      answer->call = call;
      SendSurely(system, me, [&] { return answer_read{answer}; });
    });
  }
  void On(const call_begun&) { Arm(); }
  void On(const cancel_begun& m) {
    if (!desk_) return;
    const bool answering = in_.Has(m.call);
    GiveUp(m.call);
    // The desk sends another answer in its place, and says no more of this one.
    if (answering) {
      if (const std::shared_ptr<AgentCall> call = calls_->Take(m.call)) call->Fail(CancelledByCaller());
    }
    calls_->Hasten(m.call, Now() + milliseconds(500), CancelledByCaller());
    Arm();
  }
  void On(const session_over& m) {
    desk_ = nullptr;
    End(Annotate(m.status, server_));
  }
  void On(const caf::down_msg& m) {
    if (!desk_ || m.source != desk_.address()) return;
    desk_ = nullptr;
    End(Unavailable(server_, " is gone, and the session with it: ", self_->system().render(m.reason)));
  }
  void On(const look_at_calls&) {
    if (Now() < armed_) return;  // an earlier one has done its work
    armed_ = AgentTime::max();
    Look();
  }
  void On(const end_agent& m) {
    if (desk_) self_->send(desk_, close_session{});
    const auto closed = absl::CancelledError("the session was closed");
    for (const std::shared_ptr<AgentCall>& call : m.calls) call->Fail(closed);
    End(closed);
    self_->quit();
  }

 private:
  AgentTime Now() const { return self_->clock().now(); }
  void Look() {
    const AgentTime now = Now();
    for (const AgentCalls::Late& late : calls_->Due(now)) {
      GiveUp(late.number);
      late.call->Fail(late.why);
    }
    if (!desk_) return Arm();
    if (const auto slept = now - expected_; slept > lease_ / 4) heard_ = std::min(now, heard_ + slept);
    if (now - heard_ >= lease_) {
      self_->send(desk_, close_session{});
      desk_ = nullptr;
      return End(Unavailable(server_, " has been silent for ",
                             std::chrono::duration_cast<milliseconds>(now - heard_).count(),
                             " ms: the session is given up"));
    }
    if (now >= next_beat_) {
      next_beat_ = now + lease_ / 4;
      self_->send(desk_, client_beat{});
    }
    Arm();
  }
  void Send(std::vector<parcel_piece> pieces) {
    for (parcel_piece& piece : pieces) self_->send(desk_, std::move(piece));
  }
  void GiveUp(uint64_t call) {
    in_.Drop(call);
    std::vector<parcel_piece> others = out_.Drop(call);
    if (!desk_) return;
    self_->send(desk_, cancel_call{call});
    Send(std::move(others));
  }
  void End(const absl::Status& why) {
    in_.Clear();
    out_.Clear();
    for (const std::shared_ptr<AgentCall>& call : calls_->End(why)) call->Fail(why);
  }
  void Arm() {
    AgentTime due = calls_->NextDue();
    if (desk_) due = std::min({due, next_beat_, heard_ + lease_});
    expected_ = due;
    if (due >= armed_) return;
    armed_ = due;
    const auto in = std::max(AgentTime::duration(0), due - Now());
    self_->delayed_send(self_, std::chrono::ceil<milliseconds>(in), look_at_calls{});
  }

  caf::event_based_actor* const self_;
  const std::shared_ptr<AgentCalls> calls_;
  const std::string server_;
  std::shared_ptr<Runtime> runtime_;
  ParcelsIn in_;
  ParcelsOut out_;
  caf::actor desk_;  // null before it is known, and when it is gone
  milliseconds lease_{0};
  AgentTime heard_, next_beat_, expected_ = AgentTime::max(), armed_ = AgentTime::max();
};

struct AgentState {
  const char* name = "troupe.agent";
  std::unique_ptr<Agent> agent;
};

caf::behavior AgentBehavior(caf::stateful_actor<AgentState>* self, const std::shared_ptr<AgentCalls>& calls,
                            const std::string& server) {
  self->state.agent = std::make_unique<Agent>(self, calls, server);
  Agent* const a = self->state.agent.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_down_handler([a](const caf::down_msg& m) { a->On(m); });
  return {
      [a](parcel_piece& m) { a->On(m); },       [a](const piece_taken& m) { a->On(m); },
      [a](send_parcel& m) { a->On(m); },        [a](const answer_read& m) { a->On(*m.answer); },
      [a](call_answer& m) { a->On(m); },        [a](const beat_noted& m) { a->On(m); },
      [a](const call_begun& m) { a->On(m); },   [a](const cancel_begun& m) { a->On(m); },
      [a](const session_over& m) { a->On(m); }, [a](const look_at_calls& m) { a->On(m); },
      [a](const desk_opened& m) { a->On(m); },  [a](const end_agent& m) { a->On(m); },
  };
}

}  // namespace

caf::actor SpawnAgent(caf::actor_system& system, std::shared_ptr<AgentCalls> calls, std::string server) {
  return system.spawn<caf::hidden>(AgentBehavior, std::move(calls), std::move(server));
}

}  // namespace troupe
