// Who of a cluster is alive, as one server sees it: the logic of its control actor, without actors,
// sockets or a clock.
//
// Of two servers the later one in the cluster's order calls the other: one connection for each
// pair, whoever starts first. A peer is up (alive or suspected) or down (absent, dead or stopped);
// while it is down, who has to call it waits, dials or greets.
//
//   state (of one peer)  message                          action                                              next
//   down, waiting        its delay is over                1 dial its address                                  down, dialling
//   down, dialling       dialled (error)                  2 note it; wait, longer than before                 down, waiting
//   down, dialling       dialled (handle)                 3 send hello                                        down, greeting
//   down, greeting       welcome                          4 tell task_up                                      alive
//   down, greeting       welcome that refuses or does not fit
//                                                         5 note the sentence; wait                           down, waiting
//   down, calling        connection closed, or no answer in time
//                                                         6 note it; wait                                     down, waiting
//   down                 hello                            7 answer welcome; tell task_up                      alive
//   any                  hello that does not fit          8 answer why                                        as before
//   alive                hello of another incarnation     9 answer ALREADY_EXISTS                             alive
//   suspected            hello of another incarnation    10 tell task_down, answer welcome, tell task_up      alive
//   up                   hello of the same one           11 as 10: it had taken this server for dead          alive
//   up                   beat                            12 note the time                                     alive
//   alive                (silent for `suspect_after`)    13 note it                                           suspected
//   suspected            (silent for `dead_after`)       14 tell task_down                                    down (dead)
//   up                   connection closed               15 tell task_down                                    down (dead)
//   up                   goodbye                         16 tell task_down; answer goodbye_noted              down (stopped)
//   down                 beat                            17 answer who_are_you                                as before
//   up                   who_are_you                     18 tell task_down; whose turn it is calls at once    down (dead)
//   any                  (the look came late)            19 the silence was this process's own: everybody
//                                                           gets as much time more                            as before
//   suspected, or dead for a short time
//                        beat                            20 as 12 or 17; such a silence is not death          as 12 or 17
//
// How long a silence is death: `dead_after`, or a quarter longer than the longest silence of late
// that was none: the peer was only suspected, or its next beat came when it had been dead for no
// longer than half of that time. Otherwise busy hosts, on which all threads come late, take each
// other for dead, and the work of greeting keeps them busy. When nobody has been late for a minute:
// half of it. At most kMostPatience times `dead_after`.
//
// Beats of incarnations that are over, and answers to calls that are over, are ignored. Beats are
// sent at each `interval` to all that are up. Where that would be more than kMostBeats a second
// from all tasks of a host together, the interval is longer, and so are all times in which its
// tasks are suspected and dead: each server knows from the cluster which tasks share a host, and so
// all use the same. Otherwise many processes on one host have time for nothing else.
//
// Thread rule: belongs to its actor.
//
// Tests of the edges, tests/net/membership_test.cc:
//   1, 3, 4      edges_1_and_3_and_4_the_later_one_calls_and_greets
//   1, 2         edges_1_and_2_who_does_not_answer_is_called_again_after_longer_and_longer
//   5            edge_5_who_refuses_is_called_again_and_its_sentence_is_known
//   6            edge_6_a_call_that_nobody_answers_ends
//   7, 8         edges_7_and_8_a_hello_is_checked
//   9, 10, 11    edges_9_to_11_a_live_task_has_one_incarnation
//   12, 13, 14   edges_12_to_14_silence_is_suspected_then_dead
//   15, 16       edges_15_and_16_a_closed_connection_and_a_goodbye_are_told_at_once
//   17, 18       edges_17_and_18_who_was_taken_for_dead_greets_again
//   19           edge_19_who_slept_does_not_judge
//   20           edge_20_silences_that_were_not_death_make_patient
//   12, 13, 14   many_tasks_of_a_host_beat_less_often
#ifndef TROUPE_NET_MEMBERSHIP_H_
#define TROUPE_NET_MEMBERSHIP_H_

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "troupe/server.h"

