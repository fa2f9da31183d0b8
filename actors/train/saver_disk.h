// What copies of a Saver share: the checkpoints of a folder, and the saves that are under way.
//
// Thread rule: `order`, `memory` and `saves` may be used by any thread, the rest under `mu`.
#ifndef TROUPE_ACTORS_TRAIN_SAVER_DISK_H_
#define TROUPE_ACTORS_TRAIN_SAVER_DISK_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "actors/threads/aside.h"
#include "actors/train/save_memory.h"
#include "actors/train/save_order.h"
#include "troupe/proto/checkpoint_state.pb.h"
#include "troupe/train/saver.h"

namespace troupe::train {

// What a snapshot calls variables.
inline constexpr std::string_view kVariableKind = "variable";

// Seconds since 1970.
double TimeNow();

// What stands behind the prefix in the name of the folder in which the parts of a sharded save lie
// until they are merged. Another one at each call.
std::string UniqueFolder();
// What stands between the prefix and the number of such a part: a new UniqueFolder, "/part".
std::string NewSuffix();

// The list of a folder, its paths absolute or as files::Join gives them. DATA_LOSS when the file
// `name` is no such list.
absl::StatusOr<proto::CheckpointState> ReadState(const std::string& folder, const std::string& name);
// The same of the text of the file `path` in the folder.
absl::StatusOr<proto::CheckpointState> ParseState(const std::string& text, const std::string& folder,
                                                  const std::string& path);

// The graph beside a checkpoint; that of several files of the first format has the name without
// their numbers.
std::string MetaPath(const std::string& checkpoint);

// The checkpoints of a folder, and the saves that are under way.
struct Saver::Disk {
  struct Kept {
    std::string path;
    std::string key;  // the same for every spelling of the path
    double time = 0;
  };
  // A folder that a sharded save which failed may have left, with its parts.
  struct Left {
    std::string folder, begin;
  };
  const std::shared_ptr<SaveOrder> order = std::make_shared<SaveOrder>();
  const std::shared_ptr<SaveMemory> memory = std::make_shared<SaveMemory>();

  std::mutex mu;  // held while a save writes; guards what follows
  std::vector<Kept> kept;
  std::vector<std::string> old;  // checkpoints that could not be deleted yet
  std::vector<Left> left;
  std::string folder;         // of which `kept` is, as it was spelled
  std::string folder_key;     // likewise, the same for every spelling
  double last_preserved = 0;  // when one was last kept for good
  const std::shared_ptr<UnderWay> saves = std::make_shared<UnderWay>();

  // The newest from now on.
  void Keep(const std::string& path, double time);  // all of it, or nothing and std::bad_alloc
  // Takes over what the list of a folder says, if that is another folder. Spelled otherwise, or in
  // another current folder, it is read anew: the paths in `kept` are of the old spelling. A file
  // that is no such list is none. The error of one that cannot be read now: another save may take
  // over.
  absl::Status TakeOver(const std::string& of, const std::string& latest_filename);
  // What is about to be deleted is not listed: every checkpoint that is listed exists.
  absl::Status WriteList(const SaverOptions& options, const std::string& newest, const std::string& latest_filename);
  // Each checkpoint stands in `kept` once, so that what goes is neither the newest nor one that the
  // list has now. What cannot be deleted is tried again after the next save: this one has done its
  // work.
  void DropOld(const SaverOptions& options);
  // A kernel of the failed save may still have a file open there, or memory may be lacking; then
  // the folder goes the next time.
  void DeleteLeft() noexcept;
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SAVER_DISK_H_
