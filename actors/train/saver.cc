#include "troupe/train/saver.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include "actors/aside.h"
#include "actors/runtime_impl.h"
#include "actors/train/meta_graph.h"
#include "graph/checkpoint/first_format.h"
#include "graph/train/build.h"
#include "troupe/const.h"
#include "troupe/files.h"
#include "troupe/group.h"
#include "troupe/proto/checkpoint_state.pb.h"
#include "troupe/state_snapshot.h"
#include "troupe/train/partitioned.h"

namespace troupe::train {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Behind the prefix: the folder where the parts of a sharded save lie until they are merged. No
// other save has it.
std::string UniqueFolder() {
  std::random_device random;
  char unique[40];
  std::snprintf(unique, sizeof(unique), "_temp_%08x%08x%08x", random(), random(), random());
  return unique;
}
std::string NewSuffix() { return UniqueFolder() + "/part"; }

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

constexpr std::string_view kVariableKind = "variable";

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
  std::vector<const Node*> pending = {all};
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()));
  // A value of a Const node, through nodes that pass it on.
  const auto constant = [](const NodeOut& out) -> absl::StatusOr<Tensor> {
    if (out.node == nullptr || !out.node->IsConstant()) return NotFound("no constant");
    return out.node->Attr<Tensor>("value");
  };
  while (!pending.empty()) {
    const Node* const n = pending.back();
    pending.pop_back();
    if (seen[static_cast<size_t>(n->id())]) continue;
    seen[static_cast<size_t>(n->id())] = true;
    const std::string_view op = n->op().name;
    if (op == "NoOp") {
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsOp()) pending.push_back(e->src);
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
    const Node* const variable = n->input(0).node;
    if (auto shape = variable->Attr<PartialTensorShape>("shape"); shape.ok()) a.shape = *shape;
    a.variable = variable->name();
    a.device = variable->requested_device();
    if (auto container = variable->Attr<std::string>("container"); container.ok()) a.container = *container;
    if (auto name = variable->Attr<std::string>("shared_name"); name.ok()) a.resource = *name;
    if (a.resource.empty()) a.resource = variable->name();
    assignments_.push_back(std::move(a));
  }
  std::sort(assignments_.begin(), assignments_.end(), [](const Assignment& a, const Assignment& b) {
    return std::tie(a.name, a.shape_and_slice) < std::tie(b.name, b.shape_and_slice);
  });
  by_snapshot_ = SavesWhatItRestores(graph);
  locals_.clear();
  const auto locals = graph.collections().find(kLocalVariables);
  if (locals == graph.collections().end()) return absl::OkStatus();
  for (const std::string& name : locals->second) {
    const Node* const n = graph.Find(name);
    if (n == nullptr) continue;
    const std::string shared = n->Attr<std::string>("shared_name").value_or("");
    locals_.emplace_back(n->Attr<std::string>("container").value_or(""), shared.empty() ? name : shared);
  }
  return absl::OkStatus();
}

