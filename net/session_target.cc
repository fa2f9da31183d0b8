// SessionOptions.target: sessions in servers, as the Session objects of this process call them.
#include <atomic>
#include <caf/binary_serializer.hpp>
#include <future>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "actors/messages/ask.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_elsewhere.h"
#include "actors/step/answers.h"
#include "actors/threads/aside.h"
#include "actors/threads/inside_actor.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/process.h"
#include "actors/threads/surely.h"
#include "graph/core/guarded.h"
#include "net/caller.h"
#include "net/parcels.h"
#include "net/session_agent.h"
#include "net/target.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

// All sessions of a process that stand in servers share one node of the network, which lives as
// long as one of them: a runtime with CAF's middleman.
absl::StatusOr<std::shared_ptr<Runtime>> ClientRuntime() {
  static std::mutex mu;
  static auto& shared = *new std::weak_ptr<Runtime>;
  std::lock_guard<std::mutex> lock(mu);
  std::shared_ptr<Runtime> runtime = shared.lock();
  if (runtime != nullptr && runtime->impl()->process == ThisProcess()) return runtime;
  RuntimeOptions options;
  options.threads = 1;
  TROUPE_ASSIGN_OR_RETURN(runtime, StartRuntime(options, ClusterOptions(), NodeConfig(kLongest)));
  shared = runtime;
  return runtime;
}

call_answer AnswerOf(absl::Status status) {
  call_answer a;
  a.reply.status = std::move(status);
  return a;
}

// What a call waits for; constructible from a status, for CallWait.
struct Answered {
  explicit Answered(absl::Status status) : answer(AnswerOf(std::move(status))) {}
  explicit Answered(call_answer a) : answer(std::move(a)) {}
  call_answer answer;
};

class TargetSession : public SessionElsewhere {
 public:
  TargetSession(std::shared_ptr<Runtime> runtime, std::shared_ptr<AgentCalls> calls, caf::actor agent, caf::actor desk)
      : runtime_(std::move(runtime)), calls_(std::move(calls)), agent_(std::move(agent)), desk_(std::move(desk)) {}
  ~TargetSession() override {
    NoLoggerAfter restore;
    Close();
    AwaitAgent();
    agent_ = nullptr;
    desk_ = nullptr;
    runtime_ = nullptr;  // perhaps the last share, and the node's end
  }

  absl::Status Usable() const override { return calls_->ended(); }
  absl::Status Extend(const extend_request& graph) override {
    extend_request lent = graph;
    extend_session m;
    caf::binary_serializer out(system(), m.graph);
    if (caf::error e = out(lent)) return InvalidArgument("the graph cannot be sent: ", system().render(e));
    constexpr size_t kMost = (size_t{1} << 31) - (1 << 20);
    if (m.graph.size() >= kMost) return InvalidArgument("a graph of ", m.graph.size(), " bytes is too big to be sent");
    return Ask(std::move(m)).reply.status;
  }
  absl::Status Prepare(const Names& feeds, const Names& fetches, const Names& targets, int64_t timeout_ms) override {
    RunOptions options;
    options.timeout_ms = timeout_ms;
    return Ask(prepare_session{0, feeds, fetches, targets}, options).reply.status;
  }
  absl::Status Run(run_request step, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) override {
    const RunOptions options = step.options;
    call_answer a = Ask(run_session{0, std::move(step)}, options);
    return Take(std::move(a), outputs, metadata);
  }
  void RunAsync(run_request step, RunCallback done, proto::RunMetadata* metadata) override {
    const RunOptions options = step.options;
    Begin(run_session{0, std::move(step)}, options, [done = std::move(done), metadata](call_answer a) {
      std::vector<Tensor> outputs;
      absl::Status status = Take(std::move(a), &outputs, metadata);
      CallDone(done, std::move(status), std::move(outputs));
    });
  }
  absl::StatusOr<std::string> PartialRunSetup(run_request step) override {
    const RunOptions options = step.options;
    call_answer a = Ask(begin_partial{0, std::move(step)}, options);
    TROUPE_RETURN_IF_ERROR(a.reply.status);
    if (a.partial_run.empty()) return Internal("the server gave no handle of a partial run");
    return std::move(a.partial_run);
  }
  absl::Status PartialRun(const std::string& handle, run_request step, std::vector<Tensor>* outputs) override {
    const RunOptions options = step.options;
    return Take(Ask(go_on_partial{0, handle, std::move(step)}, options), outputs, nullptr);
  }
  void PartialRunCancel(const std::string& handle) override { Tell(give_up_partial{handle}); }
  absl::Status Reset(const std::vector<std::string>& containers) override {
    return Ask(reset_session{0, containers}).reply.status;
  }
  absl::StatusOr<std::vector<DeviceStatus>> ListDevices() override {
    call_answer a = Ask(ask_session{0, ask_session::What::kDevices});
    TROUPE_RETURN_IF_ERROR(a.reply.status);
    return std::move(a.devices);
  }
  absl::StatusOr<std::vector<std::string>> RunningSteps() override {
    call_answer a = Ask(ask_session{0, ask_session::What::kSteps});
    TROUPE_RETURN_IF_ERROR(a.reply.status);
    return std::move(a.texts);
  }
  void Close() override {
    if (closed_.exchange(true)) return;
    // Calls that come from now on are refused at once, those that wait in the agent's turn.
    std::vector<std::shared_ptr<AgentCall>> waiting;
    UntilMemoryAllows([&] { waiting = calls_->End(absl::CancelledError("the session is closed")); });
    SendSurely(system(), agent_, [&] { return end_agent{waiting}; });
  }

