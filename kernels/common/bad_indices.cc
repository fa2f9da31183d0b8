#include "kernels/common/bad_indices.h"

namespace troupe {

BadIndexPolicy ReadBadIndexPolicy(KernelInit& init) {
  const std::string policy = init.Attr<std::string>("bad_indices_policy");
  if (policy == "IGNORE") return BadIndexPolicy::kIgnore;
  if (!policy.empty() && policy != "DEFAULT" && policy != "ERROR") {
    init.Fail(InvalidArgument("bad_indices_policy must be DEFAULT, ERROR or IGNORE, got '", policy, "'"));
  }
  return BadIndexPolicy::kError;
}

}  // namespace troupe
