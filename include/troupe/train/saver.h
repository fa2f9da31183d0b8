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
// A Save that missed its deadline may go on in the background. It changes nothing once another Save
// to the same prefix has begun in this process.
//
// Nodes. A Saver adds the nodes that save and restore to the graph, below the scope "save", as
// TensorFlow does, and a SaverDef tells their names. So a MetaGraph carries its Saver with it:
// ReadMetaGraph makes one of nodes that are in the imported graph.
//
// State. A checkpoint holds, beside the variables, what else the session keeps between steps: the
// random streams of nodes, counters, what is in queues, the graph's local variables (which count
// epochs), and resources of the program whose class says how they are saved. Restore sets them
// again, so that training goes on with equal bits. What only the program knows, like its place in
// the input, is given to Save as `extra` and read by a CheckpointReader. An initializer of local
// variables runs before Restore, or else is followed by a Restore with RestoreOptions.variables
// false.
//
// Steps that run meanwhile. What is saved is a cut between steps: no step is in it by half. Save
// waits until the steps that update variables or fill queues and are under way have ended; those
// that would begin wait until the values are taken. A step that does nothing after it has put its
// elements in counts as done while it waits for room, and the elements are saved with the queue;
// one that does nothing before it has elements counts as not begun while it waits for them. So
// queue runners may run on. Taking them copies nothing, and what is slow, the writing, is
// done while steps run. SaveAsync writes on a thread of its own. This holds for the steps of the
// session that is given: those of other sessions with which it shares variables do not wait.
//
// Thread rule: building belongs to the thread of the scope. Save, SaveAsync, Restore and
// WaitForSaves may be called from any thread; saves of one Saver and its copies are written one
// after the other.
#ifndef TROUPE_TRAIN_SAVER_H_
#define TROUPE_TRAIN_SAVER_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/checkpoint.h"
#include "troupe/export.h"
#include "troupe/session.h"
#include "troupe/variable.h"

