// FileWriter: what TensorBoard shows of a training run, in an event file.
//
//   auto writer = train::FileWriter::Create("mem://run");
//   absl::Status s = writer.ok() ? (*writer)->AddGraph(*root.graph()) : writer.status();
//   if (s.ok()) s = session->Run({}, {summary}, {update}, &out);  // of ops::MergeSummary
//   if (s.ok()) s = (*writer)->AddSummary(out[0].scalar<std::string>(), 1);
//   if (s.ok()) s = (*writer)->AddScalar("loss", 0.25f, 1);
//   if (s.ok()) s = (*writer)->Close();
//
// Each writer has a file of its own, "events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER" in the
// folder; TensorBoard reads all files of a folder as one run. A process that goes on from a
// checkpoint makes a new file and begins with AddSessionLog(kStart, step): TensorBoard then drops
// what an earlier file says of that step and later ones.
//
// Events are written to the file when a buffer is full, when the last write is flush_seconds ago,
// and by Flush. A process that is killed leaves all events up to some point; readers ignore a last
// one that is cut off.
//
// Errors are statuses with the path: those of files (troupe/files.h), INVALID_ARGUMENT for bytes
// that are no summary, FAILED_PRECONDITION after Close. After an error of the file the writer
// stays usable; the event may be lost or cut off, in which case the following ones cannot be read.
//
// Source of the semantics: tf.summary.FileWriter, and event.proto of TensorFlow.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_TRAIN_FILE_WRITER_H_
#define TROUPE_TRAIN_FILE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/status.h"

namespace troupe::proto {
class RunMetadata;
}

namespace troupe {
namespace TROUPE_EXPORT train {

enum class SessionEvent {
  kStart = 1,  // the numbers are those of SessionLog
  kStop = 2,
  kCheckpoint = 3,
};

struct FileWriterOptions {
  double flush_seconds = 120;
  std::string suffix;  // behind the name of the file
};

class FileWriter {
 public:
  // Makes the folder when it is not there, and the file.
  static absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& folder,
                                                            const FileWriterOptions& options = {});
  ~FileWriter();  // closes; errors are not told

  // A serialized Summary message: what the summary ops give. Metadata of a tag is written once, as
  // TensorFlow does.
  absl::Status AddSummary(std::string_view summary, int64_t step);
  // A number, as ScalarSummary gives it.
  absl::Status AddScalar(std::string_view tag, float value, int64_t step);
  absl::Status AddGraph(const Graph& graph);
  absl::Status AddSessionLog(SessionEvent event, int64_t step, std::string_view checkpoint_path = {},
                             std::string_view message = {});
  // What one step took, of Run with RunOptions.collect_stats. ALREADY_EXISTS for a tag that was
  // given before.
  absl::Status AddRunMetadata(const proto::RunMetadata& metadata, std::string_view tag, int64_t step = 0);

  // Hands all events so far to the file: whoever reads it sees them.
  absl::Status Flush();
  // Flushes. Later calls but Close are FAILED_PRECONDITION.
  absl::Status Close();
  // The file's path.
  const std::string& path() const;

  struct TROUPE_HIDDEN Impl;

 private:
  explicit FileWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_FILE_WRITER_H_
