#include "actors/step/own_result.h"

#include "graph/core/guarded.h"

namespace troupe {

absl::Status CopyResult(const std::string& fetch, Tensor* result) {
  // The copies of strings may throw.
  return Guarded(StrCat("the copy of fetch '", fetch, "'"), [&]() -> absl::Status {
    Tensor copy = result->Clone();
    if (!copy.valid())
      return ResourceExhausted("no memory for a copy of fetch '", fetch, "', ", result->TypeAndShape());
    *result = std::move(copy);
    return absl::OkStatus();
  });
}

}  // namespace troupe
