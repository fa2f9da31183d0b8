// The records of one file, one by one: lines, records of fixed length, record files (TFRecord),
// LMDB files. Data sets and readers go through files by these.
//
// Thread rule: one thread at a time. Blocks: on files.
#ifndef TROUPE_KERNELS_IO_CURSOR_H_
#define TROUPE_KERNELS_IO_CURSOR_H_

#include <memory>
#include <string>
#include <string_view>

#include "troupe/records.h"

namespace troupe::io {

class Cursor {
 public:
  virtual ~Cursor() = default;
  // The next record, which is good until the next call; false at the end of the file.
  virtual absl::StatusOr<bool> Next(std::string_view* record) = 0;
  // Where the next record begins, in plain bytes, or in records of an LMDB file. A cursor that is
  // opened from there goes on.
  virtual uint64_t offset() const = 0;
  // Of the record, of a file that has keys; good until the next call.
  virtual std::string_view key() const { return {}; }
};

absl::StatusOr<std::unique_ptr<Cursor>> OpenRecords(const std::string& path, files::Compression compression,
                                                    uint64_t from = 0);
// Lines end with "\n" or "\r\n", the last one perhaps with the file.
absl::StatusOr<std::unique_ptr<Cursor>> OpenLines(const std::string& path, files::Compression compression,
                                                  uint64_t from = 0);
struct FixedLayout {
  uint64_t record = 1, header = 0, footer = 0;  // bytes
  uint64_t hop = 0;                             // from one record to the next; 0: `record`
};
// What is left behind the last whole record, footer aside, is passed over.
absl::StatusOr<std::unique_ptr<Cursor>> OpenFixed(const std::string& path, const FixedLayout& layout,
                                                  files::Compression compression, uint64_t from = 0);
// The values of an LMDB file, or of the file data.mdb of a folder, in the order of their keys. A
// writer may not change the file meanwhile. UNIMPLEMENTED for one with several values of a key.
absl::StatusOr<std::unique_ptr<Cursor>> OpenLmdb(const std::string& path, uint64_t from = 0);
// The file as one record.
absl::StatusOr<std::unique_ptr<Cursor>> OpenWhole(const std::string& path);

}  // namespace troupe::io

#endif  // TROUPE_KERNELS_IO_CURSOR_H_
