#include "actors/train/saver_disk.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>

#include <google/protobuf/text_format.h>

#include "graph/checkpoint/bundle.h"
#include "graph/checkpoint/first_format.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"
#include "graph/ir/on_arena.h"
#include "troupe/files.h"

namespace troupe::train {
namespace {

bool IsAbsolute(const std::string& path) { return path.starts_with('/') || path.find("://") != std::string::npos; }

// The same text for every spelling of a path: "m", "./m", "run/../m", and through a link to the
// folder. For comparing alone.
std::string KeyOf(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::string_view kDisk = "file://";
  const size_t scheme = path.find("://");
  if (scheme != std::string::npos && !path.starts_with(kDisk)) {
    return StrCat(path.substr(0, scheme + 3), fs::path("/" + path.substr(scheme + 3)).lexically_normal().string());
  }
  const fs::path plain = path.starts_with(kDisk) ? path.substr(kDisk.size()) : path;
  std::error_code bad;
  fs::path folder = fs::absolute(plain, bad).parent_path();
  if (bad) return path;
  if (fs::path real = fs::weakly_canonical(folder, bad); !bad) folder = std::move(real);
  return (folder / plain.filename()).lexically_normal().string();
}
// Of a folder: as the key of a checkpoint in it begins.
std::string KeyOfFolder(const std::string& folder) { return KeyOf(files::Join(folder, "m")); }

// Names of checkpoints are written without their folder, so that it may be moved.
std::string NameIn(const std::string& folder_key, const std::string& path) {
  return KeyOfFolder(files::DirectoryOf(path)) == folder_key ? files::NameOf(path) : path;
}

}  // namespace

double TimeNow() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string UniqueFolder() {
  std::random_device random;
  char unique[40];
  std::snprintf(unique, sizeof(unique), "_temp_%08x%08x%08x", random(), random(), random());
  return unique;
}
std::string NewSuffix() { return UniqueFolder() + "/part"; }

absl::StatusOr<proto::CheckpointState> ReadState(const std::string& folder, const std::string& name) {
  const std::string path = files::Join(folder, name);
  TROUPE_ASSIGN_OR_RETURN(const std::string text, files::Read(path));
  return ParseState(text, folder, path);
}

absl::StatusOr<proto::CheckpointState> ParseState(const std::string& text, const std::string& folder,
                                                  const std::string& path) {
  proto::CheckpointState state;
  const google::protobuf::LogSilencer silence;
  google::protobuf::TextFormat::Parser parser;
  // A reader of an older version should not fail by what a newer one writes.
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(text, &state)) return DataLoss(path, ": it is no list of checkpoints");
  const auto absolute = [&](std::string* checkpoint) {
    if (!checkpoint->empty() && !IsAbsolute(*checkpoint)) *checkpoint = files::Join(folder, *checkpoint);
  };
  absolute(state.mutable_model_checkpoint_path());
  for (std::string& p : *state.mutable_all_model_checkpoint_paths()) absolute(&p);
  return state;
}

std::string MetaPath(const std::string& checkpoint) {
  return StrCat(checkpoint.substr(0, ShardPattern(checkpoint)), ".meta");
}

std::shared_ptr<Saver::Disk> Saver::NewDisk() { return std::make_shared<Disk>(); }

void Saver::Disk::Keep(const std::string& path, double time) {
  Kept newest{path, KeyOf(path), time};
  kept.reserve(kept.size() + 1);
  std::vector<std::string> still_old;
  for (const std::string& o : old) {
    if (KeyOf(o) != newest.key) still_old.push_back(o);
  }
  // From here on no memory is needed.
  old.swap(still_old);
  std::erase_if(kept, [&](const Kept& k) { return k.key == newest.key; });
  kept.push_back(std::move(newest));
}

