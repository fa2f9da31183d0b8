#include "kernels/io/cursor.h"

#include <algorithm>
#include <cstring>

#include "graph/files/compressed.h"
#include "troupe/strings.h"

namespace troupe::io {
namespace {

class RecordCursor : public Cursor {
 public:
  explicit RecordCursor(std::unique_ptr<files::RecordReader> reader) : reader_(std::move(reader)) {}
  absl::StatusOr<bool> Next(std::string_view* record) override { return reader_->Next(record); }
  uint64_t offset() const override { return reader_->offset(); }

 private:
  const std::unique_ptr<files::RecordReader> reader_;
};

// Bytes of a file in a buffer that grows with what comes.
class Buffered {
 public:
  Buffered(std::unique_ptr<files::ByteSource> source, uint64_t from) : source_(std::move(source)), offset_(from) {}
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
  // Has `n` bytes, unless the file ends before.
  absl::StatusOr<bool> Have(uint64_t n) {
    while (rest().size() < n) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, More());
      if (!more) return false;
    }
    return true;
  }
  // Goes on behind `n` bytes, or where the file ends: then it is false.
  absl::StatusOr<bool> PassOver(uint64_t n) {
    while (n > 0) {
      if (rest().empty()) {
        TROUPE_ASSIGN_OR_RETURN(const bool more, More());
        if (!more) return false;
      }
      const auto some = static_cast<size_t>(std::min<uint64_t>(n, rest().size()));
      Pass(some);
      n -= some;
    }
    return true;
  }
  uint64_t offset() const { return offset_; }

 private:
  const std::unique_ptr<files::ByteSource> source_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_;
};

class LineCursor : public Cursor {
 public:
  LineCursor(std::unique_ptr<files::ByteSource> source, uint64_t from) : bytes_(std::move(source), from) {}
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
  uint64_t offset() const override { return bytes_.offset() + passed_; }

 private:
  Buffered bytes_;
  size_t passed_ = 0;
};

// The footer is told by the end of the file: a record counts when it is followed by so many bytes.
class FixedCursor : public Cursor {
 public:
  FixedCursor(std::unique_ptr<files::ByteSource> source, const FixedLayout& layout, uint64_t from)
      : bytes_(std::move(source), from), layout_(layout), next_(std::max(from, layout.header)) {}
  absl::StatusOr<bool> Next(std::string_view* record) override {
    TROUPE_ASSIGN_OR_RETURN(const bool there, bytes_.PassOver(next_ - bytes_.offset()));
    if (!there) return false;
    TROUPE_ASSIGN_OR_RETURN(const bool whole, bytes_.Have(layout_.record + layout_.footer));
    if (!whole) return false;
    *record = bytes_.rest().substr(0, static_cast<size_t>(layout_.record));
    next_ += layout_.hop > 0 ? layout_.hop : layout_.record;
    return true;
  }
  uint64_t offset() const override { return next_; }

 private:
  Buffered bytes_;
  const FixedLayout layout_;
  uint64_t next_;
};

class WholeCursor : public Cursor {
 public:
  explicit WholeCursor(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<bool> Next(std::string_view* record) override {
    *record = bytes_;
    return !std::exchange(given_, true);
  }
  uint64_t offset() const override { return given_ ? bytes_.size() : 0; }

 private:
  const std::string bytes_;
  bool given_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cursor>> OpenRecords(const std::string& path, files::Compression compression,
                                                    uint64_t from) {
  TROUPE_ASSIGN_OR_RETURN(auto reader, files::RecordReader::Open(path, compression, from));
  return std::make_unique<RecordCursor>(std::move(reader));
}

absl::StatusOr<std::unique_ptr<Cursor>> OpenLines(const std::string& path, files::Compression compression,
                                                  uint64_t from) {
  TROUPE_ASSIGN_OR_RETURN(auto source, files::OpenSource(path, compression, from));
  return std::make_unique<LineCursor>(std::move(source), from);
}

absl::StatusOr<std::unique_ptr<Cursor>> OpenFixed(const std::string& path, const FixedLayout& layout,
                                                  files::Compression compression, uint64_t from) {
  TROUPE_ASSIGN_OR_RETURN(auto source, files::OpenSource(path, compression, from));
  return std::make_unique<FixedCursor>(std::move(source), layout, from);
}

absl::StatusOr<std::unique_ptr<Cursor>> OpenWhole(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(std::string bytes, files::Read(path));
  return std::make_unique<WholeCursor>(std::move(bytes));
}

}  // namespace troupe::io
