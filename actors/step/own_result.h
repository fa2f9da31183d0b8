// Makes a fetched tensor the caller's own before it is handed over.
//
// A result may be the very buffer of a constant, of a variable, of a feed or of another fetch: the
// kernels on its way forward their inputs. A caller that wrote into it would change what later
// steps read. So a result whose bytes somebody else holds is copied, and one that lies in another
// process's memory (same_host/leases.h), to which nobody here can write. One that the caller alone
// holds, which is what most kernels make, is handed over as it is.
//
// Thread rule: any thread; the tensor is looked at by one thread at a time.
#ifndef TROUPE_ACTORS_STEP_OWN_RESULT_H_
#define TROUPE_ACTORS_STEP_OWN_RESULT_H_

#include <string>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

// Replaces `result` by a copy. RESOURCE_EXHAUSTED without memory for it; the message names `fetch`.
[[gnu::cold]] absl::Status CopyResult(const std::string& fetch, Tensor* result);

// REQUIRES: `result` has a value.
inline absl::Status OwnResult(const std::string& fetch, Tensor* result) {
  // A slice is the caller's when the buffer that it is a part of has no other holder.
  Buffer* const b = result->buffer();
  Buffer* const root = b->root();
  if (b->Unique() && root->Unique() && root->kind() != BufferKind::kForeign) [[likely]]
    return absl::OkStatus();
  return CopyResult(fetch, result);
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_OWN_RESULT_H_
