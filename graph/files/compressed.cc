#include "graph/files/compressed.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <zlib.h>

namespace troupe::files {
namespace {

constexpr size_t kBuffer = size_t{1} << 18;

class PlainSource : public ByteSource {
 public:
  PlainSource(std::unique_ptr<ReadableFile> file, uint64_t from) : file_(std::move(file)), at_(from) {}
  absl::StatusOr<size_t> Read(size_t n, char* to) override {
    TROUPE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(at_, n, to));
    at_ += got;
    return got;
  }

 private:
  const std::unique_ptr<ReadableFile> file_;
  uint64_t at_;
};

class InflatingSource : public ByteSource {
 public:
  InflatingSource(std::string path, std::unique_ptr<ByteSource> from)
      : path_(std::move(path)), from_(std::move(from)), buffer_(kBuffer) {}
  ~InflatingSource() override {
    if (open_) inflateEnd(&z_);
  }
  // Either form, told by its first bytes.
  absl::Status Begin() {
    if (inflateInit2(&z_, 15 + 32) != Z_OK) return ResourceExhausted(path_, ": no memory to decompress it");
    open_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<size_t> Read(size_t n, char* to) override {
    const auto want = static_cast<uInt>(std::min<size_t>(n, std::numeric_limits<uInt>::max()));
    z_.next_out = reinterpret_cast<Bytef*>(to);
    z_.avail_out = want;
    while (z_.avail_out == want) {
      if (z_.avail_in == 0) {
        TROUPE_ASSIGN_OR_RETURN(const size_t got, from_->Read(buffer_.size(), buffer_.data()));
        z_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        z_.avail_in = static_cast<uInt>(got);
        if (got == 0) {
          if (ended_ || !any_) return size_t{0};
          return DataLoss(path_, ": the compressed bytes are cut off");
        }
      }
      // Behind one compressed stream another one may follow: whoever appends makes such files.
      if (ended_ && inflateReset(&z_) != Z_OK) return DataLoss(path_, ": the compressed bytes are damaged");
      ended_ = false;
      any_ = true;
      const int result = inflate(&z_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result == Z_MEM_ERROR) {
        return ResourceExhausted(path_, ": no memory to decompress it");
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return DataLoss(path_,
                        ": the compressed bytes are damaged: ", z_.msg != nullptr ? z_.msg : "no reason is given");
      }
    }
    return static_cast<size_t>(want - z_.avail_out);
  }

 private:
  const std::string path_;
  const std::unique_ptr<ByteSource> from_;
  std::vector<char> buffer_;
  z_stream z_ = {};
  bool open_ = false, ended_ = false, any_ = false;
};

class PlainSink : public ByteSink {
 public:
  explicit PlainSink(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  ~PlainSink() override { (void)Close(); }
  absl::Status Append(std::string_view bytes) override {
    if (held_.size() + bytes.size() > kBuffer) TROUPE_RETURN_IF_ERROR(Flush());
    if (bytes.size() >= kBuffer) return Keep(file_->Append(bytes));
    held_.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    TROUPE_RETURN_IF_ERROR(failed_);
    if (held_.empty()) return absl::OkStatus();
    const absl::Status done = Keep(file_->Append(held_));
    held_.clear();
    return done;
  }
  absl::Status Sync() override {
    TROUPE_RETURN_IF_ERROR(Flush());
    return file_->Sync();
  }
  absl::Status Close() override {
    if (closed_) return failed_;
    closed_ = true;
    const absl::Status flushed = Flush();
    const absl::Status closed = file_->Close();
    return flushed.ok() ? closed : flushed;
  }

 private:
  // A part of the bytes may be in the file: nothing that follows would be readable.
  absl::Status Keep(absl::Status s) {
    if (!s.ok()) failed_ = s;
    return s;
  }
  const std::unique_ptr<WritableFile> file_;
  std::string held_;
  absl::Status failed_;
  bool closed_ = false;
};

class DeflatingSink : public ByteSink {
 public:
  DeflatingSink(std::string path, std::unique_ptr<ByteSink> to)
      : path_(std::move(path)), to_(std::move(to)), buffer_(kBuffer) {}
  ~DeflatingSink() override {
    (void)Close();
    if (open_) deflateEnd(&z_);
  }
  absl::Status Begin(Compression form) {
    const int bits = form == Compression::kGzip ? 15 + 16 : 15;
    if (deflateInit2(&z_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      return ResourceExhausted(path_, ": no memory to compress it");
    }
    open_ = true;
    return absl::OkStatus();
  }
  absl::Status Append(std::string_view bytes) override { return Deflate(bytes, Z_NO_FLUSH); }
  absl::Status Flush() override {
    TROUPE_RETURN_IF_ERROR(Deflate({}, Z_SYNC_FLUSH));
    return to_->Flush();
  }
  absl::Status Sync() override {
    TROUPE_RETURN_IF_ERROR(Deflate({}, Z_SYNC_FLUSH));
    return to_->Sync();
  }
  absl::Status Close() override {
    if (closed_ || !open_) return absl::OkStatus();
    closed_ = true;
    const absl::Status finished = Deflate({}, Z_FINISH);
    const absl::Status closed = to_->Close();
    return finished.ok() ? closed : finished;
  }

 private:
  absl::Status Deflate(std::string_view bytes, int flush) {
    do {
      const auto some = static_cast<uInt>(std::min<size_t>(bytes.size(), size_t{1} << 30));
      z_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      z_.avail_in = some;
      bytes.remove_prefix(some);
      do {
        z_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
        z_.avail_out = static_cast<uInt>(buffer_.size());
        if (deflate(&z_, bytes.empty() ? flush : Z_NO_FLUSH) == Z_STREAM_ERROR) {
          return Internal(path_, ": compressing failed");
        }
        TROUPE_RETURN_IF_ERROR(to_->Append({buffer_.data(), buffer_.size() - z_.avail_out}));
      } while (z_.avail_out == 0);
    } while (!bytes.empty());
    return absl::OkStatus();
  }
  const std::string path_;
  const std::unique_ptr<ByteSink> to_;
  std::vector<char> buffer_;
  z_stream z_ = {};
  bool open_ = false, closed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(const std::string& path, Compression compression,
                                                       uint64_t from) {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, OpenToRead(path));
  if (compression == Compression::kNone) return std::make_unique<PlainSource>(std::move(file), from);
  auto inflating = std::make_unique<InflatingSource>(path, std::make_unique<PlainSource>(std::move(file), 0));
  TROUPE_RETURN_IF_ERROR(inflating->Begin());
  std::vector<char> passed(from > 0 ? kBuffer : 0);
  while (from > 0) {
    TROUPE_ASSIGN_OR_RETURN(
        const size_t got, inflating->Read(static_cast<size_t>(std::min<uint64_t>(from, passed.size())), passed.data()));
    if (got == 0) break;
    from -= got;
  }
  return inflating;
}

absl::StatusOr<std::unique_ptr<ByteSink>> OpenSink(const std::string& path, Compression compression, WriteMode mode) {
  if (mode == WriteMode::kAppend && compression == Compression::kZlib) {
    return InvalidArgument(path, ": nothing can be appended to a file in the form of zlib");
  }
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, OpenToWrite(path, mode));
  auto plain = std::make_unique<PlainSink>(std::move(file));
  if (compression == Compression::kNone) return plain;
  auto deflating = std::make_unique<DeflatingSink>(path, std::move(plain));
  TROUPE_RETURN_IF_ERROR(deflating->Begin(compression));
  return deflating;
}

}  // namespace troupe::files