 private:
  // The agent has a share of the runtime, too. If that were the last one, the node would end
  // beside what the program does next, which may be its own end. The process's end waits for one
  // that is not waited for here.
  void AwaitAgent() {
    if (runtime_->impl()->process != ThisProcess()) return;
    std::future<void> end;
    UntilMemoryAllows([&] {
      const auto ended = std::make_shared<std::promise<void>>();
      agent_->attach_functor([ended, at_exit = UntilExit()] { ended->set_value(); });
      end = ended->get_future();
    });
    if (InsideActor()) return;
    constexpr milliseconds kAtMost{1000};  // callbacks of calls that wait are called in its turn
    (void)end.wait_for(kAtMost);
  }
  caf::actor_system& system() const { return *runtime_->impl()->system; }
  template <class Message>
  void Tell(const Message& m) {
    SendSurely(
        system(), desk_, [&] { return m; }, caf::actor_cast<caf::strong_actor_ptr>(agent_));
  }
  static absl::Status CheckTensors(const run_request& step) {
    std::vector<const Tensor*> tensors;
    for (const auto& [name, value] : step.feeds) tensors.push_back(&value);
    return Annotate(CanCross(tensors), "what is fed");
  }
  template <class Message>
  static absl::Status Check(const Message& m) {
    if constexpr (requires { m.step; }) return CheckTensors(m.step);
    return absl::OkStatus();
  }

  // In one message, or in pieces when it is big.
  absl::Status SendCall(extend_session m) {
    if (m.graph.size() <= ParcelsOut::kPiece) {
      Tell(std::move(m));
    } else {
      SendParcel(m.call, parcel_piece::Kind::kExtend, std::make_shared<const std::vector<char>>(std::move(m.graph)));
    }
    return absl::OkStatus();
  }
  template <class Message>
  absl::Status SendCall(Message m) {
    if constexpr (std::is_same_v<Message, run_session> || std::is_same_v<Message, go_on_partial>) {
      std::vector<const Tensor*> tensors;
      for (const auto& [name, value] : m.step.feeds) tensors.push_back(&value);
      if (BytesOf(tensors) > ParcelsOut::kPiece) {
        constexpr bool kIsRun = std::is_same_v<Message, run_session>;
        TROUPE_ASSIGN_OR_RETURN(auto bytes, ToParcel(system(), m));
        SendParcel(m.call, kIsRun ? parcel_piece::Kind::kRun : parcel_piece::Kind::kPartial, std::move(bytes));
        return absl::OkStatus();
      }
    }
    Tell(std::move(m));
    return absl::OkStatus();
  }
  void SendParcel(uint64_t call, parcel_piece::Kind kind, std::shared_ptr<const std::vector<char>> bytes) {
    SendSurely(system(), agent_, [&] { return send_parcel{call, kind, bytes}; });
  }

  // Sends a message with the number of a new call. `answered` is called once: in the agent's turn,
  // or before this returns.
  template <class Message>
  void Begin(Message m, const RunOptions& options, std::function<void(call_answer)> answered) {
    if (absl::Status can = Check(m); !can.ok()) return answered(AnswerOf(std::move(can)));
    // The server's own word, with what the step waited for, comes before this if it comes.
    constexpr milliseconds kGrace{500};
    SteadyTime due = SteadyTime::max();
    absl::Status late;
    if (options.timeout_ms > 0) {
      due = TimeAfter(system().clock().now() + kGrace, options.timeout_ms);
      late = DeadlineExceeded("the server has not answered within ", options.timeout_ms, " ms");
    }
    const auto number = std::make_shared<std::atomic<uint64_t>>(0);
    caf::actor_system* const in = &system();
    const auto call = std::make_shared<AgentCall>(std::move(answered), [in, number, agent = agent_] {
      SendSurely(*in, agent, [&] { return cancel_begun{number->load()}; });
    });
    bool first = false;
    absl::StatusOr<uint64_t> begun = calls_->Begin(call, due, std::move(late), &first);
    if (!begun.ok()) return call->Fail(begun.status());
    m.call = *begun;
    number->store(*begun);
    // Others that are due later count on it.
    if (first) SendSurely(system(), agent_, [] { return call_begun{}; });
    if (absl::Status sent = Guarded("sending a call", [&] { return SendCall(std::move(m)); }); !sent.ok()) {
      if (const auto mine = calls_->Take(*begun)) mine->Fail(std::move(sent));
      return;
    }
    // After the message: what cancels it may not come before it.
    call->Watch(options.cancellation);
  }
  template <class Message>
  call_answer Ask(Message m, const RunOptions& options = {}) {
    auto wait = std::make_shared<CallWait<Answered>>();
    Begin(std::move(m), options, [wait](call_answer a) { wait->Set(Answered(std::move(a))); });
    return wait->Wait().answer;
  }
  static absl::Status Take(call_answer a, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
    if (metadata != nullptr && a.reply.metadata != nullptr) metadata->Swap(a.reply.metadata.get());
    if (outputs != nullptr) *outputs = std::move(a.reply.outputs);
    return std::move(a.reply.status);
  }