absl::Status Saver::Disk::TakeOver(const std::string& of, const std::string& latest_filename) {
  const std::string key = KeyOfFolder(of);
  if (of == folder && key == folder_key) return absl::OkStatus();
  // Where memory runs out meanwhile, the next save takes over.
  std::string its_folder = of, its_key = key;
  folder.clear();
  folder_key.clear();
  kept.clear();
  last_preserved = TimeNow();
  const std::string list = files::Join(of, latest_filename);
  const absl::StatusOr<std::string> text = files::Read(list);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  const absl::StatusOr<proto::CheckpointState> state = ParseState(text.ok() ? *text : "", of, list);
  if (state.ok()) {
    for (int i = 0; i < state->all_model_checkpoint_paths_size(); ++i) {
      const std::string& path = state->all_model_checkpoint_paths(i);
      if (!CheckpointExists(path)) {
        const absl::Status gone = files::Stat(IndexPath(path)).status();
        if (!gone.ok() && !absl::IsNotFound(gone)) return gone;  // it may be there
        continue;
      }
      const bool timed = i < state->all_model_checkpoint_timestamps_size();
      Keep(path, timed ? state->all_model_checkpoint_timestamps(i) : last_preserved);
    }
    if (state->last_preserved_timestamp() > 0) last_preserved = state->last_preserved_timestamp();
  }
  folder.swap(its_folder);
  folder_key.swap(its_key);
  return absl::OkStatus();
}

absl::Status Saver::Disk::WriteList(const SaverOptions& options, const std::string& newest,
                                    const std::string& latest_filename) {
  // In an arena: Protobuf counts an element of a repeated field before there is memory for it, and
  // where there is none, the destructor of a message of its own deletes what is not there.
  OnArena<proto::CheckpointState> on_arena;
  proto::CheckpointState& state = *on_arena;
  state.set_model_checkpoint_path(NameIn(folder_key, newest));
  const size_t most = options.max_to_keep > 0 ? static_cast<size_t>(options.max_to_keep) : kept.size();
  for (size_t i = kept.size() - std::min(most, kept.size()); i < kept.size(); ++i) {
    state.add_all_model_checkpoint_paths(NameIn(folder_key, kept[i].path));
    state.add_all_model_checkpoint_timestamps(kept[i].time);
  }
  state.set_last_preserved_timestamp(last_preserved);
  std::string text;
  google::protobuf::TextFormat::PrintToString(state, &text);
  return files::Write(files::Join(folder, latest_filename), text);
}

void Saver::Disk::DropOld(const SaverOptions& options) {
  if (options.max_to_keep <= 0) return;
  while (kept.size() > static_cast<size_t>(options.max_to_keep)) {
    old.reserve(old.size() + 1);  // before it is taken from the others
    Kept oldest = std::move(kept.front());
    kept.erase(kept.begin());
    if (oldest.time > last_preserved + options.keep_checkpoint_every_n_hours * 3600) {
      last_preserved = oldest.time;
    } else {
      old.push_back(std::move(oldest.path));
    }
  }
  for (size_t i = 0; i < old.size();) {
    const std::string& path = old[i];
    absl::Status deleted = DeleteCheckpoint(path);
    if (deleted.ok()) {
      deleted = files::Delete(MetaPath(path));
      if (absl::IsNotFound(deleted)) deleted = absl::OkStatus();
    }
    if (deleted.ok()) {
      old.erase(old.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    LogWarning("the old checkpoint ", path, " could not be deleted: ", deleted.ToString());
    ++i;
  }
}

void Saver::Disk::DeleteLeft() noexcept {
  std::erase_if(left, [](const Left& l) {
    bool gone = false;
    (void)Guarded("deleting what a save has left", [&] {
      const absl::StatusOr<std::vector<std::string>> names = files::List(l.folder);
      // A file system that lists nothing has no folders either.
      gone = absl::IsNotFound(names.status()) || absl::IsUnimplemented(names.status());
      if (!names.ok()) return;
      for (const std::string& name : *names) {
        if (name.starts_with(l.begin)) (void)files::Delete(files::Join(l.folder, name));
      }
      const absl::Status deleted = files::Delete(l.folder);
      gone = deleted.ok() || absl::IsNotFound(deleted);
    });
    return gone;
  });
}

}  // namespace troupe::train
