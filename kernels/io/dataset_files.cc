// Data sets whose elements are the records of files: framed records, lines, pieces of one length.
#include <algorithm>
#include <cstring>

#include "graph/files/compressed.h"
#include "kernels/io/dataset_stages.h"

namespace troupe {
namespace dataset {
namespace {

// The records of one file, one by one.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual absl::StatusOr<bool> Next(std::string_view* record) = 0;
};

class RecordCursor : public Cursor {
 public:
  explicit RecordCursor(std::unique_ptr<files::RecordReader> reader) : reader_(std::move(reader)) {}
  absl::StatusOr<bool> Next(std::string_view* record) override { return reader_->Next(record); }

 private:
  const std::unique_ptr<files::RecordReader> reader_;
};

// Bytes of a file in a buffer that grows with what comes.
class Buffered {
 public:
  explicit Buffered(std::unique_ptr<files::ByteSource> source) : source_(std::move(source)) {}
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_, end_ - begin_); }
  void Pass(size_t n) {
    begin_ += n;
    offset_ += n;
  }
  // Appends what follows; false at the end of the file.
  absl::StatusOr<bool> More() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == buffer_.size()) buffer_.resize(std::max<size_t>(size_t{1} << 18, 2 * end_));
    TROUPE_ASSIGN_OR_RETURN(const size_t got, source_->Read(buffer_.size() - end_, buffer_.data() + end_));
    end_ += got;
    return got > 0;
  }
  uint64_t offset() const { return offset_; }

 private:
  const std::unique_ptr<files::ByteSource> source_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;
};

class LineCursor : public Cursor {
 public:
  explicit LineCursor(std::unique_ptr<files::ByteSource> source) : bytes_(std::move(source)) {}
  absl::StatusOr<bool> Next(std::string_view* line) override {
    bytes_.Pass(passed_);
    passed_ = 0;
    size_t searched = 0;
    for (;;) {
      const std::string_view rest = bytes_.rest();
      const size_t end = rest.find('\n', searched);
      if (end != std::string_view::npos) {
        passed_ = end + 1;
        *line = rest.substr(0, end);
        break;
      }
      searched = rest.size();
      TROUPE_ASSIGN_OR_RETURN(const bool more, bytes_.More());
      if (more) continue;
      *line = bytes_.rest();
      passed_ = line->size();
      if (line->empty()) return false;
      break;
    }
    if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
    return true;
  }

 private:
  Buffered bytes_;
  size_t passed_ = 0;
};

class FixedCursor : public Cursor {
 public:
  FixedCursor(std::string path, std::unique_ptr<files::ByteSource> source, uint64_t record, uint64_t header,
              uint64_t footer, uint64_t size)
      : path_(std::move(path)), bytes_(std::move(source)), record_(record), header_(header), end_(size - footer) {}
  absl::StatusOr<bool> Next(std::string_view* record) override {
    bytes_.Pass(passed_);
    passed_ = 0;
    while (bytes_.offset() < header_) {
      if (bytes_.rest().empty()) {
        TROUPE_ASSIGN_OR_RETURN(const bool more, bytes_.More());
        if (!more) return CutOff();
      }
      bytes_.Pass(static_cast<size_t>(std::min<uint64_t>(header_ - bytes_.offset(), bytes_.rest().size())));
    }
    if (bytes_.offset() >= end_) return false;
    while (bytes_.rest().size() < record_) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, bytes_.More());
      if (!more) return CutOff();
    }
    *record = bytes_.rest().substr(0, static_cast<size_t>(record_));
    passed_ = static_cast<size_t>(record_);
    return true;
  }

 private:
  absl::Status CutOff() const {
    return DataLoss(path_, ": the file ends within a record of ", record_, " bytes (at byte ", bytes_.offset(), ")");
  }
  const std::string path_;
  Buffered bytes_;
  const uint64_t record_, header_, end_;
  size_t passed_ = 0;
};

using OpenCursor = std::function<absl::StatusOr<std::unique_ptr<Cursor>>(const std::string& path)>;

