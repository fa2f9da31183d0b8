// The calls of a client's session that wait for the server, by number: the logic of its agent
// (session_agent.h), without actors or a clock. Whoever calls begins a call here, on its own
// thread; the agent ends it.
//
//   state (of one call)  event                                   next
//   (none)               Begin, and the session is open          waiting
//   waiting              Take: its answer has come               (none)
//   waiting              Due: its time is over                   (none)
//   waiting              End: the session is over                (none)
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_NET_AGENT_CALLS_H_
#define TROUPE_NET_AGENT_CALLS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/watch/call_wait.h"
#include "net/client_messages.h"

namespace troupe {

// One call, which is answered once.
class AgentCall : public Cancellable {
 public:
  // `cancel` is called when the token is cancelled, on the thread that does so, and must not block.
  AgentCall(std::function<void(call_answer)> answered, std::function<void()> cancel)
      : answered_(std::move(answered)), cancel_(std::move(cancel)) {}
  // One that is dropped is answered.
  ~AgentCall();
  // From now on `token` cancels it, unless it has been answered. It may be null.
  void Watch(const CancellationToken* token);
  void Answer(call_answer answer);
  void Fail(absl::Status status);
  void OnCancel() override { cancel_(); }

 private:
  std::mutex mu_;
  std::function<void(call_answer)> answered_;
  const std::function<void()> cancel_;
  std::optional<Cancellation> cancellation_;
};

class AgentCalls {
 public:
  using Time = SteadyTime;
  struct Late {
    uint64_t number = 0;
    std::shared_ptr<AgentCall> call;
    absl::Status why;
  };

  // The number of a new call; why there is none any more. `late`: its answer when `due` has come.
  // `first`: whether it is due before all others, of which the agent has to be told.
  absl::StatusOr<uint64_t> Begin(std::shared_ptr<AgentCall> call, Time due, absl::Status late, bool* first = nullptr);
  // Null when nobody waits for its answer.
  std::shared_ptr<AgentCall> Take(uint64_t number);
  // Whether somebody waits for its answer who has not cancelled it.
  bool Waits(uint64_t number) const;
  // It was cancelled, and is due then, unless it is earlier.
  void Hasten(uint64_t number, Time due, absl::Status late);
  // Takes those that are due.
  std::vector<Late> Due(Time now);
  Time NextDue() const;
  // Takes all. Nobody begins from now on; the first end counts, and is what they are told.
  std::vector<std::shared_ptr<AgentCall>> End(const absl::Status& why);
  absl::Status ended() const;
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<AgentCall> call;
    Time due;
    absl::Status late;
    bool cancelled = false;
  };
  mutable std::mutex mu_;
  absl::Status ended_;
  uint64_t last_ = 0;
  std::map<uint64_t, Entry> calls_;
  std::set<std::pair<Time, uint64_t>> due_;  // of those that are due at any time
};

}  // namespace troupe

#endif  // TROUPE_NET_AGENT_CALLS_H_
