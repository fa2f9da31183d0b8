// Bytes in a row, from and into files, plain or compressed by zlib.
//
// Errors are those of the file; DATA_LOSS, naming it, for compressed bytes that are damaged or cut
// off; RESOURCE_EXHAUSTED where zlib finds no memory.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_GRAPH_FILES_COMPRESSED_H_
#define TROUPE_GRAPH_FILES_COMPRESSED_H_

#include <memory>
#include <string>

#include "troupe/records.h"

namespace troupe::files {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At least one byte and at most `n`; 0 at the end. REQUIRES: n > 0.
  virtual absl::StatusOr<size_t> Read(size_t n, char* to) = 0;
};
// `from`: so many plain bytes are passed over, or all when there are fewer.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(const std::string& path, Compression compression,
                                                       uint64_t from = 0);

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual absl::Status Append(std::string_view bytes) = 0;
  virtual absl::Status Flush() = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;
};
// INVALID_ARGUMENT for appending in the form of zlib, which has one stream to a file.
absl::StatusOr<std::unique_ptr<ByteSink>> OpenSink(const std::string& path, Compression compression, WriteMode mode);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_COMPRESSED_H_
