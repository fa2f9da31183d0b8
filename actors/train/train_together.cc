// The loops of chiefs and workers of synchronous training.
#include "troupe/train/train_together.h"

#include <chrono>
#include <future>
#include <optional>
#include <random>
#include <utility>

#include "actors/threads/inside_actor.h"
#include "actors/train/chief.h"
#include "actors/train/elastic_watch.h"
#include "actors/train/part_rounds.h"
#include "actors/train/training_loop.h"
#include "actors/train/server_recovery.h"
#include "actors/train/step_tracer.h"
#include "actors/train/sync_rounds.h"

namespace troupe::train {
namespace {

Tensor Words(std::initializer_list<int64_t> words) { return Tensor::Vector<int64_t>(words); }

// A number of this process, for the lives of its worker.
int64_t NewProcess() {
  std::random_device device;
  const uint64_t bits = (uint64_t{device()} << 32) ^ device();
  return static_cast<int64_t>((bits >> (kLifeBits + 2)) | 1);
}

// The chief: hears notices, updates, saves, hands out tokens.
class Chief {
 public:
  Chief(const Scope& root, const SyncReplicas& sync, const TrainingOptions& options, Teller* teller, Stop* stop,
        StepTracer* tracer)
      : sync_(sync),
        tracer_(*tracer),
        recovery_(root, sync.state(), options.checkpoints, /*each_alone=*/false),
        graph_(root.graph()),
        loop_(root.graph(), options, teller, stop) {
    const int workers = sync.options().workers;
    if (sync.elastic()) {
      rounds_ = std::make_unique<PartRounds>(workers, sync.take(), NewProcess() << kLifeBits);
    } else {
      rounds_ = std::make_unique<SyncRounds>(workers, sync.take());
    }
  }

  absl::Status Run() {
    if (sync_.elastic() && options().is_there) absence_.emplace(graph_, sync_, options());
    for (;;) {
      const absl::Status s = Try();
      if (s.ok()) return s;
      // Before it has begun, nothing is lost: servers may not have found each other yet.
      TROUPE_RETURN_IF_ERROR(loop_.WaitAfter(s, seen_, /*tell=*/begun_));
    }
  }
  // After Run, which gave up: whether it waited for the worker of this process, too.
  bool misses_own() const { return rounds_->misses(0); }
  bool failed_by_user() const { return loop_.failed_by_user(); }
  void Report(TrainingReport* report) const {
    report->recoveries = loop_.recoveries;
    report->lost_updates = lost_updates_;
    report->restarts = rounds_->restarts();
    report->dropped = rounds_->dropped();
  }

 private:
  const TrainingOptions& options() const { return loop_.options; }
  absl::Status Try() {
    TROUPE_RETURN_IF_ERROR(loop_.NewSession().status());
    TROUPE_ASSIGN_OR_RETURN(const ServerRecovery::Begun begun, recovery_.Begin(loop_.session(), seen_));
    begun_ = true;
    seen_ = begun.step;
    rounds_->Begin(begun.step);
    TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {sync_.make_places(), sync_.state().begin()}, nullptr));
    lost_updates_ += begun.lost_updates;
    TellBegun(loop_, begun);
    loop_.Back();
    TROUPE_RETURN_IF_ERROR(CallAll(SyncReplicas::kSayHello));
    while (rounds_->step() < options().last_step) TROUPE_RETURN_IF_ERROR(Step());
    loop_.stop->AllStepsMade();
    if (saved_ != rounds_->step()) TROUPE_RETURN_IF_ERROR(Save(/*last=*/true));
    TROUPE_RETURN_IF_ERROR(RunAtEnd(&loop_));
    // The first to have ended: from now on no step is made again, whoever dies.
    TROUPE_RETURN_IF_ERROR(loop_.session().Run({}, {}, {sync_.state().end()}, nullptr));
    TellEnd();
    return absl::OkStatus();
  }
  // Who is not told looks, where the servers still have what it looks for.
  void TellEnd() {
    const auto until = std::chrono::steady_clock::now() + kForOthers;
    absl::Status told = CallAll(SyncReplicas::kTheEnd);
    while (SaysLost(told) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      told = loop_.NewSession().status();
      if (told.ok()) told = CallAll(SyncReplicas::kTheEnd);
    }
    if (told.ok()) AwaitOthers(loop_.session(), sync_.state(), rounds_->workers() + 1, until);
  }

