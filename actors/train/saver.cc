#include "troupe/train/saver.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "actors/threads/aside.h"
#include "actors/snapshot/restore_state.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/train/meta_graph.h"
#include "actors/train/saver_disk.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"
#include "troupe/files.h"
#include "troupe/state_snapshot.h"
#include "troupe/train/partitioned.h"

namespace troupe::train {
namespace {

// State that is no variable, in a checkpoint: kOthers is a matrix of strings with device,
// container, name and kind of each entry; the tensors of entry 3 are kOthers + "/3/" + key.
constexpr char kOthers[] = "_troupe/state";

absl::Status AddState(const std::vector<const StateSnapshot::Entry*>& entries, CheckpointWriter* to) {
  Tensor names(DType::kString, TensorShape({static_cast<int64_t>(entries.size()), 4}));
  std::string* text = names.data<std::string>();
  for (size_t i = 0; i < entries.size(); ++i) {
    const StateSnapshot::Entry& e = *entries[i];
    for (const std::string& s : {e.device, e.container, e.name, e.kind}) *text++ = s;
    for (const auto& [key, tensor] : e.tensors) {
      TROUPE_RETURN_IF_ERROR(to->Add(StrCat(kOthers, "/", i, "/", key), tensor));
    }
  }
  return to->Add(kOthers, names);
}

// Without entries when the checkpoint has none. Of the session's containers only the one that never
// holds variables is replaced as a whole.
absl::StatusOr<StateSnapshot> ReadOthers(const CheckpointReader& from) {
  StateSnapshot snapshot;
  snapshot.containers = {kOwnStateContainer};
  if (from.Find(kOthers) == nullptr) return snapshot;
  TROUPE_ASSIGN_OR_RETURN(const Tensor names, from.Read(kOthers));
  if (names.dtype() != DType::kString || names.rank() != 2 || names.dim(1) != 4) {
    return DataLoss("'", kOthers, "' is no list of states, but ", names.TypeAndShape());
  }
  const std::string* const text = names.data<std::string>();
  for (int64_t i = 0; i < names.dim(0); ++i) {
    const std::string* const row = text + 4 * i;
    snapshot.entries.push_back({row[0], row[1], row[2], row[3], {}});
  }
  const std::string prefix = StrCat(kOthers, "/");
  for (const CheckpointReader::Entry& e : from.entries()) {
    if (!e.name.starts_with(prefix)) continue;
    size_t number = 0;
    const char* const end = e.name.data() + e.name.size();
    const auto [after, error] = std::from_chars(e.name.data() + prefix.size(), end, number);
    if (error != std::errc() || after == end || *after != '/' || number >= snapshot.entries.size()) {
      return DataLoss("'", CEscape(e.name), "' belongs to no state");
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor value, from.Read(e.name));
    snapshot.entries[number].tensors.emplace_back(std::string(after + 1, end), std::move(value));
  }
  return snapshot;
}

}  // namespace

Saver::Saver(const ScopeAt& at, const SaverOptions& options) : options_(options) {
  std::vector<Saved> all;
  for (const Variable& v : VariablesIn(at, kGlobalVariables)) {
    if (const std::optional<PartOfWhole> part = WholeOf(v)) {
      all.emplace_back(part->name, v, part->shape_and_slice);
    } else {
      all.emplace_back(v);
    }
  }
  Build(at, all);
}

// What one save writes.
struct Saver::Job {
  std::string folder, prefix;
  std::string name;                                 // of the checkpoint: the prefix, or what the nodes call it
  SaveOptions options;                              // without the graph
  std::optional<StateSnapshot> snapshot;            // none: the graph's nodes have written the checkpoint
  std::vector<const Tensor*> shared;                // those in the snapshot that steps copy to change
  std::string meta;                                 // the bytes of the MetaGraph; "" = none
  std::shared_ptr<const SaveOrder::Ticket> ticket;  // drawn when the values have been taken
};

std::vector<std::string> Saver::checkpoints() const {
  std::lock_guard<std::mutex> lock(disk_->mu);
  std::vector<std::string> paths;
  for (const Disk::Kept& k : disk_->kept) paths.push_back(k.path);
  return paths;
}

void Saver::ExpectSave() const { SaveMemory::Expect(disk_->memory); }

void Saver::WaitForSaves() const {
  while (!disk_->saves->WaitUntilNone(std::chrono::seconds(1))) {
  }
}

// Takes the values. Where only the graph's nodes can save, they write the checkpoint.
absl::Status Saver::Prepare(Session& session, const std::string& path, const SaveOptions& options, Job* job) const {
  if (save_.empty()) return FailedPrecondition("a Saver without nodes: it is empty, or building it failed");
  if (files::NameOf(path).empty()) return InvalidArgument("'", CEscape(path), "' is no prefix of checkpoints");
  job->folder = files::DirectoryOf(path);
  job->prefix = options.global_step >= 0 ? StrCat(path, "-", options.global_step) : path;
  job->name = job->prefix;
  job->options = options;
  job->options.graph = nullptr;
  if (!files::Exists(job->folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(job->folder));
  if (options.graph != nullptr) {
    TROUPE_ASSIGN_OR_RETURN(job->meta, MetaGraphBytes(*options.graph, this));
  }
  if (options_.by_nodes) {
    if (options_.session_state || !options.extra.empty())
      return InvalidArgument("nodes save variables alone: SaverOptions.by_nodes goes without session_state and extra");
    return SaveByNodes(session, job);
  }
  absl::Status taken = Unimplemented("the nodes behind '", save_, "' save other things than variables");
  if (by_snapshot_) {
    SnapshotOptions what;
    std::set<std::string> containers(what.containers.begin(), what.containers.end());
    for (const Assignment& a : assignments_) containers.insert(a.container);
    what.containers.assign(containers.begin(), containers.end());
    what.between_steps = true;
    what.timeout_ms = options.timeout_ms;
    absl::StatusOr<StateSnapshot> snapshot = session.SnapshotState(what);
    taken = snapshot.status();
    if (snapshot.ok()) job->shared = SaveMemory::Shared(job->snapshot.emplace(*std::move(snapshot)));
  }
  // The nodes know of no other state. Those of an imported graph may be all that can save.
  if (absl::IsUnimplemented(taken) && (!by_snapshot_ || !options_.session_state) && options.extra.empty()) {
    taken = SaveByNodes(session, job);
  }
  return taken;
}

// Runs the nodes that save, and learns what the checkpoint is called.
absl::Status Saver::SaveByNodes(Session& session, Job* job) const {
  Feeds feeds = {{filename_, Tensor::Scalar(job->prefix)}};
  std::string parts;
  if (!suffix_.empty()) {
    const std::string suffix = NewSuffix();
    parts = job->prefix + suffix;
    feeds.emplace_back(suffix_, Tensor::Scalar(suffix));
    std::lock_guard<std::mutex> lock(disk_->mu);
    disk_->DeleteLeft();
  }
  std::vector<Tensor> path;
  absl::Status s = session.Run(feeds, {save_}, {}, &path);
  if (!s.ok() && !parts.empty()) {
    std::lock_guard<std::mutex> lock(disk_->mu);
    disk_->left.push_back({files::DirectoryOf(parts), files::NameOf(parts)});
  }
  TROUPE_RETURN_IF_ERROR(s);
  // A graph that was imported may name what it wrote otherwise: by a pattern of several files.
  if (path[0].dtype() == DType::kString && path[0].num_elements() == 1) job->name = path[0].scalar<std::string>();
  return s;
}

// The checkpoint, without what stands beside it.
absl::Status Saver::WriteValues(const Job& job) const {
  const StateSnapshot& snapshot = *job.snapshot;
  const std::string& prefix = job.prefix;
  const SaveOptions& options = job.options;
  using Entry = StateSnapshot::Entry;
  std::multimap<std::string_view, const Entry*> variables;
  std::vector<const Entry*> others;
  const auto is_local = [&](const Entry& e) {
    const std::string& container = e.container == kOwnVariablesContainer ? "" : e.container;
    const bool saved = std::any_of(assignments_.begin(), assignments_.end(), [&](const Assignment& a) {
      return a.resource == e.name && a.container == container;
    });
    return !saved && std::find(locals_.begin(), locals_.end(), std::pair(container, e.name)) != locals_.end();
  };
  for (const Entry& e : snapshot.entries) {
    if (e.kind == kVariableKind && !is_local(e)) {
      variables.emplace(e.name, &e);
    } else {
      others.push_back(&e);
    }
  }
  const auto value_of = [&](const Assignment& a) -> absl::StatusOr<Tensor> {
    const Tensor* value = nullptr;
    int found = 0;
    const auto [begin, end] = variables.equal_range(a.resource);
    for (auto it = begin; it != end; ++it) {
      const Entry& e = *it->second;
      const bool own = e.container == kOwnVariablesContainer;
      if (e.container != a.container && !(own && a.container.empty())) continue;
      for (const auto& [key, tensor] : e.tensors) {
        if (key != "value") continue;
        value = &tensor;
        ++found;
      }
    }
    if (found == 0) return FailedPrecondition("the variable '", a.variable, "' has no value: it is not initialized");
    if (found > 1) return FailedPrecondition("there are ", found, " variables '", a.resource, "' on several devices");
    return *value;
  };
  std::map<std::string, std::vector<const Assignment*>> shards;
  for (const Assignment& a : assignments_) shards[options_.sharded ? a.device : ""].push_back(&a);
  const auto write = [&](const std::string& to, const std::vector<const Assignment*>& some,
                         bool first) -> absl::Status {
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointWriter> writer, CheckpointWriter::Create(to));
    for (const Assignment* a : some) {
      TROUPE_ASSIGN_OR_RETURN(const Tensor value, value_of(*a));
      if (a->shape_and_slice.empty()) {
        TROUPE_RETURN_IF_ERROR(writer->Add(a->name, value));
      } else {
        TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(a->shape_and_slice));
        TROUPE_RETURN_IF_ERROR(writer->AddSlice(a->name, at.full_shape, at.slice, value));
      }
    }
    if (first) {
      for (const auto& [name, value] : options.extra) TROUPE_RETURN_IF_ERROR(writer->Add(name, value));
      if (options_.session_state && !others.empty()) TROUPE_RETURN_IF_ERROR(AddState(others, writer.get()));
    }
    return writer->Finish();
  };
  if (!options_.sharded) return write(prefix, shards.begin()->second, true);
  // The parts lie in a folder that no other save has, until they are merged. It is noted first:
  // where memory runs out, the next save deletes it.
  const std::string folder = StrCat(prefix, UniqueFolder());
  disk_->left.push_back({folder, "part-"});
  absl::Status written = Guarded("a save", [&] {
    std::vector<std::string> parts;
    for (const auto& [device, some] : shards) {
      char name[40];
      std::snprintf(name, sizeof(name), "/part-%05zu-of-%05zu", parts.size(), shards.size());
      parts.push_back(folder + name);
      TROUPE_RETURN_IF_ERROR(write(parts.back(), some, parts.size() == 1));
    }
    return MergeCheckpoints(parts, prefix);
  });
  disk_->DeleteLeft();  // what merging has not
  return written;
}

