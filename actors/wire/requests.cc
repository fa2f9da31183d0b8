// The messages of users' actors.
#include <google/protobuf/stubs/logging.h>

#include "actors/wire/remote_messages.h"
#include "actors/wire/wire.h"
#include "troupe/proto/config.pb.h"

namespace troupe {

void AddMessageTypes(caf::actor_system_config* config) { config->add_message_types<caf::id_block::troupe>(); }

caf::error inspect(caf::serializer& f, resources_reset& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, resources_reset& x) { return wire::ReadStatus(f, &x); }
caf::error inspect(caf::serializer& f, memory_limit_set& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, memory_limit_set& x) { return wire::ReadStatus(f, &x); }
caf::error inspect(caf::serializer& f, resources_restored& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, resources_restored& x) { return wire::ReadStatus(f, &x); }

caf::error inspect(caf::serializer& f, resource_snapshot& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(status, x.entries);
}
caf::error inspect(caf::deserializer& f, resource_snapshot& x) {
  wire::StatusFields status;
  if (caf::error e = f(status, x.entries)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

caf::error inspect(caf::serializer& f, run_request& x) {
  RunOptions& o = x.options;
  return f(x.feeds, x.fetches, x.targets, o.timeout_ms, o.collect_stats, o.partition_graphs, o.check_numerics,
           o.numerics_folder);
}

caf::error inspect(caf::deserializer& f, run_request& x) {
  RunOptions& o = x.options;
  o.cancellation = nullptr;
  return f(x.feeds, x.fetches, x.targets, o.timeout_ms, o.collect_stats, o.partition_graphs, o.check_numerics,
           o.numerics_folder);
}

// In place of an answer that cannot cross its asker gets the reason; of a reply that it cannot
// write CAF sends an empty one.
caf::error inspect(caf::serializer& f, run_reply& x) {
  if (absl::Status crosses = CheckCross(x.outputs); !crosses.ok()) {
    run_reply reason{std::move(crosses), {}, nullptr};
    return inspect(f, reason);
  }
  wire::StatusFields status = wire::FieldsOf(x.status);
  bool has_metadata = x.metadata != nullptr;
  std::string metadata;
  if (has_metadata && !x.metadata->SerializeToString(&metadata)) return caf::sec::invalid_argument;
  return f(status, x.outputs, has_metadata, metadata);
}

caf::error inspect(caf::deserializer& f, run_reply& x) {
  wire::StatusFields status;
  bool has_metadata = false;
  std::string metadata;
  if (caf::error e = f(status, x.outputs, has_metadata, metadata)) return e;
  x.status = wire::StatusOf(status);
  x.metadata = has_metadata ? std::make_shared<proto::RunMetadata>() : nullptr;
  const google::protobuf::LogSilencer quiet;  // the error tells
  if (has_metadata && !x.metadata->ParseFromString(metadata)) return caf::sec::invalid_argument;
  return caf::none;
}

}  // namespace troupe
