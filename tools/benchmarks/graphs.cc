#include "tools/benchmarks/graphs.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "troupe/queues.h"

namespace troupe::bench {
namespace {

// The same numbers on every machine (splitmix64); the little bias of the modulo does not matter
// here.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  size_t Below(size_t n) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<size_t>((z ^ (z >> 31)) % n);
  }

 private:
  uint64_t state_;
};

// Takes a random element out.
template <class T>
T Draw(std::vector<T>* from, Random* random) {
  std::swap((*from)[random->Below(from->size())], from->back());
  T t = from->back();
  from->pop_back();
  return t;
}

absl::Status Null(size_t width, size_t depth, Graph* graph) {
  Random random(1729);
  std::vector<Node*> all;
  std::vector<bool> consumed;
  const auto add = [&](const std::string& name, const std::vector<size_t>& inputs) -> absl::StatusOr<size_t> {
    TROUPE_ASSIGN_OR_RETURN(Node * n, graph->AddNode(name, "NoOp", {}));
    for (const size_t i : inputs) {
      graph->AddControlEdgeUnchecked(all[i], n);
      consumed[i] = true;
    }
    all.push_back(n);
    consumed.push_back(false);
    return all.size() - 1;
  };
  const auto next = [&] { return StrCat("n", all.size()); };
  std::vector<size_t> ends;
  for (size_t n = 1 + random.Below(width); n > 0; --n) {
    TROUPE_ASSIGN_OR_RETURN(const size_t id, add(next(), {}));
    ends.push_back(id);
  }
  for (size_t d = 0; d < depth; ++d) {
    std::vector<size_t> joined;
    for (size_t n = 1 + random.Below(ends.size()); n > 0; --n) joined.push_back(Draw(&ends, &random));
    TROUPE_ASSIGN_OR_RETURN(const size_t join, add(next(), joined));
    for (size_t n = 1 + random.Below(width); n > 0; --n) {
      TROUPE_ASSIGN_OR_RETURN(const size_t id, add(next(), {join}));
      ends.push_back(id);
    }
  }
  std::vector<size_t> loose;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!consumed[i]) loose.push_back(i);
  }
  return add("done", loose).status();
}

Output ScalarInput(const Scope& s, const char* name) {
  return ops::Placeholder(s.WithOpName(name), DType::kFloat, {.shape = TensorShape()});
}

void Tree(const Scope& s, size_t leaves) {
  Random random(7);
  const Output x = ScalarInput(s, "x");
  std::vector<Output> values;
  for (size_t i = 0; i < leaves; ++i) values.push_back(ops::Identity(s, x));
  while (values.size() > 1) {
    const Output a = Draw(&values, &random), b = Draw(&values, &random);
    values.push_back(ops::Add(s, a, b));
  }
  ops::Identity(s.WithOpName("z"), values[0]);
}

void Loop(const Scope& s, int trips, size_t variables) {
  const Output x = ScalarInput(s, "x");
  OutputList start = {Const(s, 0)};
  for (size_t i = 0; i < variables; ++i) start.push_back(ops::Identity(s, x));
  const OutputList end = While(
      s, start, [&](const Scope& in, const OutputList& v) { return ops::Less(in, v[0], trips); },
      [&](const Scope& in, const OutputList& v) {
        OutputList next = {ops::Add(in, v[0], 1)};
        for (size_t i = 1; i < v.size(); ++i) next.push_back(ops::Add(in, v[i], 1.0f));
        return next;
      },
      {.parallel_iterations = 10});
  OutputList floats = {ops::Cast(s, end[0], DType::kFloat)};
  floats.insert(floats.end(), end.begin() + 1, end.end());
  ops::AddN(s.WithOpName("z"), floats);
}

void Mlp(const Scope& s, size_t layers) {
  Output y = ops::Placeholder(s.WithOpName("x"), DType::kFloat, {.shape = TensorShape({8, 8})});
  const Tensor weights = Tensor::Of<float>(std::vector<float>(64, 0.1f), TensorShape({8, 8}));
  for (size_t i = 0; i < layers; ++i) {
    y = ops::Tanh(s.WithOpName(StrCat("layer", i)),
                  ops::Add(s, ops::MatMul(s, y, Const(s, weights)), Tensor::Scalar(0.1f)));
  }
  ops::Sum(s.WithOpName("z"), y, Tensor::Vector<int32_t>({0, 1}));
}

