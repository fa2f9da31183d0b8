#include "troupe/train/file_writer.h"

#include <chrono>
#include <mutex>
#include <set>

#include "graph/files/event_file.h"
#include "graph/ir/on_arena.h"
#include "troupe/import_export.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/event.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::train {

using Clock = std::chrono::steady_clock;

struct FileWriter::Impl {
  std::string path;
  std::chrono::duration<double> flush_after{};
  std::mutex mu;
  // Guarded by mu:
  std::unique_ptr<files::EventFileWriter> file;  // null: closed
  Clock::time_point flushed;
  std::set<std::string> described;  // tags whose metadata is in the file
  std::set<std::string> run_tags;

  absl::Status Usable() const { return file ? absl::OkStatus() : FailedPrecondition(path, ": the writer is closed"); }
  absl::Status WriteLocked(const proto::Event& event) {
    TROUPE_RETURN_IF_ERROR(Usable());
    TROUPE_RETURN_IF_ERROR(file->Write(event));
    if (const auto now = Clock::now(); now - flushed >= flush_after) {
      flushed = now;
      return file->Flush();
    }
    return absl::OkStatus();
  }
};

FileWriter::FileWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FileWriter::~FileWriter() { Close().IgnoreError(); }

absl::StatusOr<std::unique_ptr<FileWriter>> FileWriter::Create(const std::string& folder,
                                                               const FileWriterOptions& options) {
  if (folder.empty()) return InvalidArgument("a FileWriter is given no folder");
  if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  auto impl = std::make_unique<Impl>();
  TROUPE_ASSIGN_OR_RETURN(impl->file, files::EventFileWriter::Create(files::Join(folder, "events"), options.suffix));
  impl->path = impl->file->path();
  impl->flush_after = std::chrono::duration<double>(options.flush_seconds);
  impl->flushed = Clock::now();
  return std::unique_ptr<FileWriter>(new FileWriter(std::move(impl)));
}

absl::Status FileWriter::AddSummary(std::string_view summary, int64_t step) {
  proto::Event event;
  event.set_step(step);
  if (!event.mutable_summary()->ParseFromString(std::string(summary))) {
    return InvalidArgument(path(), ": what is to be added is no Summary message");
  }
  std::lock_guard<std::mutex> lock(impl_->mu);
  std::set<std::string> described;
  for (proto::Summary::Value& value : *event.mutable_summary()->mutable_value()) {
    if (!value.has_metadata()) continue;
    if (impl_->described.contains(value.tag()) || !described.insert(value.tag()).second) value.clear_metadata();
  }
  TROUPE_RETURN_IF_ERROR(impl_->WriteLocked(event));
  impl_->described.merge(described);
  return absl::OkStatus();
}

absl::Status FileWriter::AddScalar(std::string_view tag, float value, int64_t step) {
  proto::Event event;
  event.set_step(step);
  proto::Summary::Value* const added = event.mutable_summary()->add_value();
  added->set_tag(std::string(tag));
  added->set_simple_value(value);
  std::lock_guard<std::mutex> lock(impl_->mu);
  return impl_->WriteLocked(event);
}

absl::Status FileWriter::AddGraph(const Graph& graph) {
  OnArena<proto::GraphDef> def;  // as in MetaGraphBytes
  ExportGraphDef(graph, def.get());
  proto::Event event;
  if (!def->SerializeToString(event.mutable_graph_def())) {
    return InvalidArgument(path(), ": a graph of 2 GiB or more");
  }
  std::lock_guard<std::mutex> lock(impl_->mu);
  return impl_->WriteLocked(event);
}

absl::Status FileWriter::AddSessionLog(SessionEvent what, int64_t step, std::string_view checkpoint_path,
                                       std::string_view message) {
  proto::Event event;
  event.set_step(step);
  proto::SessionLog* const log = event.mutable_session_log();
  log->set_status(static_cast<proto::SessionLog::SessionStatus>(what));
  log->set_checkpoint_path(std::string(checkpoint_path));
  log->set_msg(std::string(message));
  std::lock_guard<std::mutex> lock(impl_->mu);
  return impl_->WriteLocked(event);
}

absl::Status FileWriter::AddRunMetadata(const proto::RunMetadata& metadata, std::string_view tag, int64_t step) {
  proto::Event event;
  event.set_step(step);
  proto::TaggedRunMetadata* const tagged = event.mutable_tagged_run_metadata();
  tagged->set_tag(std::string(tag));
  if (!metadata.SerializeToString(tagged->mutable_run_metadata())) {
    return InvalidArgument(path(), ": metadata of 2 GiB or more");
  }
  std::lock_guard<std::mutex> lock(impl_->mu);
  if (impl_->run_tags.contains(tagged->tag())) {
    return AlreadyExists(path(), ": the tag '", CEscape(tag), "' has metadata of a run already");
  }
  TROUPE_RETURN_IF_ERROR(impl_->WriteLocked(event));
  impl_->run_tags.insert(tagged->tag());
  return absl::OkStatus();
}

absl::Status FileWriter::Flush() {
  std::lock_guard<std::mutex> lock(impl_->mu);
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  impl_->flushed = Clock::now();
  return impl_->file->Flush();
}

absl::Status FileWriter::Close() {
  std::lock_guard<std::mutex> lock(impl_->mu);
  if (impl_->file == nullptr) return absl::OkStatus();
  const absl::Status closed = impl_->file->Close();
  impl_->file = nullptr;
  return closed;
}

const std::string& FileWriter::path() const { return impl_->path; }

}  // namespace troupe::train
