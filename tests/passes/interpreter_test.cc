// A small interpreter of graphs, with frames and dead values, which shows that cut graphs compute
// the same; and a test of itself.
#include "tests/passes/interpreter.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <optional>
#include <set>

#include "tests/passes/graphs.h"

namespace troupe {
namespace {

using Value = std::optional<Tensor>;  // none = dead

// Where a node is executed: which node, in which iteration of which frames ("f:2/g:0").
using Place = std::pair<const Node*, std::string>;

struct Inputs {
  std::map<int, Value> data;
  int controls = 0;
  bool dead_control = false;
  bool done = false;
};

class Interpreter {
 public:
  Interpreter(const std::vector<const Graph*>& parts, const std::vector<Tensor>& args) : args_(args) {
    for (const Graph* part : parts) {
      for (const Node* n : part->op_nodes()) {
        const bool root =
            std::none_of(n->in_edges().begin(), n->in_edges().end(), [](const Edge* e) { return e->src->IsOp(); });
        if (root) ready_.push_back({n, ""});
      }
    }
  }

  Interpretation Run() {
    do {
      while (!ready_.empty()) {
        const Place place = ready_.front();
        ready_.pop_front();
        Execute(place);
      }
    } while (ReleaseDeadExits());
    for (const auto& [key, place] : waiting_) result_.stuck.push_back(place.first->name() + " @" + place.second);
    for (const auto& [key, value] : sent_) result_.unclaimed += !received_.contains(key);
    std::sort(result_.printed.begin(), result_.printed.end());
    return result_;
  }

 private:
  static std::string Parent(const std::string& tag) {
    const size_t slash = tag.rfind('/');
    return slash == std::string::npos ? "" : tag.substr(0, slash);
  }
  static std::string Next(const std::string& tag) {
    const size_t colon = tag.rfind(':');
    return StrCat(tag.substr(0, colon + 1), std::stoi(tag.substr(colon + 1)) + 1);
  }
  static std::string Child(const std::string& tag, const std::string& frame) {
    return StrCat(tag, tag.empty() ? "" : "/", frame, ":0");
  }

  void Deliver(const Edge& e, const std::string& tag, const Value& value) {
    if (!e.dst->IsOp()) return;
    Inputs& in = inputs_[{e.dst, tag}];
    if (in.done) return;
    if (e.IsControl()) {
      ++in.controls;
      in.dead_control = in.dead_control || !value;
    } else {
      in.data[e.dst_input] = value;
    }
    int controls = 0;
    for (const Edge* c : e.dst->in_edges()) controls += c->IsControl() && c->src->IsOp();
    bool complete = in.controls == controls;
    if (e.dst->IsMerge()) {
      const bool alive =
          std::any_of(in.data.begin(), in.data.end(), [](const auto& d) { return d.second.has_value(); });
      int forward = 0;  // a back edge never brings iteration 0 anything, and is alone afterwards
      for (int i = 0; i < e.dst->num_inputs(); ++i) forward += !e.dst->input(i).node->IsNextIteration();
      complete = complete && (alive || static_cast<int>(in.data.size()) == forward);
    } else {
      complete = complete && static_cast<int>(in.data.size()) == e.dst->num_inputs();
    }
    if (complete) {
      in.done = true;
      ready_.push_back({e.dst, tag});
    }
  }

  void Emit(const Node& n, const std::string& tag, const std::vector<Value>& outputs, bool dead) {
    for (const Edge* e : n.out_edges()) {
      Deliver(*e, tag, e->IsControl() ? (dead ? Value() : Value(Tensor())) : outputs[e->src_output]);
    }
  }

  // Constants that entered a frame are there in each of its iterations.
  void StartIteration(const std::string& tag) {
    if (!started_.insert(tag).second) return;
    const std::string frame = tag.substr(0, tag.rfind(':'));
    for (const auto& [enter, value] : constants_[frame]) Emit(*enter, tag, {value}, !value);
  }

