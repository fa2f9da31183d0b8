// A session that stands in another process, as the Session object of this one calls it; and who
// makes one for SessionOptions.target. The floor above registers itself: it knows the network.
//
// Thread rule: all methods are thread safe. Those that return a value wait for the other process,
// except Usable; the others never wait.
#ifndef TROUPE_ACTORS_SESSION_SESSION_ELSEWHERE_H_
#define TROUPE_ACTORS_SESSION_SESSION_ELSEWHERE_H_

#include <memory>
#include <string>
#include <vector>

#include "actors/wire/session_messages.h"
#include "troupe/session.h"

namespace troupe {

class SessionElsewhere {
 public:
  // Closes it.
  virtual ~SessionElsewhere() = default;
  // OK, or why no call can be made any more.
  virtual absl::Status Usable() const = 0;
  // As the methods of Session with these names. `metadata` may be null.
  virtual absl::Status Extend(const extend_request& graph) = 0;
  virtual absl::Status Prepare(const Names& feeds, const Names& fetches, const Names& targets, int64_t timeout_ms) = 0;
  virtual absl::Status Run(run_request step, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) = 0;
  virtual void RunAsync(run_request step, RunCallback done, proto::RunMetadata* metadata) = 0;
  // The names and options of `step`.
  virtual absl::StatusOr<std::string> PartialRunSetup(run_request step) = 0;
  virtual absl::Status PartialRun(const std::string& handle, run_request step, std::vector<Tensor>* outputs) = 0;
  virtual void PartialRunCancel(const std::string& handle) = 0;
  virtual absl::Status Reset(const std::vector<std::string>& containers) = 0;
  virtual absl::StatusOr<std::vector<DeviceStatus>> ListDevices() = 0;
  virtual absl::StatusOr<std::vector<std::string>> RunningSteps() = 0;
  // Later calls, and those that wait, are CANCELLED.
  virtual void Close() = 0;
};

// A Callable of such a session: the names that it was made for.
struct Callable::Elsewhere {
  std::shared_ptr<SessionElsewhere> session;
  Names feeds, fetches, targets;
  int64_t timeout_ms = 0;  // the session's
  // INVALID_ARGUMENT when the number of values is not that of the feeds.
  absl::StatusOr<run_request> Step(const RunOptions& options, absl::Span<const Tensor> values) const;
};

// Opens a session at options.target. `runtime`: where the client's side of it lives.
using OpenElsewhere = absl::StatusOr<std::shared_ptr<SessionElsewhere>> (*)(const SessionOptions& options,
                                                                            std::shared_ptr<Runtime>* runtime);
// Before main, by whoever knows the network.
void SetOpenElsewhere(OpenElsewhere open);
// UNIMPLEMENTED when nobody does.
absl::StatusOr<std::shared_ptr<SessionElsewhere>> OpenSessionElsewhere(const SessionOptions& options,
                                                                       std::shared_ptr<Runtime>* runtime);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_SESSION_ELSEWHERE_H_
