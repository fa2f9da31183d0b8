#include "net/session_desk.h"

#include <algorithm>
#include <caf/binary_deserializer.hpp>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "actors/session/session_impl.h"
#include "actors/threads/aside.h"
#include "actors/threads/surely.h"
#include "graph/core/guarded.h"
#include "net/parcels.h"
#include "troupe/proto/config.pb.h"

namespace troupe {

absl::Status DeskCalls::Room(size_t more) const {
  if (calls_.size() + more <= static_cast<size_t>(policy_.most_calls)) return absl::OkStatus();
  return ResourceExhausted("the session has ", policy_.most_calls,
                           " calls under way, which is all that the server gives to one");
}

absl::StatusOr<CancellationToken> DeskCalls::Begin(uint64_t call, bool waits) {
  if (calls_.contains(call)) return AlreadyExists("there is a call ", call, " already");
  TROUPE_RETURN_IF_ERROR(Room(1));
  if (waits && waiting_ >= kMostWaiting) {
    return ResourceExhausted("the session has ", kMostWaiting,
                             " calls that wait, for partial runs, say: ", "the server has no more threads for one");
  }
  waiting_ += waits ? 1 : 0;
  Call& c = calls_[call];
  c.waits = waits;
  return c.token;
}

bool DeskCalls::Over(uint64_t call) {
  const auto it = calls_.find(call);
  if (it == calls_.end()) return false;
  waiting_ -= it->second.waits ? 1 : 0;
  calls_.erase(it);
  return true;
}

void DeskCalls::Cancel(uint64_t call) {
  const auto it = calls_.find(call);
  if (it != calls_.end()) it->second.token.Cancel();
}

bool DeskCalls::Look(Time now) {
  const auto late = now - next_look_;
  if (late > policy_.lease / 4) heard_ = std::min(now, heard_ + late);
  next_look_ = now + policy_.lease / 4;
  return now - heard_ >= policy_.lease;
}

namespace {

using DeskTime = DeskCalls::Time;
using Answer = std::function<void(call_answer)>;

// The bytes of an extend_request, read.
absl::StatusOr<extend_request> ReadGraphOf(caf::actor_system& system, const std::vector<char>& bytes) {
  extend_request request;
  caf::binary_deserializer in(system, bytes);
  if (caf::error e = in(request)) return InvalidArgument("the graph cannot be read: ", system.render(e));
  if (in.remaining() != 0) return InvalidArgument(in.remaining(), " bytes of the graph were not read");
  return request;
}

class Desk {
 public:
  Desk(caf::event_based_actor* self, std::shared_ptr<Session> session, caf::actor client, const ClientPolicy& policy,
       std::shared_ptr<std::atomic<int64_t>> count)
      : self_(self),
        session_(std::move(session)),
        client_(std::move(client)),
        calls_(policy, Now()),
        count_(std::move(count)) {
    self_->monitor(client_);
    Arm();
  }
  ~Desk() {
    until_exit_.Take();
    (void)session_->Close();
  }

