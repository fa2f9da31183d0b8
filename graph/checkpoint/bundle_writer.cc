#include <algorithm>
#include <set>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "graph/checkpoint/prefix_claim.h"
#include "graph/checkpoint/slice_key.h"
#include "graph/core/guarded.h"
#include "graph/files/coding.h"
#include "graph/files/crc32c.h"
#include "graph/files/temporary_name.h"

namespace troupe {

struct CheckpointWriter::Impl {
  explicit Impl(const std::string& p)
      : prefix(p),
        temporary_data(files::TemporaryName(p + ".data")),
        temporary_index(files::TemporaryName(IndexPath(p))),
        claim(p) {}
  const std::string prefix, temporary_data, temporary_index;
  PrefixClaim claim;
  std::string renamed_data;  // the data's name in the checkpoint, from when it is to get it
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
  // First: it deletes the file that is made.
  std::unique_ptr<CheckpointWriter> writer(new CheckpointWriter(std::make_unique<Impl>(prefix)));
  Impl& impl = *writer->impl_;
  TROUPE_ASSIGN_OR_RETURN(impl.data, files::OpenToWrite(impl.temporary_data));
  return writer;
}

CheckpointWriter::~CheckpointWriter() {
  if (impl_->finished) return;
  // An exception may be on its way already.
  (void)Guarded("deleting the files of a checkpoint that is not finished", [this] {
    impl_->data = nullptr;
    (void)files::Delete(impl_->temporary_data);
    (void)files::Delete(impl_->temporary_index);
    if (!impl_->renamed_data.empty()) (void)files::Delete(impl_->renamed_data);
  });
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

absl::Status CheckpointWriter::Finish(const std::function<bool()>& cancelled) {
  Impl& i = *impl_;
  TROUPE_RETURN_IF_ERROR(i.failed);
  if (i.finished) return FailedPrecondition(i.prefix, ": the checkpoint is finished");
  i.failed = FailedPrecondition(i.prefix, ": finishing the checkpoint has failed");
  TROUPE_RETURN_IF_ERROR(i.data->Sync());
  TROUPE_RETURN_IF_ERROR(i.data->Close());
  const std::string folder = files::DirectoryOf(i.prefix);
  // A disk may take its time to sync; a newer writer does not wait for that.
  TROUPE_RETURN_IF_ERROR(i.claim.IfNewest(cancelled, [&] {
    i.index.shards = i.claim.TakeShards(1);
    i.renamed_data = DataPath(i.prefix, 0, i.index.shards);
    return files::Rename(i.temporary_data, i.renamed_data);
  }));
  TROUPE_RETURN_IF_ERROR(i.index.Write(i.temporary_index));
  TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
  int replaced = 0;
  const absl::Status named = i.claim.IfNewest(cancelled, [&] {
    replaced = ShardsThere(i.prefix).value_or(0);
    // An error, or an exception, does not mean that the index has not got its name, and then the
    // data belong to it.
    std::string data;
    data.swap(i.renamed_data);
    const absl::Status renamed = files::Rename(i.temporary_index, IndexPath(i.prefix));
    if (!renamed.ok()) {
      const absl::StatusOr<int> there = ShardsThere(i.prefix);
      if (there.ok() && *there != i.index.shards) data.swap(i.renamed_data);
    } else {
      i.claim.ShardsAreNamed();
    }
    return renamed;
  });
  TROUPE_RETURN_IF_ERROR(named);
  i.finished = true;
  i.failed = absl::OkStatus();
  TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder));
  i.claim.DeleteReplaced(replaced);
  return absl::OkStatus();
}

namespace {

// One merge: reads the parts' indices, moves their data files, names the whole, deletes the parts.
class Merge {
 public:
  Merge(const std::vector<std::string>& parts, const std::string& destination, const MergeOptions& options)
      : parts_(parts),
        destination_(destination),
        folder_(files::DirectoryOf(destination)),
        index_name_(files::TemporaryName(IndexPath(destination))),
        options_(options),
        claim_(destination) {
    for (const std::string& part : parts) {
      if (part != destination) others_.try_emplace(part, part);
    }
  }