absl::StatusOr<std::string> Saver::Write(const Job& job) const {
  return Guarded("a save", [&] { return WriteJob(job); });
}

absl::StatusOr<std::string> Saver::WriteJob(const Job& job) const {
  job.ticket->WaitForTurn();
  std::lock_guard<std::mutex> lock(disk_->mu);
  // First: what is written by a save that fails afterwards would be deleted by none.
  if (job.options.write_state) TROUPE_RETURN_IF_ERROR(disk_->TakeOver(job.folder, job.options.latest_filename));
  disk_->DeleteLeft();
  if (job.snapshot.has_value()) TROUPE_RETURN_IF_ERROR(WriteValues(job));
  if (!job.meta.empty()) TROUPE_RETURN_IF_ERROR(files::Write(MetaPath(job.name), job.meta));
  if (!job.options.write_state) return job.name;
  disk_->Keep(job.name, TimeNow());
  TROUPE_RETURN_IF_ERROR(disk_->WriteList(options_, job.name, job.options.latest_filename));
  disk_->DropOld(options_);
  return job.name;
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& path, const SaveOptions& options) {
  return Guarded("a save", [&]() -> absl::StatusOr<std::string> {
    // What was made ready for a save beside steps goes with this one.
    const std::shared_ptr<void> expected = SaveMemory::Share(disk_->memory);
    Job job;
    TROUPE_RETURN_IF_ERROR(Prepare(session, path, options, &job));
    job.ticket = std::make_shared<const SaveOrder::Ticket>(disk_->order);
    return Write(job);
  });
}

