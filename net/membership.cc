#include "net/membership.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace troupe {
namespace {

using Duration = std::chrono::steady_clock::duration;

// With many tasks of one host, long times would have no number: more than a year is for ever.
Duration Times(Duration t, double factor) {
  constexpr Duration kForEver = std::chrono::hours(24 * 366);
  const auto product = t * factor;
  return product >= kForEver ? kForEver : std::chrono::duration_cast<Duration>(product);
}

using ActionKind = Membership::Action::Kind;
using std::chrono::milliseconds;

int64_t Ms(std::chrono::steady_clock::duration d) { return std::chrono::duration_cast<milliseconds>(d).count(); }
}  // namespace

std::string_view ToString(TaskHealth health) {
  constexpr std::string_view kNames[] = {"absent", "alive", "suspected", "dead", "stopped"};
  return kNames[static_cast<size_t>(health)];
}

Membership::Membership(const ServerOptions& options, uint64_t incarnation, uint32_t protocol, uint64_t seed, Time now)
    : self_(options.spec.task),
      address_(options.spec.cluster.tasks().at(self_)),
      incarnation_(incarnation),
      cluster_(options.spec.cluster.Id()),
      protocol_(protocol),
      heartbeat_(options.heartbeat),
      connect_(options.connect),
      random_(seed),
      next_beat_(now),
      expected_(now),
      interval_(options.heartbeat.interval),
      dead_after_(options.heartbeat.dead_after),
      patient_since_(now) {
  const auto& tasks = options.spec.cluster.tasks();
  std::map<std::string, size_t> of_host;
  const auto host = [](const HostPort& a) { return a.IsLoopback() ? std::string("localhost") : a.host; };
  for (const auto& [task, address] : tasks) ++of_host[host(address)];
  const auto stretch = [&](const HostPort& address) {
    const double beats = static_cast<double>(of_host[host(address)]) * static_cast<double>(tasks.size() - 1);
    return std::max(1.0, beats / kMostBeats / std::chrono::duration<double>(heartbeat_.interval).count());
  };
  interval_ = Times(interval_, stretch(address_));
  for (const auto& [task, address] : tasks) {
    if (task == self_) continue;
    Peer p;
    p.stretch = stretch(address);
    p.task = task;
    p.address = address;
    p.called_by_us = task < self_;
    p.due = p.since = now;
    peers_.push_back(std::move(p));
  }
}

int Membership::PeerOf(const ClusterTask& task) const {
  const auto it = std::lower_bound(peers_.begin(), peers_.end(), task,
                                   [](const Peer& p, const ClusterTask& t) { return p.task < t; });
  return it == peers_.end() || it->task != task ? -1 : static_cast<int>(it - peers_.begin());
}

Greeting Membership::Own(int to) const {
  Greeting own{protocol_, cluster_, self_, {}, incarnation_};
  if (to < 0) return own;
  own.to = peers_[static_cast<size_t>(to)].task;
  own.number = peers_[static_cast<size_t>(to)].calls;
  return own;
}

void Membership::SetHealth(Peer* p, TaskHealth health, Time now) {
  if (p->health == health) return;
  p->health = health;
  p->since = now;
}

void Membership::Fail(Peer* p, std::string_view why, Time now) {
  if (p->call != Call::kWaiting) --calling_;
  p->call = Call::kWaiting;
  p->why = why;
  const double longest = static_cast<double>(connect_.max_delay.count());
  const double delay = std::min(longest, static_cast<double>(connect_.min_delay.count()) * std::pow(2, p->failures));
  p->failures = std::min(p->failures + 1, 30);
  std::uniform_real_distribution<double> off(1 - connect_.jitter, 1 + connect_.jitter);
  p->due =
      now + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double, std::milli>(delay * off(random_)));
}

void Membership::GoUp(int peer, uint64_t incarnation, Time now, Actions* actions) {
  Peer& p = at(peer);
  if (p.call != Call::kWaiting) --calling_;
  p.call = Call::kWaiting;
  p.incarnation = incarnation;
  p.failures = 0;
  p.heard = now;
  p.why.clear();
  SetHealth(&p, TaskHealth::kAlive, now);
  actions->push_back({ActionKind::kUp, peer, incarnation});
}

void Membership::GoDown(int peer, TaskHealth health, absl::Status why, Time now, Actions* actions) {
  Peer& p = at(peer);
  p.why = MessageOf(why);
  p.due = now;
  SetHealth(&p, health, now);
  actions->push_back({ActionKind::kDown, peer, p.incarnation, std::move(why)});
}

