#include "graph/ir/frames.h"

#include <deque>

#include "graph/core/hash_map.h"

namespace troupe {
namespace {

std::string FrameText(const std::string& name) {
  return name.empty() ? std::string("the root frame") : StrCat("frame '", name, "'");
}

class FrameFinder {
 public:
  FrameFinder(const Graph& graph, std::vector<FrameInfo>* info)
      : graph_(graph), info_(*info), reached_by_(graph.num_node_ids()), queued_(graph.num_node_ids()) {}

  absl::Status Run() {
    info_.assign(graph_.num_node_ids(), FrameInfo());
    const Node* source = graph_.source();
    for (int id = 0; id < graph_.num_node_ids(); ++id) {
      const Node* n = graph_.node(id);
      if (n == nullptr || (!n->in_edges().empty() && n->IsOp())) continue;
      if (n->IsSource() || n->IsSink()) {
        info_[id] = {source, source, ""};
        queued_[id] = true;
        if (n->IsSource()) queue_.push_back(n);
      } else {
        TROUPE_RETURN_IF_ERROR(Visit(source, n, {source, source, ""}));
      }
    }
    while (!queue_.empty()) {
      const Node* n = queue_.front();
      queue_.pop_front();
      TROUPE_RETURN_IF_ERROR(VisitConsumers(n));
    }
    return UnifyFrames();
  }

 private:
  const FrameInfo& At(const Node* n) const { return info_[n->id()]; }

  absl::Status VisitConsumers(const Node* n) {
    FrameInfo out = At(n);
    if (n->IsExit()) {
      if (out.frame->IsSource()) {
        return n->At(InvalidArgument("an Exit must be inside a loop's frame, but no Enter node leads to it"));
      }
      out = At(out.parent_frame);
    }
    for (const Edge* e : n->out_edges()) {
      if (!e->dst->IsSink()) TROUPE_RETURN_IF_ERROR(Visit(n, e->dst, out));
    }
    return absl::OkStatus();
  }

  // `from` hands a token of the frame `in` to `to`.
  absl::Status Visit(const Node* from, const Node* to, const FrameInfo& in) {
    FrameInfo& info = info_[to->id()];
    if (queued_[to->id()]) {
      const std::string& known = to->IsEnter() ? At(info.parent_frame).frame_name : info.frame_name;
      if (known == in.frame_name) return absl::OkStatus();
      return to->At(InvalidArgument("the node has inputs from different frames (loops): '", from->name(), "' is in ",
                                    FrameText(in.frame_name), ", '", reached_by_[to->id()]->name(), "' is in ",
                                    FrameText(known)));
    }
    queued_[to->id()] = true;
    reached_by_[to->id()] = from;
    queue_.push_back(to);
    info = in;
    if (to->IsEnter()) {
      info.frame = to;
      info.parent_frame = in.frame;
      absl::StatusOr<std::string> name = to->Attr<std::string>("frame_name");
      if (!name.ok()) return to->At(name.status());
      if (name->empty()) return to->At(InvalidArgument("an Enter must have a frame name"));
      info.frame_name = *std::move(name);
    }
    return absl::OkStatus();
  }

  // One parent and at most one LoopCond per frame name; one Enter stands for the frame.
  absl::Status UnifyFrames() {
    struct Frame {
      const Node* enter = nullptr;
      const Node* loop_cond = nullptr;
    };
    HashMap<std::string, Frame> frames;
    for (int id = 0; id < graph_.num_node_ids(); ++id) {
      const Node* n = graph_.node(id);
      if (n == nullptr || info_[id].frame == nullptr) continue;
      if (n->IsEnter()) {
        Frame& frame = frames[info_[id].frame_name];
        if (frame.enter == nullptr) frame.enter = n;
        const std::string& a = At(info_[frame.enter->id()].parent_frame).frame_name;
        const std::string& b = At(info_[id].parent_frame).frame_name;
        if (a != b) {
          return n->At(InvalidArgument("the node enters frame '", info_[id].frame_name, "' from ", FrameText(b),
                                       ", but '", frame.enter->name(), "' enters it from ", FrameText(a)));
        }
      } else if (n->IsLoopCond()) {
        Frame& frame = frames[info_[id].frame_name];
        if (frame.loop_cond != nullptr) {
          return n->At(InvalidArgument("the node is the second LoopCond of ", FrameText(info_[id].frame_name),
                                       ", which has '", frame.loop_cond->name(), "' already"));
        }
        if (!info_[id].frame_name.empty()) frame.loop_cond = n;
      }
    }
    for (int id = 0; id < graph_.num_node_ids(); ++id) {
      FrameInfo& info = info_[id];
      if (info.frame == nullptr || info.frame_name.empty()) continue;
      const Node* enter = frames[info.frame_name].enter;
      if (!graph_.node(id)->IsEnter()) info.frame = enter;
      const std::string& parent = At(info_[enter->id()].parent_frame).frame_name;
      info.parent_frame = parent.empty() ? graph_.source() : frames[parent].enter;
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<FrameInfo>& info_;
  std::vector<const Node*> reached_by_;
  std::vector<char> queued_;
  std::deque<const Node*> queue_;
};

}  // namespace

absl::Status BuildFrameInfo(const Graph& graph, std::vector<FrameInfo>* info) { return FrameFinder(graph, info).Run(); }

}  // namespace troupe
