#include <cstdio>
#include <limits>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/parse_message.h"
#include "graph/checkpoint/slice_key.h"
#include "troupe/import_export.h"
#include "troupe/proto/tensor_bundle.pb.h"

namespace troupe {
namespace {

// The version of the format, and the newest reader that a file may ask for.
constexpr int kVersion = 1;
constexpr int kMostShards = 1 << 20;

absl::Status ReadHeader(std::string_view value, const std::string& path, int* shards) {
  proto::BundleHeaderProto header;
  if (!ParseMessage(value, &header)) return DataLoss(path, ": the header of the checkpoint is damaged");
  if (header.endianness() != proto::BundleHeaderProto::LITTLE) {
    return Unimplemented(path, ": the checkpoint was written with the highest byte of numbers first");
  }
  if (header.version().min_consumer() > kVersion) {
    return Unimplemented(path, ": the checkpoint needs a reader of version ", header.version().min_consumer(),
                         "; this is version ", kVersion);
  }
  if (header.num_shards() < 1 || header.num_shards() > kMostShards) {
    return DataLoss(path, ": the header of the checkpoint tells of ", header.num_shards(), " data files");
  }
  *shards = header.num_shards();
  return absl::OkStatus();
}

absl::StatusOr<BundleEntry> ReadEntry(std::string_view value, int shards) {
  proto::BundleEntryProto p;
  if (!ParseMessage(value, &p)) return DataLoss("it cannot be parsed");
  BundleEntry entry;
  const int type = p.dtype();
  if (type <= 0 || type >= kRefOffset) return DataLoss("its type is impossible: ", type);
  // A type of a newer TensorFlow: the other tensors can be read.
  if (IsValidDType(type)) {
    entry.dtype = static_cast<DType>(type);
  } else {
    entry.unknown_type = type;
  }
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape shape, ShapeFromProto(p.shape()));
  if (!shape.IsFullyDefined()) return DataLoss("its shape is not known: ", shape.DebugString());
  entry.shape = shape.AsTensorShape();
  for (const auto& slice : p.slices()) {
    TROUPE_ASSIGN_OR_RETURN(TensorSlice s, SliceFromProto(slice));
    TROUPE_RETURN_IF_ERROR(s.Within(entry.shape).status());
    entry.slices.push_back(std::move(s));
  }
  if (!entry.slices.empty()) return entry;
  if (p.shard_id() < 0 || p.shard_id() >= shards || p.offset() < 0 || p.size() < 0) {
    return DataLoss("its place is impossible: data file ", p.shard_id(), ", byte ", p.offset(), ", ", p.size(),
                    " bytes");
  }
  entry.shard = p.shard_id();
  entry.offset = static_cast<uint64_t>(p.offset());
  entry.size = static_cast<uint64_t>(p.size());
  entry.crc = p.crc32c();
  return entry;
}

}  // namespace

std::string IndexPath(std::string_view prefix) { return StrCat(prefix, ".index"); }
std::string DataPath(std::string_view prefix, int shard, int shards) {
  char numbers[48];
  std::snprintf(numbers, sizeof(numbers), ".data-%05d-of-%05d", shard, shards);
  return StrCat(prefix, numbers);
}

absl::StatusOr<BundleIndex> BundleIndex::Read(const std::string& prefix) {
  const std::string path = IndexPath(prefix);
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<files::TableReader> table, files::TableReader::Open(path));
  BundleIndex index;
  TROUPE_RETURN_IF_ERROR(table->ForEach([&](std::string_view key, std::string_view value) -> absl::Status {
    if (key.empty()) return ReadHeader(value, path, &index.shards);
    if (index.shards == 0) return DataLoss(path, ": the header of the checkpoint is missing");
    absl::StatusOr<BundleEntry> entry = ReadEntry(value, index.shards);
    if (!entry.ok()) {
      return DataLoss(path, ": the entry of '", CEscape(key), "' is damaged: ", entry.status().message());
    }
    index.entries.emplace_hint(index.entries.end(), std::string(key), *std::move(entry));
    return absl::OkStatus();
  }));
  if (index.shards == 0) return DataLoss(path, ": the header of the checkpoint is missing");
  return index;
}

absl::Status BundleIndex::Write(const std::string& to) const {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<files::WritableFile> file, files::OpenToWrite(to));
  files::TableWriter table(file.get());
  proto::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.set_endianness(proto::BundleHeaderProto::LITTLE);
  header.mutable_version()->set_producer(kVersion);
  TROUPE_RETURN_IF_ERROR(table.Add("", header.SerializeAsString()));
  for (const auto& [key, entry] : entries) {
    proto::BundleEntryProto p;
    p.set_dtype(static_cast<proto::DataType>(static_cast<int>(entry.dtype) + entry.unknown_type));
    ShapeToProto(entry.shape, p.mutable_shape());
    for (const TensorSlice& slice : entry.slices) SliceToProto(slice, p.add_slices());
    if (entry.slices.empty()) {
      p.set_shard_id(entry.shard);
      p.set_offset(static_cast<int64_t>(entry.offset));
      p.set_size(static_cast<int64_t>(entry.size));
      p.set_crc32c(entry.crc);
    }
    TROUPE_RETURN_IF_ERROR(table.Add(key, p.SerializeAsString()));
  }
  TROUPE_RETURN_IF_ERROR(table.Finish());
  TROUPE_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<int> ShardsThere(const std::string& prefix) {
  const absl::StatusOr<BundleIndex> index = BundleIndex::Read(prefix);
  if (absl::IsNotFound(index.status())) return 0;
  if (!index.ok()) return index.status();
  return index->shards;
}

void DeleteData(const std::string& prefix, int shards) {
  const std::string folder = files::DirectoryOf(prefix), begin = files::NameOf(prefix) + ".data-";
  const absl::StatusOr<std::vector<std::string>> names = files::List(folder);
  if (!names.ok()) return;
  char number[16];
  std::snprintf(number, sizeof(number), "-of-%05d", shards);
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    if (!name->starts_with(begin)) continue;
    const std::string_view rest = std::string_view(*name).substr(begin.size());
    const size_t of = rest.find("-of-");
    if (of == 0 || of == std::string_view::npos || (shards != 0 && rest.substr(of) != number)) continue;
    if (rest.find_first_not_of("0123456789-of") != std::string_view::npos) continue;
    (void)files::Delete(files::Join(folder, *name));
  }
}

}  // namespace troupe
