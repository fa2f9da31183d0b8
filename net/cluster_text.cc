// Clusters as the text of Protocol Buffers.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "troupe/cluster.h"
#include "troupe/proto/cluster.pb.h"
#include "troupe/proto/server.pb.h"

namespace troupe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using Tree = TextFormat::ParseInfoTree;

absl::Status Wrong(int line, int column, std::string_view why) {
  if (line < 0) return InvalidArgument("cluster: ", why);
  return InvalidArgument("cluster, line ", line + 1, ", column ", column + 1, ": ", why);
}

// Keeps the first error.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (status_.ok()) status_ = Wrong(line, column, message);
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

absl::Status Parse(std::string_view text, Message* message, Tree* places) {
  TextFormat::Parser parser;
  FirstError errors;
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(places);
  parser.SetRecursionLimit(50);
  if (parser.ParseFromString(std::string(text), message)) return absl::OkStatus();
  return errors.status().ok() ? Wrong(-1, -1, "the text is not understood") : errors.status();
}

// The entries of a map in the order of the text, those that are there twice included, which the map
// itself would hide: by reflection a map is a list as long as nobody reads it as a map.
absl::Status AddJobs(const proto::ClusterDef& def, Tree* places, ClusterSpec* spec) {
  const FieldDescriptor* const jobs = def.GetDescriptor()->FindFieldByNumber(proto::ClusterDef::kJobFieldNumber);
  for (int i = 0; i < def.job_size(); ++i) {
    const proto::JobDef& job = def.job(i);
    Tree* const place = places == nullptr ? nullptr : places->GetTreeForNested(jobs, i);
    const FieldDescriptor* const tasks = job.GetDescriptor()->FindFieldByNumber(proto::JobDef::kTasksFieldNumber);
    const google::protobuf::Reflection* const r = job.GetReflection();
    for (int j = 0; j < i; ++j) {
      if (def.job(j).name() != job.name()) continue;
      const auto at = places == nullptr ? TextFormat::ParseLocation() : places->GetLocation(jobs, i);
      return Wrong(at.line, at.column, StrCat("job '", CEscape(job.name()), "' is given twice"));
    }
    for (int j = 0; j < r->FieldSize(job, tasks); ++j) {
      const Message& entry = r->GetRepeatedMessage(job, tasks, j);
      const auto* const key = entry.GetDescriptor()->FindFieldByNumber(1);
      const auto* const value = entry.GetDescriptor()->FindFieldByNumber(2);
      const absl::Status added = spec->Add({job.name(), entry.GetReflection()->GetInt32(entry, key)},
                                           entry.GetReflection()->GetString(entry, value));
      if (added.ok()) continue;
      const auto at = place == nullptr ? TextFormat::ParseLocation() : place->GetLocation(tasks, j);
      return Wrong(at.line, at.column, std::string_view(added.message().data(), added.message().size()));
    }
  }
  if (spec->empty()) return Wrong(-1, -1, "there is no task");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ClusterSpec> ClusterSpec::FromText(std::string_view text) {
  proto::ClusterDef def;
  Tree places;
  TROUPE_RETURN_IF_ERROR(Parse(text, &def, &places));
  ClusterSpec spec;
  TROUPE_RETURN_IF_ERROR(AddJobs(def, &places, &spec));
  return spec;
}

std::string ClusterSpec::ToText() const {
  std::string text, job;
  for (const auto& [task, address] : tasks_) {
    if (task.job != job) StrAppend(&text, job.empty() ? "" : "}\n", "job {\n  name: \"", task.job, "\"\n");
    job = task.job;
    StrAppend(&text, "  tasks { key: ", task.index, " value: \"", CEscape(address.ToString()), "\" }\n");
  }
  return text + (job.empty() ? "" : "}\n");
}

absl::StatusOr<ServerSpec> ServerSpecFromText(std::string_view text) {
  proto::ServerDef def;
  Tree places;
  TROUPE_RETURN_IF_ERROR(Parse(text, &def, &places));
  const FieldDescriptor* const cluster = def.GetDescriptor()->FindFieldByNumber(proto::ServerDef::kClusterFieldNumber);
  ServerSpec spec;
  TROUPE_RETURN_IF_ERROR(AddJobs(def.cluster(), places.GetTreeForNested(cluster, -1), &spec.cluster));
  spec.task = {def.job_name(), def.task_index()};
  const absl::StatusOr<HostPort> address = spec.cluster.AddressOf(spec.task);
  if (!address.ok()) return Annotate(address.status(), "job_name and task_index");
  return spec;
}

}  // namespace troupe
