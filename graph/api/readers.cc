#include "troupe/readers.h"

#include "troupe/emit.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

// A reader whose handle is a reference asks a queue by one, too.
Output QueueFor(const ScopeAt& at, const Output& reader, const Queue& names) {
  const Output handle = names.handle();
  if (!IsRef(reader.dtype()) || IsRef(handle.dtype())) return handle;
  return EmitOp(at, "FakeQueue", {handle}).output(0);
}

Output Make(const ScopeAt& at, const char* op, const ReaderOptions& options, AttrMap more = {}) {
  if (!options.container.empty()) more.Set("container", options.container);
  if (!options.shared_name.empty()) more.Set("shared_name", options.shared_name);
  return EmitOp(at, op, {}, std::move(more)).output(0);
}

}  // namespace

Reader Reader::WholeFiles(const ScopeAt& at, const ReaderOptions& options) {
  return Reader(Make(at, "WholeFileReaderV2", options));
}

Reader Reader::TextLines(const ScopeAt& at, int64_t skip_header_lines, const ReaderOptions& options) {
  AttrMap attrs;
  attrs.Set("skip_header_lines", skip_header_lines);
  return Reader(Make(at, "TextLineReaderV2", options, std::move(attrs)));
}

Reader Reader::FixedLength(const ScopeAt& at, const Fixed& layout, const ReaderOptions& options) {
  AttrMap attrs;
  attrs.Set("record_bytes", layout.record_bytes);
  attrs.Set("header_bytes", layout.header_bytes);
  attrs.Set("footer_bytes", layout.footer_bytes);
  attrs.Set("hop_bytes", layout.hop_bytes);
  attrs.Set("encoding", layout.encoding);
  return Reader(Make(at, "FixedLengthRecordReaderV2", options, std::move(attrs)));
}

Reader Reader::Records(const ScopeAt& at, const std::string& compression, const ReaderOptions& options) {
  AttrMap attrs;
  attrs.Set("compression_type", compression);
  return Reader(Make(at, "TFRecordReaderV2", options, std::move(attrs)));
}

Reader Reader::Lmdb(const ScopeAt& at, const ReaderOptions& options) { return Reader(Make(at, "LMDBReader", options)); }

Reader Reader::Identity(const ScopeAt& at, const ReaderOptions& options) {
  return Reader(Make(at, "IdentityReaderV2", options));
}

Reader Reader::Of(const Output& handle) { return Reader(handle); }

// Ops on a reference have names of their own.
std::string Reader::Op(std::string_view op) const { return StrCat(op, IsRef(handle_.dtype()) ? "" : "V2"); }

std::pair<Output, Output> Reader::Read(const ScopeAt& at, const Queue& names) const {
  const Operation op = EmitOp(at, Op("ReaderRead"), {handle_, QueueFor(at, handle_, names)});
  return {op.output(0), op.output(1)};
}

std::pair<Output, Output> Reader::ReadUpTo(const ScopeAt& at, const Queue& names, const Input& n) const {
  const Operation op = EmitOp(at, Op("ReaderReadUpTo"), {handle_, QueueFor(at, handle_, names), n});
  return {op.output(0), op.output(1)};
}

Output Reader::NumRecordsProduced(const ScopeAt& at) const {
  return EmitOp(at, Op("ReaderNumRecordsProduced"), {handle_}).output(0);
}
Output Reader::NumWorkUnitsCompleted(const ScopeAt& at) const {
  return EmitOp(at, Op("ReaderNumWorkUnitsCompleted"), {handle_}).output(0);
}
Output Reader::SerializeState(const ScopeAt& at) const {
  return EmitOp(at, Op("ReaderSerializeState"), {handle_}).output(0);
}
Operation Reader::RestoreState(const ScopeAt& at, const Input& state) const {
  return EmitOp(at, Op("ReaderRestoreState"), {handle_, state});
}
Operation Reader::Reset(const ScopeAt& at) const { return EmitOp(at, Op("ReaderReset"), {handle_}); }

}  // namespace troupe