  absl::Status Step() {
    while (!rounds_->complete()) TROUPE_RETURN_IF_ERROR(Hear());
    const int64_t step = rounds_->step();
    TrainingEvent event{.kind = TrainingEvent::kStep, .step = step + 1, .loss = rounds_->mean_loss()};
    Feeds feeds;
    rounds_->AddFeeds(sync_, &feeds);
    event.gradients = sync_.take();
    TROUPE_ASSIGN_OR_RETURN(feeds, loop_.FeedsOf(options().update_feeds, step, std::move(feeds)));
    const bool last = step + 1 >= options().last_step;
    const bool save = IsSaved(options().checkpoints, step + 1);
    rounds_->Next();
    if (!save && !last) AddTokens(&feeds);
    const Operation& update = save || last ? sync_.update() : sync_.update_and_hand_out();
    StepTracer::Step traced = tracer_.Begin(step);
    const absl::Status updated =
        OfUpdate(loop_.session().Run(loop_.Doing(traced.options()), feeds, {}, {update}, nullptr, traced.metadata()));
    traced.End(updated, StrCat("update ", step));
    TROUPE_RETURN_IF_ERROR(updated);
    seen_ = step + 1;
    loop_.WentOn();
    loop_.teller->Tell(event);
    // Between the update and the next tokens nobody computes, and nothing is under way.
    if (save) TROUPE_RETURN_IF_ERROR(Save(last));
    return save && !last ? HandOut() : absl::OkStatus();
  }