  void On(extend_session& m) {
    const auto token = Begin(m.call, false);
    if (!token.ok()) return;
    caf::actor_system& system = self_->system();
    const auto master = session_->impl()->master;
    Aside(
        [&system, master, bytes = std::make_shared<std::vector<char>>(std::move(m.graph)), answer = Answering(m.call)] {
          const absl::Status asked = Guarded("a graph that is read", [&]() -> absl::Status {
            TROUPE_ASSIGN_OR_RETURN(extend_request request, ReadGraphOf(system, *bytes));
            *bytes = {};
            ExtendThen(master, std::move(request),
                       Reply<extend_reply>([answer](extend_reply r) { answer(Failed(std::move(r.status))); }));
            return absl::OkStatus();
          });
          if (!asked.ok()) answer(Failed(asked));
        });
  }
  void On(prepare_session& m) {
    const auto token = Begin(m.call, false);
    if (!token.ok()) return;
    CompileThen(
        session_->impl()->master, {0, std::move(m.feeds), std::move(m.fetches), std::move(m.targets), /*graphs=*/false},
        Reply<compile_reply>([answer = Answering(m.call)](compile_reply r) { answer(Failed(std::move(r.status))); }));
  }
  void On(run_session& m) {
    const auto token = Begin(m.call, false);
    if (!token.ok()) return;
    RunOptions options = m.step.options;
    options.cancellation = &*token;
    const auto metadata =
        options.collect_stats || options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
    session_->RunAsync(
        options, m.step.feeds, m.step.fetches, m.step.targets,
        [answer = Answering(m.call), metadata](absl::Status status, std::vector<Tensor> outputs) {
          call_answer a;
          a.reply = {std::move(status), std::move(outputs), metadata};
          answer(std::move(a));
        },
        metadata.get());
  }
  void On(begin_partial& m) {
    Wait(m.call, [step = std::move(m.step)](Session& session, const CancellationToken& token) {
      Names feeds;
      for (const auto& [name, value] : step.feeds) feeds.push_back(name);
      RunOptions options = step.options;
      options.cancellation = &token;
      call_answer a;
      absl::StatusOr<std::string> handle = session.PartialRunSetup(options, feeds, step.fetches, step.targets);
      if (!handle.ok()) return Failed(handle.status());
      a.partial_run = *std::move(handle);
      return a;
    });
  }
  void On(go_on_partial& m) {
    Wait(m.call,
         [step = std::move(m.step), handle = std::move(m.handle)](Session& session, const CancellationToken& token) {
           RunOptions options = step.options;
           options.cancellation = &token;
           call_answer a;
           a.reply.status = session.PartialRun(options, handle, step.feeds, step.fetches, &a.reply.outputs);
           return a;
         });
  }
  void On(const give_up_partial& m) { (void)session_->PartialRunCancel(m.handle); }
  void On(reset_session& m) {
    Wait(m.call, [containers = std::move(m.containers)](Session& session, const CancellationToken&) {
      return Failed(session.Reset(containers));
    });
  }
  void On(const ask_session& m) {
    if (m.what == ask_session::What::kSteps) {
      return Wait(m.call, [](Session& session, const CancellationToken&) {
        call_answer a;
        a.texts = session.RunningSteps();
        return a;
      });
    }
    if (!Begin(m.call, false).ok()) return;
    call_answer a;
    absl::StatusOr<std::vector<DeviceStatus>> devices = session_->ListDevices();
    if (devices.ok()) {
      a.devices = *std::move(devices);
    } else {
      a.reply.status = devices.status();
    }
    Answering(m.call)(std::move(a));
  }
  void On(const cancel_call& m) {
    calls_.Cancel(m.call);
    in_.Drop(m.call);
    if (const auto it = reading_.find(m.call); it != reading_.end()) it->second.cancelled = true;
    if (const auto it = answering_.find(m.call); it != answering_.end()) {
      it->second.cancelled = true;
      if (it->second.made) Over(m.call);
    }
    Send(out_.Drop(m.call));
  }
  void On(const piece_taken& m) {
    calls_.Heard(Now());
    Send(out_.Taken(m.call));
    const auto it = answering_.find(m.call);
    if (it != answering_.end() && it->second.made && !out_.Has(m.call)) Over(m.call);
  }
  void On(parcel_piece& m) {
    calls_.Heard(Now());
    const uint64_t call = m.call;
    const parcel_piece::Kind kind = m.kind;
    // Each takes memory, and a thread when it is whole.
    if (!in_.Has(call)) {
      absl::Status room = calls_.Room(in_.size() + reading_.size() + 1);
      if (room.ok() && (calls_.Has(call) || reading_.contains(call)))
        room = AlreadyExists("there is a call ", call, " already");
      if (room.ok() && reading_.size() >= ParcelsIn::kMost)
        room = ResourceExhausted("the session has ", ParcelsIn::kMost, " calls that are still being read");
      if (!room.ok()) return Refuse(call, room);
    }
    absl::StatusOr<std::optional<std::vector<char>>> whole = in_.Take(std::move(m));
    if (!whole.ok()) return Refuse(call, whole.status());
    // The last one is taken when the call has been read: the client begins no other until then.
    if (!*whole || kind == parcel_piece::Kind::kExtend) self_->send(client_, piece_taken{call});
    if (*whole) Read(call, kind, **std::move(whole));
  }
  void On(parcel_read& m) {
    self_->send(client_, piece_taken{m.call});
    const auto read = reading_.extract(m.call);
    if (!read || read.mapped().cancelled) return;
    if (!m.status.ok()) return Refuse(m.call, m.status);
    if (m.run) return On(*m.run);
    if (m.partial) On(*m.partial);
  }
  void On(parcel_made& m) {
    const auto it = answering_.find(m.call);
    if (it == answering_.end()) return;
    if (it->second.cancelled) return Over(m.call);
    if (!m.status.ok()) {
      Over(m.call);
      return Refuse(m.call, m.status);
    }
    it->second.made = true;
    Send(out_.Send(m.call, parcel_piece::Kind::kAnswer, m.bytes));
  }
  void On(const client_beat&) {
    calls_.Heard(Now());
    self_->send(client_, beat_noted{});
  }
  void On(call_over& m) {
    const uint64_t call = m.answer.call;
    if (!calls_.Has(call) || answering_.contains(call)) return;
    std::vector<const Tensor*> tensors;
    for (const Tensor& t : m.answer.reply.outputs) tensors.push_back(&t);
    if (absl::Status can = CanCross(tensors); !can.ok()) {
      m.answer.reply.status = Annotate(can, "what the step fetched");
      m.answer.reply.outputs.clear();
    }
    const uint64_t bytes = BytesOf(m.answer);
    if (bytes > ParcelsOut::kPiece && bytes < kMostBytesOfMessage) return AnswerInPieces(std::move(m.answer));
    Over(call);
    if (bytes >= kMostBytesOfMessage) {
      return Refuse(call, InvalidArgument("an answer of ", bytes, " bytes, with the step's metadata, is too much"));
    }
    self_->send(client_, std::move(m.answer));
  }
  void On(const look_at_client&) {
    if (Now() < armed_) return;  // an earlier one has done its work
    armed_ = DeskTime::max();
    if (!calls_.Look(Now())) return Arm();
    End(Unavailable("the client was silent for its lease"));
  }
  void On(const end_desk& m) { End(m.why); }
  void Quit() { self_->quit(); }