absl::Status Saver::SaveVariablesAlone(Session& session, const std::string& prefix) const {
  Saver alone = *this;
  alone.options_.session_state = false;
  alone.disk_ = NewDisk();
  return alone.Save(session, prefix, SaveOptions{.write_state = false}).status();
}

void Saver::SaveAsync(Session& session, const std::string& path, const SaveOptions& options, SaveCallback done) {
  if (done == nullptr) {
    done = [](const absl::StatusOr<std::string>& saved) {
      if (!saved.ok()) LogError("a save that nobody asks about has failed: ", saved.status().ToString());
    };
  }
  std::shared_ptr<SaveCallback> held;                // `done`, from when another thread may have it
  std::optional<absl::StatusOr<std::string>> ended;  // how the save ended, where it has ended here
  absl::Status begun = Guarded("a save", [&]() -> absl::Status {
    auto job = std::make_shared<Job>();
    disk_->order->WaitForRoom();
    std::shared_ptr<void> expected = SaveMemory::Share(disk_->memory);
    TROUPE_RETURN_IF_ERROR(Prepare(session, path, options, job.get()));
    job->ticket = std::make_shared<const SaveOrder::Ticket>(disk_->order);
    if (!job->snapshot.has_value()) {
      ended = Write(*job);
      return absl::OkStatus();
    }
    held = std::make_shared<SaveCallback>(std::move(done));
    // The end of the process waits for the file, and so for ten seconds at most.
    RunAside(true, [saver = *this, job = std::move(job), held, expected = std::move(expected),
                    share = UnderWay::Share(disk_->saves), at_exit = UntilExit()]() mutable {
      absl::StatusOr<std::string> written = saver.Write(*job);
      if (written.ok()) saver.disk_->memory->Learn(job->shared);
      job = nullptr;
      expected = nullptr;
      SaveCallback call = std::exchange(*held, nullptr);
      CallUser("a callback of SaveAsync", [&] { call(std::move(written)); });
      // The save is under way until its caller knows.
      call = nullptr;
      share = nullptr;
      at_exit = nullptr;
    });
    return absl::OkStatus();
  });
  if (!begun.ok()) ended = std::move(begun);
  if (ended.has_value()) (held != nullptr ? *held : done)(*std::move(ended));
}

