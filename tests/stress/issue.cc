// How calls are made, and their answers taken.
#include "tests/stress/faults.h"
#include "tests/stress/scenario.h"

namespace troupe::stress {

// What a callback holds: if it is dropped without having been called, that is seen. The metadata
// goes with the answer, as its owner may let it go then.
class Answerer {
 public:
  Answerer(std::shared_ptr<Scenario> scenario, Call* call, std::shared_ptr<Session> session)
      : scenario_(std::move(scenario)), call_(*call), session_(std::move(session)) {
    if (call->metadata) stats_ = std::make_unique<proto::RunMetadata>();
  }
  ~Answerer() {
    if (called_.load()) return;
    Fault(call_.number >> 20, "a callback was dropped", call_.Describe());
    scenario_->OnAnswer(call_, absl::UnknownError("dropped"), {});
  }
  proto::RunMetadata* stats() const { return stats_.get(); }
  void operator()(const absl::Status& status, const std::vector<Tensor>& outputs) {
    called_ = true;
    stats_.reset();
    scenario_->OnAnswer(call_, status, outputs);
    session_.reset();  // perhaps the last share, so the session goes here
    if (!call_.callback_throws) return;
    if (call_.number % 2 == 0) throw 13;
    throw std::runtime_error(MarkOf(call_.number) + " thrown by its callback");
  }