namespace troupe {

// What a server says of itself when it greets or welcomes (net/messages.h).
struct Greeting {
  uint32_t protocol = 0;
  uint64_t cluster = 0;
  ClusterTask from, to;
  uint64_t incarnation = 0;
  uint64_t number = 0;  // of the call: an answer to an earlier one is none to this
};

class Membership {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What the actor has to do next, in order.
  struct Action {
    enum class Kind : uint8_t { kDial, kHello, kWelcome, kRefuse, kUp, kDown, kBeat, kWhoAreYou, kNoted, kForget };
    Kind kind;
    int peer = -1;             // -1: who sent the message that is handled
    uint64_t number = 0;       // of the call, or of the incarnation
    absl::Status status = {};  // why
  };
  using Actions = std::vector<Action>;

  Membership(const ServerOptions& options, uint64_t incarnation, uint32_t protocol, uint64_t seed, Time now);

  // The timer. Afterwards, and after every other method, NextLook says when it is due again.
  Actions Look(Time now);
  Time NextLook() const;
  static constexpr int kMostPatience = 10;
  static constexpr int kMostBeats = 2000;  // a quarter of a processor's time (docs/measurements/cluster.md)

  Actions Dialled(int peer, uint64_t call, const absl::Status& status, Time now);
  // -1: the cluster has no such task, or it is this one.
  int PeerOf(const ClusterTask& task) const;
  Actions Hello(const Greeting& hello, Time now);
  // `greeted`: the incarnation that the answer is for.
  Actions Welcome(int peer, const Greeting& welcome, uint64_t greeted, const absl::Status& status, Time now);
  Actions Beat(int peer, uint64_t incarnation, Time now);
  Actions AskedWho(int peer, uint64_t incarnation, Time now);
  Actions Closed(int peer, const std::string& why, Time now);
  Actions Goodbye(int peer, uint64_t incarnation, Time now);
  // From now on nobody is called or greeted, no beats are sent, and every hello is refused.
  void Leave() { leaving_ = true; }

  Greeting Own(int to) const;
  const ClusterTask& task(int peer) const { return peers_[static_cast<size_t>(peer)].task; }
  const HostPort& address(int peer) const { return peers_[static_cast<size_t>(peer)].address; }
  uint64_t incarnation(int peer) const { return peers_[static_cast<size_t>(peer)].incarnation; }
  bool IsUp(int peer) const { return peers_[static_cast<size_t>(peer)].up(); }
  int size() const { return static_cast<int>(peers_.size()); }
  ServerStatus Status(Time now) const;

 private:
  enum class Call : uint8_t { kWaiting, kDialling, kGreeting };
  struct Peer {
    ClusterTask task;
    HostPort address;
    bool called_by_us = false;
    double stretch = 1;  // of its times: see kMostBeats
    TaskHealth health = TaskHealth::kAbsent;
    Call call = Call::kWaiting;
    uint64_t calls = 0;        // the number of the last call
    int failures = 0;          // of calls, since it was up last
    Time due;                  // of the next call, or of the end of this one
    uint64_t incarnation = 0;  // 0: none was seen
    Time heard, since;
    std::string why;
    bool up() const { return health == TaskHealth::kAlive || health == TaskHealth::kSuspected; }
  };
  Peer& at(int peer) { return peers_[static_cast<size_t>(peer)]; }
  void SetHealth(Peer* p, TaskHealth health, Time now);
  // Ends a call that failed.
  void Fail(Peer* p, std::string_view why, Time now);
  void GoUp(int peer, uint64_t incarnation, Time now, Actions* actions);
  void GoDown(int peer, TaskHealth health, absl::Status why, Time now, Actions* actions);
  // OK, or what of protocol, cluster and tasks does not fit.
  absl::Status Check(const Greeting& other) const;
  void LookAt(int peer, Time now, Actions* actions);
  void CallThoseDue(Time now, Actions* actions);
  // Edge 20: a silence that was not death.
  void BePatient(const Peer& p, Time now);
  Time::duration Stretched(const Peer& p, Time::duration t) const;

  const ClusterTask self_;
  const HostPort address_;
  const uint64_t incarnation_, cluster_;
  const uint32_t protocol_;
  const HeartbeatPolicy heartbeat_;
  const ConnectPolicy connect_;
  std::mt19937_64 random_;
  std::vector<Peer> peers_;  // in the order of the cluster
  Time next_beat_, expected_;
  Time::duration interval_;    // of this server's own beats
  Time::duration dead_after_;  // now; before it is stretched
  Time patient_since_;
  int calling_ = 0;
  bool leaving_ = false;
};

}  // namespace troupe

#endif  // TROUPE_NET_MEMBERSHIP_H_
