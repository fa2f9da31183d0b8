// What a scenario is made of, drawn from its seed.
#include <algorithm>
#include <cstdint>

#include "tests/stress/scenario.h"

namespace troupe::stress {
namespace {

bool Wanted(Act act, bool asynchronous, const Options& options) {
  if (Endless(act)) return options.Has("stuck");
  if (act <= Act::kBusy) return true;
  if (act == Act::kNoOutput) return options.Has("bad");
  if (act == Act::kError || act == Act::kErrorLate) return options.Has("errors");
  if (act > kLastSync) return options.Has("async");
  return options.Has(asynchronous ? "async" : "errors");
}

}  // namespace

const std::map<std::string, std::string>& ScenarioKinds() {
  static const auto* kinds = new std::map<std::string, std::string>{
      {"errors", "kernels that throw or fail"},
      {"async", "asynchronous kernels that forget, answer twice, or throw besides answering"},
      {"stuck", "kernels that do not return or answer before a gate opens"},
      {"bad", "kernels that cannot be made, give no output or one of another type"},
      {"deadlines", "deadlines"},
      {"forever", "deadlines in millions of years"},
      {"tokens", "cancellation tokens"},
      {"close", "Close while steps run"},
      {"drop", "sessions destroyed while their steps run"},
      {"makers", "sessions made and destroyed in handlers and callbacks"},
      {"kills", "actors of the cast killed"},
      {"resets", "Reset of containers"},
      {"extends", "Extend and new signatures while steps run"},
      {"limits", "memory limits"},
      {"partial", "partial runs"},
      {"actors", "calls from actors' handlers, and run_request"},
      {"foreign", "runtimes in the user's actor system"},
      {"variables", "variables"},
      {"noise", "random ops with seeds"},
      {"callbacks", "callbacks that throw"},
      {"status", "Session::RunningSteps and stall reports"},
      {"metadata", "RunMetadata"},
      {"loose", "asynchronous steps that do not keep their session"},
  };
  return *kinds;
}

const char* NameOf(What what) {
  constexpr const char* kNames[] = {"Close",
                                    "~Session",
                                    "~Session in a handler",
                                    "~Session in a callback",
                                    "kill session actor",
                                    "kill executor",
                                    "kill worker",
                                    "kill device actor",
                                    "kill container actor",
                                    "Reset",
                                    "Extend",
                                    "Status",
                                    "Prepare of unknown names",
                                    "a session made in a handler",
                                    "a session made in a callback"};
  return kNames[static_cast<int>(what)];
}

void Scenario::DrawPlaces(Draw draw) {
  const int64_t n = draw.Chance(0.3) ? 2 : 1;
  for (int64_t i = 0; i < n; ++i) {
    auto place = std::make_unique<Place>();
    place->options.threads = options_.threads > 0 ? options_.threads : draw.Of({1, 2, 2, 4});
    place->options.cpu_devices = static_cast<int>(draw.Between(1, 4));
    const bool limited = draw.Chance(0.2), foreign = draw.Chance(0.35);
    const int64_t limit = draw.Of<int64_t>({4, 16, 64}) << 20;
    if (limited && options_.Has("limits")) place->options.memory_limit = limit;
    place->foreign = foreign && options_.Has("foreign");
    places_.push_back(std::move(place));
  }
}

void Scenario::DrawParties(Draw draw) {
  const int64_t n = draw.Between(1, 4);
  for (int64_t i = 0; i < n; ++i) {
    auto p = std::make_unique<Party>();
    p->index = static_cast<int>(i);
    p->place = draw.Of(places_).get();
    p->options.allow_soft_placement = draw.Chance(0.2);
    p->options.use_cost_model = draw.Chance(0.1);
    p->options.fuse = draw.Chance(0.8);
    p->options.fold_constants = draw.Chance(0.8);
    p->options.merge_common_subexpressions = draw.Chance(0.8);
    p->options.schedule_recvs = draw.Chance(0.8);
    p->options.token_messages = draw.Chance(0.2);
    p->options.lend_thread_us = draw.Of<int64_t>({0, 20, 20, 1'000'000});
    const int64_t stall = draw.Chance(0.3) ? draw.Between(5, 60) : 0,
                  timeout = draw.Chance(0.1) ? draw.Between(100, 2000) : 0;
    if (options_.Has("status")) {
      p->options.stall_report_ms = stall;
      p->options.on_stall = [](const std::string&) {};
    }
    if (options_.Has("deadlines")) p->options.operation_timeout_ms = timeout;
    Model::Options model;
    model.devices = p->place->options.cpu_devices;
    model.variables = options_.Has("variables");
    model.noise = options_.Has("noise");
    model.bad = options_.Has("bad");
    // The second is the first with more nodes: the same numbers are drawn.
    p->first = std::make_unique<Model>(draw.Fork(static_cast<uint64_t>(i) + 100), model);
    p->model = std::make_unique<Model>(draw.Fork(static_cast<uint64_t>(i) + 100), model);
    p->model->Grow();
    parties_.push_back(std::move(p));
  }
}

void Scenario::DrawCalls(Draw draw) {
  for (auto& p : parties_) {
    const int known = static_cast<int>(p->model->fetches().size());
    for (int64_t i = draw.Between(2, 6); i > 0; --i) {
      std::vector<int> fetches;
      for (int64_t k = draw.Of({1, 1, 2, 3, 4}); k > 0; --k) {
        const int f = static_cast<int>(draw.Between(0, known - 1));
        const Kind kind = p->model->fetches()[static_cast<size_t>(f)].kind;
        const bool rare = kind == Kind::kBadBirth || kind == Kind::kWrongType;
        if ((!rare || draw.Chance(0.2)) && std::find(fetches.begin(), fetches.end(), f) == fetches.end())
          fetches.push_back(f);
      }
      if (fetches.empty()) fetches.push_back(0);
      p->signatures.push_back(std::move(fetches));
    }
    // Somebody uses the misbehaving kernels, the counter and what comes late.
    for (int f = 0; f < known; ++f) {
      const Kind kind = p->model->fetches()[static_cast<size_t>(f)].kind;
      if ((kind == Kind::kAct && draw.Chance(0.5)) || kind == Kind::kLate || kind == Kind::kCounter)
        p->signatures.push_back({f});
    }
  }
  const int64_t callers = draw.Between(1, 3);
  threads_.resize(static_cast<size_t>(callers));
  for (auto& thread : threads_) {
    for (int64_t i = draw.Between(5, 16); i > 0; --i) {
      thread.push_back(static_cast<int>(calls_.size()));
      calls_.emplace_back();
      DrawCall(&draw, &calls_.back());
      // A chain: the callback makes the next call.
      for (int64_t links = draw.Chance(0.15) ? draw.Between(1, 4) : 0; links > 0; --links) {
        if (calls_.back().mode != Mode::kAsync && calls_.back().mode != Mode::kPreparedAsync) break;
        calls_.back().then = static_cast<int>(calls_.size());
        calls_.emplace_back();
        DrawCall(&draw, &calls_.back());
        Call& next = calls_.back();
        if (next.mode != Mode::kPreparedAsync) next.mode = Mode::kAsync;
        next.abandon = false;
      }
    }
  }
  gate_after_ms_ = static_cast<double>(draw.Between(150, 500));
  gate_opens_late_ = draw.Chance(0.4);
  bool stuck = false;
  for (const Call& c : calls_) {
    if (c.TimesRun() == 0) continue;
    if (Endless(c.act())) {
      stuck = true;
      c.party->place->stuck = true;
      if (c.deadline_ms() == 0 && c.cancel_after_ms < 0) gate_opens_late_ = false;
    } else {
      c.party->place->slow_ms += static_cast<double>(c.TimesRun() * MillisOf(c.in.how));
    }
  }
  gate_opens_late_ = gate_opens_late_ && stuck;
  // While a thread is stuck innocent calls may wait for it; those must end by the gate.
  if (gate_opens_late_) {
    for (Call& c : calls_) {
      if (c.party->place->stuck && c.deadline_ms() == 0 && c.cancel_after_ms < 0) c.timeout_ms = 400;
    }
  }
}

void Scenario::DrawCall(Draw* draw, Call* c) {
  c->number = CallNumber(number_, static_cast<int64_t>(calls_.size()) - 1);
  c->party = draw->Of(parties_).get();
  c->signature = static_cast<int>(draw->Between(0, static_cast<int64_t>(c->party->signatures.size()) - 1));
  const Mode mode = draw->Of({Mode::kBlocking, Mode::kBlocking, Mode::kAsync, Mode::kAsync, Mode::kPrepared,
                              Mode::kPreparedAsync, Mode::kPreparedAsync, Mode::kPartial, Mode::kHandlerAsync,
                              Mode::kHandlerPrepared, Mode::kRequest, Mode::kRequest});
  c->mode = draw->Chance(0.03) ? Mode::kHandlerRefused : mode;
  if (c->mode >= Mode::kHandlerAsync && !options_.Has("actors")) c->mode = Mode::kAsync;
  if (c->mode == Mode::kPartial && !options_.Has("partial")) c->mode = Mode::kBlocking;
  c->in.x = static_cast<double>(draw->Between(-1000, 1000));
  c->in.n = draw->Between(0, 8);
  for (int i = 0; i < c->party->model->vector_length(); ++i)
    c->in.v.push_back(static_cast<double>(draw->Between(-1000, 1000)));
  c->in.late = static_cast<double>(draw->Between(-1000, 1000));
  c->in.call = c->number;
  // The first party is an innocent one.
  Act act = draw->Of({Act::kPass, Act::kPass, Act::kSlow, Act::kBusy});
  const Act mistake =
      draw->Chance(0.15) ? Act::kStuck : static_cast<Act>(draw->Between(0, static_cast<int64_t>(kLastAct)));
  if (draw->Chance(0.6) && c->party->index > 0) act = mistake;
  if (c->TimesRunSync() > 0 && act > kLastSync) act = Act::kThrow;
  if (!Wanted(act, c->TimesRun() > c->TimesRunSync(), options_)) act = Act::kSlow;
  c->in.how = How(act, draw->Between(1, act == Act::kBusy ? 3 : 12));
  const bool endless = Endless(act) && c->TimesRun() > 0;
  if (draw->Chance(endless ? 0.6 : 0.2)) {
    const int64_t ms = draw->Between(20, 200), distant = draw->Chance(0.3) ? INT64_MAX / 2 : 30000;
    const bool near = endless || draw->Chance(0.5);
    if (options_.Has("deadlines")) c->timeout_ms = near ? ms : options_.Has("forever") ? distant : 30000;
  }
  if (draw->Chance(endless ? 0.5 : 0.15)) {
    const double ms = draw->Chance(0.2) ? 0 : static_cast<double>(draw->Between(1, 3000)) * (endless ? 0.05 : 0.01);
    if (options_.Has("tokens")) c->cancel_after_ms = ms;
  }
  const bool throws = draw->Chance(0.1), metadata = draw->Chance(0.15), loose = draw->Chance(0.4),
             abandon = draw->Chance(0.2);
  c->callback_throws = throws && options_.Has("callbacks");
  c->metadata = metadata && options_.Has("metadata");
  c->keeps_session = !(loose && options_.Has("loose"));
  c->abandon = abandon && c->mode == Mode::kPartial;
  c->pause_us = draw->Chance(0.5) ? 0 : static_cast<int>(draw->Between(0, 5000));
}

void Scenario::DrawTroubles(Draw draw) {
  const std::vector<std::pair<What, std::string>> all = {
      {What::kClose, "close"},           {What::kDrop, "drop"},          {What::kDropInHandler, "makers"},
      {What::kDropInCallback, "makers"}, {What::kKillSession, "kills"},  {What::kKillExecutor, "kills"},
      {What::kKillExecutor, "kills"},    {What::kKillWorker, "kills"},   {What::kKillDevice, "kills"},
      {What::kKillContainer, "kills"},   {What::kReset, "resets"},       {What::kExtend, "extends"},
      {What::kExtend, "extends"},        {What::kExtend, "extends"},     {What::kStatus, "status"},
      {What::kStatus, "status"},         {What::kBadPrepare, "extends"}, {What::kMakeInHandler, "makers"},
      {What::kMakeInCallback, "makers"}};
  for (int64_t i = draw.Between(0, 4); i > 0; --i) {
    const auto& [what, kind] = draw.Of(all);
    const Trouble t{static_cast<double>(draw.Between(0, 200)) * 0.5, what,
                    static_cast<int>(draw.Between(0, static_cast<int64_t>(parties_.size()) - 1))};
    if (options_.Has(kind)) troubles_.push_back(t);
  }
}

}  // namespace troupe::stress
