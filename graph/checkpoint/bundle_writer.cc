#include <algorithm>
#include <set>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "graph/checkpoint/slice_key.h"
#include "graph/files/coding.h"
#include "graph/files/crc32c.h"
#include "graph/files/temporary_name.h"

namespace troupe {

struct CheckpointWriter::Impl {
  std::string prefix, temporary_data, temporary_index;
  std::unique_ptr<files::WritableFile> data;
  BundleIndex index;
  uint64_t offset = 0;
  absl::Status failed;
  bool finished = false;

  absl::Status Put(std::string_view bytes) {
    absl::Status done = data->Append(bytes);
    if (!done.ok()) failed = done;
    offset += bytes.size();
    return done;
  }
  // The elements of a string tensor; the checksum, unmasked.
  absl::StatusOr<uint32_t> PutStrings(const Tensor& value) {
    std::string lengths;
    uint32_t crc = 0;
    for (const std::string& s : value.flat<std::string>()) {
      files::PutVarint(s.size(), &lengths);
      char number[8];
      files::StoreLittle<uint64_t>(s.size(), number);
      crc = files::Crc32c({number, s.size() <= std::numeric_limits<uint32_t>::max() ? size_t{4} : size_t{8}}, crc);
    }
    files::PutLittle(files::MaskCrc(crc), &lengths);
    crc = files::Crc32c(std::string_view(lengths).substr(lengths.size() - 4), crc);
    // Short strings in one call.
    for (const std::string& s : value.flat<std::string>()) {
      crc = files::Crc32c(s, crc);
      if (lengths.size() + s.size() > (size_t{1} << 18)) {
        TROUPE_RETURN_IF_ERROR(Put(lengths));
        lengths.clear();
      }
      if (s.size() > (size_t{1} << 18)) {
        TROUPE_RETURN_IF_ERROR(Put(s));
      } else {
        lengths += s;
      }
    }
    TROUPE_RETURN_IF_ERROR(Put(lengths));
    return crc;
  }
  absl::Status Add(const std::string& key, std::string_view name, const Tensor& value) {
    TROUPE_RETURN_IF_ERROR(failed);
    if (finished) return FailedPrecondition(prefix, ": the checkpoint is finished");
    if (!value.valid()) return InvalidArgument(prefix, ": the tensor '", CEscape(name), "' has no value");
    if (value.dtype() != DType::kString && !IsPlainBytes(value.dtype())) {
      return Unimplemented(prefix, ": the tensor '", CEscape(name), "' is a ", Name(value.dtype()),
                           ", which cannot be saved");
    }
    if (index.entries.contains(key)) {
      return AlreadyExists(prefix, ": the tensor '", CEscape(name), "' is given twice");
    }
    BundleEntry entry;
    entry.dtype = value.dtype();
    entry.shape = value.shape();
    entry.offset = offset;
    if (value.dtype() == DType::kString) {
      TROUPE_ASSIGN_OR_RETURN(const uint32_t crc, PutStrings(value));
      entry.crc = files::MaskCrc(crc);
    } else {
      // In pieces: the checksum and the copy into the system's cache read each from the
      // processor's.
      constexpr size_t kPiece = size_t{1} << 18;
      std::string_view bytes(static_cast<const char*>(value.raw()), value.bytes());
      uint32_t crc = 0;
      for (; !bytes.empty(); bytes.remove_prefix(std::min(kPiece, bytes.size()))) {
        const std::string_view piece = bytes.substr(0, kPiece);
        crc = files::Crc32c(piece, crc);
        TROUPE_RETURN_IF_ERROR(Put(piece));
      }
      entry.crc = files::MaskCrc(crc);
    }
    entry.size = offset - entry.offset;
    index.entries.emplace(key, std::move(entry));
    return absl::OkStatus();
  }
};

CheckpointWriter::CheckpointWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<CheckpointWriter>> CheckpointWriter::Create(const std::string& prefix) {
  if (files::NameOf(prefix).empty()) return InvalidArgument("'", CEscape(prefix), "' is no prefix of a checkpoint");
  const std::string folder = files::DirectoryOf(prefix);
  if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  auto impl = std::make_unique<Impl>();
  impl->prefix = prefix;
  impl->temporary_data = files::TemporaryName(prefix + ".data");
  impl->temporary_index = files::TemporaryName(IndexPath(prefix));
  TROUPE_ASSIGN_OR_RETURN(impl->data, files::OpenToWrite(impl->temporary_data));
  return std::unique_ptr<CheckpointWriter>(new CheckpointWriter(std::move(impl)));
}

CheckpointWriter::~CheckpointWriter() {
  if (impl_->finished) return;
  impl_->data = nullptr;
  (void)files::Delete(impl_->temporary_data);
  (void)files::Delete(impl_->temporary_index);
}

absl::Status CheckpointWriter::Add(std::string_view name, const Tensor& value) {
  if (name.empty() || IsSliceKey(name)) {
    return InvalidArgument(impl_->prefix, ": '", CEscape(name), "' cannot be the name of a tensor");
  }
  return impl_->Add(std::string(name), name, value);
}

absl::Status CheckpointWriter::AddSlice(std::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                                        const Tensor& value) {
  const std::string where = StrCat(impl_->prefix, ": the tensor '", CEscape(name), "'");
  absl::StatusOr<TensorSlice> box = slice.Within(full_shape);
  if (!box.ok()) return Annotate(box.status(), where);
  if (value.valid() && value.shape() != box->shape()) {
    return InvalidArgument(where, ": the slice '", slice.ToString(), "' of ", full_shape.DebugString(), " is given as ",
                           value.TypeAndShape());
  }
  if (slice.IsFull()) return Add(name, value);
  if (name.empty() || IsSliceKey(name)) {
    return InvalidArgument(impl_->prefix, ": '", CEscape(name), "' cannot be the name of a tensor");
  }
  const auto it = impl_->index.entries.find(name);
  if (it != impl_->index.entries.end()) {
    if (it->second.slices.empty()) return AlreadyExists(where, " is given as a whole and in slices");
    if (it->second.dtype != value.dtype() || it->second.shape != full_shape) {
      return InvalidArgument(where, " is ", Name(it->second.dtype), " ", it->second.shape.DebugString(),
                             " in one slice, and ", Name(value.dtype()), " ", full_shape.DebugString(), " in another");
    }
  }
  TROUPE_RETURN_IF_ERROR(impl_->Add(SliceKey(name, slice), name, value));
  BundleEntry& entry = impl_->index.entries[std::string(name)];
  entry.dtype = value.dtype();
  entry.shape = full_shape;
  entry.slices.push_back(slice);
  return absl::OkStatus();
}

absl::Status CheckpointWriter::Finish() {
  Impl& i = *impl_;
  TROUPE_RETURN_IF_ERROR(i.failed);
  if (i.finished) return FailedPrecondition(i.prefix, ": the checkpoint is finished");
  i.failed = FailedPrecondition(i.prefix, ": finishing the checkpoint has failed");
  TROUPE_RETURN_IF_ERROR(i.data->Sync());
  TROUPE_RETURN_IF_ERROR(i.data->Close());
  i.index.shards = ShardsBeside(i.prefix, 1);
  TROUPE_RETURN_IF_ERROR(i.index.Write(i.temporary_index));
  const std::string data = DataPath(i.prefix, 0, i.index.shards), folder = files::DirectoryOf(i.prefix);
  TROUPE_RETURN_IF_ERROR(files::Rename(i.temporary_data, data));
  // From here on the destructor does not find the data under its temporary name.
  i.temporary_data = data;
  TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
  TROUPE_RETURN_IF_ERROR(files::Rename(i.temporary_index, IndexPath(i.prefix)));
  i.finished = true;
  i.failed = absl::OkStatus();
  TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
  DeleteOtherData(i.prefix, i.index.shards);
  return absl::OkStatus();
}

absl::Status MergeCheckpoints(const std::vector<std::string>& parts, const std::string& destination,
                              const MergeOptions& options) {
  if (parts.empty()) return InvalidArgument(destination, ": there is nothing to merge");
  BundleIndex merged;
  struct Move {
    std::string from;
    int shard;
  };
  std::vector<Move> moves;
  std::vector<std::string> used;
  for (const std::string& part : parts) {
    absl::StatusOr<BundleIndex> index = BundleIndex::Read(part);
    if (options.allow_missing && absl::IsNotFound(index.status())) continue;
    if (!index.ok()) return index.status();
    used.push_back(part);
    std::set<int> shards;
    for (auto& [key, entry] : index->entries) {
      if (entry.slices.empty()) shards.insert(entry.shard);
    }
    std::map<int, int> number;
    for (const int shard : shards) {
      number[shard] = static_cast<int>(moves.size());
      moves.push_back({DataPath(part, shard, index->shards), static_cast<int>(moves.size())});
    }
    for (auto& [key, entry] : index->entries) {
      if (entry.slices.empty()) entry.shard = number[entry.shard];
      const auto [it, added] = merged.entries.try_emplace(key, entry);
      if (added) continue;
      BundleEntry& there = it->second;
      if (there.slices.empty() || entry.slices.empty()) {
        return InvalidArgument(destination, ": the tensor '", CEscape(key), "' is in more than one part");
      }
      if (there.dtype != entry.dtype || there.unknown_type != entry.unknown_type || there.shape != entry.shape) {
        return InvalidArgument(destination, ": the tensor '", CEscape(key), "' has different types or shapes in parts");
      }
      there.slices.insert(there.slices.end(), entry.slices.begin(), entry.slices.end());
    }
  }
  if (used.empty()) return NotFound(destination, ": none of the ", parts.size(), " parts to merge is there");
  const std::string folder = files::DirectoryOf(destination), index_name = files::TemporaryName(IndexPath(destination));
  if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  // A checkpoint without bytes has a data file, too.
  merged.shards = ShardsBeside(destination, std::max(1, static_cast<int>(moves.size())));
  const auto move = [&]() -> absl::Status {
    TROUPE_RETURN_IF_ERROR(merged.Write(index_name));
    for (const Move& m : moves) {
      TROUPE_RETURN_IF_ERROR(files::Rename(m.from, DataPath(destination, m.shard, merged.shards)));
    }
    TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
    return files::Rename(index_name, IndexPath(destination));
  };
  const absl::Status moved = move();
  if (!moved.ok()) {
    (void)files::Delete(index_name);
    return moved;
  }
  TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
  DeleteOtherData(destination, merged.shards);
  std::set<std::string> folders;
  for (const std::string& part : used) {
    if (part == destination) continue;
    (void)files::Delete(IndexPath(part));
    DeleteOtherData(part, 0);
    folders.insert(files::DirectoryOf(part));
  }
  folders.erase(folder);
  if (options.delete_old_folders) {
    for (const std::string& old : folders) (void)files::Delete(old);  // fails when something else is in it
  }
  return absl::OkStatus();
}

absl::Status DeleteCheckpoint(const std::string& prefix) {
  const absl::Status gone = files::Delete(IndexPath(prefix));
  if (!gone.ok() && !absl::IsNotFound(gone)) return gone;
  DeleteOtherData(prefix, 0);
  // One of the first format is the file itself, or the files that a pattern names.
  if (const size_t dash = ShardPattern(prefix); dash != std::string::npos) {
    const std::string folder = files::DirectoryOf(prefix), pattern = files::NameOf(prefix);
    const absl::StatusOr<std::vector<std::string>> names = files::List(folder);
    if (!names.ok()) return absl::IsNotFound(names.status()) ? absl::OkStatus() : names.status();
    const auto fits = [](char c, char p) { return c == p || (p == '?' && c >= '0' && c <= '9'); };
    for (const std::string& name : *names) {
      if (!std::equal(name.begin(), name.end(), pattern.begin(), pattern.end(), fits)) continue;
      TROUPE_RETURN_IF_ERROR(files::Delete(files::Join(folder, name)));
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<files::FileStat> file = files::Stat(prefix);
  return file.ok() && !file->is_directory ? files::Delete(prefix) : absl::OkStatus();
}

}  // namespace troupe