  // One notice, and what it asks for.
  absl::Status Hear() {
    std::vector<Tensor> out;
    const absl::Status heard =
        loop_.session().Run(loop_.Waiting(), {}, {sync_.heard(), sync_.heard_loss()}, {}, &out, nullptr);
    // A notice or a token may have gone with a step that was cut off. Who computes only says hello
    // afterwards.
    if (absl::IsDeadlineExceeded(heard) && !loop_.given_up()) return CallAll(SyncReplicas::kSayHello, /*members=*/true);
    if (absl::IsDeadlineExceeded(heard)) return Missing(heard);
    TROUPE_RETURN_IF_ERROR(heard);
    const int64_t* const notice = out[0].data<int64_t>();
    // A worker that begins anew may have met a server that did so: nobody else may notice, when all
    // others wait.
    if (notice[0] == SyncReplicas::kHello) {
      TROUPE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, StepOfServers(loop_.session(), sync_.state()));
      if (!step || *step != rounds_->step()) return Aborted("a parameter server has lost its variables");
    }
    rounds_->Hear(notice, out[1].scalar<float>());
    TellChanges();
    return rounds_->has_tokens() ? HandOut() : absl::OkStatus();
  }

  std::vector<bool> Members() const {
    std::vector<bool> members;
    for (int w = 0; w < sync_.options().workers; ++w) members.push_back(rounds_->is_member(w));
    return members;
  }
  // Who came and went.
  void TellChanges() {
    const std::vector<Rounds::Change> changes = rounds_->TakeChanges();
    for (const Rounds::Change& c : changes) {
      const TrainingEvent::Kind kind = c.kind == Rounds::Change::kJoined ? TrainingEvent::kJoined
                                       : c.kind == Rounds::Change::kLeft ? TrainingEvent::kLeft
                                                                         : TrainingEvent::kGone;
      loop_.teller->Tell({.kind = kind, .step = rounds_->step(), .worker = c.worker});
    }
    if (changes.empty() || !absence_) return;
    absence_->Members(Members());
  }

  void AddTokens(Feeds* feeds) {
    std::vector<std::vector<int64_t>> rows(sync_.hands().size());
    for (const Rounds::Token& t : rounds_->TakeTokens()) {
      auto& its = rows[static_cast<size_t>(t.worker)];
      its.insert(its.end(), {t.life, t.step, t.part, t.number});
    }
    AddRows(rows, feeds);
  }
  void AddRows(const std::vector<std::vector<int64_t>>& rows, Feeds* feeds) const {
    for (size_t w = 0; w < rows.size(); ++w) {
      constexpr int64_t kWords = SyncReplicas::kTokenWords;
      Tensor t(DType::kInt64, TensorShape({static_cast<int64_t>(rows[w].size()) / kWords, kWords}));
      std::copy(rows[w].begin(), rows[w].end(), t.data<int64_t>());
      feeds->emplace_back(sync_.hands()[w].name(), std::move(t));
    }
  }
  absl::Status HandOut() {
    Feeds feeds;
    AddTokens(&feeds);
    return loop_.session().Run(feeds, {}, {sync_.hand_out()}, nullptr);
  }
  // To everybody, or to all that are known to be there: nobody reads what is handed to the others.
  absl::Status CallAll(int64_t what, bool members = false) {
    std::vector<std::vector<int64_t>> rows;
    for (const bool member : Members()) {
      rows.emplace_back();
      if (member || !members) rows.back() = {0, what, what == SyncReplicas::kTheEnd ? options().last_step : 0, 0};
    }
    Feeds feeds;
    AddRows(rows, &feeds);
    return loop_.session().Run(feeds, {}, {sync_.hand_out()}, nullptr);
  }

  absl::Status Save(bool last) { return SaveAndTell(&recovery_, &loop_, rounds_->step(), last, &saved_); }

  // The end of a wait for notices.
  absl::Status Missing(const absl::Status& s) const {
    const std::string missing = rounds_->missing();
    return DeadlineExceeded("no gradient of step ", rounds_->step(), " has come ", missing, " (", s.message(), ")");
  }

  const SyncReplicas& sync_;
  StepTracer& tracer_;
  ServerRecovery recovery_;
  const Graph* const graph_;
  TrainingLoop loop_;
  std::unique_ptr<Rounds> rounds_;
  std::optional<AbsenceWatch> absence_;
  int64_t seen_ = 0, saved_ = -1, lost_updates_ = 0;
  bool begun_ = false;
};

// A worker, the chief's own too: waits for tokens, computes, sends.
class Worker {
 public:
  Worker(const Scope& root, const SyncReplicas& sync, const TrainingOptions& options, Teller* teller, Stop* stop,
         StepTracer* tracer)
      : sync_(sync),
        tracer_(*tracer),
        loop_(root.graph(), options, teller, stop),
        alone_{sync.token().name()},
        with_values_(alone_),
        life_(NewProcess() << kLifeBits) {
    if (sync.elastic() && sync.options().worker != 0 && options.leaves) leave_.emplace(root.graph(), sync, options);
    for (const SyncReplicas::ValueWithToken& v : sync.values_with_token()) with_values_.push_back(v.value.name());
  }

  absl::Status Run() {
    for (;;) {
      const absl::Status s = Try();
      if (s.ok()) return s;
      // What it has goes to another one when it says so.
      if (leaves()) return loop_.NewSession().ok() ? Leave() : Left();
      if (!absl::IsCancelled(s) || !loop_.stop->set()) last_error_ = s;
      // The chief of the same process tells of losses; when it has made all steps, it does not
      // matter any more how this one fares.
      TROUPE_RETURN_IF_ERROR(loop_.WaitAfter(s, step_, /*tell=*/begun_ && sync_.options().worker != 0,
                                             gives_up() || !loop_.stop->all_steps_made()));
    }
  }
  void Report(TrainingReport* report) const {
    report->recoveries = loop_.recoveries;
    report->left = left_;
    if (left_) report->step = step_;
  }
  // Why it has sent nothing since it last did; or OK.
  const absl::Status& last_error() const { return last_error_; }