class FilesStage : public Stage {
 public:
  FilesStage(std::shared_ptr<const std::vector<std::string>> paths, OpenCursor open)
      : paths_(std::move(paths)), open_(std::move(open)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    std::string_view record;
    TROUPE_ASSIGN_OR_RETURN(const bool more, Record(&record));
    if (more) *element = {Tensor::Scalar(std::string(record))};
    return more;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "file", static_cast<int64_t>(file_));
    Put(to, prefix + "record", record_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t file, Take(from, prefix + "file"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t record, Take(from, prefix + "record"));
    file_ = static_cast<size_t>(file);
    if (file_ > paths_->size() || (file_ == paths_->size() && record > 0))
      return InvalidArgument("the position is in file ", file, " of ", paths_->size());
    while (record_ < record) {
      std::string_view passed;
      TROUPE_ASSIGN_OR_RETURN(const bool more, Record(&passed));
      if (!more || file_ != static_cast<size_t>(file)) {
        return DataLoss((*paths_)[static_cast<size_t>(file)], ": the file ends before record ", record);
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<bool> Record(std::string_view* record) {
    for (; file_ < paths_->size(); ++file_, record_ = 0) {
      if (cursor_ == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(cursor_, open_((*paths_)[file_]));
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, cursor_->Next(record));
      if (more) {
        ++record_;
        return true;
      }
      cursor_.reset();
    }
    return false;
  }

  const std::shared_ptr<const std::vector<std::string>> paths_;
  const OpenCursor open_;
  std::unique_ptr<Cursor> cursor_;
  size_t file_ = 0;
  int64_t record_ = 0;
};

SourcePtr FilesSource(std::vector<std::string> paths, OpenCursor open) {
  auto shared = std::make_shared<const std::vector<std::string>>(std::move(paths));
  return NewSource({}, [shared, open](std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<FilesStage>(shared, open);
  });
}

}  // namespace
}  // namespace dataset

Dataset Dataset::Records(std::vector<std::string> paths, files::Compression compression) {
  return Dataset(dataset::FilesSource(
      std::move(paths), [compression](const std::string& path) -> absl::StatusOr<std::unique_ptr<dataset::Cursor>> {
        TROUPE_ASSIGN_OR_RETURN(auto reader, files::RecordReader::Open(path, compression));
        return std::make_unique<dataset::RecordCursor>(std::move(reader));
      }));
}
Dataset Dataset::TextLines(std::vector<std::string> paths, files::Compression compression) {
  return Dataset(dataset::FilesSource(
      std::move(paths), [compression](const std::string& path) -> absl::StatusOr<std::unique_ptr<dataset::Cursor>> {
        TROUPE_ASSIGN_OR_RETURN(auto source, files::OpenSource(path, compression));
        return std::make_unique<dataset::LineCursor>(std::move(source));
      }));
}
Dataset Dataset::FixedLength(std::vector<std::string> paths, uint64_t record_bytes, uint64_t header_bytes,
                             uint64_t footer_bytes) {
  if (record_bytes == 0)
    return Dataset(dataset::Refused(InvalidArgument("FixedLength needs records of at least one byte")));
  return Dataset(dataset::FilesSource(
      std::move(paths), [=](const std::string& path) -> absl::StatusOr<std::unique_ptr<dataset::Cursor>> {
        TROUPE_ASSIGN_OR_RETURN(const files::FileStat stat, files::Stat(path));
        if (stat.size < header_bytes || stat.size - header_bytes < footer_bytes ||
            (stat.size - header_bytes - footer_bytes) % record_bytes != 0) {
          return DataLoss(path, ": its ", stat.size, " bytes are no header of ", header_bytes, ", footer of ",
                          footer_bytes, " and records of ", record_bytes);
        }
        TROUPE_ASSIGN_OR_RETURN(auto source, files::OpenSource(path, files::Compression::kNone));
        return std::make_unique<dataset::FixedCursor>(path, std::move(source), record_bytes, header_bytes, footer_bytes,
                                                      stat.size);
      }));
}

}  // namespace troupe
