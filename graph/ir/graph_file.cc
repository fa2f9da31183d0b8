// GraphDefs in files.
#include <algorithm>
#include <climits>
#include <filesystem>

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include "graph/core/read_file.h"
#include "troupe/files.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"

namespace troupe {
namespace {

// Keeps the first error instead of printing it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text.empty()) text = StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  std::string text;
};

// Text has no control characters but white space.
bool LooksLikeText(const std::string& bytes) {
  for (unsigned char c : bytes) {
    if (c < 32 && c != '\n' && c != '\t' && c != '\r') return false;
  }
  return true;
}

// What else the file may be, for messages; "" when nothing is known of it.
std::string OtherKind(const std::string& bytes, bool text) {
  constexpr std::string_view kMeta =
      "it is a MetaGraphDef, which train::ReadMetaGraph reads; its field graph_def is a GraphDef, and can be written "
      "to a file of its own";
  constexpr std::string_view kSaved =
      "it is a SavedModel; field graph_def of one of its meta_graphs is a GraphDef, and can be written to a file of "
      "its own";
  if (text) {
    // Its first field, behind comments.
    size_t at = 0;
    while ((at = bytes.find_first_not_of(" \t\r\n", at)) != std::string::npos && bytes[at] == '#')
      at = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view rest = at == std::string::npos ? std::string_view() : std::string_view(bytes).substr(at);
    if (rest.starts_with("saved_model_schema_version") || rest.starts_with("meta_graphs")) return std::string(kSaved);
    for (std::string_view field : {"meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def"}) {
      if (rest.starts_with(field)) return std::string(kMeta);
    }
    return "";
  }
  proto::SavedModel saved;
  if (saved.ParseFromString(bytes) && saved.meta_graphs_size() > 0 && saved.meta_graphs(0).has_graph_def())
    return std::string(kSaved);
  proto::MetaGraphDef meta;
  if (meta.ParseFromString(bytes) && meta.has_graph_def() && meta.graph_def().node_size() > 0)
    return std::string(kMeta);
  return "";
}

// The fields of another message may look like those of a GraphDef: then its nodes have no op, or
// there are none.
bool LooksLikeGraph(const proto::GraphDef& def) {
  for (const proto::NodeDef& n : def.node()) {
    if (n.op().empty() || n.name().empty()) return false;
  }
  return def.node_size() > 0;
}

// As ParseFromString, which prints what it finds wrong to stderr.
bool ParseQuietly(const std::string& bytes, proto::GraphDef* def) {
  const google::protobuf::LogSilencer silence;
  return def->ParseFromString(bytes);
}

}  // namespace

absl::Status ReadGraphDef(const std::string& path, proto::GraphDef* def) {
  if (def == nullptr) return InvalidArgument(path, ": ReadGraphDef is given no GraphDef to read it into");
  // Refused before it is read: it may be larger than the memory.
  std::error_code error;
  if (const uintmax_t size = std::filesystem::file_size(path, error); !error && size > INT_MAX)
    return InvalidArgument(path, ": the file has ", size, " bytes; the Protocol Buffers of a GraphDef end at ",
                           INT_MAX);
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes,
                          path.find("://") == std::string::npos ? ReadFile(path) : files::Read(path));
  if (bytes.size() > INT_MAX)
    return InvalidArgument(path, ": it has ", bytes.size(), " bytes; the Protocol Buffers of a GraphDef end at ",
                           INT_MAX);
  if (bytes.empty()) return InvalidArgument(path, ": the file is empty");
  if (LooksLikeText(bytes)) {
    FirstError first;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&first);
    parser.SetRecursionLimit(100);  // as for binary files: a nest of functions must not overflow the stack
    if (parser.ParseFromString(bytes, def)) return absl::OkStatus();
    // The binary form of a tiny graph may look like text too.
    if (ParseQuietly(bytes, def)) return absl::OkStatus();
    if (const std::string kind = OtherKind(bytes, true); !kind.empty())
      return InvalidArgument(path, ": not a GraphDef: ", kind);
    return InvalidArgument(path, ": not a GraphDef in text form: ", first.text);
  }
  const bool parsed = ParseQuietly(bytes, def);
  if (parsed && LooksLikeGraph(*def)) return absl::OkStatus();
  const google::protobuf::LogSilencer silence;
  if (const std::string kind = OtherKind(bytes, false); !kind.empty())
    return InvalidArgument(path, ": not a GraphDef: ", kind);
  if (parsed) return absl::OkStatus();
  return InvalidArgument(path, ": not a GraphDef in binary form (", bytes.size(),
                         " bytes, damaged or of another kind)");
}

}  // namespace troupe