 private:
  DeskTime Now() const { return self_->clock().now(); }
  static call_answer Failed(absl::Status status) {
    call_answer a;
    a.reply.status = std::move(status);
    return a;
  }
  void Send(std::vector<parcel_piece> pieces) {
    for (parcel_piece& piece : pieces) self_->send(client_, std::move(piece));
  }
  absl::StatusOr<CancellationToken> Begin(uint64_t call, bool waits) {
    calls_.Heard(Now());
    absl::StatusOr<CancellationToken> token = calls_.Begin(call, waits);
    if (!token.ok()) Refuse(call, token.status());
    count_->store(static_cast<int64_t>(calls_.size()));
    return token;
  }
  void Over(uint64_t call) {
    answering_.erase(call);
    calls_.Over(call);
    count_->store(static_cast<int64_t>(calls_.size()));
  }
  void AnswerInPieces(call_answer answer) {
    answering_[answer.call] = {};
    Aside([&system = self_->system(), me = caf::actor_cast<caf::actor>(self_),
           a = std::make_shared<call_answer>(std::move(answer))] {
      parcel_made made{a->call, {}, nullptr};
      made.status = Guarded("an answer in pieces", [&]() -> absl::Status {
        TROUPE_ASSIGN_OR_RETURN(made.bytes, ToParcel(system, *a));
        return absl::OkStatus();
      });
      SendSurely(system, me, [&] { return made; });
    });
  }
  void Refuse(uint64_t call, const absl::Status& why) {
    call_answer a = Failed(why);
    a.call = call;
    self_->send(client_, std::move(a));
  }
  // The session's share of the runtime keeps the actor system.
  void Aside(std::function<void()> work) {
    RunAside(session_->runtime()->impl()->aside,
             [at_exit = UntilExit(), session = session_, work = std::move(work)] { work(); });
  }
  // A message that has come in pieces.
  void Read(uint64_t call, parcel_piece::Kind kind, std::vector<char> bytes) {
    if (kind == parcel_piece::Kind::kExtend) {
      extend_session m;
      m.call = call;
      m.graph = std::move(bytes);
      return On(m);
    }
    reading_[call] = {};
    Aside([&system = self_->system(), me = caf::actor_cast<caf::actor>(self_), call, kind,
           bytes = std::make_shared<std::vector<char>>(std::move(bytes))] {
      parcel_read read;
      read.call = call;
      read.status = Guarded("a call in pieces", [&]() -> absl::Status {
        if (kind == parcel_piece::Kind::kAnswer) return InvalidArgument("a desk takes no answers");
        if (kind == parcel_piece::Kind::kRun) {
          read.run = std::make_shared<run_session>();
          TROUPE_RETURN_IF_ERROR(FromParcel(system, *bytes, read.run.get()));
          read.run->call = call;
          return absl::OkStatus();
        }
        read.partial = std::make_shared<go_on_partial>();
        TROUPE_RETURN_IF_ERROR(FromParcel(system, *bytes, read.partial.get()));
        read.partial->call = call;
        return absl::OkStatus();
      });
      SendSurely(system, me, [&] { return read; });
    });
  }
  // Takes the answer to a call, on any thread, in this actor's turn.
  Answer Answering(uint64_t call) const {
    return [&system = self_->system(), me = caf::actor_cast<caf::actor>(self_), call](call_answer a) {
      a.call = call;
      SendSurely(system, me, [&] { return call_over{a}; });
    };
  }
  // Calls what blocks on a thread of its own. It ends when the session is closed.
  void Wait(uint64_t call, std::function<call_answer(Session&, const CancellationToken&)> f) {
    const auto token = Begin(call, true);
    if (!token.ok()) return;
    const Answer answer = Answering(call);
    try {
      std::thread([until_exit = until_exit_, answer = answer, session = session_, token = *token,
                   f = std::move(f)]() mutable {
        call_answer a;
        const absl::Status ran = Guarded("a call that waits", [&] { a = f(*session, token); });
        if (!ran.ok()) a = Failed(ran);
        answer(std::move(a));
        answer = nullptr;
        session = nullptr;  // perhaps the last share, and the end of the actor system
      }).detach();
    } catch (const std::system_error& e) {
      answer(Failed(ResourceExhausted("the server has no thread left for a call that waits: ", e.what())));
    }
  }
  void End(const absl::Status& why) {
    self_->send(client_, session_over{why});
    self_->quit();
  }
  void Arm() {
    const DeskTime due = calls_.NextLook();
    if (due >= armed_) return;
    armed_ = due;
    const auto in = std::max(DeskTime::duration(0), due - Now());
    self_->delayed_send(self_, std::chrono::ceil<std::chrono::milliseconds>(in), look_at_client{});
  }

