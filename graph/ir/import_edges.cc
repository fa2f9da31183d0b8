// The edges of a GraphDef: where inputs come from, whether types agree, whether the graph can run
// at all.
#include <algorithm>
#include <charconv>

#include "graph/ir/import_graph.h"
#include "graph/ir/unknown_ops.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

absl::Status GraphImporter::ReadInput(int node, const std::string& text, Input* in) {
  const bool control = !text.empty() && text[0] == '^';
  std::string_view name = std::string_view(text).substr(control ? 1 : 0);
  in->port = control ? kControlSlot : 0;
  auto it = by_name_.find(name);
  if (it == by_name_.end() && !control) {
    // Node names hold no ':', so what stands behind one can only be an output.
    if (const size_t colon = name.rfind(':'); colon != std::string_view::npos) {
      const char* end = name.data() + name.size();
      const auto [stop, ec] = std::from_chars(name.data() + colon + 1, end, in->port);
      if (ec != std::errc() || stop != end || in->port < 0) {
        return InvalidArgument("input '", CEscape(text), "' is not \"name\", \"name:output\" or \"^name\"");
      }
      name = name.substr(0, colon);
      it = by_name_.find(name);
    }
  }
  if (!options_.input_map.empty()) {
    const auto mapped = options_.input_map.find(control ? text : StrCat(name, ":", in->port));
    if (mapped != options_.input_map.end()) {
      in->existing = mapped->second.node;
      in->port = control ? kControlSlot : mapped->second.index;
      return absl::OkStatus();
    }
  }
  if (it != by_name_.end()) {
    in->node = it->second;
    return absl::OkStatus();
  }
  if (options_.prefix.empty()) in->existing = graph_->Find(name);
  if (in->existing != nullptr && in->existing->IsOp()) return absl::OkStatus();
  return InvalidArgument("input '", CEscape(text), "': there is no node '", CEscape(name), "'");
}

absl::Status GraphImporter::ReadInputs() {
  size_t total = 0;
  for (const proto::NodeDef& n : def_.node()) total += n.input_size();
  inputs_.reserve(total);
  for (int i = 0; i < def_.node_size(); ++i) {
    Pending& p = pending_[i];
    p.first_input = inputs_.size();
    for (const std::string& text : def_.node(i).input()) {
      Input in;
      if (absl::Status s = ReadInput(i, text, &in); !s.ok()) return At(i, s);
      has_unknown_ = has_unknown_ || (in.existing != nullptr && in.existing->op().Has(OpTrait::kUnknown));
      const bool after_control = inputs_.size() > p.first_input && inputs_.back().port == kControlSlot;
      if (in.port != kControlSlot) {
        if (after_control) return At(i, InvalidArgument("data input '", CEscape(text), "' comes after control inputs"));
        ++p.num_data_inputs;
      }
      inputs_.push_back(in);
    }
  }
  return absl::OkStatus();
}

const std::vector<DType>& GraphImporter::SourceTypes(const Input& in) const {
  if (in.existing == nullptr) return pending_[in.node].output_types;
  const auto grown = grown_.find(in.existing);
  return grown != grown_.end() ? grown->second : in.existing->output_types();
}

