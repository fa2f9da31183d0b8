// Images as PNG, of 8 bits a channel: what image summaries hold.
//
// Thread rule: may be called from any thread.
#ifndef TROUPE_GRAPH_FILES_PNG_H_
#define TROUPE_GRAPH_FILES_PNG_H_

#include <cstdint>
#include <string>

#include "troupe/status.h"

namespace troupe::files {

// `pixels` are height * width * channels bytes, row by row from the top; 1 channel is grey, 2 are
// grey and alpha, 3 RGB, 4 RGBA. INVALID_ARGUMENT for another number of channels or a size that PNG
// does not allow; RESOURCE_EXHAUSTED without memory.
absl::StatusOr<std::string> EncodePng(const uint8_t* pixels, int64_t width, int64_t height, int channels);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_PNG_H_
