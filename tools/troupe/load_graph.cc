#include "tools/troupe/load_graph.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <filesystem>

#include "graph/core/read_file.h"
#include "troupe/import_export.h"
#include "troupe/op_def.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"

namespace troupe::tool {
namespace {

// Protocol Buffers has no longer messages.
constexpr uintmax_t kTooLong = uintmax_t{1} << 31;

// Bytes of another message often parse as some GraphDef; its nodes then have no op that exists.
bool HasKnownOps(const proto::GraphDef& def) {
  return std::any_of(def.node().begin(), def.node().end(),
                     [](const proto::NodeDef& n) { return OpRegistry::Global().Find(n.op()) != nullptr; });
}

template <class Message>
bool ParseAs(const std::string& bytes, Message* message) {
  if (message->ParseFromString(bytes)) return true;
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(100);
  return parser.ParseFromString(bytes, message);
}

// "" when it is none of what is known.
std::string WhatItIs(const std::string& bytes) {
  proto::MetaGraphDef meta;
  if (ParseAs(bytes, &meta) && HasKnownOps(meta.graph_def()))
    return "a MetaGraphDef, not a GraphDef; write its field graph_def to a file of its own";
  proto::SavedModel model;
  if (ParseAs(bytes, &model) && model.meta_graphs_size() > 0 && HasKnownOps(model.meta_graphs(0).graph_def()))
    return "a SavedModel, not a GraphDef; `troupe run` takes its folder, or write the field graph_def of one of its "
           "meta_graphs to a file of its own";
  return "";
}

}  // namespace

absl::Status LoadGraph(const std::string& path, proto::GraphDef* def) {
  // What is wrong is said once, by the status.
  google::protobuf::SetLogHandler(nullptr);
  std::error_code ignored;
  if (const uintmax_t size = std::filesystem::file_size(path, ignored); !ignored && size >= kTooLong) {
    return InvalidArgument(path, ": the file has ", static_cast<uint64_t>(size),
                           " bytes, but a GraphDef has less than 2 GiB (", static_cast<uint64_t>(kTooLong),
                           "): feed or assign large constants instead");
  }
  const absl::Status read = ReadGraphDef(path, def);
  if (read.code() == absl::StatusCode::kNotFound || (read.ok() && HasKnownOps(*def))) return read;
  // A pipe has been read, and a device may begin anew.
  if (!std::filesystem::is_regular_file(path, ignored)) return read;
  const auto bytes = ReadFile(path);
  if (!bytes.ok()) return read;
  if (const std::string what = WhatItIs(*bytes); !what.empty()) return InvalidArgument(path, ": ", what);
  return read;
}

}  // namespace troupe::tool
