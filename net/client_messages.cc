#include "net/client_messages.h"

#include <caf/binary_deserializer.hpp>

#include "actors/wire/wire.h"
#include "net/parcels.h"

namespace troupe {
namespace {

// As CAF reads a sequence of bytes, if that many are there and no more than `most`.
template <class Bytes>
caf::error ReadBytes(caf::deserializer& f, Bytes* bytes, size_t most) {
  size_t size = 0;
  if (caf::error e = f.begin_sequence(size)) return e;
  const auto* const binary = dynamic_cast<const caf::binary_deserializer*>(&f);
  if (size > most || (binary != nullptr && size > binary->remaining())) return caf::sec::invalid_argument;
  bytes->resize(size);
  if (size > 0) {
    if (caf::error e = f.apply_raw(size, bytes->data())) return e;
  }
  return f.end_sequence();
}

caf::error WriteBytes(caf::serializer& f, std::vector<char>& bytes) {
  size_t size = bytes.size();
  if (caf::error e = f.begin_sequence(size)) return e;
  if (size > 0) {
    if (caf::error e = f.apply_raw(size, bytes.data())) return e;
  }
  return f.end_sequence();
}

// The options that concern the server.
template <class Inspector>
caf::error Options(Inspector& f, SessionOptions& o) {
  return f(o.share_variables, o.allow_soft_placement, o.use_cost_model, o.fold_constants, o.merge_common_subexpressions,
           o.fuse, o.stall_report_ms, o.max_signatures, o.max_partial_runs, o.schedule_recvs, o.token_messages,
           o.check_kernels, o.wire_messages);
}

}  // namespace

absl::Status CanCross(const std::vector<const Tensor*>& tensors) {
  uint64_t bytes = 0;
  for (const Tensor* const t : tensors) {
    if (!t->valid()) continue;
    if (IsRef(t->dtype()) || t->dtype() == DType::kVariant || t->memory() != MemoryKind::kHost) {
      return InvalidArgument("a tensor of type ", Name(t->dtype()),
                             t->memory() != MemoryKind::kHost ? " in the memory of a device" : "",
                             " cannot be sent to another process");
    }
    if (t->dtype() == DType::kString) {
      for (int64_t i = 0; i < t->num_elements(); ++i) bytes += 4 + t->data<std::string>()[i].size();
    } else {
      bytes += t->bytes();
    }
  }
  if (bytes >= kMostBytesOfMessage)
    return InvalidArgument("tensors of ", bytes, " bytes are too much for one message, which has less than 2 GiB");
  return absl::OkStatus();
}

caf::error inspect(caf::serializer& f, open_session& x) {
  if (caf::error e = f(x.protocol, x.name)) return e;
  if (caf::error e = Options(f, x.options)) return e;
  return f(x.client);
}
caf::error inspect(caf::deserializer& f, open_session& x) {
  if (caf::error e = f(x.protocol)) return e;
  // The rest may have another form.
  if (x.protocol != kNetProtocol) return caf::none;
  if (caf::error e = ReadBytes(f, &x.name, kMostText)) return e;
  if (caf::error e = Options(f, x.options)) return e;
  return f(x.client);
}

caf::error inspect(caf::serializer& f, session_opened& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(status, x.task, x.lease_ms, x.desk);
}
caf::error inspect(caf::deserializer& f, session_opened& x) {
  wire::StatusFields status;
  if (caf::error e = f(status, x.task, x.lease_ms, x.desk)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

caf::error inspect(caf::serializer& f, extend_session& x) {
  if (caf::error e = f(x.call)) return e;
  return WriteBytes(f, x.graph);
}
caf::error inspect(caf::deserializer& f, extend_session& x) {
  if (caf::error e = f(x.call)) return e;
  return ReadBytes(f, &x.graph, size_t{1} << 31);
}

caf::error inspect(caf::serializer& f, parcel_piece& x) {
  auto kind = static_cast<uint8_t>(x.kind);
  if (caf::error e = f(x.call, kind, x.total)) return e;
  return WriteBytes(f, x.bytes);
}
caf::error inspect(caf::deserializer& f, parcel_piece& x) {
  uint8_t kind = 0;
  if (caf::error e = f(x.call, kind, x.total)) return e;
  if (kind > static_cast<uint8_t>(parcel_piece::Kind::kAnswer)) return caf::sec::invalid_argument;
  x.kind = static_cast<parcel_piece::Kind>(kind);
  return ReadBytes(f, &x.bytes, ParcelsOut::kPiece);
}

caf::error inspect(caf::serializer& f, session_over& x) { return wire::WriteStatus(f, x); }
caf::error inspect(caf::deserializer& f, session_over& x) { return wire::ReadStatus(f, &x); }

caf::error inspect(caf::serializer& f, ask_session& x) {
  auto what = static_cast<uint8_t>(x.what);
  return f(x.call, what);
}
caf::error inspect(caf::deserializer& f, ask_session& x) {
  uint8_t what = 0;
  if (caf::error e = f(x.call, what)) return e;
  if (what > static_cast<uint8_t>(ask_session::What::kSteps)) return caf::sec::invalid_argument;
  x.what = static_cast<ask_session::What>(what);
  return caf::none;
}

caf::error inspect(caf::serializer& f, call_answer& x) {
  if (caf::error e = f(x.call, x.reply, x.texts, x.partial_run)) return e;
  return WriteDevices(f, x.devices);
}
caf::error inspect(caf::deserializer& f, call_answer& x) {
  if (caf::error e = f(x.call, x.reply, x.texts, x.partial_run)) return e;
  return ReadDevices(f, &x.devices);
}

}  // namespace troupe