void Branches(const Scope& s, int64_t n) {
  const Output x = ops::Placeholder(s.WithOpName("x"), DType::kFloat, {.shape = TensorShape({n, n})});
  OutputList ends;
  for (int branch = 0; branch < 2; ++branch) {
    Output y = x;
    for (int i = 0; i < 8; ++i) y = branch == 0 ? ops::MatMul(s, y, x) : ops::MatMul(s, x, y);
    ends.push_back(ops::Sum(s, y, Tensor::Vector<int32_t>({0, 1})));
  }
  ops::Add(s.WithOpName("z"), ends[0], ends[1]);
}

// The network of experiment E5 with constant weights, as it would serve.
void E5(const Scope& s, int64_t batch) {
  const int64_t sizes[] = {784, 200, 100, 60, 30, 10};
  Output y = ops::Placeholder(s.WithOpName("x"), DType::kFloat, {.shape = TensorShape({batch, sizes[0]})});
  Random random(5);
  for (int i = 0; i < 5; ++i) {
    std::vector<float> weights(static_cast<size_t>(sizes[i] * sizes[i + 1]));
    for (float& w : weights) w = 0.2f * (static_cast<float>(random.Below(1 << 16)) / 65536.0f - 0.5f);
    const Output w = Const(s, Tensor::Of<float>(weights, TensorShape({sizes[i], sizes[i + 1]})));
    const Output b = Const(
        s, Tensor::Of<float>(std::vector<float>(static_cast<size_t>(sizes[i + 1]), 0.1f), TensorShape({sizes[i + 1]})));
    y = ops::BiasAdd(s, ops::MatMul(s, y, w), b);
    if (i < 4) y = ops::Relu(s, y);
  }
  ops::Softmax(s.WithOpName("z"), y);
}

}  // namespace

const std::vector<std::string>& GraphNames() {
  static const std::vector<std::string> names = {"null_16x1024",
                                                 "null_32x8192",
                                                 "null_1024x16",
                                                 "null_8192x32",
                                                 "null_1024x1024",
                                                 "const_identity_1x100",
                                                 "const_identity_100x1",
                                                 "const_identity_100x100",
                                                 "tree4096",
                                                 "chain10000",
                                                 "while1000x1",
                                                 "while1000x100",
                                                 "mlp200",
                                                 "mlp7200",
                                                 "branches512",
                                                 "e5x100",
                                                 "queue1000",
                                                 "queue_pair1",
                                                 "queue_pair1000",
                                                 "add1"};
  return names;
}