  void Execute(const Place& place) {
    const auto& [n, tag] = place;
    Inputs& in = inputs_[place];
    bool dead = in.dead_control;
    std::vector<Value> data;
    for (int i = 0; i < n->num_inputs(); ++i) {
      data.push_back(in.data.contains(i) ? in.data[i] : Value());
      if (!n->IsMerge()) dead = dead || !data.back();
    }
    const std::vector<Value> none(n->num_outputs());
    if (n->IsSend()) {
      const std::string key = Key(*n, tag);
      BOOST_REQUIRE_MESSAGE(!sent_.contains(key), "sent twice: " << key);
      sent_[key] = dead ? Value() : data[0];
      ++result_.messages;
      if (const auto it = waiting_.find(key); it != waiting_.end()) {
        const Place recv = it->second;
        waiting_.erase(it);
        Receive(recv, key);
      }
    } else if (n->IsRecv()) {
      const std::string key = Key(*n, tag);
      if (sent_.contains(key)) {
        Receive(place, key);
      } else {
        BOOST_REQUIRE_MESSAGE(!waiting_.contains(key), "received twice: " << key);
        waiting_.emplace(key, place);
      }
    } else if (n->IsMerge()) {
      Value alive;
      int index = 0;
      for (int i = 0; i < n->num_inputs(); ++i) {
        if (data[i]) alive = data[index = i];
      }
      dead = dead || !alive;
      Emit(*n, tag, dead ? none : std::vector<Value>{alive, Tensor::Scalar<int32_t>(index)}, dead);
    } else if (n->IsEnter()) {
      const std::string child = Child(tag, *n->Attr<std::string>("frame_name"));
      if (n->Attr<bool>("is_constant").value_or(false)) {
        const std::string frame = child.substr(0, child.rfind(':'));
        constants_[frame].emplace_back(n, dead ? Value() : data[0]);
        const std::set<std::string> tags = started_;
        for (const std::string& t : tags) {
          if (t.substr(0, t.rfind(':')) == frame) Emit(*n, t, {dead ? Value() : data[0]}, dead);
        }
        if (!started_.contains(child)) StartIteration(child);
      } else {
        StartIteration(child);
        Emit(*n, child, {dead ? Value() : data[0]}, dead);
      }
    } else if (n->IsExit()) {
      const Place exit{n, Parent(tag)};
      if (!dead) {
        exited_.insert(exit);
        Emit(*n, Parent(tag), {data[0]}, false);
      } else {
        dead_exits_.insert(exit);
      }
    } else if (n->IsNextIteration()) {
      if (dead) return;
      StartIteration(Next(tag));
      Emit(*n, Next(tag), {data[0]}, false);
    } else if (n->op().name == "_Retval") {
      const int64_t index = *n->Attr<int64_t>("index");
      BOOST_REQUIRE(!result_.retvals.contains(index));
      result_.retvals[index] = dead ? "dead" : data[0]->DebugString();
    } else if (dead) {
      Emit(*n, tag, none, true);
    } else if (n->IsSwitch()) {
      std::vector<Value> outputs(2);
      outputs[*data[1]->data<bool>()] = data[0];
      Emit(*n, tag, outputs, false);
    } else {
      std::vector<Tensor> inputs;
      for (const Value& v : data) inputs.push_back(*v);
      std::vector<Value> outputs;
      if (n->op().name == "_Arg") {
        outputs.push_back(args_[*n->Attr<int64_t>("index")]);
      } else {
        if (n->op().name == "TestPrint") result_.printed.push_back(inputs[0].DebugString());
        for (Tensor& t : ComputeTestOp(*n, inputs)) outputs.push_back(t);
      }
      Emit(*n, tag, outputs, false);
    }
  }

  // Exits of frames in which nothing moves any more, and through which nothing alive came.
  bool ReleaseDeadExits() {
    size_t deepest = 0;
    for (const Place& exit : dead_exits_) {
      if (!exited_.contains(exit)) deepest = std::max(deepest, exit.second.size());
    }
    std::vector<Place> release;
    for (const Place& exit : dead_exits_) {
      if (!exited_.contains(exit) && exit.second.size() == deepest) release.push_back(exit);
    }
    for (const Place& exit : release) {
      exited_.insert(exit);
      Emit(*exit.first, exit.second, {Value()}, true);
    }
    return !release.empty();
  }

