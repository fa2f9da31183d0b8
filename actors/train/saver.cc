#include "troupe/train/saver.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>

#include <google/protobuf/text_format.h>

#include "actors/runtime_impl.h"
#include "graph/checkpoint/first_format.h"
#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/files.h"
#include "troupe/group.h"
#include "troupe/proto/checkpoint_state.pb.h"

namespace troupe::train {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

bool IsAbsolute(const std::string& path) { return path.starts_with('/') || path.find("://") != std::string::npos; }

absl::StatusOr<proto::CheckpointState> ReadState(const std::string& folder, const std::string& name) {
  const std::string path = files::Join(folder, name);
  TROUPE_ASSIGN_OR_RETURN(const std::string text, files::Read(path));
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

// The graph beside a checkpoint; that of several files of the first format has the name without
// their numbers.
std::string MetaPath(const std::string& checkpoint) {
  return StrCat(checkpoint.substr(0, ShardPattern(checkpoint)), ".meta");
}

}  // namespace

Saver::Saver(const ScopeAt& at, const SaverOptions& options) : options_(options) {
  const std::vector<Variable> all = VariablesIn(at, kGlobalVariables);
  Build(at, {all.begin(), all.end()});
}

void Saver::Build(const ScopeAt& at, const std::vector<Saved>& variables) {
  if (!at.ok()) return;
  std::map<std::string, const Saved*> names;
  for (const Saved& v : variables) {
    if (!v.variable.handle().valid()) return at.Fail(InvalidArgument("a Saver is given an empty Variable"));
    const auto [it, added] = names.emplace(v.name, &v);
    if (!added && (v.shape_and_slice.empty() || it->second->shape_and_slice.empty())) {
      return at.Fail(InvalidArgument("a Saver is given two variables with the name '", v.name, "'"));
    }
  }
  if (variables.empty()) return at.Fail(InvalidArgument("a Saver is given no variables"));

  const Scope s = at->NewSubScope("save").WithLocation(at.location()).WithNoControlDependencies();
  const Output input = Const(s.WithOpName("filename/input"), Tensor::Scalar("model"));
  const Output filename =
      train::Build(s.WithOpName("filename"), "PlaceholderWithDefault", {input}, {{"shape", PartialTensorShape({})}});
  const Output prefix =
      train::Build(s.WithOpName("Const"), "PlaceholderWithDefault", {filename}, {{"shape", PartialTensorShape({})}});

  // The shards: all variables, or those of each device.
  std::map<std::string, std::vector<const Saved*>> shards;
  for (const Saved& v : variables) {
    shards[options_.sharded ? v.variable.handle().node()->requested_device() : ""].push_back(&v);
  }
  const auto texts = [&](const std::vector<const Saved*>& some, bool slices) {
    std::vector<std::string> list;
    for (const Saved* v : some) list.push_back(slices ? v->shape_and_slice : v->name);
    return Tensor::Vector<std::string>(absl::Span<const std::string>(list));
  };
  const auto save = [&](const Scope& here, const Output& to, const std::vector<const Saved*>& some) {
    const Scope below = here.NewSubScope("SaveV2");
    const Output list = Const(below.WithOpName("tensor_names"), texts(some, false));
    const Output slices = Const(below.WithOpName("shape_and_slices"), texts(some, true));
    std::vector<Input> values;
    for (const Saved* v : some) {
      values.push_back(v->variable.is_resource() ? v->variable.Read(below.ColocateWith(v->variable.handle()))
                                                 : v->variable.handle());
    }
    return EmitLists(here.WithOpName("SaveV2"), "SaveV2", {InputList(to), InputList(list), InputList(slices), values});
  };
  if (!options_.sharded) {
    const Operation saved = save(s, prefix, shards.begin()->second);
    save_ =
        train::Build(s.WithOpName("control_dependency").WithControlDependencies(saved), "Identity", {prefix}).name();
  } else {
    // The parts lie in a folder that no other save has, until they are merged.
    std::random_device random;
    char unique[40];
    std::snprintf(unique, sizeof(unique), "_temp_%08x%08x%08x/part", random(), random(), random());
    const Output suffix = Const(s.WithOpName("StringJoin/suffix"), Tensor::Scalar(std::string(unique)));
    const Output base =
        EmitLists(s.WithOpName("StringJoin"), "StringJoin", {InputList({Input(prefix), Input(suffix)})}).output(0);
    const Output count = Const(s.WithOpName("num_shards"), Tensor::Scalar(static_cast<int32_t>(shards.size())));
    std::vector<Input> parts;
    std::vector<Operation> saves;
    int32_t number = 0;
    for (const auto& [device, some] : shards) {
      const Scope here = device.empty() ? s : s.WithDevice(device);
      const Output shard = Const(here.WithOpName("ShardedFilename/shard"), Tensor::Scalar(number++));
      const Output name = train::Build(here.WithOpName("ShardedFilename"), "ShardedFilename", {base, shard, count});
      saves.push_back(save(here, name, some));
      parts.push_back(name);
    }
    const Output all = EmitLists(s.WithOpName("MergeV2Checkpoints/checkpoint_prefixes").WithControlDependencies(saves),
                                 "Pack", {InputList(parts)})
                           .output(0);
    const Operation merged = EmitOp(s.WithOpName("MergeV2Checkpoints"), "MergeV2Checkpoints", {all, prefix});
    save_ = train::Build(s.WithOpName("Identity").WithControlDependencies(merged), "Identity", {prefix}).name();
  }

  std::vector<Operation> assigns;
  for (const auto& [device, some] : shards) {
    const Scope here = device.empty() ? s : s.WithDevice(device);
    const Scope below = here.NewSubScope("RestoreV2");
    const Output list = Const(below.WithOpName("tensor_names"), texts(some, false));
    const Output slices = Const(below.WithOpName("shape_and_slices"), texts(some, true));
    std::vector<DType> types;
    for (const Saved* v : some) types.push_back(v->variable.variable_dtype());
    const Operation restored =
        EmitOp(here.WithOpName("RestoreV2"), "RestoreV2", {prefix, list, slices}, {{"dtypes", types}});
    if (!restored.valid()) return;
    for (size_t i = 0; i < some.size(); ++i) {
      const Variable& v = some[i]->variable;
      const Scope where = s.ColocateWith(v.handle());
      const Output value = restored.output(static_cast<int>(i));
      if (v.is_resource()) {
        assigns.push_back(EmitOp(where.WithOpName("AssignVariableOp"), "AssignVariableOp",
                                 {v.handle(), train::Build(where, "Identity", {value})},
                                 {{"dtype", v.variable_dtype()}}));
      } else {
        assigns.push_back(EmitOp(where.WithOpName("Assign"), "Assign", {v.handle(), value},
                                 {{"validate_shape", v.variable_shape().IsFullyDefined()}}));
      }
    }
  }
  restore_ = Group(s.WithOpName("restore_all"), assigns).name();
  filename_ = prefix.name();
  if (!at.ok()) return;
  if (const absl::Status found = FindAssignments(*at->graph()); !found.ok()) at.Fail(found);
}

// From the restore op back to the RestoreV2 nodes: also of graphs that somebody else wrote.
absl::Status Saver::FindAssignments(const Graph& graph) {
  assignments_.clear();
  const auto node_of = [](const std::string& name) { return name.substr(0, name.rfind(':')); };
  const Node* const all = graph.Find(node_of(restore_));
  if (all == nullptr) return NotFound("the graph has no node '", restore_, "', which restores its variables");
  std::vector<const Node*> todo = {all};
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()));
  // A value of a Const node, through nodes that pass it on.
  const auto constant = [](const NodeOut& out) -> absl::StatusOr<Tensor> {
    if (out.node == nullptr || !out.node->IsConstant()) return NotFound("no constant");
    return out.node->Attr<Tensor>("value");
  };
  while (!todo.empty()) {
    const Node* const n = todo.back();
    todo.pop_back();
    if (seen[static_cast<size_t>(n->id())]) continue;
    seen[static_cast<size_t>(n->id())] = true;
    const std::string_view op = n->op().name;
    if (op == "NoOp") {
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsOp()) todo.push_back(e->src);
      }
      continue;
    }
    if ((op != "Assign" && op != "AssignVariableOp") || n->num_inputs() != 2) continue;
    NodeOut value = n->input(1);
    while (value.node != nullptr && value.node->op().name == "Identity") value = value.node->input(0);
    if (value.node == nullptr || value.node->op().name != "RestoreV2") continue;
    const absl::StatusOr<Tensor> names = constant(value.node->input(1)), slices = constant(value.node->input(2));
    if (!names.ok() || !slices.ok() || names->num_elements() <= value.index || slices->num_elements() <= value.index ||
        names->dtype() != DType::kString || slices->dtype() != DType::kString) {
      continue;
    }
    Assignment a;
    a.name = names->data<std::string>()[value.index];
    a.shape_and_slice = slices->data<std::string>()[value.index];
    a.tensor = StrCat(value.node->name(), ":", value.index);
    a.assign = n->name();
    a.dtype = BaseType(value.node->output_type(value.index));
    NodeOut variable = n->input(0);
    if (auto shape = variable.node->Attr<PartialTensorShape>("shape"); shape.ok()) a.shape = *shape;
    assignments_.push_back(std::move(a));
  }
  std::sort(assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
    return std::tie(a.name, a.shape_and_slice) < std::tie(b.name, b.shape_and_slice);
  });
  return absl::OkStatus();
}

