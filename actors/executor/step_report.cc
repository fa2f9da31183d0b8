// What a part says when it is asked what its step waits for: from what runs or waits for others,
// along the edges, to all that cannot run before it.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "actors/executor/turn.h"
#include "graph/core/guarded.h"
#include "graph/core/hash_map.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

constexpr size_t kMaxRoots = 32, kMaxChainLines = 12, kMaxInputs = 4;

// "1 'b'" when the op tells the input's name, "1" otherwise.
std::string InputText(std::string_view op, size_t k) {
  const OpDef* def = OpRegistry::Global().Find(op);
  std::string text = StrCat(k);
  if (def == nullptr || k >= def->inputs.size()) return text;
  for (size_t i = 0; i <= k; ++i) {
    if (def->inputs[i].IsList()) return text;
  }
  return StrCat(text, " '", def->inputs[k].name, "'");
}

// What a user's kernel waits for says it in the user's code.
std::string WhatOf(const KernelWait& wait) {
  std::string what;
  if (absl::Status s = Guarded("What()", [&] { what = wait.What(); }); !s.ok()) return std::string(s.message());
  return what;
}

}  // namespace

class StepState::Reporter {
 public:
  explicit Reporter(const StepState& s) : s_(s), p_(*s.part_), now_(s.Now()) {}

  StepReport Make() {
    report_.running = true;
    for (size_t i = 0; i < p_.sends.size(); ++i) send_of_[p_.sends[i].second] = &p_.sends[i].first;
    for (const auto& [key, node] : p_.recvs) {
      if (p_.granted_recvs.contains(key)) recv_of_[node] = &key;
    }
    FindRoots();
    if (s_.aborting_) return std::move(report_);  // nothing else will run
    for (size_t i = 0; i < visits_.size(); ++i) Expand(i);
    FindChains();
    return std::move(report_);
  }

 private:
  // A node in an iteration that runs, or waits for the node of the visit before.
  struct Visit {
    uint32_t node;
    const Iteration* it;
    int64_t before;  // -1: a root
    size_t root;
  };
  struct Source {
    uint32_t node;
    const Iteration* it;
    int64_t since;
    std::string does;  // behind the node and the place
    const char* state;
    StepReport::Link takes;
    bool waits = false;  // the kernel, for what it asked
  };

  std::string Name(uint32_t node, const Iteration* it) const {
    const KernelNode& n = p_.info[node];
    return StrCat("node '", n.name, "' (", n.op, ") on ", n.device->name(), s_.PlaceText(it));
  }
  std::string Since(int64_t since) const { return DurationText(now_ - since); }

