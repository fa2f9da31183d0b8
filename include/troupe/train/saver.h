// Saver: the variables of a graph into checkpoints, and back.
//
//   train::Saver saver(root);  // all global variables
//   absl::Status s = session->Extend(*root.graph());
//   absl::StatusOr<std::string> last = train::LatestCheckpoint("mem://saver");
//   if (s.ok()) s = last.ok() ? saver.Restore(*session, *last) : session->Run({}, {}, {init}, nullptr);
//   for (int64_t step = 1; step <= 2000 && s.ok(); ++step) {
//     s = session->Run({}, {}, {update}, nullptr);
//     if (s.ok() && step % 1000 == 0) s = saver.Save(*session, "mem://saver/model", step).status();
//   }
//
// Files. "run/model-1000.index" and "run/model-1000.data-..." are the checkpoint
// (troupe/checkpoint.h), "run/checkpoint" says which of them is the newest, and
// "run/model-1000.meta" holds the graph. TensorFlow's Saver reads all of these, and they are named
// as it names them. Each is written under a temporary name, synced and renamed, first the
// checkpoint and then "checkpoint"; old checkpoints are deleted last. So wherever a process is
// killed, "checkpoint" names one that is whole.
//
// Nodes. A Saver adds the nodes that save and restore to the graph, below the scope "save", as
// TensorFlow does, and a SaverDef tells their names. So a MetaGraph carries its Saver with it:
// ReadMetaGraph makes one of nodes that are in the imported graph.
//
// What one step writes while others run: each variable has one value of its own; two variables may
// come from before and after an update that another step makes meanwhile. Save between steps where
// that matters.
//
// Thread rule: a Saver is for one thread at a time, building for the thread of the scope.
#ifndef TROUPE_TRAIN_SAVER_H_
#define TROUPE_TRAIN_SAVER_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/checkpoint.h"
#include "troupe/export.h"
#include "troupe/session.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// A variable and the name that it has in checkpoints.
struct Saved {
  Saved(const Variable& v) : name(v.variable_name()), variable(v) {}  // NOLINT: by its own name
  Saved(std::string n, const Variable& v, std::string slice = "")
      : name(std::move(n)), variable(v), shape_and_slice(std::move(slice)) {}
  std::string name;
  Variable variable;
  std::string shape_and_slice;  // "4 2 0,2:-" for a slice of a tensor that is kept in several; else ""
};

struct SaverOptions {
  int max_to_keep = 5;  // older checkpoints are deleted; 0 = none is
  // One checkpoint in so many hours is kept for good.
  double keep_checkpoint_every_n_hours = 10000;
  // A data file for each device on which there are variables, written there at the same time.
  bool sharded = false;
};

struct SaveOptions {
  int64_t global_step = -1;  // "-STEP" behind the path; negative: none
  std::string latest_filename = "checkpoint";
  // The file `latest_filename`. Without it the checkpoint counts for nothing: max_to_keep does not
  // see it, and no other is deleted.
  bool write_state = true;
  const Graph* graph = nullptr;  // written beside the checkpoint, as ".meta"
};

// What becomes of variables that the checkpoint does not have, or has with another type or shape.
enum class Missing {
  kStrict,  // nothing is restored; the error lists all of them, and the names most like those
  kSkip,    // they keep their value
};
struct RestoreOptions {
  Missing missing = Missing::kStrict;
  std::vector<std::string>* skipped = nullptr;  // kSkip: their names
};

class Saver {
 public:
  // Without nodes: every call is FAILED_PRECONDITION.
  Saver() = default;
  // Of all variables in the graph's collection "variables". INVALID_ARGUMENT as the scope's error
  // when there is none, or two have one name (unless they are slices of one tensor).
  explicit Saver(const ScopeAt& at, const SaverOptions& options = {});
  Saver(const ScopeAt& at, std::initializer_list<Saved> variables, const SaverOptions& options = {})
      : Saver(at, std::vector<Saved>(variables), options) {}
  // A template, so that `{.max_to_keep = 3}` is never taken for a list of variables.
  template <std::same_as<std::vector<Saved>> List>
  Saver(const ScopeAt& at, const List& variables, const SaverOptions& options = {}) : options_(options) {
    Build(at, variables);
  }

  // Saves; the checkpoint's prefix, or what `save_tensor` gives: shards of the first format, which
  // an imported graph may write, are named by a pattern, "run/m-3-?????-of-00002". The folder is
  // made when it is not there. The first call in a folder takes over what its file
  // `latest_filename` lists, so that max_to_keep holds across restarts.
  absl::StatusOr<std::string> Save(Session& session, const std::string& path, const SaveOptions& options);
  absl::StatusOr<std::string> Save(Session& session, const std::string& path, int64_t global_step = -1) {
    return Save(session, path, SaveOptions{.global_step = global_step});
  }
  // Sets the variables to what the checkpoint has; they need not have been initialized.
  absl::Status Restore(Session& session, const std::string& path, const RestoreOptions& options = {});

  const SaverOptions& options() const { return options_; }
  // The checkpoints that are kept now, the newest last.
  std::vector<std::string> checkpoints() const;
  // The names of its nodes: what is fed the path, what is fetched to save, what is run to restore.
  const std::string& filename_tensor() const { return filename_; }
  const std::string& save_tensor() const { return save_; }
  const std::string& restore_op() const { return restore_; }

 private:
  friend absl::StatusOr<Saver> ReadMetaGraph(const std::string& path, Graph* graph);
  // A tensor that RestoreV2 gives, and the node that assigns it.
  struct Assignment {
    std::string name, shape_and_slice, tensor, assign;
    DType dtype = DType::kInvalid;
    PartialTensorShape shape;
  };
  struct Kept {
    std::string path;
    std::string key;  // the same for every spelling of the path
    double time = 0;
  };
  void Build(const ScopeAt& at, const std::vector<Saved>& variables);
  absl::Status FindAssignments(const Graph& graph);
  void TakeOver(const std::string& folder, const std::string& latest_filename);
  // The newest from now on.
  void Keep(const std::string& path, double time);
  absl::Status DropOld();

  SaverOptions options_;
  std::string filename_, save_, restore_;
  std::vector<Assignment> assignments_;
  std::vector<Kept> kept_;
  std::string folder_;         // of which `kept_` is, as it was spelled
  std::string folder_key_;     // likewise, the same for every spelling
  double last_preserved_ = 0;  // when one was last kept for good
};

// What the file `latest_filename` of a folder says: the newest checkpoint. NOT_FOUND when there is
// no such file, or no such checkpoint; DATA_LOSS when it cannot be read.
absl::StatusOr<std::string> LatestCheckpoint(const std::string& folder,
                                             const std::string& latest_filename = "checkpoint");
// The checkpoints that it lists, the newest last.
absl::StatusOr<std::vector<std::string>> AllCheckpoints(const std::string& folder,
                                                        const std::string& latest_filename = "checkpoint");

// Writes the graph, its collections and the names of the saver's nodes (if there is one) as
// TensorFlow's MetaGraphDef.
absl::Status WriteMetaGraph(const std::string& path, const Graph& graph, const Saver* saver = nullptr);
// Adds the nodes and collections of a MetaGraphDef to the graph. The Saver is the one that it
// describes, or an empty one.
absl::StatusOr<Saver> ReadMetaGraph(const std::string& path, Graph* graph);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_SAVER_H_