 private:
  // In the chief's process the chief gives up, and names who is missing.
  bool gives_up() const { return sync_.options().worker != 0; }
  // OK also when it is to leave meanwhile.
  absl::Status SayHello() {
    for (;;) {
      // One that was cut off may have been heard: said again under the same life, it would bring
      // two tokens of that life.
      const Tensor hello = Words({SyncReplicas::kHello, sync_.options().worker, ++life_, 0});
      // While there is no chief, the queue of notices may be full of what others, and this one in
      // its lives before, have said.
      RunOptions run = loop_.Waiting(gives_up());
      run.timeout_ms = std::min<int64_t>(run.timeout_ms, 1000);
      const absl::Status said =
          loop_.session().Run(run, {{sync_.notice(), hello}}, {}, {sync_.say()}, nullptr, nullptr);
      if (!absl::IsDeadlineExceeded(said) || leaves()) return absl::IsDeadlineExceeded(said) ? absl::OkStatus() : said;
      TROUPE_ASSIGN_OR_RETURN(const bool over, Over());
      if (over) return absl::OkStatus();
      if (gives_up() && loop_.given_up())
        return DeadlineExceeded("worker ", sync_.options().worker,
                                " says hello, and no chief hears it: ", said.message());
    }
  }
  bool leaves() const { return leave_ && leave_->leaves(); }
  absl::Status Left() {
    left_ = true;
    return absl::OkStatus();
  }
  // The chief hears it when it has time. If it never does, it finds by itself that this one is
  // gone.
  absl::Status Leave() {
    const Tensor notice = Words({SyncReplicas::kLeaves, sync_.options().worker, life_, 0});
    RunOptions run;
    run.timeout_ms = 2000;  // there is no chief, and no room in the queue
    loop_.session().Run(run, {{sync_.notice(), notice}}, {}, {sync_.say()}, nullptr, nullptr).IgnoreError();
    return Left();
  }
  absl::Status Try() {
    TROUPE_RETURN_IF_ERROR(loop_.NewSession().status());
    TROUPE_ASSIGN_OR_RETURN(const bool over, Over());
    // The chief waits for whom it knows.
    if (over) return begun_ ? SayEnd() : absl::OkStatus();
    TROUPE_RETURN_IF_ERROR(SayHello());
    bool begun = false;
    // Only once it has begun: then variables are there, whatever the token says. And not while it
    // waits for long, or values do: a token whose values do not come in time is lost with them.
    bool with_values = false;
    constexpr int kMostHellos = 8;     // half of a worker's share of the queue
    constexpr int kLooksForHello = 4;  // waits before another one
    for (int asked_again = 0, looks = 0;;) {
      if (leaves()) return Leave();
      std::vector<Tensor> out;
      RunOptions run = loop_.Waiting(gives_up());
      // At the end the chief waits for those that have lost its token, if they look soon.
      if (gives_up()) run.timeout_ms = std::min<int64_t>(run.timeout_ms, kForOthers.count() / 2);
      const absl::Status waited =
          OfUpdate(loop_.session().Run(run, {}, with_values ? with_values_ : alone_, {}, &out, nullptr));
      with_values = with_values && !absl::IsDeadlineExceeded(waited);
      // The token may have gone with a step that was cut off, that of the end, too. While there is
      // no chief, the queue of notices would be full in the end, and who tells it something would
      // wait for room.
      if (absl::IsDeadlineExceeded(waited) && gives_up()) {
        TROUPE_ASSIGN_OR_RETURN(const bool over_by_now, Over());
        if (over_by_now) return SayEnd();
        if (!loop_.given_up() && looks++ % kLooksForHello != 0) continue;
      }
      if (absl::IsDeadlineExceeded(waited) && !(gives_up() && loop_.given_up())) {
        if (++asked_again <= kMostHellos) TROUPE_RETURN_IF_ERROR(SayHello());
        continue;
      }
      TROUPE_RETURN_IF_ERROR(waited);
      asked_again = looks = 0;
      const int64_t* const token = out[0].data<int64_t>();
      const int64_t life = token[0], what = token[1];
      if (life == 0 && what == SyncReplicas::kLook) continue;
      if (life == 0 && what == SyncReplicas::kTheEnd) {
        // One that an earlier run has left on the servers is not for this one. Who has had no token
        // of a step cannot tell where they are not whole, and looks later.
        if (token[2] < loop_.options.last_step) continue;
        const auto made = StepOfServers(loop_.session(), sync_.state());
        if (!begun_) TROUPE_RETURN_IF_ERROR(made.status());
        const bool end = made.ok() && *made ? **made >= loop_.options.last_step : begun_;
        if (!end) continue;
        return SayEnd();
      }
      if (life == 0) TROUPE_RETURN_IF_ERROR(SayHello());
      if (life != life_ || what < 0) continue;
      step_ = what;
      if (!begun && sync_.options().worker != 0) loop_.teller->Tell({.kind = TrainingEvent::kBegin, .step = what});
      begun = begun_ = with_values = true;
      // What failed before is mended: it has a step to do. But of one that has just been begun
      // again when all ends it is still the reason.
      absl::Status before = std::exchange(last_error_, absl::OkStatus());
      const auto start = std::chrono::steady_clock::now();
      const absl::Status sent = Send(what, static_cast<int>(token[2]), token[3], absl::MakeSpan(out).subspan(1));
      if (absl::IsCancelled(sent) && std::chrono::steady_clock::now() - start < loop_.options.give_up / 2)
        last_error_ = std::move(before);
      TROUPE_RETURN_IF_ERROR(sent);
      loop_.WentOn();
    }
  }
  // Whether all is done. Who comes then, or has lost the token of the end, finds no chief. Until
  // the chief has ended, a server's death may take the last steps back. The chief's own worker
  // hears of the end from the chief's process.
  absl::StatusOr<bool> Over() {
    if (sync_.options().worker == 0) return false;
    const RunOptions soon = loop_.Waiting();
    const auto asked = StepOfServers(loop_.session(), sync_.state(), soon);
    if (absl::IsDeadlineExceeded(asked.status())) return false;  // it is asked again
    TROUPE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, asked);
    if (!step || *step < loop_.options.last_step) return false;
    std::vector<Tensor> ended;
    const absl::Status s = loop_.session().Run(soon, {}, {sync_.state().ended().name()}, {}, &ended, nullptr);
    if (absl::IsDeadlineExceeded(s)) return false;
    TROUPE_RETURN_IF_ERROR(s);
    return ended[0].scalar<int64_t>() >= 1;
  }
  // That it cannot be said is no failure: the chief waits for a while only.
  absl::Status SayEnd() {
    if (sync_.options().worker != 0) loop_.session().Run({}, {}, {sync_.state().end()}, nullptr).IgnoreError();
    return absl::OkStatus();
  }
  // In place of what reads them, unless that is fed already.
  void AddValues(absl::Span<const Tensor> values, Feeds* feeds) const {
    const size_t others = feeds->size();
    for (size_t i = 0; i < values.size(); ++i) {
      for (const std::string& read : sync_.values_with_token()[i].reads) {
        const bool fed = std::any_of(feeds->begin(), feeds->begin() + static_cast<std::ptrdiff_t>(others),
                                     [&](const auto& f) { return f.first == read || StrCat(f.first, ":0") == read; });
        if (!fed) feeds->emplace_back(read, values[i]);
      }
    }
  }
  // `values`: of sync_.values_with_token(), or none.
  absl::Status Send(int64_t step, int part, int64_t number, absl::Span<const Tensor> values) {
    const int worker = sync_.options().worker;
    if (part < 0 || (sync_.elastic() && part >= sync_.take())) return Internal("a token of part ", part);
    const Tensor notice = Words({SyncReplicas::kGradient, worker, life_, number});
    TrainingLoop::FeedsFunction from = loop_.options.feeds;
    if (sync_.elastic()) from = [&](int64_t s) { return loop_.options.part_feeds(s, part); };
    TROUPE_ASSIGN_OR_RETURN(Feeds feeds, loop_.FeedsOf(from, step, {{sync_.notice().name(), notice}}));
    AddValues(values, &feeds);
    // In the chief's process an update comes after it, and an elastic one may have another part.
    StepTracer::Step traced = tracer_.Begin(step, /*last=*/worker != 0 && !sync_.elastic());
    const absl::Status sent = OfUpdate(
        loop_.session().Run(loop_.Doing(traced.options()), feeds, {}, {sync_.send(part)}, nullptr, traced.metadata()));
    traced.End(sent, sync_.elastic() ? StrCat("gradient ", step, " of part ", part, ", by worker ", worker)
                                     : StrCat("gradient ", step, " of worker ", worker));
    return sent;
  }

  const SyncReplicas& sync_;
  StepTracer& tracer_;
  TrainingLoop loop_;
  // What is fetched while it waits for a token.
  std::vector<std::string> alone_, with_values_;
  int64_t life_, step_ = 0;
  bool begun_ = false, left_ = false;
  absl::Status last_error_;
  std::optional<LeaveWatch> leave_;
};

}  // namespace