 private:
  const std::shared_ptr<Scenario> scenario_;
  Call& call_;
  std::shared_ptr<Session> session_;
  std::unique_ptr<proto::RunMetadata> stats_;
  std::atomic<bool> called_{false};
};

RunOptions Scenario::OptionsOf(const Call& call, const CancellationToken* token) const {
  RunOptions options;
  options.timeout_ms = call.timeout_ms;
  if (call.cancel_after_ms >= 0) options.cancellation = token;
  options.collect_stats = options.partition_graphs = call.metadata;
  return options;
}

Names Scenario::FetchesOf(const Call& call) const {
  Names names;
  for (const int f : call.fetches()) names.push_back(call.party->model->fetches()[static_cast<size_t>(f)].name);
  return names;
}

void Scenario::IssueOnThread(Call& call) {
  if (call.pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(call.pause_us));
  if (call.mode < Mode::kHandlerAsync) return Issue(call, nullptr);
  const caf::actor& user = users_[static_cast<size_t>(
      std::find_if(places_.begin(), places_.end(), [&](auto& p) { return p.get() == call.party->place; }) -
      places_.begin())];
  caf::anon_send(user, call.number & 0xfffff);
}

void Scenario::Issue(Call& call, caf::event_based_actor* self) {
  Party& p = *call.party;
  std::shared_ptr<Session> session = p.Get();
  if (session == nullptr) return Skip(call);
  call.was_closed = p.closed.came();
  call.was_extended = p.extended.came();
  if (call.Has(Kind::kCounter)) p.counter_started.fetch_add(1);
  call.started.Now();
  if (call.cancel_after_ms == 0) {
    call.cancelling.Now();
    call.token.Cancel();
  } else if (call.cancel_after_ms > 0) {
    At(Plus(Clock::now(), call.cancel_after_ms), [this, &call] {
      call.cancelling.Now();
      call.token.Cancel();
    });
  }
  switch (call.mode) {
    case Mode::kBlocking:
    case Mode::kPrepared:
    case Mode::kPartial:
    case Mode::kHandlerRefused:
      return RunHere(call, session.get());
    case Mode::kRequest:
      return Request(call, self);
    default: {
      Session* s = session.get();
      auto keep = call.keeps_session ? session : nullptr;
      auto answerer = std::make_shared<Answerer>(shared_from_this(), &call, std::move(keep));
      const CancellationToken token = call.token;  // its own object is gone when RunAsync has returned
      auto done = [answerer](const absl::Status& status, std::vector<Tensor> outputs) { (*answerer)(status, outputs); };
      proto::RunMetadata* stats = answerer->stats();
      call.issuing = true;
      answerer.reset();
      try {
        Callable prepared;
        if (call.mode == Mode::kPreparedAsync || call.mode == Mode::kHandlerPrepared) {
          std::lock_guard<std::mutex> lock(p.mu);
          if (!p.callables.empty()) prepared = p.callables[static_cast<size_t>(call.signature)];
        }
        if (prepared.valid()) {
          prepared.RunAsync(OptionsOf(call, &token), Model::FeedValues(call.in), std::move(done), stats);
        } else {
          s->RunAsync(OptionsOf(call, &token), Model::FeedsOf(call.in), FetchesOf(call), {}, std::move(done), stats);
        }
      } catch (...) {
        Fault(number_, "RunAsync throws", call.Describe());
      }
      call.returned.Now();
      // A thread is lent for a short while, unless nothing says when the step must be over.
      const bool may_stay = call.deadline_ms() == 0 && (Endless(call.act()) || p.place->stuck);
      const double took = MillisBetween(call.started.at(), call.returned.at());
      if (!may_stay && took > p.place->slow_ms + Load::Get().Margin(call.started.at()))
        Fault(number_, "RunAsync kept its caller", StrCat(took, " ms: ", call.Describe()));
    }
  }
}

void Scenario::RunHere(Call& call, Session* session) {
  // A failed or cancelled call's outputs are what they were, or nothing.
  std::vector<Tensor> out;
  auto stats = call.metadata ? std::make_unique<proto::RunMetadata>() : nullptr;
  const RunOptions options = OptionsOf(call, &call.token);
  absl::Status s;
  try {
    if (call.mode == Mode::kPartial) {
      s = RunPartial(call, *session, options, &out);
    } else if (call.mode == Mode::kPrepared) {
      absl::StatusOr<Callable> c = session->Prepare(Model::FeedNames(), FetchesOf(call), {});
      s = c.status();
      if (s.ok()) s = c->Run(options, Model::FeedValues(call.in), &out, stats.get());
    } else {
      s = session->Run(options, Model::FeedsOf(call.in), FetchesOf(call), {}, &out, stats.get());
    }
  } catch (...) {
    Fault(number_, "a blocking call throws", call.Describe());
  }
  stats.reset();
  OnAnswer(call, s, out);
}

absl::Status Scenario::RunPartial(Call& call, Session& session, const RunOptions& options, std::vector<Tensor>* out) {
  Names first, second;
  for (const int f : call.fetches()) {
    const Model::Fetch& fetch = call.party->model->fetches()[static_cast<size_t>(f)];
    (fetch.kind == Kind::kLate ? second : first).push_back(fetch.name);
  }
  Names all = first;
  all.insert(all.end(), second.begin(), second.end());
  RunOptions whole;
  whole.timeout_ms = options.timeout_ms;
  whole.cancellation = options.cancellation;
  TROUPE_ASSIGN_OR_RETURN(const std::string handle, session.PartialRunSetup(whole, Model::FeedNames(), all, {}));
  Feeds early = Model::FeedsOf(call.in), late = {early.back()};
  if (!second.empty()) early.pop_back();  // otherwise the first call takes the last fetch, and the step is over
  RunOptions none;
  none.timeout_ms = -1;
  std::vector<Tensor> got, more;
  TROUPE_RETURN_IF_ERROR(session.PartialRun(none, handle, early, first, &got));
  if (call.abandon) return absl::OkStatus();
  if (!second.empty()) TROUPE_RETURN_IF_ERROR(session.PartialRun(none, handle, late, second, &more));
  // In the order of the call's fetches.
  size_t a = 0, b = 0;
  for (const int f : call.fetches()) {
    const bool is_late = call.party->model->fetches()[static_cast<size_t>(f)].kind == Kind::kLate;
    std::vector<Tensor>& from = is_late ? more : got;
    size_t& at = is_late ? b : a;
    out->push_back(at < from.size() ? from[at] : Tensor());
    ++at;
  }
  return absl::OkStatus();
}

void Scenario::Request(Call& call, caf::event_based_actor* self) {
  const std::shared_ptr<Session> session = call.party->Get();
  caf::actor to = session == nullptr ? nullptr : ActorOf(*session);
  if (!to) to = session_actors_[static_cast<size_t>(call.party->index)];  // a dead one answers, too
  run_request request{Model::FeedsOf(call.in), FetchesOf(call), {}, OptionsOf(call, &call.token)};
  auto me = shared_from_this();
  self->request(to, caf::infinite, std::move(request))
      .then([me, &call](const run_reply& r) { me->OnAnswer(call, r.status, r.outputs); },
            [me, &call](const caf::error& e) { me->OnAnswer(call, absl::AbortedError(caf::to_string(e)), {}); });
}

void Scenario::Skip(Call& call) {
  call.answers.fetch_add(1);
  call.judged = true;
  if (call.then >= 0) Issue(calls_[static_cast<size_t>(call.then)], nullptr);
  std::lock_guard<std::mutex> lock(mu_);
  --unanswered_;
  changed_.notify_all();
}

void Scenario::OnAnswer(Call& call, const absl::Status& status, const std::vector<Tensor>& outputs) {
  const bool first = call.answers.load() == 0;
  Judge(call, status, outputs, gate());
  if (!first) return;
  if (call.then >= 0) Issue(calls_[static_cast<size_t>(call.then)], nullptr);
  std::lock_guard<std::mutex> lock(mu_);
  --unanswered_;
  changed_.notify_all();
}

void Scenario::OnUser(caf::event_based_actor* self, int64_t what) {
  if (what >= 0) return Issue(calls_[static_cast<size_t>(what)], self);
  std::function<void()> f;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (for_handlers_.empty()) return;
    f = std::move(for_handlers_.front());
    for_handlers_.pop_front();
  }
  f();
}

}  // namespace troupe::stress