absl::Status BuildGraph(const std::string& name, const std::shared_ptr<Graph>& graph) {
  size_t a = 0, b = 0;
  int end = 0;
  const auto is = [&](const char* format, bool two) {
    a = b = 0;
    end = 0;
    const int read =
        two ? std::sscanf(name.c_str(), format, &a, &b, &end) : std::sscanf(name.c_str(), format, &a, &end);
    return read == (two ? 2 : 1) && end == static_cast<int>(name.size()) && a > 0 && (!two || b > 0) && a <= 1000000 &&
           b <= 1000000;
  };
  if (is("null_%zux%zu%n", true)) return Null(a, b, graph.get());
  const Scope s = Scope::NewRootScope(graph);
  if (is("const_identity_%zux%zu%n", true)) {
    std::vector<Operation> ends;
    for (size_t i = 0; i < a; ++i) {
      const Output c = Const(s, static_cast<float>(i));
      for (size_t k = 0; k < b; ++k) ends.push_back(ops::Identity(s, c));
    }
    Group(s.WithOpName("done"), ends);
  } else if (is("while%zux%zu%n", true)) {
    Loop(s, static_cast<int>(a), b);
  } else if (is("tree%zu%n", false)) {
    Tree(s, a);
  } else if (is("chain%zu%n", false)) {
    const Output x = ScalarInput(s, "x");
    Output y = x;
    for (size_t i = 0; i < a; ++i) y = ops::Add(s, y, x);
    ops::Identity(s.WithOpName("z"), y);
  } else if (is("mlp%zu%n", false)) {
    Mlp(s, a);
  } else if (is("branches%zu%n", false)) {
    Branches(s, static_cast<int64_t>(a));
  } else if (is("e5x%zu%n", false)) {
    E5(s, static_cast<int64_t>(a));
  } else if (is("queue%zu%n", false)) {
    const Queue q = Queue::Fifo(s, {DType::kFloat}, {.capacity = 10, .shapes = {TensorShape()}});
    const Output value = Const(s, 1.0f);
    Scope after = s;
    for (size_t i = 0; i < a; ++i) {
      const Operation put = q.Enqueue(after, {value});
      after = s.WithControlDependencies(q.Dequeue(s.WithControlDependencies(put))[0]);
    }
    ops::NoOp(after.WithOpName("done"));
  } else if (is("queue_pair%zu%n", false)) {
    const bool many = a > 1;
    const Queue q = Queue::Fifo(s, {DType::kFloat}, {.capacity = static_cast<int64_t>(a), .shapes = {TensorShape()}});
    const Output rows = Const(s, Tensor(DType::kFloat, {static_cast<int64_t>(a)})), one = Const(s, 1.0f);
    const Scope put = s.WithOpName("put"), get = s.WithOpName("get");
    many ? q.EnqueueMany(put, {rows}) : q.Enqueue(put, {one});
    many ? q.DequeueMany(get, Const(s, static_cast<int32_t>(a)))[0] : q.Dequeue(get)[0];
    ops::NoOp(s.WithOpName("done"));
  } else if (name == "add1") {
    const Output x = ScalarInput(s, "x"), y = ScalarInput(s, "y");
    ops::Add(s.WithOpName("z"), x, y);
  } else {
    return InvalidArgument("there is no graph '", name, "'");
  }
  return s.status();
}

Feeds FeedsOf(const Graph& graph) {
  Feeds feeds;
  for (const char* name : {"x", "y"}) {
    const Node* n = graph.Find(name);
    if (n == nullptr) continue;
    const auto shape = n->Attr<PartialTensorShape>("shape");
    TensorShape full;
    for (int i = 0; shape.ok() && i < shape->rank(); ++i) full.AddDim(shape->dim(i));
    feeds.emplace_back(name,
                       Tensor::Of<float>(std::vector<float>(static_cast<size_t>(full.num_elements()), 0.001f), full));
  }
  return feeds;
}
Names FetchesOf(const Graph& graph) { return graph.Find("z") == nullptr ? Names{} : Names{"z:0"}; }
Names TargetsOf(const Graph& graph) { return graph.Find("done") == nullptr ? Names{} : Names{"done"}; }

BareGraph::BareGraph(const Graph& graph) {
  std::vector<unsigned> number(static_cast<size_t>(graph.num_node_ids()));
  const std::vector<Node*> nodes = graph.op_nodes();
  for (size_t i = 0; i < nodes.size(); ++i) number[static_cast<size_t>(nodes[i]->id())] = static_cast<unsigned>(i);
  counts_.resize(nodes.size());
  first_.push_back(0);
  for (const Node* n : nodes) {
    for (const Edge* e : n->out_edges()) {
      if (e->dst->IsOp()) consumers_.push_back(number[static_cast<size_t>(e->dst->id())]);
    }
    first_.push_back(static_cast<unsigned>(consumers_.size()));
  }
  for (const unsigned c : consumers_) ++counts_[c];
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (counts_[i] == 0) roots_.push_back(static_cast<unsigned>(i));
  }
  left_.resize(nodes.size());
  ready_.resize(nodes.size());
}

size_t BareGraph::Run() {
  std::memcpy(left_.data(), counts_.data(), counts_.size() * sizeof(unsigned));
  std::copy(roots_.begin(), roots_.end(), ready_.begin());
  unsigned* const left = left_.data();
  unsigned* const ready = ready_.data();
  const unsigned *const first = first_.data(), *const consumers = consumers_.data();
  size_t head = 0, tail = roots_.size();
  while (head < tail) {
    const unsigned n = ready[head++];
    for (unsigned e = first[n], end = first[n + 1]; e < end; ++e) {
      const unsigned c = consumers[e];
      if (--left[c] == 0) ready[tail++] = c;
    }
  }
  return head;
}

}  // namespace troupe::bench