absl::Status Membership::Check(const Greeting& other) const {
  if (other.protocol != protocol_) {
    return FailedPrecondition(self_.ToString(), " speaks version ", protocol_,
                              " of the protocol, and the other version ", other.protocol,
                              ": run the same version of Troupe");
  }
  if (other.cluster != cluster_) {
    return FailedPrecondition(self_.ToString(), " belongs to cluster ", cluster_, ", and the other to cluster ",
                              other.cluster, ": their specifications differ");
  }
  return absl::OkStatus();
}

// Edges 13, 14 and 6: how long a peer has been silent.
void Membership::LookAt(int peer, Time now, Actions* actions) {
  Peer& p = at(peer);
  if (p.up()) {
    if (now - p.heard >= Stretched(p, heartbeat_.suspect_after)) SetHealth(&p, TaskHealth::kSuspected, now);
    if (now - p.heard < Stretched(p, dead_after_)) return;
    GoDown(peer, TaskHealth::kDead,
           Unavailable("task ", p.task.ToString(), " is taken for dead: it was silent for ", Ms(now - p.heard), " ms"),
           now, actions);
  } else if (p.call != Call::kWaiting && now >= p.due) {
    Fail(&p, StrCat("no answer from ", p.address.ToString()), now);
    actions->push_back({ActionKind::kForget, peer});
  }
}

// Edge 1. Who has waited longest comes first: many that never answer delay the others, but do not
// keep them out.
void Membership::CallThoseDue(Time now, Actions* actions) {
  if (leaving_ || calling_ >= connect_.most_calls) return;
  std::vector<int> due;
  for (int i = 0; i < size(); ++i) {
    const Peer& p = at(i);
    if (p.called_by_us && !p.up() && p.call == Call::kWaiting && now >= p.due) due.push_back(i);
  }
  std::stable_sort(due.begin(), due.end(), [&](int a, int b) { return at(a).due < at(b).due; });
  for (const int i : due) {
    if (calling_ >= connect_.most_calls) return;
    Peer& p = at(i);
    p.call = Call::kDialling;
    p.due = now + 3 * connect_.timeout;  // the dialler has an end of its own, which a look-up delays
    ++calling_;
    actions->push_back({ActionKind::kDial, i, ++p.calls});
  }
}

Membership::Actions Membership::Look(Time now) {
  Actions actions;
  if (const auto late = now - expected_; late > interval_ / 2) {
    for (Peer& p : peers_) {
      if (p.up()) p.heard = std::min(now, p.heard + late);
    }
  }
  if (dead_after_ > heartbeat_.dead_after && now - patient_since_ >= std::chrono::minutes(1)) {
    dead_after_ = std::max<Time::duration>(heartbeat_.dead_after, dead_after_ / 2);
    patient_since_ = now;
  }
  const bool beats = now >= next_beat_;
  if (beats) next_beat_ = std::max(next_beat_ + interval_, now + interval_ / 2);
  for (int i = 0; i < size(); ++i) {
    LookAt(i, now, &actions);
    // Who has said goodbye is not alive for the others any more.
    if (beats && at(i).up() && !leaving_) actions.push_back({ActionKind::kBeat, i, incarnation_});
  }
  CallThoseDue(now, &actions);
  expected_ = NextLook();
  return actions;
}

Membership::Time Membership::NextLook() const {
  Time next = next_beat_;
  for (const Peer& p : peers_) {
    if (p.health == TaskHealth::kAlive) next = std::min(next, p.heard + Stretched(p, heartbeat_.suspect_after));
    if (p.health == TaskHealth::kSuspected) next = std::min(next, p.heard + Stretched(p, dead_after_));
    if (p.up()) continue;
    const bool may_call = p.called_by_us && !leaving_ && calling_ < connect_.most_calls;
    if (p.call != Call::kWaiting || may_call) next = std::min(next, p.due);
  }
  return next;
}

Membership::Actions Membership::Dialled(int peer, uint64_t call, const absl::Status& status, Time now) {
  Peer& p = at(peer);
  if (p.up() || leaving_ || p.call != Call::kDialling || p.calls != call) return {{ActionKind::kForget, -1}};
  if (!status.ok()) {
    Fail(&p, MessageOf(status), now);
    return {};
  }
  p.call = Call::kGreeting;
  p.due = now + connect_.timeout;
  return {{ActionKind::kHello, peer}};
}

