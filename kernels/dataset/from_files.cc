// Data sets whose elements are the records of files: framed records, lines, pieces of one length.
#include "kernels/dataset/stages.h"
#include "kernels/io/cursor.h"

namespace troupe {
namespace dataset {
namespace {

using io::Cursor;
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
      std::move(paths), [compression](const std::string& path) { return io::OpenRecords(path, compression); }));
}
Dataset Dataset::TextLines(std::vector<std::string> paths, files::Compression compression) {
  return Dataset(dataset::FilesSource(
      std::move(paths), [compression](const std::string& path) { return io::OpenLines(path, compression); }));
}
Dataset Dataset::FixedLength(std::vector<std::string> paths, uint64_t record_bytes, uint64_t header_bytes,
                             uint64_t footer_bytes, Here here) {
  if (record_bytes == 0) {
    return Dataset(dataset::Refused("FixedLength", here, InvalidArgument("it needs records of at least one byte")));
  }
  return Dataset(dataset::FilesSource(
      std::move(paths), [=](const std::string& path) -> absl::StatusOr<std::unique_ptr<io::Cursor>> {
        TROUPE_ASSIGN_OR_RETURN(const files::FileStat stat, files::Stat(path));
        if (stat.size < header_bytes || stat.size - header_bytes < footer_bytes ||
            (stat.size - header_bytes - footer_bytes) % record_bytes != 0) {
          return DataLoss(path, ": its ", stat.size, " bytes are no header of ", header_bytes, ", footer of ",
                          footer_bytes, " and records of ", record_bytes);
        }
        return io::OpenFixed(path, {.record = record_bytes, .header = header_bytes, .footer = footer_bytes},
                             files::Compression::kNone);
      }));
}

}  // namespace troupe