std::vector<std::string> Saver::checkpoints() const {
  std::vector<std::string> paths;
  for (const Kept& k : kept_) paths.push_back(k.path);
  return paths;
}

void Saver::TakeOver(const std::string& folder, const std::string& latest_filename) {
  // Spelled otherwise, or in another current folder, it is read anew: the paths in `kept_` are of
  // the old spelling.
  const std::string folder_key = KeyOfFolder(folder);
  if (folder == folder_ && folder_key == folder_key_) return;
  folder_ = folder;
  folder_key_ = folder_key;
  kept_.clear();
  last_preserved_ = Now();
  const absl::StatusOr<proto::CheckpointState> state = ReadState(folder, latest_filename);
  if (!state.ok()) return;
  for (int i = 0; i < state->all_model_checkpoint_paths_size(); ++i) {
    const std::string& path = state->all_model_checkpoint_paths(i);
    if (!CheckpointExists(path)) continue;
    const bool timed = i < state->all_model_checkpoint_timestamps_size();
    Keep(path, timed ? state->all_model_checkpoint_timestamps(i) : last_preserved_);
  }
  if (state->last_preserved_timestamp() > 0) last_preserved_ = state->last_preserved_timestamp();
}

void Saver::Keep(const std::string& path, double time) {
  std::string key = KeyOf(path);
  std::erase_if(kept_, [&](const Kept& k) { return k.key == key; });
  kept_.push_back({path, std::move(key), time});
}

