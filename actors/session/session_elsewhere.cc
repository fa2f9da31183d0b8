#include "actors/session/session_elsewhere.h"

namespace troupe {
namespace {

OpenElsewhere open_elsewhere = nullptr;  // set before main

}  // namespace

void SetOpenElsewhere(OpenElsewhere open) { open_elsewhere = open; }

absl::StatusOr<std::shared_ptr<SessionElsewhere>> OpenSessionElsewhere(const SessionOptions& options,
                                                                       std::shared_ptr<Runtime>* runtime) {
  if (open_elsewhere == nullptr)
    return Unimplemented("target '", options.target, "': this program has no part that knows the network");
  return open_elsewhere(options, runtime);
}

absl::StatusOr<run_request> Callable::Elsewhere::Step(const RunOptions& options,
                                                      absl::Span<const Tensor> values) const {
  if (values.size() != feeds.size())
    return InvalidArgument("the step takes ", feeds.size(), " feeds, not ", values.size());
  run_request step;
  for (size_t i = 0; i < feeds.size(); ++i) step.feeds.emplace_back(feeds[i], values[i]);
  step.fetches = fetches;
  step.targets = targets;
  step.options = options;
  if (step.options.timeout_ms == 0) step.options.timeout_ms = timeout_ms;
  return step;
}

}  // namespace troupe