  caf::event_based_actor* const self_;
  // Of the threads that wait, with the session, which ends with the desk.
  const UntilExitOnceTold until_exit_;
  const std::shared_ptr<Session> session_;
  const caf::actor client_;
  DeskCalls calls_;
  const std::shared_ptr<std::atomic<int64_t>> count_;
  ParcelsIn in_;
  ParcelsOut out_;
  // Calls whose parcels are being read, and those whose answers travel in pieces, once they are
  // `made`. A thread that is at a parcel goes on with it when the call is cancelled: until it is
  // done, the call has its place.
  struct Aloof {
    bool cancelled = false, made = false;
  };
  std::map<uint64_t, Aloof> reading_, answering_;
  DeskTime armed_ = DeskTime::max();
};

struct DeskState {
  const char* name = "troupe.desk";
  std::unique_ptr<Desk> desk;
};

caf::behavior DeskBehavior(caf::stateful_actor<DeskState>* self,
                           const std::shared_ptr<std::unique_ptr<Session>>& session, const caf::actor& client,
                           const ClientPolicy& policy, const std::shared_ptr<std::atomic<int64_t>>& count) {
  self->state.desk = std::make_unique<Desk>(self, std::shared_ptr<Session>(std::move(*session)), client, policy, count);
  Desk* const d = self->state.desk.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_down_handler([d](const caf::down_msg&) { d->Quit(); });
  return {
      [d](extend_session& m) { d->On(m); },    [d](prepare_session& m) { d->On(m); },
      [d](run_session& m) { d->On(m); },       [d](begin_partial& m) { d->On(m); },
      [d](go_on_partial& m) { d->On(m); },     [d](const give_up_partial& m) { d->On(m); },
      [d](reset_session& m) { d->On(m); },     [d](const ask_session& m) { d->On(m); },
      [d](const cancel_call& m) { d->On(m); }, [d](const client_beat& m) { d->On(m); },
      [d](parcel_piece& m) { d->On(m); },      [d](const piece_taken& m) { d->On(m); },
      [d](parcel_read& m) { d->On(m); },       [d](parcel_made& m) { d->On(m); },
      [d](call_over& m) { d->On(m); },         [d](const look_at_client& m) { d->On(m); },
      [d](const end_desk& m) { d->On(m); },    [d](const close_session&) { d->Quit(); },
  };
}

}  // namespace

caf::actor SpawnDesk(caf::event_based_actor* host, std::unique_ptr<Session> session, caf::actor client,
                     const ClientPolicy& policy, std::shared_ptr<std::atomic<int64_t>> calls) {
  return host->spawn<caf::hidden + caf::monitored>(DeskBehavior,
                                                   std::make_shared<std::unique_ptr<Session>>(std::move(session)),
                                                   std::move(client), policy, std::move(calls));
}

}  // namespace troupe
