// Tensor values in one line, for the messages of Assert and Print: the first values, and "..." for
// the rest.
//
// Thread rule: a pure function.
#ifndef TROUPE_KERNELS_CONTROL_SUMMARIZE_H_
#define TROUPE_KERNELS_CONTROL_SUMMARIZE_H_

#include <cstdint>
#include <string>

#include "troupe/tensor.h"

namespace troupe::control {

// The first `max_entries` values (all when negative), rows of higher dimensions in brackets, "..."
// for the rest: "1 2 3...", "[0 1][2...]...".
std::string Summarize(const Tensor& t, int64_t max_entries);

}  // namespace troupe::control

#endif  // TROUPE_KERNELS_CONTROL_SUMMARIZE_H_