  void FindRoots() {
    std::vector<Source> sources;
    const EdgeTable& edges = s_.host_->edges();
    HashMap<std::pair<const Iteration*, uint32_t>, const Mailroom::Place*> receives;
    s_.mailroom_.ForEachWaiter([&](const Mailroom::Place& place, const Mailroom::Waiter& w) {
      receives.try_emplace({w.iteration, w.node}, &place);
    });
    for (const AsyncCall* c = s_.first_call_; c != nullptr; c = c->after) {
      Source source{c->node, c->iteration, c->begun, "", "running", {}};
      const int64_t started = c->started.load(std::memory_order_relaxed);
      if (!c->job) {
        source.does = StrCat(" has run for ", Since(c->begun));
      } else if (started == 0) {
        source.does = StrCat(" has waited ", Since(c->begun), " for a compute thread");
        source.state = "waiting for a thread";
      } else {
        source.does = StrCat(" has run for ", Since(started));
        source.since = started;
      }
      if (const auto receive = receives.find({c->iteration, c->node}); receive != receives.end()) {
        const std::string& edge = edges[receive->second->edge].name;
        source.takes = {edge, receive->second->iteration, false};
        source.does = StrCat(" has waited ", Since(c->begun), " for tensor '", EdgeTensor(edge), "'");
        if (!EdgeSender(edge).empty()) StrAppend(&source.does, " of ", EdgeSender(edge));
        source.state = "waiting for a tensor";
      }
      sources.push_back(std::move(source));
    }
    for (const auto& w : s_.waiting_) {
      std::lock_guard<std::mutex> lock(w.pending->mu);
      if (w.pending->wait == nullptr) continue;  // given up: the step ends
      sources.push_back({w.node,
                         w.iteration,
                         w.since,
                         StrCat(" has waited ", Since(w.since), " for ", WhatOf(*w.pending->wait)),
                         "waiting for a variable",
                         {},
                         w.input < 0});
    }
    for (const auto& [index, a] : s_.waiting_arguments_)
      sources.push_back(
          {a.node, &s_.root_, a.since, StrCat(" has waited ", Since(a.since), " to be fed"), "not fed", {}});
    HashMap<std::string_view, uint32_t> sender;
    for (const auto& [node, key] : send_of_) sender[*key] = node;
    s_.mailroom_.ForEachHeld([&](const Mailroom::Place& place, const Mailroom::Held& held) {
      const std::string& edge = edges[place.edge].name;
      const auto node = sender.find(edge);
      if (node == sender.end()) return;
      sources.push_back({node->second,
                         &s_.root_,
                         held.since,
                         StrCat(" has waited ", Since(held.since), " for its receiver to ask for the value"),
                         "held back",
                         {edge, place.iteration, true}});
    });
    // The order of hash maps is in no report.
    std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
      return a.since != b.since ? a.since < b.since : a.node < b.node;
    });
    const size_t shown = std::min(sources.size(), kMaxRoots);
    for (size_t i = 0; i < sources.size(); ++i) {
      const Source& s = sources[i];
      AddVisit(s.node, s.it, -1, std::min(i, shown));
      state_[{s.it, s.node}] = s.state;
      if (i < shown) {
        report_.roots.push_back({StrCat(Name(s.node, s.it), s.does), now_ - s.since, s.takes, {}, {}});
        if (s.waits) report_.roots.back().waits = p_.info[s.node].name;
      }
    }
    if (sources.size() > shown)
      report_.roots.push_back(
          {StrCat(sources.size() - shown, " more nodes on ", p_.device->name(), " run or wait for others"),
           0,
           {},
           {},
           {}});
    FindReady();
  }

  // What is ready to run is one root.
  void FindReady() {
    std::vector<Ready> ready(s_.heavy_);
    for (size_t i = s_.stack_size_; i-- > 0;) ready.push_back({s_.stack_[i], false, const_cast<Iteration*>(&s_.root_)});
    for (size_t i = s_.ordering_head_; i != s_.ordering_tail_; ++i)
      ready.push_back({s_.ordering_queue_[i], false, const_cast<Iteration*>(&s_.root_)});
    for (uint32_t i = s_.queue_.head; i != s_.queue_.tail; ++i) ready.push_back(s_.queue_.ring[i & s_.queue_.mask]);
    if (ready.empty()) return;
    for (const Ready& r : ready) {
      AddVisit(r.node, r.iteration, -1, report_.roots.size());
      state_[{r.iteration, r.node}] = "ready";
    }
    std::string text = StrCat(Name(ready[0].node, ready[0].iteration), " is ready to run");
    if (ready.size() > 1) StrAppend(&text, ", and ", ready.size() - 1, " others");
    report_.roots.push_back({std::move(text), 0, {}, {}, {}});
  }

  void AddVisit(uint32_t node, const Iteration* it, int64_t before, size_t root) {
    if (seen_.try_emplace({it, node}, visits_.size()).second) visits_.push_back({node, it, before, root});
  }

  bool Blocked(uint32_t node, const Iteration* it) const {
    const uint32_t count = it->counts[node];
    if (p_.nodes[node].flow == ControlFlow::kMerge) return !(count & kMergeFired);
    return (count & ~kDeadInput) != 0;
  }
  static bool LacksTurn(const CompiledNode& n, const Iteration* it) {
    return n.flow == kInTurn && (!it->frame->has_turn || it->frame->turns[n.index] < it->number);
  }
  // The frame in which the node's inputs arrive.
  uint32_t FrameOf(uint32_t node) const {
    const CompiledNode& n = p_.nodes[node];
    return n.flow == ControlFlow::kEnter ? p_.frames[n.frame].parent : n.frame;
  }
  const Frame* Child(const Iteration* it, uint32_t id) const {
    const Frame* f = it->children;
    while (f != nullptr && f->id != id) f = f->sibling;
    return f;
  }
  const Iteration* At(const Frame* f, int64_t number) const {
    if (number < 0 || number > f->newest) return nullptr;
    const Iteration* it = f->iterations[static_cast<size_t>(number) % f->iterations.size()];
    return it != nullptr && it->number == number ? it : nullptr;
  }

  // Visits what waits in `it` for an output of `node`.
  void Consumers(uint32_t node, const Iteration* it, size_t before) {
    const CompiledNode& n = p_.nodes[node];
    const auto visit = [&](uint32_t dst) {
      if (Blocked(dst, it)) AddVisit(dst, it, static_cast<int64_t>(before), visits_[before].root);
    };
    for (uint32_t e = n.first_edge; e < n.last_edge; ++e) visit(p_.edges[e].dst);
    for (uint32_t c = n.first_control; c < n.last_control; ++c) visit(p_.controls[c] & ~kControlToMerge);
  }

  // Visits what waits in `it` for the end of the loop `frame`, of which `f` is the run, if it has
  // begun.
  void LoopEnd(uint32_t frame, const Frame* f, const Iteration* it, size_t before) {
    const std::vector<uint32_t>& exits = p_.frames[frame].exits;
    for (size_t i = 0; i < exits.size(); ++i) {
      if (f == nullptr || !f->exit_alive[i]) Consumers(exits[i], it, before);
    }
  }

  // What is sent in iterations of this loop, and of loops in it, that have not begun.
  void Later(uint32_t frame, size_t root) {
    if (!later_.insert({root, frame}).second) return;
    for (const auto& [key, node] : p_.sends) {
      uint32_t f = FrameOf(node);
      while (f != frame && f != 0) f = p_.frames[f].parent;
      if (f == frame) report_.roots[root].later.push_back(key);
    }
  }

  void Expand(size_t i) {
    const Visit v = visits_[i];
    const CompiledNode& n = p_.nodes[v.node];
    if (n.flow == ControlFlow::kEnter) {
      const Frame* f = Child(v.it, n.frame);
      if (f == nullptr) Later(n.frame, v.root);
      for (int64_t k = 0; f != nullptr && k <= (n.constant_enter ? f->newest : 0); ++k) {
        if (const Iteration* it = At(f, k)) Consumers(v.node, it, i);
      }
      LoopEnd(n.frame, f, v.it, i);
    } else if (n.flow == ControlFlow::kExit) {
      Consumers(v.node, v.it->frame->parent_iteration, i);
    } else if (n.flow == ControlFlow::kNextIteration) {
      const Iteration* next = At(v.it->frame, v.it->number + 1);
      next != nullptr ? Consumers(v.node, next, i) : Later(v.it->frame->id, v.root);
    } else {
      Consumers(v.node, v.it, i);
    }
    if (n.flow == kInTurn) {
      // Who waits for nothing but its turn.
      const Iteration* next = At(v.it->frame, v.it->number + 1);
      if (next != nullptr && LacksTurn(n, next) && (next->counts[v.node] & ~kDeadInput) == 1)
        AddVisit(v.node, next, static_cast<int64_t>(i), v.root);
    }
    // Whoever waits for a loop waits for all that is left of it.
    for (const Frame* f = v.it->frame; f != &s_.root_frame_; f = f->parent) LoopEnd(f->id, f, f->parent_iteration, i);
  }

  void FindChains() {
    std::vector<bool> has_result(report_.roots.size()), has_chain(report_.roots.size());
    std::vector<size_t> last(report_.roots.size(), 0);
    for (size_t i = 0; i < visits_.size(); ++i) {
      const Visit& v = visits_[i];
      if (v.before < 0) continue;
      last[v.root] = i;
      StepReport::Link gives;
      if (const auto send = send_of_.find(v.node); send != send_of_.end()) {
        gives = {*send->second, PathOf(*v.it), false};
      } else if (const auto recv = recv_of_.find(v.node); recv != recv_of_.end()) {
        gives = {*recv->second, PathOf(*v.it), true};
      } else if (p_.nodes[v.node].handling != Handling::kResult || has_result[v.root]) {
        continue;
      }
      has_result[v.root] = has_result[v.root] || gives.key.empty();
      has_chain[v.root] = true;
      AddChain(i, std::move(gives));
    }
    for (size_t r = 0; r < last.size(); ++r) {
      if (!has_chain[r] && last[r] != 0) AddChain(last[r], {});
    }
  }

  void AddChain(size_t end, StepReport::Link gives) {
    std::vector<StepReport::Chain>& chains = report_.roots[visits_[end].root].chains;
    chains.push_back({{}, std::move(gives)});
    // The others are there so that receivers find their root; a page has no room for their nodes.
    if (chains.size() > kMaxRoots) return;
    std::vector<size_t> path;
    for (size_t i = end; visits_[i].before >= 0; i = static_cast<size_t>(visits_[i].before)) path.push_back(i);
    std::reverse(path.begin(), path.end());
    for (size_t k = 0; k < path.size(); ++k) {
      if (path.size() > kMaxChainLines && k == kMaxChainLines / 2) {
        k = path.size() - kMaxChainLines / 2;
        chains.back().lines.push_back(
            StrCat(path.size() - kMaxChainLines, " nodes more, each waiting for the one before"));
      }
      chains.back().lines.push_back(Blockage(visits_[path[k]]));
    }
  }

  // Where the producer of an input of a node in `it` runs. Null: in an iteration that is not there.
  const Iteration* IterationOf(uint32_t producer, const Iteration* it) const {
    const CompiledNode& n = p_.nodes[producer];
    if (n.flow == ControlFlow::kEnter && n.frame == it->frame->id && it->frame != &s_.root_frame_)
      return it->frame->parent_iteration;
    if (n.flow == ControlFlow::kNextIteration) return At(it->frame, it->number - 1);
    return FrameOf(producer) == it->frame->id ? it : nullptr;
  }
  std::string StateOf(uint32_t producer, const Iteration* it) const {
    if (p_.nodes[producer].flow == ControlFlow::kExit)
      return StrCat("loop '", p_.frames[FrameOf(producer)].name, "' has not ended");
    const Iteration* where = IterationOf(producer, it);
    if (const auto root = state_.find({where, producer}); root != state_.end()) return root->second;
    return "waiting too";
  }

  // "node 'z' (Add) on D has waited 3.1 s for input 1 'y' from 'w:0' (running) and 2 control
  // inputs".
  std::string Blockage(const Visit& v) const {
    const CompiledNode& n = p_.nodes[v.node];
    const uint32_t count = v.it->counts[v.node];
    const bool merge = n.flow == ControlFlow::kMerge;
    uint32_t controls = merge ? count & kMergeControlMask : count & ~kDeadInput;
    std::vector<std::string> inputs;
    if (controls > 0 && LacksTurn(n, v.it)) {
      --controls;
      inputs.push_back("its run in the iteration before");
    }
    size_t more = 0;
    for (uint32_t k = 0; k < n.num_inputs && !(merge && count & kMergeLive); ++k) {
      if (v.it->slots[n.first_slot + k].valid()) continue;
      const auto [producer, output] = p_.producers[n.first_slot + k];
      const Iteration* where = IterationOf(producer, v.it);
      const bool over = where != nullptr && !Blocked(producer, where) && !seen_.contains({where, producer});
      // A value that came dead, or that will not come because the loop has just begun or is over.
      if (over || (where == nullptr && p_.nodes[producer].flow == ControlFlow::kNextIteration)) continue;
      if (!merge && controls > 0) --controls;
      if (inputs.size() == kMaxInputs) {
        ++more;
        continue;
      }
      inputs.push_back(StrCat("input ", InputText(p_.info[v.node].op, k), " from '", p_.info[producer].name, ":",
                              output, "' (", StateOf(producer, v.it), ")"));
    }
    if (more > 0) inputs.push_back(StrCat(more, " more inputs"));
    std::string text = StrCat(Name(v.node, v.it), " has waited");
    if (s_.resting_since_ != 0) StrAppend(&text, " ", DurationText(now_ - s_.resting_since_));
    StrAppend(&text, " for ", StrJoin(inputs, merge ? " or " : ", "));
    if (controls > 0) {
      const Visit& before = visits_[static_cast<size_t>(v.before)];
      StrAppend(&text, inputs.empty() ? "" : " and ", controls, controls == 1 ? " control input" : " control inputs");
      if (inputs.empty())
        StrAppend(&text, controls == 1 ? " from '" : ", one of them from '", p_.info[before.node].name, "'");
    }
    return text;
  }

  const StepState& s_;
  const CompiledPart& p_;
  const int64_t now_;
  StepReport report_;
  std::vector<Visit> visits_;  // breadth first, so that chains are short
  HashMap<std::pair<const Iteration*, uint32_t>, size_t> seen_;
  HashMap<std::pair<const Iteration*, uint32_t>, const char*> state_;  // of the roots
  HashMap<uint32_t, const std::string*> send_of_, recv_of_;            // by node; Recvs that ask for their value
  HashSet<std::pair<size_t, uint32_t>> later_;                         // (root, frame) that Later has seen
};

StepReport StepState::Report() const {
  if (!active_) return {};
  StepReport report = Reporter(*this).Make();
  report.holders = Holders();
  return report;
}

}  // namespace troupe
