// GraphDefs in files.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "troupe/graph/core/read_file.h"
#include "troupe/graph/ir/import_export.h"
#include "troupe/proto/graph.pb.h"

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

}  // namespace

absl::Status ReadGraphDef(const std::string& path, proto::GraphDef* def) {
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  if (bytes.empty()) return InvalidArgument(path, ": the file is empty");
  if (LooksLikeText(bytes)) {
    FirstError error;
    google::protobuf::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.SetRecursionLimit(100);  // as for binary files: a nest of functions must not overflow the stack
    if (parser.ParseFromString(bytes, def)) return absl::OkStatus();
    // The binary form of a tiny graph may look like text too.
    if (def->ParseFromString(bytes)) return absl::OkStatus();
    return InvalidArgument(path, ": not a GraphDef in text form: ", error.text);
  }
  if (def->ParseFromString(bytes)) return absl::OkStatus();
  return InvalidArgument(path, ": not a GraphDef in binary form (", bytes.size(),
                         " bytes, damaged or of another kind)");
}

}  // namespace troupe