// Whether the nodes that save write the same tensors of the same variables. Other people's graphs
// may save what is no variable.
bool Saver::SavesWhatItRestores(const Graph& graph) const {
  const Node* const all = graph.Find(save_.substr(0, save_.rfind(':')));
  if (all == nullptr) return false;
  std::set<std::tuple<std::string, std::string, std::string>> saved, restored;
  std::vector<const Node*> pending = {all};
  std::vector<bool> seen(static_cast<size_t>(graph.num_node_ids()));
  while (!pending.empty()) {
    const Node* const n = pending.back();
    pending.pop_back();
    if (seen[static_cast<size_t>(n->id())]) continue;
    seen[static_cast<size_t>(n->id())] = true;
    if (n->op().name != "SaveV2") {
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsOp()) pending.push_back(e->src);
      }
      continue;
    }
    const auto texts = [&](int input) -> absl::StatusOr<Tensor> {
      const NodeOut out = n->input(input);
      if (out.node == nullptr || !out.node->IsConstant()) return NotFound("no constant");
      return out.node->Attr<Tensor>("value");
    };
    const absl::StatusOr<Tensor> names = texts(1), slices = texts(2);
    const int count = n->num_inputs() - 3;
    if (!names.ok() || !slices.ok() || names->dtype() != DType::kString || slices->dtype() != DType::kString ||
        names->num_elements() != count || slices->num_elements() != count) {
      return false;
    }
    for (int i = 0; i < count; ++i) {
      NodeOut value = n->input(3 + i);
      while (value.node != nullptr &&
             (value.node->op().name == "Identity" || value.node->op().name == "ReadVariableOp"))
        value = value.node->input(0);
      if (value.node == nullptr) return false;
      saved.emplace(names->data<std::string>()[i], slices->data<std::string>()[i], value.node->name());
    }
  }
  for (const Assignment& a : assignments_) restored.emplace(a.name, a.shape_and_slice, a.variable);
  return !saved.empty() && saved == restored;
}

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
  // The order of saves: each that has taken its values draws a ticket; they are written in turn.
  static constexpr uint64_t kMostUnwritten = 8;
  std::mutex order;
  std::condition_variable moved_on;
  uint64_t drawn = 0, written = 0;  // guarded by `order`
  // Waits until few enough are unwritten that another may hold values in memory.
  void WaitForRoom() {
    std::unique_lock<std::mutex> lock(order);
    moved_on.wait(lock, [this] { return drawn - written < kMostUnwritten; });
  }
  // A place in the order, given up when this is destroyed.
  class Ticket {
   public:
    explicit Ticket(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {
      std::lock_guard<std::mutex> lock(disk_->order);
      number_ = disk_->drawn++;
    }
    ~Ticket() {
      WaitForTurn();
      std::lock_guard<std::mutex> lock(disk_->order);
      ++disk_->written;
      disk_->moved_on.notify_all();
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    void WaitForTurn() const {
      std::unique_lock<std::mutex> lock(disk_->order);
      disk_->moved_on.wait(lock, [this] { return disk_->written == number_; });
    }

   private:
    const std::shared_ptr<Disk> disk_;
    uint64_t number_ = 0;
  };

  std::mutex mu;  // held while a save writes; guards what follows
  std::vector<Kept> kept;
  std::vector<std::string> old;  // checkpoints that could not be deleted yet
  std::vector<Left> left;
  std::string folder;         // of which `kept` is, as it was spelled
  std::string folder_key;     // likewise, the same for every spelling
  double last_preserved = 0;  // when one was last kept for good
  const std::shared_ptr<UnderWay> saves = std::make_shared<UnderWay>();

  // The newest from now on.
  void Keep(const std::string& path, double time) {
    std::string key = KeyOf(path);
    std::erase_if(kept, [&](const Kept& k) { return k.key == key; });
    std::erase_if(old, [&](const std::string& o) { return KeyOf(o) == key; });
    kept.push_back({path, std::move(key), time});
  }

  // Takes over what the list of a folder says, if that is another folder. Spelled otherwise, or in
  // another current folder, it is read anew: the paths in `kept` are of the old spelling.
  void TakeOver(const std::string& of, const std::string& latest_filename) {
    const std::string key = KeyOfFolder(of);
    if (of == folder && key == folder_key) return;
    folder = of;
    folder_key = key;
    kept.clear();
    last_preserved = Now();
    const absl::StatusOr<proto::CheckpointState> state = ReadState(folder, latest_filename);
    if (!state.ok()) return;
    for (int i = 0; i < state->all_model_checkpoint_paths_size(); ++i) {
      const std::string& path = state->all_model_checkpoint_paths(i);
      if (!CheckpointExists(path)) continue;
      const bool timed = i < state->all_model_checkpoint_timestamps_size();
      Keep(path, timed ? state->all_model_checkpoint_timestamps(i) : last_preserved);
    }
    if (state->last_preserved_timestamp() > 0) last_preserved = state->last_preserved_timestamp();
  }

  // What is about to be deleted is not listed: every checkpoint that is listed exists.
  absl::Status WriteList(const SaverOptions& options, const std::string& newest, const std::string& latest_filename) {
    proto::CheckpointState state;
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

  // Each checkpoint stands in `kept` once, so that what goes is neither the newest nor one that the
  // list has now. What cannot be deleted is tried again after the next save: this one has done its
  // work.
  void DropOld(const SaverOptions& options) {
    if (options.max_to_keep <= 0) return;
    while (kept.size() > static_cast<size_t>(options.max_to_keep)) {
      const Kept oldest = kept.front();
      kept.erase(kept.begin());
      if (oldest.time > last_preserved + options.keep_checkpoint_every_n_hours * 3600) {
        last_preserved = oldest.time;
      } else {
        old.push_back(oldest.path);
      }
    }
    std::erase_if(old, [](const std::string& path) {
      absl::Status deleted = DeleteCheckpoint(path);
      if (deleted.ok()) {
        deleted = files::Delete(MetaPath(path));
        if (absl::IsNotFound(deleted)) deleted = absl::OkStatus();
      }
      if (!deleted.ok()) spdlog::warn("the old checkpoint {} could not be deleted: {}", path, deleted.ToString());
      return deleted.ok();
    });
  }

  // A kernel of the failed save may still have a file open there; then the folder goes the next
  // time.
  void DeleteLeft() {
    std::erase_if(left, [](const Left& l) {
      const absl::StatusOr<std::vector<std::string>> names = files::List(l.folder);
      if (!names.ok()) return absl::IsNotFound(names.status());
      for (const std::string& name : *names) {
        if (name.starts_with(l.begin)) (void)files::Delete(files::Join(l.folder, name));
      }
      return files::Delete(l.folder).ok();
    });
  }
};

// What one save writes.
struct Saver::Job {
  std::string folder, prefix;
  std::string name;                            // of the checkpoint: the prefix, or what the nodes call it
  SaveOptions options;                         // without the graph
  std::optional<StateSnapshot> snapshot;       // none: the graph's nodes have written the checkpoint
  std::string meta;                            // the bytes of the MetaGraph; "" = none
  std::shared_ptr<const Disk::Ticket> ticket;  // drawn when the values have been taken
};

std::shared_ptr<Saver::Disk> Saver::NewDisk() { return std::make_shared<Disk>(); }

std::vector<std::string> Saver::checkpoints() const {
  std::lock_guard<std::mutex> lock(disk_->mu);
  std::vector<std::string> paths;
  for (const Disk::Kept& k : disk_->kept) paths.push_back(k.path);
  return paths;
}

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
    if (snapshot.ok()) job->snapshot = *std::move(snapshot);
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
  // The parts lie in a folder that no other save has, until they are merged.
  const std::string folder = StrCat(prefix, UniqueFolder());
  std::vector<std::string> parts;
  absl::Status written;
  for (const auto& [device, some] : shards) {
    if (!written.ok()) break;
    char name[40];
    std::snprintf(name, sizeof(name), "/part-%05zu-of-%05zu", parts.size(), shards.size());
    parts.push_back(folder + name);
    written = write(parts.back(), some, parts.size() == 1);
  }
  if (written.ok()) written = MergeCheckpoints(parts, prefix);
  if (!written.ok()) {
    for (const std::string& part : parts) DeleteCheckpoint(part).IgnoreError();
    files::Delete(folder).IgnoreError();
  }
  return written;
}

absl::StatusOr<std::string> Saver::Write(const Job& job) const {
  job.ticket->WaitForTurn();
  std::lock_guard<std::mutex> lock(disk_->mu);
  if (job.snapshot.has_value()) TROUPE_RETURN_IF_ERROR(WriteValues(job));
  if (!job.meta.empty()) TROUPE_RETURN_IF_ERROR(files::Write(MetaPath(job.name), job.meta));
  if (!job.options.write_state) return job.name;
  disk_->TakeOver(job.folder, job.options.latest_filename);
  disk_->Keep(job.name, Now());
  TROUPE_RETURN_IF_ERROR(disk_->WriteList(options_, job.name, job.options.latest_filename));
  disk_->DropOld(options_);
  return job.name;
}

absl::StatusOr<std::string> Saver::Save(Session& session, const std::string& path, const SaveOptions& options) {
  Job job;
  TROUPE_RETURN_IF_ERROR(Prepare(session, path, options, &job));
  job.ticket = std::make_shared<const Disk::Ticket>(disk_);
  return Write(job);
}

absl::Status Saver::SaveVariablesAlone(Session& session, const std::string& prefix) const {
  Saver alone = *this;
  alone.options_.session_state = false;
  alone.disk_ = NewDisk();
  return alone.Save(session, prefix, SaveOptions{.write_state = false}).status();
}

void Saver::SaveAsync(Session& session, const std::string& path, const SaveOptions& options, SaveCallback done) {
  auto job = std::make_shared<Job>();
  if (done == nullptr) {
    done = [](const absl::StatusOr<std::string>& saved) {
      if (!saved.ok()) spdlog::error("a save that nobody asks about has failed: {}", saved.status().ToString());
    };
  }
  disk_->WaitForRoom();
  absl::Status prepared = Prepare(session, path, options, job.get());
  if (!prepared.ok()) return done(std::move(prepared));
  job->ticket = std::make_shared<const Disk::Ticket>(disk_);
  if (!job->snapshot.has_value()) {
    absl::StatusOr<std::string> written = Write(*job);
    job = nullptr;  // `done` may save again
    return done(std::move(written));
  }
  RunAside(true, [saver = *this, job, done = std::move(done), share = UnderWay::Share(disk_->saves)]() mutable {
    absl::StatusOr<std::string> written = saver.Write(*job);
    job = nullptr;
    CallUser("a callback of SaveAsync", [&] { done(std::move(written)); });
    // The save is under way until its caller knows.
    done = nullptr;
    share = nullptr;
  });
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
  const auto restore_others = [&]() -> absl::Status {
    if (!options_.session_state) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(const StateSnapshot others, ReadOthers(*reader));
    if (others.entries.empty()) return absl::OkStatus();
    const absl::Status s = session.RestoreState(others);
    if (options.missing == Missing::kStrict || !absl::IsNotFound(s)) return s;
    if (options.skipped != nullptr) options.skipped->push_back(kOthers);
    return absl::OkStatus();
  };
  if (!options.variables) return restore_others();
  if (options.missing == Missing::kStrict) {
    if (!problems.empty()) return NotFound("the checkpoint ", path, " does not fit the graph: ", problems);
    TROUPE_RETURN_IF_ERROR(session.Run({{filename_, Tensor::Scalar(path)}}, {}, {restore_}, nullptr));
    return restore_others();
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
  if (!targets.empty()) TROUPE_RETURN_IF_ERROR(session.Run(feeds, {}, targets, nullptr));
  return restore_others();
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