absl::Status GraphImporter::TypesOfUnknown() {
  // More of one node than any op has.
  constexpr int kMaxOutputs = 1 << 16;
  for (int i = 0; i < def_.node_size(); ++i) {
    if (pending_[i].unknown != nullptr) pending_[i].output_types.assign(1, DType::kInvalid);
  }
  for (int i = 0; i < def_.node_size(); ++i) {
    const Pending& p = pending_[i];
    for (int k = 0; k < p.num_data_inputs; ++k) {
      const Input& in = inputs_[p.first_input + k];
      const bool existing = in.existing != nullptr;
      if (existing ? !in.existing->op().Has(OpTrait::kUnknown) : pending_[in.node].unknown == nullptr) continue;
      if (existing && !grown_.contains(in.existing)) grown_[in.existing] = OutputsSoFar(*in.existing);
      std::vector<DType>& types = existing ? grown_[in.existing] : pending_[in.node].output_types;
      if (in.port >= kMaxOutputs) {
        return At(i, InvalidArgument("input ", k, " is output ", in.port, " of node '",
                                     existing ? in.existing->name() : def_.node(in.node).name(),
                                     "', whose op does not exist here: no op has so many"));
      }
      if (in.port >= static_cast<int>(types.size())) {
        num_outputs_ += in.port + 1 - static_cast<int>(types.size());
        types.resize(in.port + 1, DType::kInvalid);
      }
      if (p.unknown != nullptr || k >= static_cast<int>(p.input_types.size())) continue;
      // Of the nodes that take an output, one that writes to it says most. What was read before is
      // fixed.
      if (types[in.port] == DType::kInvalid || (!existing && IsRef(p.input_types[k])))
        types[in.port] = p.input_types[k];
    }
  }
  const auto settle = [](std::vector<DType>* types) {
    std::replace(types->begin(), types->end(), DType::kInvalid, DType::kVariant);  // no node says
  };
  for (Pending& p : pending_) settle(&p.output_types);
  for (auto& [node, types] : grown_) settle(&types);
  for (Pending& p : pending_) {
    if (p.unknown == nullptr) continue;
    for (int k = 0; k < p.num_data_inputs; ++k) {
      const Input& in = inputs_[p.first_input + k];
      const std::vector<DType>& outputs = SourceTypes(in);
      // One that is not there is CheckEdgeTypes' to refuse.
      p.input_types.push_back(in.port < static_cast<int>(outputs.size()) ? BaseType(outputs[in.port])
                                                                         : DType::kVariant);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::ThawConstants() {
  const OpDef* variable = graph_->ops().Find("VariableV2");
  if (variable == nullptr) return absl::OkStatus();
  for (int i = 0; i < def_.node_size(); ++i) {
    for (int k = 0; k < pending_[i].num_data_inputs; ++k) {
      const Input& in = inputs_[pending_[i].first_input + k];
      if (!IsRef(pending_[i].input_types[k]) || in.existing != nullptr || in.port != 0) continue;
      Pending& source = pending_[in.node];
      const AttrValue* value = source.op->Has(OpTrait::kConstant) ? source.attrs.Find("value") : nullptr;
      const Tensor* tensor = value == nullptr ? nullptr : value->As<Tensor>();
      if (tensor == nullptr || MakeRef(tensor->dtype()) != pending_[i].input_types[k]) continue;
      AttrMap attrs = {{"shape", tensor->shape()}, {"dtype", tensor->dtype()}};
      for (const auto& [name, v] : source.attrs) {
        if (name[0] == '_') attrs.Set(name, v);
      }
      source.op = variable;
      source.attrs = std::move(attrs);
      TROUPE_RETURN_IF_ERROR(ValidateAttrs(*variable, &source.attrs));
      TROUPE_RETURN_IF_ERROR(ArgTypes(variable->outputs, source.attrs, &source.output_types));
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::CheckEdgeTypes() {
  for (int i = 0; i < def_.node_size(); ++i) {
    const Pending& p = pending_[i];
    for (int k = 0; k < p.num_data_inputs; ++k) {
      const Input& in = inputs_[p.first_input + k];
      const std::vector<DType>& outputs = SourceTypes(in);
      const auto source = [&] { return in.existing ? in.existing->name() : def_.node(in.node).name(); };
      if (in.port < 0 || in.port >= static_cast<int>(outputs.size())) {
        return At(i, InvalidArgument("input ", k, " is '", source(), ":", in.port, "', but node '", source(), "' has ",
                                     outputs.size(), outputs.size() == 1 ? " output" : " outputs"));
      }
      const DType from = outputs[in.port], to = p.input_types[k];
      if (from != to && !(IsRef(from) && BaseType(from) == to)) {
        return At(i, InvalidArgument("input ", k, " must be ", Name(to), ", but '", source(), ":", in.port, "' is ",
                                     Name(from)));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::CheckCycles() {
  // Kahn's algorithm over the new nodes. Only the edge NextIteration -> Merge may close a cycle:
  // nothing else starts the next iteration.
  const auto counts = [&](const Input& in, int dst) {
    return in.existing == nullptr &&
           !(in.port != kControlSlot && pending_[in.node].op->control_flow == ControlFlow::kNextIteration &&
             pending_[dst].op->control_flow == ControlFlow::kMerge);
  };
  const int n = def_.node_size();
  std::vector<int> first_consumer(n + 1, 0), missing(n, 0);
  for (int i = 0; i < n; ++i) {
    for (const Input& in : InputsOf(i)) {
      if (!counts(in, i)) continue;
      ++first_consumer[in.node + 1];
      ++missing[i];
    }
  }
  for (int i = 0; i < n; ++i) first_consumer[i + 1] += first_consumer[i];
  std::vector<int> consumers(first_consumer[n]), at(first_consumer.begin(), first_consumer.end() - 1);
  std::vector<int> ready;
  ready.reserve(n);
  for (int i = 0; i < n; ++i) {
    for (const Input& in : InputsOf(i)) {
      if (counts(in, i)) consumers[at[in.node]++] = i;
    }
    if (missing[i] == 0) ready.push_back(i);
  }
  for (size_t k = 0; k < ready.size(); ++k) {
    for (int c = first_consumer[ready[k]]; c < first_consumer[ready[k] + 1]; ++c) {
      if (--missing[consumers[c]] == 0) ready.push_back(consumers[c]);
    }
  }
  if (static_cast<int>(ready.size()) == n) return CheckFrames(ready);
  // From any unfinished node, backwards along unfinished inputs: that must run into the cycle.
  int node =
      static_cast<int>(std::find_if(missing.begin(), missing.end(), [](int m) { return m > 0; }) - missing.begin());
  std::vector<int> step(n, -1), path;
  while (step[node] < 0) {
    step[node] = static_cast<int>(path.size());
    path.push_back(node);
    for (const Input& in : InputsOf(node)) {
      if (counts(in, node) && missing[in.node] > 0) {
        node = in.node;
        break;
      }
    }
  }
  std::string cycle;
  const size_t length = path.size() - step[node];
  for (size_t k = 0; k < std::min<size_t>(length, 8); ++k) {
    StrAppend(&cycle, "'", def_.node(path[path.size() - 1 - k]).name(), "' -> ");
  }
  if (length > 8) StrAppend(&cycle, "... (", length, " nodes) -> ");
  StrAppend(&cycle, "'", def_.node(path.back()).name(), "'");
  return At(node, InvalidArgument("the node is on a cycle without an edge from a NextIteration to a Merge: ", cycle));
}

// An Exit leaves a frame and a NextIteration turns its page: without an Enter before them there is
// none.
absl::Status GraphImporter::CheckFrames(const std::vector<int>& order) const {
  constexpr int kUnknown = 1 << 30;  // behind a node that was there before
  std::vector<int> depth(order.size(), 0);
  for (const int i : order) {
    int deepest = 0;
    for (const Input& in : InputsOf(i)) {
      const bool exit = in.existing == nullptr && pending_[in.node].op->control_flow == ControlFlow::kExit;
      const int of = in.existing != nullptr ? kUnknown : depth[in.node];
      deepest = std::max(deepest, exit && of < kUnknown ? of - 1 : of);
    }
    const ControlFlow flow = pending_[i].op->control_flow;
    if (deepest == 0 && (flow == ControlFlow::kExit || flow == ControlFlow::kNextIteration)) {
      return At(i, InvalidArgument(flow == ControlFlow::kExit ? "an Exit" : "a NextIteration",
                                   " must be inside a loop's frame, but no Enter node leads to it"));
    }
    depth[i] = flow == ControlFlow::kEnter && deepest < kUnknown ? deepest + 1 : deepest;
  }
  return absl::OkStatus();
}

}  // namespace troupe
