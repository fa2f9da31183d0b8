#include "actors/step/answers.h"

#include "graph/core/guarded.h"
#include "graph/core/log.h"

namespace troupe {
namespace {

// Of the exception that is being handled.
void LogThrown(std::string_view what) {
  const absl::Status thrown = ThrownStatus(what);
  LogError(thrown.message(), "; it is dropped");
}

}  // namespace

absl::Status NotTaken(const std::string& fetch) {
  return InvalidArgument("fetch '", fetch,
                         "' has no value: it is on a branch that was not taken, or inside of a loop, ",
                         "whose last round ends before it (what leaves the loop can be fetched)");
}

void CallDone(const RunCallback& done, absl::Status status, std::vector<Tensor> outputs) noexcept {
  try {
    done(std::move(status), std::move(outputs));
  } catch (...) {
    LogThrown("the callback of an asynchronous step");
  }
}

void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text) {
  if (!on_stall) return LogWarning(text);
  try {
    on_stall(text);
  } catch (...) {
    LogThrown("on_stall");
  }
}

}  // namespace troupe