absl::StatusOr<TrainingReport> TrainTogether(const Scope& root, const SyncReplicas& sync,
                                             const TrainingOptions& options) {
  if (InsideActor()) return FailedPrecondition("TrainTogether blocks, and was called in an actor's handler");
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  if (sync.elastic() && !options.part_feeds)
    return InvalidArgument("elastic training needs TrainingOptions.part_feeds: what is fed for a part of a step");
  Teller teller(options);
  Stop stop;
  StepTracer tracer(options.trace, &teller);
  TrainingReport report{.step = options.last_step};
  if (sync.options().worker != 0) {
    Worker worker(root, sync, options, &teller, &stop, &tracer);
    const absl::Status ran = worker.Run();
    tracer.Finish();  // also of a training that failed
    TROUPE_RETURN_IF_ERROR(ran);
    worker.Report(&report);
    return report;
  }
  // Before there are threads: it adds nodes.
  Chief chief(root, sync, options, &teller, &stop, &tracer);
  TROUPE_RETURN_IF_ERROR(root.status());
  Worker worker(root, sync, options, &teller, &stop, &tracer);
  bool told = false;  // that it is to stop, and ended for nothing else
  std::future<absl::Status> led = std::async(std::launch::async, [&] {
    absl::Status s = Guarded("the chief of a training", [&] { return chief.Run(); });
    told = stop.set() && !chief.failed_by_user();
    // Its worker may have lost the token of the end, and would wait for one for ever.
    stop.Set();
    return s;
  });
  const absl::Status worked = Guarded("the worker of a training's chief", [&] { return worker.Run(); });
  if (!worked.ok()) stop.Set();
  const absl::Status s = led.get();
  tracer.Finish();
  // The chief waited for this process's own worker, which knows why it does not come.
  if (absl::IsDeadlineExceeded(s) && !worked.ok() && chief.misses_own()) {
    const absl::Status& why = absl::IsCancelled(worked) ? worker.last_error() : worked;
    if (!why.ok()) return why;
  }
  // Who was told to stop says so; the other one says why.
  if (!s.ok() && (worked.ok() || !absl::IsCancelled(s) || !told)) return s;
  // When all is done, it does not matter how the worker ended.
  if (!s.ok()) return worked;
  chief.Report(&report);
  return report;
}

}  // namespace troupe::train
