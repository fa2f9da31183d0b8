// The bytes of a table. All numbers are little-endian; "handle" is offset and size, two varints.
//
//   block*           the data
//   block            without entries ("meta index")
//   block            the index: last key of a block (or one between it and the next) -> handle
//   footer           handle of the meta index, handle of the index, zeros up to 40 bytes,
//                    0xdb4775248b80fb57 (8 bytes)
//
// A block:
//
//   entry*           shared: varint, unshared: varint, length: varint, key bytes (unshared), value
//                    `shared` bytes of the key are those of the entry before
//   restarts         offsets of entries whose `shared` is 0: 4 bytes each, then their number, 4 bytes
//   type             1 byte: 0 plain, 1 Snappy
//   checksum         4 bytes, masked CRC32C of all before. A handle's size is without these five
#include "graph/files/table.h"

#include <algorithm>

#include "graph/files/coding.h"
#include "graph/files/crc32c.h"
#include "graph/files/snappy.h"

namespace troupe::files {
namespace {

constexpr uint64_t kMagic = 0xdb4775248b80fb57u;
constexpr uint64_t kFooter = 48, kTrailer = 5;
constexpr size_t kBlockSize = size_t{1} << 18;
constexpr int kRestartInterval = 16;
// Writers share prefixes of names. A file whose keys are so many times longer than itself was made
// to keep its reader busy.
constexpr uint64_t kMostKeyBytesPerByte = 256;

std::string Handle(uint64_t offset, uint64_t size) {
  std::string handle;
  PutVarint(offset, &handle);
  PutVarint(size, &handle);
  return handle;
}

}  // namespace

void TableWriter::Block::Add(std::string_view key, std::string_view value, int restart_interval) {
  size_t shared = 0;
  if (entries > 0 && since_restart < restart_interval) {
    const size_t most = std::min(key.size(), last_key.size());
    while (shared < most && key[shared] == last_key[shared]) ++shared;
  } else {
    restarts.push_back(static_cast<uint32_t>(bytes.size()));
    since_restart = 0;
  }
  PutVarint(shared, &bytes);
  PutVarint(key.size() - shared, &bytes);
  PutVarint(value.size(), &bytes);
  bytes.append(key.substr(shared)).append(value);
  last_key.assign(key);
  ++since_restart;
  ++entries;
}

std::string TableWriter::Block::Take() {
  if (restarts.empty()) restarts.push_back(0);
  for (const uint32_t r : restarts) PutLittle(r, &bytes);
  PutLittle(static_cast<uint32_t>(restarts.size()), &bytes);
  std::string out = std::move(bytes);
  *this = Block();
  return out;
}

absl::StatusOr<std::string> TableWriter::Put(std::string block) {
  const std::string handle = Handle(offset_, block.size());
  block.push_back('\0');
  PutLittle(MaskCrc(Crc32c(block)), &block);
  TROUPE_RETURN_IF_ERROR(file_->Append(block));
  offset_ += block.size();
  return handle;
}

absl::Status TableWriter::EndBlock() {
  const std::string last = data_.last_key;
  TROUPE_ASSIGN_OR_RETURN(const std::string handle, Put(data_.Take()));
  index_.Add(last, handle, /*restart_interval=*/1);
  return absl::OkStatus();
}

absl::Status TableWriter::Add(std::string_view key, std::string_view value) {
  if (any_ && key <= last_key_) {
    return InvalidArgument("the key '", CEscape(key), "' of a table comes after '", CEscape(last_key_), "'");
  }
  any_ = true;
  last_key_.assign(key);
  data_.Add(key, value, kRestartInterval);
  return data_.bytes.size() >= kBlockSize ? EndBlock() : absl::OkStatus();
}

absl::Status TableWriter::Finish() {
  if (data_.entries > 0) TROUPE_RETURN_IF_ERROR(EndBlock());
  TROUPE_ASSIGN_OR_RETURN(const std::string meta, Put(Block().Take()));
  TROUPE_ASSIGN_OR_RETURN(const std::string index, Put(index_.Take()));
  std::string footer = meta + index;
  footer.resize(kFooter - 8);
  PutLittle(kMagic, &footer);
  return file_->Append(footer);
}

absl::Status TableReader::Damaged(std::string_view why, uint64_t offset) const {
  return DataLoss(path_, ": ", why, " (at byte ", offset, ")");
}

absl::StatusOr<std::string> TableReader::ReadBlock(uint64_t offset, uint64_t size) const {
  if (offset > size_ || size_ - offset < kTrailer || size > size_ - offset - kTrailer) {
    return Damaged("a block of the table lies beyond the file's end", offset);
  }
  std::string block;
  try {
    block.resize(static_cast<size_t>(size + kTrailer));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(path_, ": no memory for a block of ", size, " bytes");
  }
  TROUPE_ASSIGN_OR_RETURN(const size_t got, file_->ReadAt(offset, block.size(), block.data()));
  if (got != block.size()) return Damaged("the file became shorter while it was read", offset);
  const auto stored = LoadLittle<uint32_t>(block.data() + size + 1);
  block.resize(static_cast<size_t>(size + 1));
  if (UnmaskCrc(stored) != Crc32c(block)) return Damaged("the checksum of a block is wrong", offset);
  const char type = block.back();
  block.pop_back();
  if (type == 0) return block;
  if (type != 1) return Damaged(StrCat("a block is compressed in an unknown way, ", static_cast<int>(type)), offset);
  absl::StatusOr<std::string> plain = Unsnappy(block);
  if (!plain.ok()) return Damaged(StrPiece(plain.status().message()).view(), offset);
  return plain;
}

absl::Status TableReader::EachOf(std::string_view block, uint64_t at, uint64_t* key_bytes,
                                 const std::function<absl::Status(std::string_view, std::string_view)>& each) const {
  if (block.size() < 4) return Damaged("a block is too short", at);
  const auto restarts = LoadLittle<uint32_t>(block.data() + block.size() - 4);
  if (restarts > (block.size() - 4) / 4) return Damaged("a block has more restarts than bytes", at);
  std::string_view in = block.substr(0, block.size() - 4 - 4 * static_cast<size_t>(restarts));
  std::string key;
  bool first = true;
  while (!in.empty()) {
    uint64_t shared, unshared, length;
    if (!GetVarint(&in, &shared) || !GetVarint(&in, &unshared) || !GetVarint(&in, &length) || shared > key.size() ||
        unshared > in.size() || length > in.size() - unshared) {
      return Damaged("an entry of a block is cut off", at);
    }
    const std::string_view tail = in.substr(0, static_cast<size_t>(unshared));
    // Also against an entry that shares all of a key and adds nothing.
    if (!first && tail <= std::string_view(key).substr(static_cast<size_t>(shared))) {
      return Damaged("the keys of a block are not in order", at);
    }
    first = false;
    key.resize(static_cast<size_t>(shared));
    key.append(tail);
    *key_bytes += key.size();
    if (*key_bytes > kMostKeyBytesPerByte * (size_ + 4096)) return Damaged("its keys are too long for its size", at);
    in.remove_prefix(static_cast<size_t>(unshared));
    TROUPE_RETURN_IF_ERROR(each(key, in.substr(0, static_cast<size_t>(length))));
    in.remove_prefix(static_cast<size_t>(length));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TableReader>> TableReader::Open(const std::string& path) {
  std::unique_ptr<TableReader> t(new TableReader());
  t->path_ = path;
  TROUPE_ASSIGN_OR_RETURN(t->file_, OpenToRead(path));
  TROUPE_ASSIGN_OR_RETURN(t->size_, t->file_->Size());
  if (t->size_ < kFooter) return t->Damaged("it is no table: it is too short", t->size_);
  char footer[kFooter];
  const uint64_t at = t->size_ - kFooter;
  TROUPE_ASSIGN_OR_RETURN(const size_t got, t->file_->ReadAt(at, kFooter, footer));
  if (got != kFooter) return t->Damaged("the file became shorter while it was read", at);
  if (LoadLittle<uint64_t>(footer + kFooter - 8) != kMagic) {
    return t->Damaged("it is no table, or its end is missing: its last bytes are not a table's", at);
  }
  std::string_view handles(footer, kFooter - 8);
  uint64_t meta_offset, meta_size, offset, size;
  if (!GetVarint(&handles, &meta_offset) || !GetVarint(&handles, &meta_size) || !GetVarint(&handles, &offset) ||
      !GetVarint(&handles, &size)) {
    return t->Damaged("its end is damaged", at);
  }
  TROUPE_ASSIGN_OR_RETURN(const std::string index, t->ReadBlock(offset, size));
  uint64_t key_bytes = 0, end = 0;
  TROUPE_RETURN_IF_ERROR(
      t->EachOf(index, offset, &key_bytes, [&](std::string_view key, std::string_view value) -> absl::Status {
        Part part;
        if (!GetVarint(&value, &part.offset) || !GetVarint(&value, &part.size) || part.offset < end ||
            part.size > t->size_ || part.offset > t->size_) {
          return t->Damaged("the index of its blocks is damaged", offset);
        }
        part.last_key.assign(key);
        end = part.offset + part.size + kTrailer;
        t->parts_.push_back(std::move(part));
        return absl::OkStatus();
      }));
  return t;
}

absl::StatusOr<std::optional<std::string>> TableReader::Find(std::string_view key) const {
  const auto part = std::lower_bound(parts_.begin(), parts_.end(), key, [](const Part& p, std::string_view k) {
    return std::string_view(p.last_key) < k;
  });
  std::optional<std::string> found;
  if (part == parts_.end()) return found;
  TROUPE_ASSIGN_OR_RETURN(const std::string block, ReadBlock(part->offset, part->size));
  uint64_t key_bytes = 0;
  TROUPE_RETURN_IF_ERROR(
      EachOf(block, part->offset, &key_bytes, [&](std::string_view k, std::string_view value) -> absl::Status {
        if (k == key) found.emplace(value);
        return absl::OkStatus();
      }));
  return found;
}

absl::Status TableReader::ForEach(
    const std::function<absl::Status(std::string_view key, std::string_view value)>& each) const {
  uint64_t key_bytes = 0;
  std::string last;
  bool first = true;
  for (const Part& part : parts_) {
    TROUPE_ASSIGN_OR_RETURN(const std::string block, ReadBlock(part.offset, part.size));
    TROUPE_RETURN_IF_ERROR(
        EachOf(block, part.offset, &key_bytes, [&](std::string_view key, std::string_view value) -> absl::Status {
          if (!first && key <= last) return Damaged("its keys are not in order", part.offset);
          first = false;
          last.assign(key);
          return each(key, value);
        }));
  }
  return absl::OkStatus();
}

}  // namespace troupe::files