// Each checkpoint stands in `kept_` once, so that what goes is neither the newest nor one that the
// list has now.
absl::Status Saver::DropOld() {
  if (options_.max_to_keep <= 0) return absl::OkStatus();
  absl::Status failed;
  while (kept_.size() > static_cast<size_t>(options_.max_to_keep)) {
    const Kept old = kept_.front();
    kept_.erase(kept_.begin());
    if (old.time > last_preserved_ + options_.keep_checkpoint_every_n_hours * 3600) {
      last_preserved_ = old.time;
      continue;
    }
    absl::Status deleted = DeleteCheckpoint(old.path);
    if (deleted.ok()) {
      deleted = files::Delete(MetaPath(old.path));
      if (absl::IsNotFound(deleted)) deleted = absl::OkStatus();
    }
    if (failed.ok()) failed = deleted;
  }
  return failed;
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& path, const SaveOptions& options) {
  if (save_.empty()) return FailedPrecondition("a Saver without nodes: it is empty, or building it failed");
  if (files::NameOf(path).empty()) return InvalidArgument("'", CEscape(path), "' is no prefix of checkpoints");
  const std::string folder = files::DirectoryOf(path);
  const std::string prefix = options.global_step >= 0 ? StrCat(path, "-", options.global_step) : path;
  if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  std::vector<Tensor> saved;
  TROUPE_RETURN_IF_ERROR(session.Run({{filename_, Tensor::Scalar(prefix)}}, {save_}, {}, &saved));
  // A graph that was imported may name what it wrote otherwise: by a pattern of several files.
  const bool named = saved[0].dtype() == DType::kString && saved[0].num_elements() == 1;
  const std::string name = named ? saved[0].scalar<std::string>() : prefix;
  if (options.graph != nullptr) TROUPE_RETURN_IF_ERROR(WriteMetaGraph(MetaPath(name), *options.graph, this));
  if (!options.write_state) return name;
  TakeOver(folder, options.latest_filename);
  Keep(name, Now());
  // What is about to be deleted is not listed: a list is never better than what is there.
  proto::CheckpointState state;
  state.set_model_checkpoint_path(NameIn(folder_key_, name));
  const size_t most = options_.max_to_keep > 0 ? static_cast<size_t>(options_.max_to_keep) : kept_.size();
  for (size_t i = kept_.size() - std::min(most, kept_.size()); i < kept_.size(); ++i) {
    state.add_all_model_checkpoint_paths(NameIn(folder_key_, kept_[i].path));
    state.add_all_model_checkpoint_timestamps(kept_[i].time);
  }
  state.set_last_preserved_timestamp(last_preserved_);
  std::string text;
  google::protobuf::TextFormat::PrintToString(state, &text);
  TROUPE_RETURN_IF_ERROR(files::Write(files::Join(folder, options.latest_filename), text));
  TROUPE_RETURN_IF_ERROR(DropOld());
  return name;
}

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
    }
    if (problem.empty()) {
      found.push_back(&a);
    } else {
      skipped.push_back(a.name);
      StrAppend(&problems, problems.empty() ? "" : "; ", problem);
    }
  }
  if (options.skipped != nullptr) *options.skipped = skipped;
  if (options.missing == Missing::kStrict) {
    if (!problems.empty()) return NotFound("the checkpoint ", path, " does not fit the graph: ", problems);
    return session.Run({{filename_, Tensor::Scalar(path)}}, {}, {restore_}, nullptr);
  }
  if (assignments_.empty()) {
    return Unimplemented("the nodes behind '", restore_, "' are not known, so that none can be left out");
  }
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