  absl::Status Run() {
    for (const std::string& part : parts_) TROUPE_RETURN_IF_ERROR(Read(part));
    if (used_.empty()) return NotFound(destination_, ": none of the ", parts_.size(), " parts to merge is there");
    if (!files::Exists(folder_)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder_));
    if (absl::Status moved = Guarded("merging a checkpoint", [this] { return MoveAll(); }); !moved.ok()) {
      MoveBack();
      return moved;
    }
    TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder_));
    claim_.DeleteReplaced(replaced_);
    DeleteParts();
    return absl::OkStatus();
  }

 private:
  // Of one data file, which becomes number `shard` of the whole.
  struct Move {
    const std::string* part;
    std::string from;
    int shard;
    bool tried = false;
  };

  // Adds the entries and data files of one part.
  absl::Status Read(const std::string& part) {
    absl::StatusOr<BundleIndex> index = BundleIndex::Read(part);
    if (options_.allow_missing && absl::IsNotFound(index.status())) return absl::OkStatus();
    if (!index.ok()) return index.status();
    used_.push_back(part);
    std::set<int> shards;
    for (auto& [key, entry] : index->entries) {
      if (entry.slices.empty()) shards.insert(entry.shard);
    }
    std::map<int, int> number;
    for (const int shard : shards) {
      number[shard] = static_cast<int>(moves_.size());
      moves_.push_back({&part, DataPath(part, shard, index->shards), static_cast<int>(moves_.size())});
    }
    for (auto& [key, entry] : index->entries) {
      if (entry.slices.empty()) entry.shard = number[entry.shard];
      const auto [it, added] = merged_.entries.try_emplace(key, entry);
      if (added) continue;
      BundleEntry& there = it->second;
      if (there.slices.empty() || entry.slices.empty()) {
        return InvalidArgument(destination_, ": the tensor '", CEscape(key), "' is in more than one part");
      }
      if (there.dtype != entry.dtype || there.unknown_type != entry.unknown_type || there.shape != entry.shape) {
        return InvalidArgument(destination_, ": the tensor '", CEscape(key),
                               "' has different types or shapes in parts");
      }
      there.slices.insert(there.slices.end(), entry.slices.begin(), entry.slices.end());
    }
    return absl::OkStatus();
  }

  bool IsNewest(const std::string& part) const { return part == destination_ || others_.at(part).newest(); }

  absl::Status MoveAll() {
    TROUPE_RETURN_IF_ERROR(claim_.IfNewest(options_.cancelled, [&] {
      // A checkpoint without bytes has a data file, too.
      merged_.shards = claim_.TakeShards(std::max(1, static_cast<int>(moves_.size())));
      return absl::OkStatus();
    }));
    TROUPE_RETURN_IF_ERROR(merged_.Write(index_name_));
    for (Move& m : moves_) {
      TROUPE_RETURN_IF_ERROR(claim_.IfNewest(options_.cancelled, [&]() -> absl::Status {
        if (!IsNewest(*m.part)) {
          return absl::AbortedError(StrCat(*m.part, ": the part is being written again in this process"));
        }
        m.tried = true;
        return files::Rename(m.from, DataPath(destination_, m.shard, merged_.shards));
      }));
    }
    TROUPE_RETURN_IF_ERROR(files::SyncDirectory(folder_));
    return claim_.IfNewest(options_.cancelled, [&] {
      replaced_ = ShardsThere(destination_).value_or(0);
      named_ = true;  // an exception does not tell
      const absl::Status renamed = files::Rename(index_name_, IndexPath(destination_));
      if (!renamed.ok()) {
        const absl::StatusOr<int> there = ShardsThere(destination_);
        named_ = !there.ok() || *there == merged_.shards;
      } else {
        claim_.ShardsAreNamed();
      }
      return renamed;
    });
  }

  // So that the parts can be merged again. What cannot be done is left out.
  void MoveBack() {
    (void)Guarded("deleting the index of a merge", [this] { (void)files::Delete(index_name_); });
    for (const Move& m : moves_) {
      if (!m.tried || named_) continue;
      (void)Guarded("moving back a part", [&] {
        if (files::Exists(m.from)) return;
        const std::string to = DataPath(destination_, m.shard, merged_.shards);
        (void)(IsNewest(*m.part) ? files::Rename(to, m.from) : files::Delete(to));
      });
    }
  }

  void DeleteParts() {
    std::set<std::string> folders;
    for (const std::string& part : used_) {
      if (part == destination_) continue;
      (void)others_.at(part).IfNewest({}, [&] {
        (void)files::Delete(IndexPath(part));
        DeleteData(part, 0);
        return absl::OkStatus();
      });
      folders.insert(files::DirectoryOf(part));
    }
    folders.erase(folder_);
    if (!options_.delete_old_folders) return;
    for (const std::string& old : folders) (void)files::Delete(old);  // fails when something else is in it
  }

  const std::vector<std::string>& parts_;
  const std::string& destination_;
  const std::string folder_, index_name_;
  const MergeOptions& options_;
  PrefixClaim claim_;
  // Of a part that is written anew meanwhile nothing is moved or deleted.
  std::map<std::string, PrefixClaim> others_;
  BundleIndex merged_;
  std::vector<Move> moves_;
  std::vector<std::string> used_;
  int replaced_ = 0;
  bool named_ = false;  // or perhaps
};

}  // namespace

absl::Status MergeCheckpoints(const std::vector<std::string>& parts, const std::string& destination,
                              const MergeOptions& options) {
  if (parts.empty()) return InvalidArgument(destination, ": there is nothing to merge");
  return Merge(parts, destination, options).Run();
}

absl::Status DeleteCheckpoint(const std::string& prefix) {
  const PrefixClaim claim(prefix);
  absl::Status gone;
  claim.InAnyCase([&] {
    gone = files::Delete(IndexPath(prefix));
    if (gone.ok() || absl::IsNotFound(gone)) DeleteData(prefix, 0);
  });
  if (!gone.ok() && !absl::IsNotFound(gone)) return gone;
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
