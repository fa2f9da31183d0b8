// What the kernels of summary ops share: their result is a serialized Summary message, a scalar.
//
// Thread rule: each call belongs to the thread of its context.
#ifndef TROUPE_KERNELS_SUMMARY_SUMMARY_H_
#define TROUPE_KERNELS_SUMMARY_SUMMARY_H_

#include <string>

#include "troupe/kernel.h"
#include "troupe/proto/summary.pb.h"

namespace troupe::summary {

// Makes output 0 the bytes of `summary`. INVALID_ARGUMENT when these are 2 GiB or more.
absl::Status SetSummary(KernelContext& ctx, const proto::Summary& summary);
// Input `i`, which must be a scalar string.
absl::StatusOr<std::string> ScalarString(const KernelContext& ctx, int i, std::string_view what);
// The tag of output `i` of a node that writes at most `most` of a kind: "x/image" where there can
// be one only, else "x/image/0" and so on.
std::string NumberedTag(std::string_view tag, std::string_view kind, int64_t i, int64_t most);

// Why no gradient flows through a summary.
inline constexpr char kWhyNoGradient[] = "a summary is text";

}  // namespace troupe::summary

#endif  // TROUPE_KERNELS_SUMMARY_SUMMARY_H_
