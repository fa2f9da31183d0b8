#include "actors/threads/no_memory.h"

namespace troupe {

const absl::Status& kNoMemory = *new absl::Status(ResourceExhausted("no memory is left for the step"));
const absl::Status& kToldToEnd = *new absl::Status(Cancelled("the step was told to end"));

}  // namespace troupe
