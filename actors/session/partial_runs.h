// The partial runs of a session, by handle. Their number is bounded; those that are over are let go
// of when a place is needed, or when their last fetch is taken.
//
//   state    event                                        next
//   (none)   Add finds a place                            begun: it counts, and nobody finds it
//   begun    Add's `begin` returns its step               open
//   begun    Add's `begin` fails, or throws               (none)
//   open     Find                                         open
//   open     its step is over, and a place is needed      (none); why it failed is remembered
//   open     Remove                                       (none)
//   begun    GiveUpAll                                    (none): its step is given up as it comes
//   open     GiveUpAll                                    (none): its step is given up
//
// Thread rule: all methods are thread safe. Steps are begun and given up without the lock.
#ifndef TROUPE_ACTORS_SESSION_PARTIAL_RUNS_H_
#define TROUPE_ACTORS_SESSION_PARTIAL_RUNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "troupe/status.h"

namespace troupe {

class PartialStep;

class PartialRuns {
 public:
  explicit PartialRuns(size_t bound) : bound_(bound) {}
  ~PartialRuns() { GiveUpAll(); }
  // The handle of a new run, whose step `begin` gives. RESOURCE_EXHAUSTED when there are as many as
  // may be.
  absl::StatusOr<std::string> Add(const std::function<absl::StatusOr<std::shared_ptr<PartialStep>>()>& begin);
  // INVALID_ARGUMENT when there is none; of one that failed, its error, once.
  absl::StatusOr<std::shared_ptr<PartialStep>> Find(const std::string& handle);
  absl::StatusOr<std::shared_ptr<PartialStep>> Remove(const std::string& handle);
  void GiveUpAll();

 private:
  void SweepLocked();
  absl::Status NotThereLocked(const std::string& handle);

  const size_t bound_;
  std::mutex mu_;
  int64_t last_ = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<PartialStep>> runs_;  // null: begun
  size_t sweep_at_ = 16;  // so many make it worth while to look for those that are over
  // Why those failed that nobody has asked since; the oldest are forgotten.
  std::deque<std::pair<std::string, absl::Status>> failed_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_PARTIAL_RUNS_H_
