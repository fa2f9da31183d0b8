#include "tests/stress/scenario.h"

#include <algorithm>

#include "tests/stress/doing.h"
#include "tests/stress/faults.h"

namespace troupe::stress {
namespace {

using namespace std::chrono_literals;

// After this (and a margin for the load) somebody must look what is wrong.
constexpr double kLongestMs = 20000;

caf::behavior User(caf::event_based_actor* self, Scenario* scenario) {
  return {[=](int64_t what) { scenario->OnUser(self, what); }};
}

// True when `f` holds before the margin is over.
template <class F>
bool InTime(double more_ms, F f) {
  const TimePoint begin = Clock::now();
  while (!f()) {
    if (MillisSince(begin) > more_ms + 2 * Load::Get().Margin(begin)) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

}  // namespace

Scenario::Scenario(int64_t number, const Options& options) : number_(number), options_(options) {
  const Draw draw = Draw(options.seed).Fork(static_cast<uint64_t>(number));
  DrawPlaces(draw.Fork(1));
  DrawParties(draw.Fork(2));
  DrawCalls(draw.Fork(3));
  DrawTroubles(draw.Fork(4));
}
Scenario::~Scenario() = default;

void Scenario::Run() {
  ScenarioRuns(number_, true);
  begin_ = Clock::now();
  give_up_ = Plus(begin_, kLongestMs);
  MakeGate(number_);
  unanswered_ = static_cast<int64_t>(calls_.size());
  if (Start()) {
    std::thread events([this] { RunEvents(); });
    const TimePoint begin = Clock::now();
    At(Plus(begin, gate_after_ms_), [this] {
      if (!gate_opens_late_) OpenTheGate();
    });
    for (const Trouble& t : troubles_) At(Plus(begin, t.at_ms), [this, t] { Befall(t); });
    std::vector<std::thread> callers;
    for (const std::vector<int>& calls : threads_) {
      callers.emplace_back([this, &calls] {
        for (const int c : calls) IssueOnThread(calls_[static_cast<size_t>(c)]);
      });
    }
    for (std::thread& t : callers) t.join();
    WaitForAnswers();
    {
      std::lock_guard<std::mutex> lock(mu_);
      no_more_events_ = true;
      changed_.notify_all();
    }
    events.join();
    CheckWhatIsLeft();
  }
  LetGo();
  OpenTheGate();
  ScenarioRuns(number_, false);
}

bool Scenario::Start() {
  for (auto& place : places_) {
    absl::StatusOr<std::shared_ptr<Runtime>> runtime;
    if (place->foreign) {
      place->config = std::make_unique<caf::actor_system_config>();
      place->config->set("scheduler.max-threads", size_t{2});
      place->system = std::make_unique<caf::actor_system>(*place->config);
      runtime = StartRuntimeIn(*place->system, place->options);
    } else {
      runtime = Runtime::Start(place->options);
    }
    if (!runtime.ok()) {
      Fault(number_, "a runtime does not start", runtime.status().ToString());
      return false;
    }
    place->runtime = *runtime;
    place->actors = place->runtime->impl()->system->registry().running();
    users_.push_back(place->runtime->impl()->system->spawn(User, this));
  }
  cast_.resize(parties_.size());
  session_actors_.resize(parties_.size());
  for (auto& p : parties_) {
    if (!StartParty(*p)) return false;
  }
  return true;
}

bool Scenario::StartParty(Party& p) {
  const auto failed = [&](const char* what, const absl::Status& s) {
    if (s.ok() || (p.place->options.memory_limit > 0 && absl::IsResourceExhausted(s))) return false;
    Fault(number_, what, s.ToString());
    return true;
  };
  if (failed("a graph cannot be built", p.first->status()) || failed("a graph cannot be built", p.model->status()))
    return false;
  p.options.runtime = p.place->runtime;
  auto session = Session::Create(p.options);
  p.options.runtime = nullptr;
  if (failed("a session is not made", session.status())) return false;
  session_actors_[static_cast<size_t>(p.index)] = ActorOf(**session);  // its first incarnation
  // Whoever has the last share destroys it: a thread of the scenario, a callback, a handler.
  p.session = std::shared_ptr<Session>(session->release(), [this, me = shared_from_this(), &p](Session* s) {
    p.closing.Now();
    Doing doing(this, StrCat("~Session of session ", p.index));
    delete s;
  });
  Doing doing(this, StrCat("the set-up of session ", p.index));
  // The session's own deadline may be short for a busy machine; either call may be made again then.
  const auto in_the_end = [](const std::function<absl::Status()>& call) {
    absl::Status s;
    (void)InTime(20000, [&] { return !absl::IsDeadlineExceeded(s = call()); });
    return s;
  };
  if (failed("Extend at the beginning", in_the_end([&] { return p.session->Extend(p.first->graph()); }))) return false;
  if (!p.model->init().empty() && failed("the variables' initializers", in_the_end([&] {
                                           return p.session->Run({}, {}, {p.model->init()}, nullptr);
                                         })))
    return false;
  // Kernels that cannot be made make signatures that cannot be prepared.
  for (size_t i = 0; i < p.signatures.size(); ++i) {
    Names fetches;
    for (const int f : p.signatures[i]) fetches.push_back(p.model->fetches()[static_cast<size_t>(f)].name);
    p.callables.emplace_back();
    if ((number_ + static_cast<int64_t>(i)) % 3 == 0) continue;  // those are new when they are first called
    if (auto c = p.session->Prepare(Model::FeedNames(), fetches, {}); c.ok()) p.callables.back() = *std::move(c);
  }
  HarvestExecutors(p);
  return true;
}

void Scenario::At(TimePoint when, std::function<void()> what) {
  std::lock_guard<std::mutex> lock(mu_);
  events_.emplace(when, Event{std::move(what)});
  changed_.notify_all();
}

void Scenario::RunEvents() {
  std::unique_lock<std::mutex> lock(mu_);
  while (!events_.empty() || !no_more_events_) {
    if (events_.empty()) {
      changed_.wait(lock);
    } else if (const TimePoint due = events_.begin()->first; due > Clock::now() && !no_more_events_) {
      changed_.wait_until(lock, due);
    } else {
      auto what = std::move(events_.begin()->second.what);
      events_.erase(events_.begin());
      lock.unlock();
      what();
      what = nullptr;
      lock.lock();
    }
  }
}

void Scenario::OpenTheGate() {
  gate_.Now();
  OpenGate(number_);
}

void Scenario::WaitForAnswers() {
  std::unique_lock<std::mutex> lock(mu_);
  while (unanswered_ > 0) changed_.wait(lock);
}

void Scenario::CheckWhatIsLeft() {
  for (auto& place : parties_) {
    Party& p = *place;
    const std::shared_ptr<Session> session = p.Get();
    if (session == nullptr || p.closing.came() || (p.place->stuck && !gate_.came())) continue;
    Doing doing(this, StrCat("a step of session ", p.index, " when all is over"));
    // A killed worker is back soon, and so is a session's actor.
    const Model::Fetch& f = p.model->fetches()[0];
    RunOptions options;
    options.timeout_ms = 20000;
    std::vector<Tensor> out;
    absl::Status s;
    (void)InTime(0, [&] {
      s = session->Run(options, Model::FeedsOf(PlainInputs(p)), {f.name}, {}, &out, nullptr);
      return !(p.place->killed.came() || p.killed.came()) || !(absl::IsUnavailable(s) || absl::IsAborted(s));
    });
    if (!s.ok()) {
      if (p.place->options.memory_limit == 0 || !absl::IsResourceExhausted(s))
        Fault(number_, "a session is not usable any more", s.ToString());
      continue;
    }
    const Value expected = p.model->Expected(f, PlainInputs(p));
    const auto got = out[0].flat<double>();
    if (!std::equal(got.begin(), got.end(), expected.begin(), expected.end()))
      Fault(number_, "wrong value when all is over", out[0].DebugString());
    if (p.model->counter().empty() || p.reset.came() || p.place->killed.came() || p.killed.came()) continue;
    s = session->Run(options, Model::FeedsOf(PlainInputs(p)), {p.model->counter()}, {}, &out, nullptr);
    const double count = s.ok() ? out[0].scalar<double>() : -1, least = static_cast<double>(p.counter_ok),
                 most = static_cast<double>(p.counter_started);
    if (p.place->options.memory_limit == 0 && (count < least || count > most))
      Fault(number_, "updates of a variable",
            StrCat("session ", p.index, ": ", count, " after ", least, " to ", most, " updates; ", s.ToString()));
  }
}

void Scenario::LetGo() {
  const Draw draw = Draw(options_.seed).Fork(static_cast<uint64_t>(number_) + 7777);
  Draw order = draw;
  // The users' actors first: they live in the runtimes' systems, and some wait for what the
  // sessions' actors say.
  for (size_t i = 0; i < users_.size(); ++i) {
    Doing doing(this, "the end of the user's actor");
    caf::scoped_actor self(*places_[i]->runtime->impl()->system);
    self->monitor(users_[i]);
    self->send_exit(users_[i], caf::exit_reason::user_shutdown);
    self->receive([](const caf::down_msg&) {});
  }
  users_.clear();
  {
    std::lock_guard<std::mutex> lock(mu_);
    for_handlers_.clear();
    cast_.clear();
  }
  if (!gate_opens_late_) OpenTheGate();
  for (auto& p : parties_) {
    if (order.Chance(0.5)) p->callables.clear();
    DropSession(*p);
    p->callables.clear();
  }
  session_actors_.clear();
  std::vector<std::weak_ptr<Runtime>> gone;
  for (auto& place : places_) {
    std::shared_ptr<Runtime> runtime;
    {
      std::lock_guard<std::mutex> lock(mu_);
      runtime.swap(place->runtime);
    }
    if (runtime == nullptr) continue;
    if (place->options.memory_limit > 0 && !gate_opens_late_) {
      int64_t in_use = 0;
      const bool back =
          InTime(place->slow_ms, [&] { return (in_use = runtime->devices()[0].memory.bytes_in_use) == 0; });
      if (!back) Fault(number_, "memory of a runtime whose sessions are gone", StrCat(in_use, " bytes are in use"));
    }
    if (!gate_opens_late_) {
      caf::actor_registry& registry = runtime->impl()->system->registry();
      const bool back = InTime(place->slow_ms, [&] { return registry.running() <= place->actors; });
      if (!back)
        Fault(number_, "actors of sessions that are gone",
              StrCat(registry.running(), " run, ", place->actors, " at the beginning"));
    }
    gone.push_back(runtime);
  }
  OpenTheGate();
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!InTime(places_[i]->slow_ms, [&] { return gone[i].expired(); }))
      Fault(number_, "a runtime is not let go", StrCat(gone[i].use_count(), " shares are left"));
  }
  for (auto& place : places_) {
    if (place->system == nullptr) continue;
    const bool empty = InTime(place->slow_ms, [&] { return place->system->registry().running() == 0; });
    if (!empty) {
      Fault(number_, "actors are left", StrCat(place->system->registry().running(), " in the user's actor system"));
      (void)place->system.release();  // its destructor would wait for them
      (void)place->config.release();
    }
    place->system.reset();
  }
}

std::string Scenario::Outstanding() {
  std::string text = StrCat("scenario ", number_, ", since ", MillisSince(begin_), " ms; gate ",
                            gate_.came() ? "open" : "closed", ", ", WaitingAtGate(number_), " kernels wait there\n");
  for (const auto& p : places_) {
    StrAppend(&text, "  runtime: threads = ", p->options.threads, ", devices = ", p->options.cpu_devices,
              ", limit = ", p->options.memory_limit, p->foreign ? ", in the user's actor system" : "",
              p->killed.came() ? ", an actor killed" : "", "\n");
  }
  for (const Trouble& t : troubles_)
    StrAppend(&text, "  trouble: ", NameOf(t.what), " of session ", t.party, " at ", t.at_ms, " ms\n");
  for (const Call& c : calls_) {
    const bool kept = c.issuing && !c.returned.came();
    if (!c.judged || kept) StrAppend(&text, "  ", c.Describe(), kept ? "; RunAsync has not returned" : "", "\n");
  }
  std::unique_lock<std::mutex> lock(mu_, std::try_to_lock);
  if (!lock.owns_lock()) return text + "  (its lock is held)\n";
  for (const auto& [what, since] : doing_) StrAppend(&text, "  in: ", what, " for ", MillisSince(since), " ms\n");
  return text;
}

std::vector<std::string> Scenario::AskSessions() {
  std::vector<std::string> lines;
  for (auto& p : parties_) {
    const std::shared_ptr<Session> session = p->Get();
    lines.push_back(StrCat("session ", p->index, session == nullptr ? " is gone" : ":"));
    if (session == nullptr) continue;
    for (std::string& line : session->RunningSteps()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace troupe::stress
