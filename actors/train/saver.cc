#include "troupe/train/saver.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/files.h"
#include "troupe/group.h"
#include "troupe/proto/checkpoint_state.pb.h"

namespace troupe::train {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Behind the prefix: where the parts of a sharded save lie until they are merged.
std::string NewSuffix() {
  std::random_device random;
  char unique[40];
  std::snprintf(unique, sizeof(unique), "_temp_%08x%08x%08x/part", random(), random(), random());
  return unique;
}

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

// Names of checkpoints are written without their folder, so that it may be moved.
std::string NameIn(const std::string& folder, const std::string& path) {
  return files::DirectoryOf(path) == folder ? files::NameOf(path) : path;
}

}  // namespace

Saver::Saver(const ScopeAt& at, const SaverOptions& options) : options_(options) {
  const std::vector<Variable> all = VariablesIn(at, kGlobalVariables);
  Build(at, {all.begin(), all.end()});
}

Saver::Saver(const ScopeAt& at, const std::vector<Saved>& variables, const SaverOptions& options) : options_(options) {
  Build(at, variables);
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
    // The parts lie in a folder until they are merged. The constant is TensorFlow's way; Save feeds
    // another name each time.
    const Output suffix = Const(s.WithOpName("StringJoin/suffix"), Tensor::Scalar(NewSuffix()));
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
  FindSuffix(*at->graph());
}

// From the merging op back to the constant with which the names of its parts end. Graphs of others
// may make that name in another way; then it stays as it is, and saves to one prefix share a
// folder.
void Saver::FindSuffix(const Graph& graph) {
  const Node* const all = graph.Find(save_.substr(0, save_.rfind(':')));
  if (all == nullptr) return;
  const auto input = [](const Node* n, int i, std::string_view op) -> const Node* {
    if (n == nullptr || n->num_inputs() <= i) return nullptr;
    const Node* const from = n->input(i).node;
    return from != nullptr && from->op().name == op ? from : nullptr;
  };
  for (const Edge* e : all->in_edges()) {
    if (!e->src->IsOp() || e->src->op().name != "MergeV2Checkpoints") continue;
    const Node* const join = input(input(input(e->src, 0, "Pack"), 0, "ShardedFilename"), 0, "StringJoin");
    const Node* const suffix = input(join, 1, "Const");
    if (suffix == nullptr || join->num_inputs() != 2) continue;
    const absl::StatusOr<Tensor> value = suffix->Attr<Tensor>("value");
    if (value.ok() && value->dtype() == DType::kString && value->rank() == 0 &&
        value->scalar<std::string>().starts_with("_temp_")) {
      suffix_ = StrCat(suffix->name(), ":0");
    }
  }
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
  if (folder == folder_) return;
  folder_ = folder;
  kept_.clear();
  last_preserved_ = Now();
  const absl::StatusOr<proto::CheckpointState> state = ReadState(folder, latest_filename);
  if (!state.ok()) return;
  for (int i = 0; i < state->all_model_checkpoint_paths_size(); ++i) {
    const std::string& path = state->all_model_checkpoint_paths(i);
    if (!CheckpointExists(path)) continue;
    const bool timed = i < state->all_model_checkpoint_timestamps_size();
    kept_.push_back({path, timed ? state->all_model_checkpoint_timestamps(i) : last_preserved_});
  }
  if (state->last_preserved_timestamp() > 0) last_preserved_ = state->last_preserved_timestamp();
}

// What cannot be deleted now is tried again after the next save: this one has done its work.
void Saver::DropOld() {
  if (options_.max_to_keep <= 0) return;
  while (kept_.size() > static_cast<size_t>(options_.max_to_keep)) {
    const Kept old = kept_.front();
    kept_.erase(kept_.begin());
    if (old.time > last_preserved_ + options_.keep_checkpoint_every_n_hours * 3600) {
      last_preserved_ = old.time;
    } else {
      old_.push_back(old.path);
    }
  }
  std::erase_if(old_, [](const std::string& path) {
    absl::Status deleted = DeleteCheckpoint(path);
    if (deleted.ok()) {
      deleted = files::Delete(path + ".meta");
      if (absl::IsNotFound(deleted)) deleted = absl::OkStatus();
    }
    if (!deleted.ok()) spdlog::warn("the old checkpoint {} could not be deleted: {}", path, deleted.ToString());
    return deleted.ok();
  });
}

// A kernel of the failed save may still have a file open there; then the folder goes the next time.
void Saver::DeleteLeft() {
  std::erase_if(left_, [](const Left& left) {
    const absl::StatusOr<std::vector<std::string>> names = files::List(left.folder);
    if (!names.ok()) return absl::IsNotFound(names.status());
    for (const std::string& name : *names) {
      if (name.starts_with(left.begin)) (void)files::Delete(files::Join(left.folder, name));
    }
    return files::Delete(left.folder).ok();
  });
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& path, const SaveOptions& options) {
  if (save_.empty()) return FailedPrecondition("a Saver without nodes: it is empty, or building it failed");
  if (files::NameOf(path).empty()) return InvalidArgument("'", CEscape(path), "' is no prefix of checkpoints");
  const std::string folder = files::DirectoryOf(path);
  const std::string prefix = options.global_step >= 0 ? StrCat(path, "-", options.global_step) : path;
  if (!files::Exists(folder)) TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  std::vector<Tensor> saved;
  Feeds feeds = {{filename_, Tensor::Scalar(prefix)}};
  DeleteLeft();
  std::string parts;
  if (!suffix_.empty()) {
    const std::string suffix = NewSuffix();
    parts = prefix + suffix;
    feeds.emplace_back(suffix_, Tensor::Scalar(suffix));
  }
  const absl::Status run = session.Run(feeds, {save_}, {}, &saved);
  if (!run.ok() && !parts.empty()) left_.push_back({files::DirectoryOf(parts), files::NameOf(parts)});
  TROUPE_RETURN_IF_ERROR(run);
  if (options.graph != nullptr) TROUPE_RETURN_IF_ERROR(WriteMetaGraph(prefix + ".meta", *options.graph, this));
  TakeOver(folder, options.latest_filename);
  std::erase_if(kept_, [&](const Kept& k) { return k.path == prefix; });
  std::erase(old_, prefix);
  kept_.push_back({prefix, Now()});
  if (options.write_state) {
    // What is about to be deleted is not listed: a list is never better than what is there.
    proto::CheckpointState state;
    state.set_model_checkpoint_path(NameIn(folder, prefix));
    const size_t most = options_.max_to_keep > 0 ? static_cast<size_t>(options_.max_to_keep) : kept_.size();
    for (size_t i = kept_.size() - std::min(most, kept_.size()); i < kept_.size(); ++i) {
      state.add_all_model_checkpoint_paths(NameIn(folder, kept_[i].path));
      state.add_all_model_checkpoint_timestamps(kept_[i].time);
    }
    state.set_last_preserved_timestamp(last_preserved_);
    std::string text;
    google::protobuf::TextFormat::PrintToString(state, &text);
    TROUPE_RETURN_IF_ERROR(files::Write(files::Join(folder, options.latest_filename), text));
  }
  DropOld();
  return prefix;
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
      problem = StrCat("'", a.name, "' is ", Name(entry->dtype), " there and ", Name(a.dtype), " here");
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
  // The others: what RestoreV2 would give is fed, to those nodes alone that assign it.
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
