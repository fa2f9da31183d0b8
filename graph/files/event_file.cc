#include "graph/files/event_file.h"

#include <atomic>
#include <chrono>

#include <unistd.h>

#include "troupe/proto/event.pb.h"

namespace troupe::files {
namespace {

constexpr const char* kVersion = "brain.Event:2";

double WallTime() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "unknown";
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFileWriter>> EventFileWriter::Create(const std::string& prefix,
                                                                         const std::string& suffix) {
  static std::atomic<int64_t> made{0};
  const double now = WallTime();
  std::unique_ptr<EventFileWriter> w(new EventFileWriter());
  std::string seconds = StrCat(static_cast<int64_t>(now));
  seconds.insert(0, 10 - std::min<size_t>(10, seconds.size()), '0');
  w->path_ = StrCat(prefix, ".out.tfevents.", seconds, ".", HostName(), ".", static_cast<int64_t>(::getpid()), ".",
                    made.fetch_add(1), suffix);
  TROUPE_ASSIGN_OR_RETURN(w->writer_, RecordWriter::Create(w->path_));
  proto::Event version;
  version.set_wall_time(now);
  version.set_file_version(kVersion);
  version.mutable_source_metadata()->set_writer("troupe.graph.files.event_file");
  TROUPE_RETURN_IF_ERROR(w->Write(version));
  TROUPE_RETURN_IF_ERROR(w->Flush());
  return w;
}

absl::Status EventFileWriter::Write(const proto::Event& event) {
  std::string bytes;
  bool whole;
  if (event.wall_time() == 0) {
    proto::Event dated = event;
    dated.set_wall_time(WallTime());
    whole = dated.SerializeToString(&bytes);
  } else {
    whole = event.SerializeToString(&bytes);
  }
  if (!whole) return InvalidArgument(path_, ": an event of more than 2 GiB");
  return writer_->Write(bytes);
}

absl::StatusOr<std::unique_ptr<EventFileReader>> EventFileReader::Open(const std::string& path) {
  std::unique_ptr<EventFileReader> r(new EventFileReader());
  r->path_ = path;
  TROUPE_ASSIGN_OR_RETURN(r->reader_, RecordReader::Open(path));
  proto::Event version;
  TROUPE_ASSIGN_OR_RETURN(const bool any, r->Next(&version));
  if (!any) return DataLoss(path, ": an event file without a version");
  constexpr std::string_view kFamily = "brain.Event:";
  if (version.what_case() != proto::Event::kFileVersion || version.file_version().rfind(kFamily, 0) != 0) {
    return DataLoss(path, ": its first record is no version of event files");
  }
  if (version.file_version() != kVersion) {
    return DataLoss(path, ": it has version '", CEscape(version.file_version()), "'; known here is '", kVersion, "'");
  }
  return r;
}

absl::StatusOr<bool> EventFileReader::Next(proto::Event* event) {
  std::string_view record;
  const uint64_t at = reader_->offset();
  TROUPE_ASSIGN_OR_RETURN(const bool more, reader_->Next(&record));
  if (!more) return false;
  if (record.size() > std::numeric_limits<int>::max() ||
      !event->ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return DataLoss(path_, ": the record at byte ", at, " is no event");
  }
  return true;
}

}  // namespace troupe::files