namespace {

// Why a variable that is a slice of a tensor cannot be restored from this entry; "" when it can.
std::string SliceProblem(const std::string& name, const std::string& shape_and_slice, const PartialTensorShape& shape,
                         const CheckpointReader::Entry& entry) {
  const absl::StatusOr<ShapeAndSlice> at = ShapeAndSlice::Parse(shape_and_slice);
  if (!at.ok()) return StrCat("'", name, "': ", at.status().message());
  if (at->full_shape != entry.shape) {
    return StrCat("'", name, "' has shape ", entry.shape.DebugString(), " there, and is a slice of ",
                  at->full_shape.DebugString(), " here");
  }
  const absl::StatusOr<TensorSlice> within = at->slice.Within(entry.shape);
  if (!within.ok()) return StrCat("'", name, "': ", within.status().message());
  if (!shape.IsCompatibleWith(within->shape())) {
    return StrCat("'", name, "' has shape ", shape.DebugString(), " here, and its slice has ",
                  within->shape().DebugString());
  }
  return "";
}

// What the checkpoint holds of the session's state beside variables.
absl::Status RestoreOthers(Session& session, const CheckpointReader& reader, const RestoreOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(StateSnapshot others, ReadOthers(reader));
  if (others.entries.empty()) return absl::OkStatus();
  const absl::Status whole = session.RestoreState(others);
  const auto fits_not = [](const absl::Status& s) {
    return absl::IsNotFound(s) || absl::IsInvalidArgument(s) || absl::IsUnimplemented(s);
  };
  if (options.missing == Missing::kStrict || !fits_not(whole)) return whole;
  // What does not fit is left out. Of each by itself it is asked whether it fits, and then those
  // that do are restored, and what else the session had is dropped.
  StateSnapshot fitting;
  fitting.containers = others.containers;
  for (StateSnapshot::Entry& e : others.entries) {
    StateSnapshot one;
    one.entries = {e};
    const absl::Status alone = RestoreState(session, one, /*only_check=*/true);
    if (alone.ok()) {
      fitting.entries.push_back(std::move(e));
    } else if (!fits_not(alone)) {
      return alone;
    } else if (options.skipped != nullptr) {
      options.skipped->push_back(e.name);
    }
  }
  return session.RestoreState(fitting);
}

}  // namespace

