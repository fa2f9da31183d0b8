// Checkpoints of the second format ("bundles"), as reader, writer and merger see their files.
//
// PREFIX.index is a table (graph/files/table.h): the empty key has a BundleHeaderProto, the name of
// each tensor a BundleEntryProto, and the key of each slice (slice_key.h) another one.
// PREFIX.data-SHARD-of-SHARDS holds the bytes that entries name by shard, offset and size:
//
//   numbers    the elements, row-major, little-endian
//   strings    the length of each, a varint; the checksum of the lengths, 4 bytes, masked; the bytes.
//              Checksums count lengths as numbers of 4 bytes (8 where they need them), little-endian
//
// Thread rule: a BundleReader may be used by any number of threads at once. Of the functions that
// write and delete, one thread at a time calls those of one prefix (prefix_claim.h).
#ifndef TROUPE_GRAPH_CHECKPOINT_BUNDLE_H_
#define TROUPE_GRAPH_CHECKPOINT_BUNDLE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/files/table.h"
#include "troupe/checkpoint.h"
#include "troupe/files.h"

namespace troupe {

namespace proto {
class BundleEntryProto;
}

struct BundleEntry {
  DType dtype = DType::kInvalid;
  int unknown_type = 0;  // as CheckpointReader::Entry's
  TensorShape shape;
  int shard = 0;
  uint64_t offset = 0, size = 0;
  uint32_t crc = 0;  // masked
  std::vector<TensorSlice> slices;
};

// An index, read and checked. The keys of slices begin with a zero byte, names do not.
struct BundleIndex {
  int shards = 0;
  std::map<std::string, BundleEntry, std::less<>> entries;

  static absl::StatusOr<BundleIndex> Read(const std::string& prefix);
  // Writes the index of `prefix` under its temporary name `to`, synced.
  absl::Status Write(const std::string& to) const;
};
inline bool IsSliceKey(std::string_view key) { return !key.empty() && key[0] == '\0'; }

std::string IndexPath(std::string_view prefix);
std::string DataPath(std::string_view prefix, int shard, int shards);
// How many shards the index of `prefix` names: 0 when there is none.
absl::StatusOr<int> ShardsThere(const std::string& prefix);
// The data files of a checkpoint of so many shards are deleted, as far as that goes, the first one
// last: as long as it is there, no writer takes the number. 0: those of any number.
void DeleteData(const std::string& prefix, int shards);

class BundleReader : public CheckpointReader {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& prefix);
  absl::StatusOr<Tensor> ReadSlice(std::string_view name, const TensorSlice& slice) const override;
  int format() const override { return 2; }

 private:
  struct Shard {
    std::string path;
    std::unique_ptr<files::ReadableFile> file;
    uint64_t size = 0;
  };
  BundleReader() = default;
  absl::StatusOr<const Shard*> Data(int shard) const;
  // Where the bytes lie. DATA_LOSS when they cannot be there.
  absl::StatusOr<const Shard*> Locate(std::string_view name, const BundleEntry& entry) const;
  absl::StatusOr<Tensor> ReadEntry(std::string_view name, const BundleEntry& entry, Allocator* allocator) const;
  absl::StatusOr<Tensor> ReadStrings(std::string_view name, const BundleEntry& entry, const Shard& shard,
                                     Allocator* allocator) const;
  absl::Status Damaged(const Shard& shard, std::string_view name, const BundleEntry& entry, std::string_view why) const;

  std::string prefix_;
  BundleIndex index_;
  mutable std::mutex mu_;
  mutable std::map<int, Shard> data_;  // opened when first needed
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_BUNDLE_H_
