#include <algorithm>
#include <cstring>

#include "graph/checkpoint/boxes.h"
#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/slice_key.h"
#include "graph/files/coding.h"
#include "graph/files/crc32c.h"

namespace troupe {

absl::StatusOr<std::unique_ptr<CheckpointReader>> BundleReader::Open(const std::string& prefix) {
  std::unique_ptr<BundleReader> r(new BundleReader());
  r->prefix_ = prefix;
  TROUPE_ASSIGN_OR_RETURN(r->index_, BundleIndex::Read(prefix));
  for (const auto& [key, entry] : r->index_.entries) {
    if (!IsSliceKey(key)) r->entries_.push_back({key, entry.dtype, entry.shape, entry.slices, entry.unknown_type});
  }
  return r;
}

absl::StatusOr<const BundleReader::Shard*> BundleReader::Data(int number) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (const auto it = data_.find(number); it != data_.end()) return &it->second;
  Shard shard;
  shard.path = DataPath(prefix_, number, index_.shards);
  TROUPE_ASSIGN_OR_RETURN(shard.file, files::OpenToRead(shard.path));
  TROUPE_ASSIGN_OR_RETURN(shard.size, shard.file->Size());
  return &data_.emplace(number, std::move(shard)).first->second;
}

absl::Status BundleReader::Damaged(const Shard& shard, std::string_view name, const BundleEntry& entry,
                                   std::string_view why) const {
  return DataLoss(shard.path, ": the tensor '", CEscape(name), "' (", entry.size, " bytes at byte ", entry.offset, ") ",
                  why);
}

absl::StatusOr<const BundleReader::Shard*> BundleReader::Locate(std::string_view name, const BundleEntry& entry) const {
  TROUPE_ASSIGN_OR_RETURN(const Shard* const shard, Data(entry.shard));
  if (entry.offset > shard->size || entry.size > shard->size - entry.offset) {
    return Damaged(*shard, name, entry, StrCat("lies beyond the end of the file, which has ", shard->size, " bytes"));
  }
  return shard;
}