  std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<AgentCalls> calls_;
  caf::actor agent_, desk_;
  std::atomic<bool> closed_{false};
};

// A session in one server.
absl::StatusOr<std::shared_ptr<SessionElsewhere>> OpenAt(const std::shared_ptr<Runtime>& runtime,
                                                         const HostPort& address, const SessionOptions& options) {
  caf::actor_system& system = *runtime->impl()->system;
  const auto end = std::chrono::steady_clock::now() + Bounded(milliseconds(options.connect_timeout_ms));
  const auto left = [&] {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()));
  };
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> tls, ClientTls());
  TROUPE_ASSIGN_OR_RETURN(const caf::actor control, ConnectTo(system, address, left(), tls));
  const auto calls = std::make_shared<AgentCalls>();
  NoLoggerAfter restore;
  const caf::actor agent = SpawnAgent(system, calls, StrCat("the server at ", address.ToString()));
  open_session ask;
  ask.name = options.client_name.substr(0, kMostText);  // more is not read there
  ask.options = options;
  ask.client = agent;
  const absl::StatusOr<session_opened> opened = troupe::Ask<session_opened>(
      system, control, std::move(ask), false, caf::duration(left()), "the server did not open a session");
  absl::Status status = opened.ok() ? opened->status : opened.status();
  if (status.ok() && !opened->desk) status = Internal(address.ToString(), ": the server opened no session");
  if (!status.ok()) {
    SendSurely(system, agent, [] { return end_agent{}; });
    return status;
  }
  SendSurely(system, agent, [&] { return desk_opened{opened->desk, opened->lease_ms, runtime}; });
  return std::make_shared<TargetSession>(runtime, calls, agent, opened->desk);
}

absl::StatusOr<std::shared_ptr<SessionElsewhere>> OpenAtTarget(const SessionOptions& options,
                                                               std::shared_ptr<Runtime>* runtime) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<HostPort> addresses, ParseTarget(options.target));
  TROUPE_ASSIGN_OR_RETURN(*runtime, ClientRuntime());
  absl::Status all;
  std::string why;
  for (const HostPort& address : addresses) {
    auto session = OpenAt(*runtime, address, options);
    if (session.ok()) return session;
    const std::string named = StrCat(address.ToString(), ": ");
    const std::string_view said = MessageOf(session.status());
    StrAppend(&why, why.empty() ? "" : "; ", said.starts_with(named) ? "" : named, said);
    // What the caller can do about it is the first one's: the others may be down.
    if (all.ok() || absl::IsUnavailable(all)) all = session.status();
  }
  absl::Status none(all.code(), StrCat("no server of target '", options.target, "' gave a session: ", why));
  all.ForEachPayload([&](absl::string_view url, const absl::Cord& value) { none.SetPayload(url, value); });
  return none;
}

[[maybe_unused]] const bool registered = (SetOpenElsewhere(&OpenAtTarget), true);

}  // namespace

absl::StatusOr<std::vector<HostPort>> ParseTarget(std::string_view target) {
  constexpr std::string_view kScheme = "troupe://";
  constexpr size_t kMost = 100;
  if (!target.starts_with(kScheme)) {
    return InvalidArgument("target '", CEscape(std::string(target)), "' does not begin with ", kScheme,
                           ", as in troupe://host:port,host:port");
  }
  std::vector<HostPort> addresses;
  for (std::string_view rest = target.substr(kScheme.size());;) {
    const size_t comma = rest.find(',');
    absl::StatusOr<HostPort> address = HostPort::Parse(rest.substr(0, comma));
    if (!address.ok()) return Annotate(address.status(), "target");
    addresses.push_back(*std::move(address));
    if (addresses.size() > kMost) return InvalidArgument("a target has at most ", kMost, " addresses");
    if (comma == std::string_view::npos) return addresses;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace troupe
