#include "troupe/scope.h"

#include <algorithm>

#include "graph/api/control_context.h"
#include "graph/api/scope_state.h"
#include "graph/core/device_name.h"
#include "graph/core/guarded.h"
#include "troupe/import_export.h"
#include "troupe/shape_inference.h"

namespace troupe {

using internal::DeviceEntry;
using internal::ScopeShared;
using internal::ScopeState;

namespace internal {

std::string ScopeShared::UniqueName(const std::string& base) {
  auto taken = [&](const std::string& n) { return graph->Find(n) != nullptr || scope_names.contains(n); };
  if (!taken(base)) return base;
  int& next = counters[base];
  std::string name;
  do {
    name = StrCat(base, "_", ++next);
  } while (taken(name));
  return name;
}

absl::Status ScopeShared::Refine(const Node* node) {
  // Nodes may have been added past the scopes (an import, gradients): they come first.
  for (; refined < node->id(); ++refined) {
    if (const Node* n = graph->node(refined)) TROUPE_RETURN_IF_ERROR(refiner.AddNode(n));
  }
  refined = std::max(refined, node->id() + 1);
  return refiner.AddNode(node);
}

absl::StatusOr<std::string> RequestedDevice(const DeviceEntry* entry, Node* node) {
  DeviceName merged;
  for (; entry != nullptr; entry = entry->outer.get()) {
    if (entry->fn) {
      node->set_requested_device(merged.ToString());
      std::string answer;
      TROUPE_RETURN_IF_ERROR(Guarded("the scope's device function", [&] { answer = entry->fn(*node); }));
      if (answer.empty()) continue;
      TROUPE_ASSIGN_OR_RETURN(merged, DeviceName::Parse(answer));
    } else if (entry->name.empty()) {
      break;
    } else {
      TROUPE_ASSIGN_OR_RETURN(const DeviceName outer, DeviceName::Parse(entry->name));
      merged.FillFrom(outer);
    }
  }
  return merged.ToString();
}

std::shared_ptr<ScopeState> TopLevel(const ScopeState& state) {
  auto s = std::make_shared<ScopeState>(state);
  s->prefix.clear();
  s->control.clear();
  s->context = nullptr;
  return s;
}

std::shared_ptr<const ScopeState> RootOver(const Graph& graph) {
  auto shared = std::static_pointer_cast<ScopeShared>(graph.scopes());
  if (shared == nullptr) return nullptr;
  auto root = std::make_shared<ScopeState>();
  root->shared = std::move(shared);
  return root;
}

std::vector<std::string> ColocationGroups(const Node& node) {
  auto groups = node.Attr<std::vector<std::string>>("_class");
  if (groups.ok() && !groups->empty()) return *groups;
  return {StrCat("loc:@", node.name())};
}

}  // namespace internal

namespace {

Scope With(const Scope& scope, const std::function<void(ScopeState&)>& change) {
  auto s = std::make_shared<ScopeState>(*scope.state());
  change(*s);
  return Scope(std::move(s), scope.op_name());
}

bool ValidScopeName(std::string_view name) {
  if (name.empty()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (alnum || c == '.') continue;
    if (i > 0 && (c == '_' || c == '-' || c == '/' || c == '\\')) continue;
    return false;
  }
  return name.back() != '/';
}

SourceLocation From(const std::source_location& here) { return {here.file_name(), here.line()}; }

// A node of another graph must not be kept: it goes with its graph, and its name may be that of
// another node here.
bool OfGraph(const Scope& scope, const Operation& op, const char* what, SourceLocation location) {
  if (op.node()->graph() == scope.graph()) return true;
  scope.Fail(InvalidArgument(what, " '", op.name(), "' belongs to another graph"), location);
  return false;
}

// The state of a root scope. Without a graph there is one all the same, so that what is called on
// the scope finds its error.
std::shared_ptr<ScopeState> RootState(std::shared_ptr<Graph> graph) {
  auto s = std::make_shared<ScopeState>();
  const bool given = graph != nullptr;
  s->shared = std::make_shared<ScopeShared>(given ? std::move(graph) : std::make_shared<Graph>());
  if (!given) s->shared->status = InvalidArgument("NewRootScope was given no graph");
  // With several root scopes over one graph it is the first, as long as that one lives.
  Graph& over = *s->shared->graph;
  if (over.scopes() == nullptr) over.set_scopes(s->shared);
  return s;
}

}  // namespace

Scope::Scope(std::shared_ptr<const ScopeState> state, std::string op_name)
    : state_(state != nullptr ? std::move(state) : RootState(nullptr)), op_name_(std::move(op_name)) {}

Scope Scope::NewRootScope() { return NewRootScope(std::make_shared<Graph>()); }

Scope Scope::NewRootScope(std::shared_ptr<Graph> graph) { return Scope(RootState(std::move(graph))); }

Scope Scope::NewRootScope(Graph* graph) {
  // Owns nothing, and compares equal to null for a null graph.
  return NewRootScope(std::shared_ptr<Graph>(std::shared_ptr<Graph>(), graph));
}

Scope Scope::NewSubScope(std::string_view name) const {
  if (!ValidScopeName(name)) {
    UpdateStatus(InvalidArgument("'", name, "' is no name for a scope"));
    return *this;
  }
  ScopeShared& shared = *state_->shared;
  std::string full = shared.UniqueName(state_->prefix + std::string(name));
  shared.scope_names.insert(full);
  Scope sub = With(*this, [&](ScopeState& s) { s.prefix = full + "/"; });
  sub.op_name_.clear();
  return sub;
}

Scope Scope::WithOpName(std::string_view name) const { return Scope(state_, std::string(name)); }

Scope Scope::WithDevice(std::string_view device, std::source_location here) const {
  if (auto parsed = DeviceName::Parse(device); !parsed.ok()) {
    Fail(parsed.status(), From(here));
    return *this;
  }
  if (device.empty()) return *this;
  return With(*this, [&](ScopeState& s) {
    s.device = std::make_shared<DeviceEntry>(DeviceEntry{std::string(device), nullptr, s.device});
  });
}

Scope Scope::WithDeviceFunction(DeviceFunction fn) const {
  if (fn == nullptr) return *this;
  return With(*this, [&](ScopeState& s) {
    s.device = std::make_shared<DeviceEntry>(DeviceEntry{"", std::move(fn), s.device});
  });
}

Scope Scope::WithNoDevice() const {
  return With(*this, [](ScopeState& s) { s.device = nullptr; });
}

Scope Scope::WithContainer(std::string_view container) const {
  return With(*this, [&](ScopeState& s) { s.container = container; });
}

Scope Scope::ColocateWith(const Operation& op, std::source_location here) const {
  const SourceLocation line = state_->pinned.known() ? state_->pinned : From(here);
  if (!op.valid()) Fail(InvalidArgument("ColocateWith was given an empty Operation"), line);
  if (op.valid() && !OfGraph(*this, op, "ColocateWith: operation", line)) return *this;
  return With(*this, [&](ScopeState& s) { s.colocate = op.node(); });
}

Scope Scope::WithNoColocation() const {
  return With(*this, [](ScopeState& s) { s.colocate = nullptr; });
}

Scope Scope::WithControlDependencies(const std::vector<Operation>& ops, std::source_location here) const {
  const SourceLocation line = state_->pinned.known() ? state_->pinned : From(here);
  return With(*this, [&](ScopeState& s) {
    for (const Operation& op : ops) {
      if (!op.valid() || !OfGraph(*this, op, "control dependency", line)) continue;
      if (std::find(s.control.begin(), s.control.end(), op.node()) == s.control.end()) s.control.push_back(op.node());
    }
  });
}

Scope Scope::WithNoControlDependencies() const {
  return With(*this, [](ScopeState& s) { s.control.clear(); });
}

Scope Scope::WithLocation(SourceLocation location) const {
  return With(*this, [&](ScopeState& s) { s.pinned = location; });
}

Graph* Scope::graph() const { return state_->shared->graph.get(); }
const std::shared_ptr<Graph>& Scope::shared_graph() const { return state_->shared->graph; }
ShapeRefiner* Scope::refiner() const { return &state_->shared->refiner; }
const std::string& Scope::prefix() const { return state_->prefix; }
const std::vector<Node*>& Scope::control_dependencies() const { return state_->control; }

std::string Scope::UniqueNodeName(std::string_view default_name) const {
  return state_->shared->UniqueName(state_->prefix + (op_name_.empty() ? std::string(default_name) : op_name_));
}

PartialTensorShape Scope::ShapeOf(const Output& out) const {
  if (!out.valid() || out.node()->graph() != graph()) return PartialTensorShape();
  return state_->shared->refiner.shape(out);
}

void Scope::SetShape(const Output& out, const PartialTensorShape& shape, std::source_location here) const {
  if (!ok()) return;
  if (!out.valid()) return Fail(InvalidArgument("SetShape of an empty Output"), From(here));
  if (out.node()->graph() != graph()) {
    return Fail(InvalidArgument("SetShape of '", out.name(), "': the tensor belongs to another graph"), From(here));
  }
  Fail(state_->shared->refiner.SetShape(out, shape), From(here));
}

const absl::Status& Scope::status() const { return state_->shared->status; }

void Scope::UpdateStatus(const absl::Status& status) const { Fail(status, state_->pinned); }

void Scope::Fail(const absl::Status& status, SourceLocation location) const {
  absl::Status& first = state_->shared->status;
  if (status.ok() || !first.ok()) return;
  if (!HasAddress(status) && location.known()) {
    first = absl::Status(status.code(), StrCat(status.message(), "; at ", location.ToString()));
  } else {
    first = status;
  }
}

absl::Status Scope::ToGraphDef(proto::GraphDef* def) const {
  TROUPE_RETURN_IF_ERROR(status());
  ExportGraphDef(*graph(), def);
  return absl::OkStatus();
}

ScopeAt::ScopeAt(const Scope& scope, std::source_location here)
    : scope_(scope), location_(scope.state()->pinned.known() ? scope.state()->pinned : From(here)) {}

Scope ScopeAt::Sub(std::string_view name) const {
  return scope_.NewSubScope(scope_.op_name().empty() ? name : std::string_view(scope_.op_name()))
      .WithLocation(location_);
}

PartialTensorShape Output::shape() const {
  const auto scope = scope_ == nullptr && valid() ? internal::RootOver(*node()->graph()) : scope_;
  return scope == nullptr ? PartialTensorShape() : Scope(scope).ShapeOf(*this);
}

}  // namespace troupe
