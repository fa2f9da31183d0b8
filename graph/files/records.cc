#include "troupe/records.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "graph/files/coding.h"
#include "graph/files/compressed.h"
#include "graph/files/crc32c.h"

namespace troupe::files {
namespace {

constexpr size_t kHead = 12, kTail = 4;
constexpr size_t kPiece = size_t{1} << 18;

}  // namespace

absl::StatusOr<Compression> CompressionNamed(std::string_view name) {
  if (name.empty()) return Compression::kNone;
  if (name == "ZLIB") return Compression::kZlib;
  if (name == "GZIP") return Compression::kGzip;
  return InvalidArgument("'", CEscape(name), "' is no compression of record files: they are '', ZLIB and GZIP");
}

struct RecordWriter::Impl {
  std::string path;
  std::unique_ptr<ByteSink> sink;
  bool closed = false;

  absl::Status Usable() const {
    return closed ? FailedPrecondition(path, ": writing a record: it has been closed") : absl::OkStatus();
  }
};

RecordWriter::RecordWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordWriter::~RecordWriter() = default;

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(const std::string& path, Compression compression,
                                                                   WriteMode mode) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  TROUPE_ASSIGN_OR_RETURN(impl->sink, OpenSink(path, compression, mode));
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(impl)));
}

absl::Status RecordWriter::Write(std::string_view record) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  char head[kHead], tail[kTail];
  StoreLittle<uint64_t>(record.size(), head);
  StoreLittle(MaskCrc(Crc32c({head, 8})), head + 8);
  StoreLittle(MaskCrc(Crc32c(record)), tail);
  TROUPE_RETURN_IF_ERROR(impl_->sink->Append({head, kHead}));
  TROUPE_RETURN_IF_ERROR(impl_->sink->Append(record));
  return impl_->sink->Append({tail, kTail});
}
absl::Status RecordWriter::Flush() {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  return impl_->sink->Flush();
}
absl::Status RecordWriter::Sync() {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  return impl_->sink->Sync();
}
absl::Status RecordWriter::Close() {
  if (impl_->closed) return absl::OkStatus();
  impl_->closed = true;
  return impl_->sink->Close();
}

struct RecordReader::Impl {
  std::string path;
  std::unique_ptr<ByteSource> source;
  std::string buffer;
  size_t begin = 0, end = 0;  // what of the buffer is not read yet
  uint64_t offset = 0;
  absl::Status failed;

  // Has at least `n` bytes in the buffer; false when the file ends before. Memory grows with what
  // comes, not with what a length promises.
  absl::StatusOr<bool> Have(uint64_t n) {
    while (end - begin < n) {
      if (begin > 0) {
        std::memmove(buffer.data(), buffer.data() + begin, end - begin);
        end -= begin;
        begin = 0;
      }
      if (end == buffer.size()) {
        try {
          buffer.resize(std::max<size_t>(kPiece, 2 * buffer.size()));
        } catch (const std::exception&) {
          return ResourceExhausted(path, ": no memory for the record at byte ", offset);
        }
      }
      TROUPE_ASSIGN_OR_RETURN(const size_t got, source->Read(buffer.size() - end, buffer.data() + end));
      if (got == 0) return false;
      end += got;
    }
    return true;
  }
  absl::Status Damaged(std::string_view why) const {
    return DataLoss(path, ": ", why, " (the record at byte ", offset, ")");
  }
  absl::StatusOr<bool> Next(std::string_view* record) {
    TROUPE_ASSIGN_OR_RETURN(const bool head, Have(kHead));
    if (!head) {
      if (end == begin) return false;
      return Damaged("the file ends within a record's length");
    }
    const char* at = buffer.data() + begin;
    if (UnmaskCrc(LoadLittle<uint32_t>(at + 8)) != Crc32c({at, 8})) {
      return Damaged("the checksum of a record's length is wrong");
    }
    const auto length = LoadLittle<uint64_t>(at);
    if (length > std::numeric_limits<uint64_t>::max() - kHead - kTail)
      return Damaged("a record's length is impossible");
    TROUPE_ASSIGN_OR_RETURN(const bool whole, Have(kHead + length + kTail));
    if (!whole) return Damaged(StrCat("the file ends within a record of ", length, " bytes"));
    *record = std::string_view(buffer.data() + begin + kHead, static_cast<size_t>(length));
    if (UnmaskCrc(LoadLittle<uint32_t>(record->data() + length)) != Crc32c(*record)) {
      return Damaged(StrCat("the checksum of a record of ", length, " bytes is wrong"));
    }
    begin += kHead + static_cast<size_t>(length) + kTail;
    offset += kHead + length + kTail;
    return true;
  }
};

RecordReader::RecordReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordReader::~RecordReader() = default;

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path, Compression compression,
                                                                 uint64_t from) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->offset = from;
  TROUPE_ASSIGN_OR_RETURN(impl->source, OpenSource(path, compression, from));
  return std::unique_ptr<RecordReader>(new RecordReader(std::move(impl)));
}

absl::StatusOr<bool> RecordReader::Next(std::string_view* record) {
  if (record == nullptr) return InvalidArgument(impl_->path, ": Next is given no place for the record");
  TROUPE_RETURN_IF_ERROR(impl_->failed);
  absl::StatusOr<bool> more = impl_->Next(record);
  if (!more.ok()) impl_->failed = more.status();
  return more;
}
uint64_t RecordReader::offset() const { return impl_->offset; }

}  // namespace troupe::files