Membership::Actions Membership::Hello(const Greeting& hello, Time now) {
  const auto refuse = [&](absl::Status why) {
    return Actions{{ActionKind::kRefuse, -1, hello.incarnation, std::move(why)}};
  };
  if (const absl::Status fits = Check(hello); !fits.ok()) return refuse(fits);
  const int peer = PeerOf(hello.from);
  if (hello.to != self_ || peer < 0) {
    return refuse(FailedPrecondition("this is ", self_.ToString(), "; it was greeted as ", hello.to.ToString(), " by ",
                                     hello.from.ToString()));
  }
  if (leaving_) return refuse(Unavailable(self_.ToString(), " is stopping"));
  Peer& p = at(peer);
  const bool other_one = p.incarnation != hello.incarnation;
  if (p.health == TaskHealth::kAlive && other_one) {
    return refuse(AlreadyExists("task ", p.task.ToString(), " is alive already, as incarnation ", p.incarnation,
                                ", heard ", Ms(now - p.heard), " ms ago"));
  }
  Actions actions;
  if (p.up()) {
    const std::string_view how = other_one ? "was replaced by a new process" : "had lost the connection";
    GoDown(peer, TaskHealth::kDead, Unavailable("task ", p.task.ToString(), " ", how), now, &actions);
  }
  actions.push_back({ActionKind::kWelcome, peer, hello.incarnation});
  GoUp(peer, hello.incarnation, now, &actions);
  return actions;
}

Membership::Actions Membership::Welcome(int peer, const Greeting& welcome, uint64_t greeted, const absl::Status& status,
                                        Time now) {
  Peer& p = at(peer);
  if (p.up() || p.call != Call::kGreeting || greeted != incarnation_ || welcome.number != p.calls) return {};
  absl::Status fits = status;
  if (fits.ok()) fits = Check(welcome);
  if (fits.ok() && welcome.from != p.task)
    fits =
        FailedPrecondition("at ", p.address.ToString(), " is ", welcome.from.ToString(), ", not ", p.task.ToString());
  Actions actions;
  if (fits.ok()) {
    GoUp(peer, welcome.incarnation, now, &actions);
  } else {
    Fail(&p, MessageOf(fits), now);
    actions.push_back({ActionKind::kForget, peer});
  }
  return actions;
}

Membership::Time::duration Membership::Stretched(const Peer& p, Time::duration t) const {
  return p.stretch == 1 ? t : Times(t, p.stretch);
}

void Membership::BePatient(const Peer& p, Time now) {
  const auto silence = std::chrono::duration_cast<Time::duration>((now - p.heard) / p.stretch);
  const Time::duration most = kMostPatience * heartbeat_.dead_after;
  const Time::duration needed = std::min(most, silence + silence / 4);
  if (needed < dead_after_) return;
  dead_after_ = needed;
  patient_since_ = now;
}

Membership::Actions Membership::Beat(int peer, uint64_t incarnation, Time now) {
  if (peer < 0 || !at(peer).up()) {
    // Who was taken for dead has no handle here any more.
    for (const Peer& p : peers_) {
      if (p.health != TaskHealth::kDead || p.incarnation != incarnation) continue;
      if (now - p.heard <= Stretched(p, dead_after_ + dead_after_ / 2)) BePatient(p, now);
    }
    return {{ActionKind::kWhoAreYou, -1, incarnation}};
  }
  Peer& p = at(peer);
  if (p.incarnation != incarnation) return {};
  if (p.health == TaskHealth::kSuspected) BePatient(p, now);
  p.heard = now;
  SetHealth(&p, TaskHealth::kAlive, now);
  return {};
}

Membership::Actions Membership::AskedWho(int peer, uint64_t incarnation, Time now) {
  Actions actions;
  if (peer >= 0 && at(peer).up() && incarnation == incarnation_) {
    GoDown(peer, TaskHealth::kDead,
           Unavailable("task ", task(peer).ToString(), " has taken this one for dead, and is greeted again"), now,
           &actions);
  }
  return actions;
}

Membership::Actions Membership::Closed(int peer, const std::string& why, Time now) {
  Actions actions;
  Peer& p = at(peer);
  if (p.up()) {
    GoDown(peer, TaskHealth::kDead, Unavailable("task ", p.task.ToString(), " is gone: ", why), now, &actions);
  } else if (p.call == Call::kGreeting) {
    Fail(&p, StrCat("the connection to ", p.address.ToString(), " ended: ", why), now);
  }
  return actions;
}

Membership::Actions Membership::Goodbye(int peer, uint64_t incarnation, Time now) {
  Actions actions;
  if (peer >= 0 && at(peer).up() && at(peer).incarnation == incarnation)
    GoDown(peer, TaskHealth::kStopped, Cancelled("task ", task(peer).ToString(), " has stopped"), now, &actions);
  actions.push_back({ActionKind::kNoted, -1});
  return actions;
}

ServerStatus Membership::Status(Time now) const {
  ServerStatus status{self_, address_.ToString(), incarnation_, cluster_, {}};
  for (const Peer& p : peers_) {
    status.others.push_back({p.task, p.address.ToString(), p.health, p.incarnation, Ms(now - p.since),
                             p.up() ? Ms(now - p.heard) : 0, p.why});
  }
  return status;
}

}  // namespace troupe
