// Event files: the files that TensorBoard reads, with what a training run reported.
//
// An event file is a record file (troupe/records.h) of Event messages (proto/event.proto). The
// first one tells the version of the format. Each later one has a step, a time in seconds since
// 1970, and summaries, a graph, or what a step took. Errors are those of record files.
//
// Thread rule: a writer, and a reader, belongs to one thread at a time.
#ifndef TROUPE_GRAPH_FILES_EVENT_FILE_H_
#define TROUPE_GRAPH_FILES_EVENT_FILE_H_

#include <memory>
#include <string>

#include "troupe/records.h"

namespace troupe::proto {
class Event;
}

namespace troupe::files {

class EventFileWriter {
 public:
  // A new file "PREFIX.out.tfevents.SECONDS.HOST.PROCESS.NUMBER", with `suffix` behind it;
  // TensorBoard looks for "tfevents" in the names of a folder's files. The version is in the file
  // when this returns.
  static absl::StatusOr<std::unique_ptr<EventFileWriter>> Create(const std::string& prefix,
                                                                 const std::string& suffix = "");
  // An event without a time gets the time of this call. INVALID_ARGUMENT for one of more than 2
  // GiB.
  absl::Status Write(const proto::Event& event);
  absl::Status Flush() { return writer_->Flush(); }
  absl::Status Close() { return writer_->Close(); }
  const std::string& path() const { return path_; }

 private:
  EventFileWriter() = default;
  std::string path_;
  std::unique_ptr<RecordWriter> writer_;
};

class EventFileReader {
 public:
  // DATA_LOSS when the first record is not a version that is known here.
  static absl::StatusOr<std::unique_ptr<EventFileReader>> Open(const std::string& path);
  // The next event after the version; false at the end of the file. DATA_LOSS for what is no event.
  absl::StatusOr<bool> Next(proto::Event* event);

 private:
  EventFileReader() = default;
  std::string path_;
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_EVENT_FILE_H_