  static std::string Key(const Node& n, const std::string& tag) {
    return StrCat(*n.Attr<std::string>("send_device"), ";", *n.Attr<int64_t>("send_device_incarnation"), ";",
                  *n.Attr<std::string>("recv_device"), ";", *n.Attr<std::string>("tensor_name"), ";", tag);
  }

  void Receive(const Place& recv, const std::string& key) {
    BOOST_REQUIRE(received_.insert(key).second);
    const Value v = sent_[key];
    Emit(*recv.first, recv.second, {v}, !v);
  }

  const std::vector<Tensor>& args_;
  std::deque<Place> ready_;
  std::map<Place, Inputs> inputs_;
  std::map<std::string, std::vector<std::pair<const Node*, Value>>> constants_;  // by frame instance
  std::set<std::string> started_;
  std::set<Place> exited_, dead_exits_;
  std::map<std::string, Value> sent_;
  std::map<std::string, Place> waiting_;
  std::set<std::string> received_;
  Interpretation result_;
};

}  // namespace

std::vector<Tensor> ComputeTestOp(const Node& node, const std::vector<Tensor>& in) {
  const std::string& op = node.op().name;
  if (node.IsConstant()) return {*node.Attr<Tensor>("value")};
  if (op == "TestNone" || op == "NoOp") return {};
  if (op == "TestPrint" || op == "Identity" || op == "LoopCond") return {in[0]};
  if (op == "TestRandom") return {Tensor::Scalar<int32_t>(4)};
  const auto at = [&](size_t i) { return *in[i].data<int32_t>(); };
  if (op == "TestLess") return {Tensor::Scalar<bool>(at(0) < at(1))};
  if (op == "TestNeg") return {Tensor::Scalar<int32_t>(static_cast<int32_t>(0u - at(0)))};
  if (op == "TestAdd") return {Tensor::Scalar<int32_t>(static_cast<int32_t>(0u + at(0) + at(1)))};
  if (op == "TestSub") return {Tensor::Scalar<int32_t>(static_cast<int32_t>(0u + at(0) - at(1)))};
  if (op == "TestSplit") return {Tensor::Scalar<int32_t>(at(0) / 2), Tensor::Scalar<int32_t>(at(0) - at(0) / 2)};
  if (op == "TestAddN") {
    uint32_t sum = 0;
    for (size_t i = 0; i < in.size(); ++i) sum += at(i);
    return {Tensor::Scalar<int32_t>(static_cast<int32_t>(sum))};
  }
  BOOST_FAIL("the interpreter does not know op " << op);
  return {};
}

Interpretation Interpret(const std::vector<const Graph*>& parts, const std::vector<Tensor>& args) {
  return Interpreter(parts, args).Run();
}

BOOST_AUTO_TEST_SUITE(interpreter)

BOOST_AUTO_TEST_CASE(a_loop_counts_and_an_untaken_branch_is_dead) {
  auto graph = MustParse(R"(
    x = _Arg[T=int32, index=0]
    ten = Const[value=int32{10}]
    e = Enter[frame_name="f"](x)
    el = Enter[frame_name="f", is_constant=true](ten)
    m = Merge(e, next)
    less = TestLess(m, el)
    cond = LoopCond(less)
    sw = Switch(m, cond)
    one = Const[value=int32{3}](^sw)
    body = TestAdd(sw:1, one)
    next = NextIteration(body)
    exit = Exit(sw)
    r = _Retval[index=0](exit)
    p = TestLess(exit, ten)
    s2 = Switch(exit, p)
    t = TestNeg(s2:1)
    r1 = _Retval[index=1](t)
    f = TestNeg(s2)
    j = Merge(f, t)
    r2 = _Retval[index=2](j)
  )");
  const Interpretation i = Interpret({graph.get()}, {Tensor::Scalar<int32_t>(1)});
  BOOST_TEST(i.retvals.at(0) == Tensor::Scalar<int32_t>(10).DebugString());
  BOOST_TEST(i.retvals.at(1) == "dead");
  BOOST_TEST(i.retvals.at(2) == Tensor::Scalar<int32_t>(-10).DebugString());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe
