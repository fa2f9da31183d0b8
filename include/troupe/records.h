// Record files (TFRecord): byte strings in a row, each with checksums. Event files are such files,
// and training data often comes in them.
//
//   auto writer = files::RecordWriter::Create("mem://train.tfrecord");
//   absl::Status s = writer.ok() ? (*writer)->Write("a record") : writer.status();
//   if (s.ok()) s = (*writer)->Close();
//
//   auto reader = files::RecordReader::Open("mem://train.tfrecord");
//   std::string_view record;
//   absl::StatusOr<bool> more = reader.ok() ? (*reader)->Next(&record) : reader.status();
//   for (; more.ok() && *more; more = (*reader)->Next(&record)) std::cout << record << "\n";
//
// A record is: its length (8 bytes), the masked CRC32C of these, the bytes, their masked CRC32C;
// all numbers are little-endian. With kZlib or kGzip the whole row is compressed.
//
// Errors of reading are DATA_LOSS with the path and where the record begins, counted in bytes of
// the plain row: a wrong checksum, a record that is cut off, a damaged compressed stream.
//
// Source of the semantics: TensorFlow's TFRecord format; CRC32C masked as there.
//
// Thread rule: one thread at a time.
#ifndef TROUPE_RECORDS_H_
#define TROUPE_RECORDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "troupe/export.h"
#include "troupe/files.h"

namespace troupe {
namespace TROUPE_EXPORT files {

enum class Compression { kNone, kZlib, kGzip };
// "", "ZLIB", "GZIP". INVALID_ARGUMENT for other names.
absl::StatusOr<Compression> CompressionNamed(std::string_view name);

class RecordWriter {
 public:
  // `mode` as for OpenToWrite; a compressed file can be appended to only with kGzip.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(const std::string& path,
                                                              Compression compression = Compression::kNone,
                                                              WriteMode mode = WriteMode::kReplace);
  ~RecordWriter();  // closes; errors are not told
  absl::Status Write(std::string_view record);
  // Hands all records so far to the file: whoever reads it sees them. (A compressed file grows by a
  // few bytes with each call.)
  absl::Status Flush();
  // Flushes, and returns when they survive a crash.
  absl::Status Sync();
  absl::Status Close();

  struct TROUPE_HIDDEN Impl;

 private:
  explicit RecordWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class RecordReader {
 public:
  // `from`: where the first record begins, as offset() tells it.
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            Compression compression = Compression::kNone,
                                                            uint64_t from = 0);
  ~RecordReader();
  // The next record, which is good until the next call; false at the end of the file. After an
  // error every call returns it again.
  absl::StatusOr<bool> Next(std::string_view* record);
  // Where the next record begins, in bytes of the plain row.
  uint64_t offset() const;

  struct TROUPE_HIDDEN Impl;

 private:
  explicit RecordReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace files
}  // namespace troupe

#endif  // TROUPE_RECORDS_H_