absl::Status Saver::Restore(Session& session, const std::string& path, const RestoreOptions& options) {
  if (restore_.empty()) return FailedPrecondition("a Saver without nodes: it is empty, or building it failed");
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(path));
  // What does not fit is found before anything is changed.
  std::string problems;
  std::vector<const Assignment*> found;
  std::vector<std::string> skipped;
  for (const Assignment& a : assignments_) {
    const CheckpointReader::Entry* const entry = reader->Find(a.name);
    std::string problem;
    if (entry == nullptr) {
      problem = StrCat("there is no '", a.name, "'");
      const std::vector<std::string> like = reader->NamesLike(a.name);
      if (!like.empty()) StrAppend(&problem, " (most like it: '", StrJoin(like, "', '"), "')");
    } else if (entry->dtype != a.dtype) {
      problem = StrCat("'", a.name, "' is ",
                       entry->dtype != DType::kInvalid ? Name(entry->dtype) : StrCat("of type ", entry->unknown_type),
                       " there and ", Name(a.dtype), " here");
    } else if (a.shape_and_slice.empty() && !a.shape.IsCompatibleWith(entry->shape)) {
      problem = StrCat("'", a.name, "' has shape ", entry->shape.DebugString(), " there and ", a.shape.DebugString(),
                       " here");
    } else if (!a.shape_and_slice.empty()) {
      problem = SliceProblem(a.name, a.shape_and_slice, a.shape, *entry);
    }
    if (problem.empty()) {
      found.push_back(&a);
    } else {
      skipped.push_back(a.name);
      StrAppend(&problems, problems.empty() ? "" : "; ", problem);
    }
  }
  if (options.skipped != nullptr) *options.skipped = skipped;
  // The other state first: that fits or not as a whole, and then the variables, which are known to
  // fit.
  const auto restore_others = [&] {
    return options_.session_state ? RestoreOthers(session, *reader, options) : absl::OkStatus();
  };
  if (!options.variables) return restore_others();
  if (options.missing == Missing::kStrict) {
    if (!problems.empty()) return NotFound("the checkpoint ", path, " does not fit the graph: ", problems);
    TROUPE_RETURN_IF_ERROR(restore_others());
    return session.Run({{filename_, Tensor::Scalar(path)}}, {}, {restore_}, nullptr);
  }
  if (assignments_.empty()) {
    return Unimplemented("the nodes behind '", restore_, "' are not known, so that none can be left out");
  }
  TROUPE_RETURN_IF_ERROR(restore_others());
  // The others: what RestoreV2 would give is fed, to those nodes alone that assign it. It stays in
  // the variables, so that the memory limit counts it.
  if (const auto& allocator = session.runtime()->impl()->allocator; allocator != nullptr)
    reader->ReadInto(allocator.get());
  Feeds feeds;
  Names targets;
  for (const Assignment* a : found) {
    absl::StatusOr<Tensor> value;
    if (a->shape_and_slice.empty()) {
      value = reader->Read(a->name);
    } else {
      TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(a->shape_and_slice));
      value = reader->ReadSlice(a->name, at.slice);
    }
    if (!value.ok()) return value.status();
    feeds.emplace_back(a->tensor, *std::move(value));
    targets.push_back(a->assign);
  }
  return targets.empty() ? absl::OkStatus() : session.Run(feeds, {}, targets, nullptr);
}

absl::StatusOr<std::string> LatestCheckpoint(const std::string& folder, const std::string& latest_filename) {
  if (latest_filename.empty()) return InvalidArgument(folder, ": the list of its checkpoints must have a name");
  TROUPE_ASSIGN_OR_RETURN(const proto::CheckpointState state, ReadState(folder, latest_filename));
  const std::string& path = state.model_checkpoint_path();
  if (path.empty()) return NotFound(files::Join(folder, latest_filename), ": it names no checkpoint");
  if (!CheckpointExists(path)) {
    return NotFound(files::Join(folder, latest_filename), ": it names ", path, ", which is not there");
  }
  return path;
}

absl::StatusOr<std::vector<std::string>> AllCheckpoints(const std::string& folder, const std::string& latest_filename) {
  TROUPE_ASSIGN_OR_RETURN(const proto::CheckpointState state, ReadState(folder, latest_filename));
  const auto& all = state.all_model_checkpoint_paths();
  return std::vector<std::string>(all.begin(), all.end());
}

}  // namespace troupe::train