absl::StatusOr<Tensor> BundleReader::ReadEntry(std::string_view name, const BundleEntry& entry,
                                               Allocator* allocator) const {
  if (!entry.slices.empty()) return DataLoss(prefix_, ": a slice of '", CEscape(name), "' has slices of its own");
  TROUPE_ASSIGN_OR_RETURN(const Shard* const shard, Locate(name, entry));
  if (entry.dtype == DType::kString) return ReadStrings(name, entry, *shard, allocator);
  if (!IsPlainBytes(entry.dtype)) {
    return Unimplemented(prefix_, ": the tensor '", CEscape(name), "' is a ", Name(entry.dtype),
                         ", which cannot be read");
  }
  const auto elements = static_cast<uint64_t>(entry.shape.num_elements());
  const size_t width = SizeOf(entry.dtype);
  if (elements > entry.size / width || elements * width != entry.size) {
    return Damaged(*shard, name, entry,
                   StrCat("has another size than ", Name(entry.dtype), " ", entry.shape.DebugString()));
  }
  Tensor out(allocator, entry.dtype, entry.shape);
  if (!out.valid()) return NoMemoryToRead(name, static_cast<size_t>(entry.size), *allocator);
  // The checksum of a piece is computed while its bytes are in the cache.
  constexpr uint64_t kPiece = uint64_t{1} << 18;
  uint32_t crc = 0;
  char* const bytes = static_cast<char*>(out.raw());
  for (uint64_t at = 0; at < entry.size;) {
    const auto piece = static_cast<size_t>(std::min(kPiece, entry.size - at));
    TROUPE_ASSIGN_OR_RETURN(const size_t got, shard->file->ReadAt(entry.offset + at, piece, bytes + at));
    if (got != piece) return Damaged(*shard, name, entry, "is cut off: the file became shorter while it was read");
    crc = files::Crc32c({bytes + at, piece}, crc);
    at += piece;
  }
  if (files::MaskCrc(crc) != entry.crc) return Damaged(*shard, name, entry, "has a wrong checksum");
  // A bool is 0 or 1 here, whatever another writer took for true.
  if (entry.dtype == DType::kBool) {
    for (uint64_t i = 0; i < entry.size; ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
  }
  return out;
}

absl::StatusOr<Tensor> BundleReader::ReadStrings(std::string_view name, const BundleEntry& entry, const Shard& shard,
                                                 Allocator* allocator) const {
  const auto elements = static_cast<uint64_t>(entry.shape.num_elements());
  if (elements > entry.size || entry.size - elements < 4) return Damaged(shard, name, entry, "is too short");
  std::string bytes;
  try {
    bytes.resize(static_cast<size_t>(entry.size));
  } catch (const std::exception&) {
    return ResourceExhausted("no memory for '", name, "', ", entry.size, " bytes");
  }
  TROUPE_ASSIGN_OR_RETURN(const size_t got, shard.file->ReadAt(entry.offset, bytes.size(), bytes.data()));
  if (got != bytes.size()) return Damaged(shard, name, entry, "is cut off: the file became shorter while it was read");
  std::string_view in = bytes;
  std::vector<uint64_t> lengths(static_cast<size_t>(elements));
  uint32_t crc = 0;
  uint64_t total = 0;
  for (uint64_t& length : lengths) {
    if (!files::GetVarint(&in, &length) || length > entry.size) {
      return Damaged(shard, name, entry, "has a damaged length of a string");
    }
    total += length;
    char number[8];
    files::StoreLittle(length, number);
    crc = files::Crc32c({number, length <= std::numeric_limits<uint32_t>::max() ? size_t{4} : size_t{8}}, crc);
  }
  if (in.size() < 4 || files::LoadLittle<uint32_t>(in.data()) != files::MaskCrc(crc)) {
    return Damaged(shard, name, entry, "has a wrong checksum of the lengths of its strings");
  }
  crc = files::Crc32c(in.substr(0, 4), crc);
  in.remove_prefix(4);
  if (total != in.size()) return Damaged(shard, name, entry, "has another size than its strings");
  if (files::MaskCrc(files::Crc32c(in, crc)) != entry.crc) {
    return Damaged(shard, name, entry, "has a wrong checksum");
  }
  Tensor out(allocator, DType::kString, entry.shape);
  if (!out.valid()) return ResourceExhausted("no memory for '", name, "', ", elements, " strings");
  std::string* to = out.data<std::string>();
  for (const uint64_t length : lengths) {
    (to++)->assign(in.substr(0, static_cast<size_t>(length)));
    in.remove_prefix(static_cast<size_t>(length));
  }
  return out;
}

absl::StatusOr<Tensor> BundleReader::ReadSlice(std::string_view name, const TensorSlice& slice) const {
  const auto it = IsSliceKey(name) ? index_.entries.end() : index_.entries.find(name);
  if (it == index_.entries.end()) return NotFound(prefix_, ": there is no tensor '", CEscape(name), "'");
  const BundleEntry& entry = it->second;
  if (entry.dtype == DType::kInvalid) return UnknownType(prefix_, name, entry.unknown_type);
  absl::StatusOr<TensorSlice> want = slice.Within(entry.shape);
  if (!want.ok()) return Annotate(want.status(), StrCat(prefix_, ": the tensor '", CEscape(name), "'"));
  if (entry.slices.empty()) {
    TROUPE_ASSIGN_OR_RETURN(const TensorSlice whole, TensorSlice::Full(entry.shape.rank()).Within(entry.shape));
    if (*want == whole) return ReadEntry(name, entry, allocator_);
    TROUPE_ASSIGN_OR_RETURN(const Tensor all, ReadEntry(name, entry, Allocator::Cpu()));
    Tensor out(allocator_, entry.dtype, want->shape());
    if (!out.valid()) return ResourceExhausted("no memory for a slice of '", name, "'");
    if (out.num_elements() > 0) CopyBox(*want, whole, all, *want, &out);
    return out;
  }
  // What the slices have must be in the files before memory is taken for all of them.
  std::vector<TensorSlice> boxes;
  std::vector<const BundleEntry*> kept;
  std::map<int, uint64_t> left;
  for (const TensorSlice& s : entry.slices) {
    const auto part = index_.entries.find(SliceKey(name, s));
    TROUPE_ASSIGN_OR_RETURN(TensorSlice box, s.Within(entry.shape));
    if (part == index_.entries.end()) {
      return DataLoss(prefix_, ": the slice '", s.ToString(), "' of '", CEscape(name), "' is missing");
    }
    const BundleEntry& p = part->second;
    if (p.dtype != entry.dtype || p.shape != box.shape()) {
      return DataLoss(prefix_, ": the slice '", s.ToString(), "' of '", CEscape(name), "' is ", Name(p.dtype), " ",
                      p.shape.DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(const Shard* const shard, Locate(name, p));
    const auto [bytes, first] = left.try_emplace(p.shard, shard->size);
    if (p.size > bytes->second) return Damaged(*shard, name, p, "has slices that share their bytes");
    bytes->second -= p.size;
    boxes.push_back(std::move(box));
    kept.push_back(&p);
  }
  absl::StatusOr<Tensor> all = Assemble(allocator_, entry.dtype, *want, boxes,
                                        [&](size_t i, Allocator* to) { return ReadEntry(name, *kept[i], to); });
  if (absl::IsInvalidArgument(all.status())) {
    return DataLoss(prefix_, ": the tensor '", CEscape(name), "': ", all.status().message());
  }
  return all;
}

}  // namespace troupe
