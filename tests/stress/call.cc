#include "tests/stress/call.h"

#include <algorithm>
#include <map>

#include "tests/stress/faults.h"

namespace troupe::stress {
namespace {

using Code = absl::StatusCode;
using Noise = std::array<float, 4>;

constexpr int kRecorded = 512, kSeeds = 4;
std::map<int64_t, std::set<Noise>> recorded;  // by seed

Noise NoiseOf(const Tensor& t) {
  Noise n{};
  if (t.dtype() == DType::kFloat && t.num_elements() == 4) std::copy_n(t.data<float>(), 4, n.begin());
  return n;
}

// Of these parts a call may fail with DATA_LOSS or find its variable gone.
bool UsesVariables(const Call& c) { return c.Has(Kind::kCounter) || c.Has(Kind::kWhole); }

// A partial run hands each fetch over once.
bool FetchesTwice(const Call& c) {
  std::set<std::string> different;
  for (const int f : c.fetches()) different.insert(c.party->model->fetches()[static_cast<size_t>(f)].name);
  return different.size() != c.fetches().size();
}

bool Allowed(const Call& c, const absl::Status& s) {
  const Party& p = *c.party;
  const Place& place = *p.place;
  const bool act_fails = c.TimesRun() > 0 && (MustFail(c.act()) || c.act() == Act::kThrowAfterDone);
  const bool killed = p.killed.came() || place.killed.came();
  const bool over = c.cancelling.came() || p.closing.came() || killed || c.deadline_ms() > 0;
  switch (s.code()) {
    case Code::kDeadlineExceeded:
      return c.deadline_ms() > 0 && MillisSince(c.started.at()) >= static_cast<double>(c.deadline_ms()) - 1;
    case Code::kCancelled:
      return c.cancelling.came() || p.closing.came();
    case Code::kAborted:
      return killed || (p.closing.came() && c.mode == Mode::kRequest);  // the actor was gone before the message
    case Code::kUnavailable:
      return place.killed.came();
    case Code::kFailedPrecondition:
      return c.mode == Mode::kHandlerRefused || (UsesVariables(c) && p.reset.came());
    case Code::kNotFound:
      return !c.was_extended && std::any_of(c.fetches().begin(), c.fetches().end(), [&](int f) {
        return p.model->fetches()[static_cast<size_t>(f)].extension;
      });
    case Code::kResourceExhausted:
      return place.options.memory_limit > 0 || c.Has(Kind::kBadBirth) || (act_fails && c.act() == Act::kThrowNoMemory);
    case Code::kInternal:
      return c.Has(Kind::kBadBirth) || c.Has(Kind::kWrongType) ||
             (act_fails && c.act() != Act::kError && c.act() != Act::kErrorLate);
    case Code::kDataLoss:
      return (act_fails && (c.act() == Act::kError || c.act() == Act::kErrorLate)) || (UsesVariables(c) && over);
    case Code::kInvalidArgument:
      return c.Has(Kind::kWrongType) || (c.mode == Mode::kPartial && (over || FetchesTwice(c)));
    default:
      return false;
  }
}

// Why it must not have come to OK; "" when it may.
std::string MustNotBeOk(const Call& c) {
  if (c.mode == Mode::kHandlerRefused) return "a blocking Run in a handler";
  if (c.was_closed) return "its session was closed before";
  if (c.cancel_after_ms == 0) return "its token was cancelled before";
  if (c.Has(Kind::kBadBirth)) return "a kernel's constructor throws";
  if (c.Has(Kind::kWrongType)) return "a kernel gives another type";
  if (c.TimesRun() > 0 && MustFail(c.act())) return StrCat("its kernel does this: ", NameOf(c.act()));
  return "";
}

std::string WrongValue(const Call& c, const Model::Fetch& f, const Tensor& t) {
  Party& p = *c.party;
  const auto text = [&] {
    return StrCat("fetch '", f.name, "' (", NameOf(f.kind), ") is ", t.valid() ? t.DebugString(6) : "nothing");
  };
  if (!t.valid()) return text();
  if (f.kind == Kind::kNoise) {
    const Noise n = NoiseOf(t);
    if (!recorded[p.model->noise_seed()].contains(n)) return StrCat(text(), ", which its seed does not give");
    std::lock_guard<std::mutex> lock(p.mu);
    return p.noise.insert(n).second ? "" : StrCat(text(), ", as in another step");
  }
  if (t.dtype() != DType::kDouble) return text();
  const auto v = t.flat<double>();
  if (f.kind == Kind::kCounter) {
    const auto begun = static_cast<double>(p.counter_started.load());
    return v.size() == 2 && v[0] >= 0 && v[1] > v[0] && v[1] <= begun
               ? ""
               : StrCat(text(), " when ", begun, " updates had begun");
  }
  if (f.kind == Kind::kWhole) {
    return v.size() == 2000 && std::all_of(v.begin(), v.end(), [&](double d) { return d == v[0]; }) && v[0] > 0
               ? ""
               : text();
  }
  const Value expected = p.model->Expected(f, c.in);
  if (v.size() == expected.size() && std::equal(v.begin(), v.end(), expected.begin())) return "";
  std::string first = "nothing";
  if (!expected.empty()) first = StrCat(expected[0], expected.size() > 1 ? StrCat(" ", expected[1], " ...") : "");
  return StrCat(text(), ", not ", first);
}

void JudgeOutputs(Call& c, int64_t scenario, const std::vector<Tensor>& outputs) {
  if (c.abandon) return;  // of a partial run that was not finished
  if (outputs.size() != c.fetches().size()) {
    Fault(scenario, "number of outputs", StrCat(outputs.size(), " for ", c.fetches().size(), ", ", c.Describe()));
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Model::Fetch& f = c.party->model->fetches()[static_cast<size_t>(c.fetches()[i])];
    const std::string wrong = WrongValue(c, f, outputs[i]);
    if (!wrong.empty()) Fault(scenario, StrCat("wrong value of ", NameOf(f.kind)), StrCat(wrong, "; ", c.Describe()));
  }
}

}  // namespace

const char* NameOf(Mode mode) {
  constexpr const char* kNames[] = {"Run",
                                    "RunAsync",
                                    "Callable::Run",
                                    "Callable::RunAsync",
                                    "partial run",
                                    "RunAsync in a handler",
                                    "Callable::RunAsync in a handler",
                                    "Run in a handler",
                                    "run_request"};
  return kNames[static_cast<int>(mode)];
}

bool Call::Has(Kind kind) const {
  return std::any_of(fetches().begin(), fetches().end(),
                     [&](int f) { return party->model->fetches()[static_cast<size_t>(f)].kind == kind; });
}

int64_t Call::TimesRun() const {
  int64_t n = 0;
  for (const int f : fetches()) n += Model::TimesRun(party->model->fetches()[static_cast<size_t>(f)], in);
  return n;
}

int64_t Call::TimesRunSync() const {
  int64_t n = 0;
  for (const int f : fetches()) {
    const Model::Fetch& fetch = party->model->fetches()[static_cast<size_t>(f)];
    if (fetch.sync) n += Model::TimesRun(fetch, in);
  }
  return n;
}

int64_t Call::deadline_ms() const {
  // A partial run as a whole has the deadline of its options alone.
  if (timeout_ms != 0 || mode == Mode::kPartial) return std::max<int64_t>(timeout_ms, 0);
  return party->options.operation_timeout_ms;
}

std::string Call::Describe() const {
  std::string text = StrCat("call ", number & 0xfffff, " (", NameOf(mode), ") of session ", party->index, " [");
  for (const int f : fetches()) StrAppend(&text, " ", party->model->fetches()[static_cast<size_t>(f)].name);
  StrAppend(&text, " ], x = ", in.x, ", n = ", in.n, ", kernels: ", NameOf(act()), " ", MillisOf(in.how), " ms, ",
            TimesRun(), " times");
  if (deadline_ms() > 0) StrAppend(&text, ", deadline ", deadline_ms(), " ms");
  if (cancel_after_ms >= 0) StrAppend(&text, ", cancelled after ", cancel_after_ms, " ms");
  if (started.came()) {
    StrAppend(&text, answered.came() ? ", answered after " : ", unanswered after ",
              MillisBetween(started.at(), answered.came() ? answered.at() : Clock::now()), " ms");
  } else {
    StrAppend(&text, ", not begun");
  }
  const auto befell = [&](const char* what, const Moment& m) {
    if (m.came() && started.came()) StrAppend(&text, ", ", what, " at ", MillisBetween(started.at(), m.at()), " ms");
  };
  befell("closing", party->closing);
  befell("session's actor or executor killed", party->killed);
  befell("runtime's actor killed", party->place->killed);
  befell("reset", party->reset);
  return text;
}

TimePoint Call::Due(TimePoint gate) const {
  if (!started.came()) return kNever;
  const TimePoint begin = started.at();
  // By itself: after its own kernels and those of others that have the threads before.
  TimePoint due = Plus(begin, party->place->slow_ms);
  if ((Endless(act()) && TimesRun() > 0) || party->place->stuck)
    due = gate == kNever ? kNever : std::max(due, Plus(gate, party->place->slow_ms));
  if (deadline_ms() > 0 && deadline_ms() < 1'000'000'000)
    due = std::min(due, Plus(begin, static_cast<double>(deadline_ms())));
  if (cancelling.came()) due = std::min(due, std::max(begin, cancelling.at()));
  // A blocking Run that nothing can cut short is in its kernel, on its caller's thread.
  const bool in_kernel = blocking() && TimesRunSync() > 0 && deadline_ms() == 0 && cancel_after_ms < 0;
  if (party->closing.came() && !in_kernel) due = std::min(due, std::max(begin, party->closing.at()));
  return due;
}

void Judge(Call& c, const absl::Status& status, const std::vector<Tensor>& outputs, TimePoint gate) {
  const int64_t scenario = c.number >> 20;
  if (c.answers.fetch_add(1) != 0) {
    Fault(scenario, "answered twice", StrCat(c.Describe(), "; then: ", status.ToString()));
    return;
  }
  c.answered.Now();
  const TimePoint due = c.Due(gate);
  const double late = due == kNever ? 0 : MillisBetween(due, c.answered.at()),
               margin = Load::Get().Margin(c.started.at());
  if (late > margin)
    Fault(scenario, "late answer",
          StrCat(late, " ms late (margin ", margin, "): ", c.Describe(), "; ", status.ToString()));
  if (status.ok()) {
    if (const std::string why = MustNotBeOk(c); !why.empty()) {
      Fault(scenario, StrCat("OK in spite of: ", why), c.Describe());
    } else {
      JudgeOutputs(c, scenario, outputs);
    }
    if (c.Has(Kind::kCounter)) c.party->counter_ok.fetch_add(1);
  } else {
    const std::string message(status.message());
    for (size_t at = message.find("stress-call-"); at != std::string::npos; at = message.find("stress-call-", at + 1)) {
      if (message.compare(at, MarkOf(c.number).size(), MarkOf(c.number)) != 0)
        Fault(scenario, "another's mistake", StrCat(c.Describe(), ": ", message));
    }
    if (!Allowed(c, status))
      Fault(scenario, StrCat("status ", absl::StatusCodeToString(status.code())),
            StrCat(c.Describe(), ": ", status.ToString()));
  }
  c.judged = true;
}

void RecordNoise() {
  for (int64_t seed = 1; seed <= kSeeds; ++seed) {
    Scope root = Scope::NewRootScope();
    const Output noise = ops::RandomUniform(root, {4}, DType::kFloat, {.seed = seed, .seed2 = 17});
    SessionOptions options;
    options.runtime_options.threads = 1;
    auto session = Session::Create(options);
    std::vector<Tensor> out;
    absl::Status s = session.status();
    if (s.ok()) s = (*session)->Extend(*root.graph());
    for (int i = 0; s.ok() && i < kRecorded; ++i) {
      s = (*session)->Run({}, {noise.name()}, {}, &out);
      if (s.ok()) recorded[seed].insert(NoiseOf(out[0]));
    }
    if (!s.ok()) Fault(-1, "no noise", s.ToString());
  }
}

}  // namespace troupe::stress