namespace troupe {
namespace proto {
class MetaGraphDef;
}  // namespace proto

namespace TROUPE_EXPORT train {

struct ModelNeeds;
struct SavedModel;
struct SavedModelOptions;

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
  // A data file for each device on which there are variables.
  bool sharded = false;
  // Random streams, counters and other state of the session belong to its checkpoints. False: the
  // variables alone are saved, and Restore leaves such state as it is. So it is with an imported
  // Saver whose nodes save other things than variables: they do the saving then.
  bool session_state = true;
  // The graph's nodes save, each on its device: in a cluster each task writes its own variables,
  // into the same file system, and nothing passes through this process. Steps that run meanwhile
  // are not held up. Without session_state; SaveOptions.extra is refused (INVALID_ARGUMENT).
  bool by_nodes = false;
};

struct SaveOptions {
  int64_t global_step = -1;  // "-STEP" behind the path; negative: none
  std::string latest_filename = "checkpoint";
  // The file `latest_filename`. Without it the checkpoint counts for nothing: max_to_keep does not
  // see it, and no other is deleted.
  bool write_state = true;
  const Graph* graph = nullptr;  // written beside the checkpoint, as ".meta"
  // Tensors of the program's own, by names that no variable has.
  std::vector<std::pair<std::string, Tensor>> extra = {};
  // How long to wait for steps that are under way; negative = for ever.
  int64_t timeout_ms = 60'000;
};

// What becomes of variables that the checkpoint does not have, or has with another type or shape,
// and of other state in it that does not fit the session (RestoreState of session.h).
enum class Missing {
  kStrict,  // nothing is restored; the error lists the variables, and the names most like those
  kSkip,    // they keep their value; other state is left out, each by itself
};
struct RestoreOptions {
  Missing missing = Missing::kStrict;
  bool variables = true;                        // false: only what else the checkpoint holds of the session's state
  std::vector<std::string>* skipped = nullptr;  // kSkip: the names of all these
};

class Saver {
 public:
  // Without nodes: every call is FAILED_PRECONDITION.
  Saver() = default;
  // One that was moved from is a copy.
  Saver(const Saver&) = default;
  Saver& operator=(const Saver&) = default;
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
  // `latest_filename` lists, so that max_to_keep holds across restarts; it fails, and writes
  // nothing, when that file is there and cannot be read now. FAILED_PRECONDITION for a variable
  // without a value; UNIMPLEMENTED for state that cannot be saved (SaverOptions.session_state);
  // DEADLINE_EXCEEDED when steps do not end.
  absl::StatusOr<std::string> Save(Session& session, const std::string& path, const SaveOptions& options);
  absl::StatusOr<std::string> Save(Session& session, const std::string& path, int64_t global_step = -1) {
    return Save(session, path, SaveOptions{.global_step = global_step});
  }
  // Takes the values before it returns, and writes them on a thread of its own, which calls `done`
  // with what Save returns; without a `done` a failure is logged. `done` must not throw. What one
  // thread saves is written in the order of its calls; while eight saves are unwritten, this waits
  // for one of them. The end of the process waits for them, for ten seconds at most. When the
  // values cannot be taken, or only the graph's own nodes can save them, `done` is called before
  // this returns.
  using SaveCallback = std::function<void(absl::StatusOr<std::string>)>;
  void SaveAsync(Session& session, const std::string& path, const SaveOptions& options, SaveCallback done);
  // Tells that a SaveAsync is near. Memory for the variables that steps changed while an earlier
  // one was being written, and so copied, is then made ready on another thread: to copy to memory
  // that is fresh takes some four times as long. It is kept until the next save has ended, or the
  // last one of several. CheckpointSaverHook calls this when nine tenths of the time between two
  // saves are over.
  void ExpectSave() const;
  // Waits until no save of this Saver or its copies is under way.
  void WaitForSaves() const;
  // Sets the variables, and other state, to what the checkpoint has; variables need not have been
  // initialized. A checkpoint without other state leaves it as it is.
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
  friend absl::StatusOr<SavedModel> ReadSavedModel(const std::string& folder, Graph* graph,
                                                   const std::vector<std::string>& tags);
  friend absl::Status WriteSavedModel(const std::string& folder, Session& session, const Graph& graph, Saver* saver,
                                      const SavedModelOptions& options);
  // A tensor that RestoreV2 gives, and the node that assigns it.
  struct Assignment {
    std::string name, shape_and_slice, tensor, assign;
    DType dtype = DType::kInvalid;
    PartialTensorShape shape;
    std::string variable, device, container, resource;  // node, the device it asks for, key
  };
  struct TROUPE_HIDDEN Disk;  // what copies of a Saver share
  struct Job;
  static std::shared_ptr<Disk> NewDisk();
  // Adds the nodes and collections, which stood in `path`.
  static absl::StatusOr<Saver> OfMetaGraph(const std::string& path, const proto::MetaGraphDef& meta, Graph* graph);
  absl::Status CheckSaves(const Graph& graph, const ModelNeeds& needs) const;
  absl::Status SaveVariablesAlone(Session& session, const std::string& prefix) const;
  void Build(const ScopeAt& at, const std::vector<Saved>& variables);
  absl::Status FindAssignments(const Graph& graph);
  void FindSuffix(const Graph& graph);
  bool SavesWhatItRestores(const Graph& graph) const;
  absl::Status Prepare(Session& session, const std::string& path, const SaveOptions& options, Job* job) const;
  absl::Status SaveByNodes(Session& session, Job* job) const;
  absl::Status WriteValues(const Job& job) const;
  absl::StatusOr<std::string> Write(const Job& job) const;
  absl::StatusOr<std::string> WriteJob(const Job& job) const;
  SaverOptions options_;
  std::string filename_, save_, restore_;
  std::vector<Assignment> assignments_;
  std::vector<std::pair<std::string, std::string>> locals_;  // container and key of the graph's local variables
  std::string suffix_;        // the Const that names the folder of a sharded save's parts; empty: none is known
  bool by_snapshot_ = false;  // `assignments_` are all that its nodes save, too
  std::shared_ptr<Disk> disk_ = NewDisk();
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
