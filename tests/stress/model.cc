#include "tests/stress/model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "troupe/emit.h"

namespace troupe::stress {
namespace {

constexpr double kModulus = 1009, kLargest = 1e9;
constexpr int kBigLength = 20000;

double Mod(double a) { return a - kModulus * std::floor(a / kModulus); }

// Element by element; a scalar stands for as many as the other has.
template <class F>
Value Map2(const Value& a, const Value& b, F f) {
  Value r(std::max(a.size(), b.size()));
  for (size_t i = 0; i < r.size(); ++i) r[i] = f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]);
  return r;
}
template <class F>
Value Map1(Value a, F f) {
  for (double& x : a) x = f(x);
  return a;
}
Tensor TensorOf(const Value& v) { return Tensor::Vector(absl::Span<const double>(v)); }

}  // namespace

const char* NameOf(Kind kind) {
  constexpr const char* kNames[] = {"plain", "loop",  "branch", "act",       "big",       "counter",
                                    "whole", "noise", "late",   "bad birth", "wrong type"};
  return kNames[static_cast<int>(kind)];
}

struct Model::Memo {
  const Model& model;
  const Inputs& in;
  std::map<int, Value> values = {};
  const Value& operator()(int node) {
    const auto it = values.find(node);
    if (it != values.end()) return it->second;
    Value v = model.evals_[static_cast<size_t>(node)](*this);
    return values[node] = std::move(v);
  }
};

Model::Model(Draw draw, const Options& options)
    : draw_(draw), options_(options), length_(static_cast<int>(draw_.Between(2, 9))) {
  const auto feed = [&](const char* name, DType type, const PartialTensorShape& shape) {
    return ops::Placeholder(root_.WithOpName(name), type, {.shape = shape});
  };
  const PartialTensorShape scalar(std::vector<int64_t>{});
  pool_.push_back(Keep(feed("x", DType::kDouble, scalar), 1, 1000, [](Memo& m) { return Value{m.in.x}; }));
  n_ = feed("n", DType::kDouble, scalar);
  pool_.push_back(
      Keep(feed("v", DType::kDouble, PartialTensorShape({length_})), length_, 1000, [](Memo& m) { return m.in.v; }));
  how_ = feed("how", DType::kInt64, scalar);
  call_ = feed("call", DType::kInt64, scalar);
  const Output late = feed("late", DType::kDouble, scalar);
  const double c = static_cast<double>(draw_.Between(-9, 9));
  pool_.push_back(Keep(ops::Const(root_.WithOpName("c"), c), 1, 9, [c](Memo&) { return Value{c}; }));

  for (int64_t i = draw_.Between(4, 16); i > 0; --i) pool_.push_back(Arithmetic());
  AddFetch(Kind::kPlain, pool_.back());
  AddFetch(Kind::kPlain, draw_.Of(pool_));
  AddFetch(Kind::kLoop, Loop(false, false));
  AddFetch(Kind::kBranch, Branch(false, false));
  if (options_.acts) {
    for (const bool sync : {true, false}) {
      Known a = ActOn(Somewhere(root_), draw_.Of(pool_), sync);
      pool_.push_back(a);
      const Known behind = Arithmetic();
      pool_.pop_back();  // nobody else's values depend on it
      AddFetch(Kind::kAct, draw_.Chance(0.5) ? a
                                             : a = Keep(ops::Add(Somewhere(root_), a.out, behind.out),
                                                        std::max(a.length, behind.length), a.bound + behind.bound,
                                                        [a, behind](Memo& m) {
                                                          return Map2(m(a.node), m(behind.node), std::plus<>());
                                                        }))
          .sync = sync;
      Fetch& in_loop = AddFetch(Kind::kAct, Loop(true, sync));
      in_loop.sync = sync;
      in_loop.where = Fetch::Where::kInLoop;
      Fetch& in_branch = AddFetch(Kind::kAct, Branch(true, sync));
      in_branch.sync = sync;
      in_branch.where = Fetch::Where::kInBranch;
    }
  }
  const Known some = draw_.Of(pool_);
  AddFetch(Kind::kLate, Keep(ops::Add(Somewhere(root_), some.out, late), some.length, some.bound + 1000,
                             [some](Memo& m) { return Map2(m(some.node), {m.in.late}, std::plus<>()); }));
  AddBig();
  if (options_.variables) AddVariables();
  if (options_.noise) AddNoise();
  if (options_.bad) {
    const Operation birth = EmitOp(Somewhere(root_).WithOpName("bad_birth"), "StressBadBirth", {pool_[0].out},
                                   {{"what", AttrValue(draw_.Between(0, 2))}});
    const Operation wrong = EmitOp(Somewhere(root_).WithOpName("wrong_type"), "StressWrongType", {pool_[0].out});
    fetches_.push_back({Kind::kBadBirth, birth.output(0).name()});
    fetches_.push_back({Kind::kWrongType, wrong.output(0).name()});
  }
}

void Model::Grow() {
  growing_ = true;
  for (int i = 0; i < 3; ++i) pool_.push_back(Arithmetic());
  AddFetch(Kind::kPlain, pool_.back());
  AddFetch(Kind::kLoop, Loop(false, false));
}

Model::Fetch& Model::AddFetch(Kind kind, const Known& k) {
  fetches_.push_back({kind, k.out.name(), k.node});
  fetches_.back().extension = growing_;
  return fetches_.back();
}

Model::Known Model::Keep(const Output& out, int length, double bound, Eval eval) {
  evals_.push_back(std::move(eval));
  return {out, static_cast<int>(evals_.size()) - 1, length, bound};
}

Scope Model::Somewhere(const Scope& scope) {
  if (draw_.Chance(0.3)) return scope;
  return scope.WithDevice(StrCat("/device:CPU:", draw_.Between(0, options_.devices - 1)));
}

Model::Known Model::Small(Known a) {
  if (a.bound < kLargest) return a;
  return Keep(ops::FloorMod(Somewhere(root_), a.out, kModulus), a.length, kModulus,
              [a](Memo& m) { return Map1(m(a.node), Mod); });
}

Model::Known Model::Arithmetic() {
  const Known a = Small(draw_.Of(pool_));
  Known b = Small(draw_.Of(pool_));
  const Scope s = Somewhere(root_);
  const int length = std::max(a.length, b.length);
  const auto two = [&](const Output& out, double bound, auto f) {
    return Keep(out, length, bound, [a, b, f](Memo& m) { return Map2(m(a.node), m(b.node), f); });
  };
  switch (draw_.Between(0, 7)) {
    case 0:
      return two(ops::Add(s, a.out, b.out), a.bound + b.bound, std::plus<>());
    case 1:
      return two(ops::Sub(s, a.out, b.out), a.bound + b.bound, std::minus<>());
    case 2:
      if (a.bound * b.bound > 1e14)
        return two(ops::Maximum(s, a.out, b.out), std::max(a.bound, b.bound),
                   [](double p, double q) { return std::max(p, q); });
      return two(ops::Mul(s, a.out, b.out), a.bound * b.bound, std::multiplies<>());
    case 3:
      return two(ops::Minimum(s, a.out, b.out), std::max(a.bound, b.bound),
                 [](double p, double q) { return std::min(p, q); });
    case 4:
      return Keep(ops::Neg(s, a.out), a.length, a.bound, [a](Memo& m) { return Map1(m(a.node), std::negate<>()); });
    case 5:
      return Keep(ops::Abs(s, a.out), a.length, a.bound,
                  [a](Memo& m) { return Map1(m(a.node), [](double p) { return std::fabs(p); }); });
    case 6:
      return Keep(ops::FloorMod(s, a.out, kModulus), a.length, kModulus, [a](Memo& m) { return Map1(m(a.node), Mod); });
    default:
      if (a.length == 1) return Keep(ops::Identity(s, a.out), 1, a.bound, [a](Memo& m) { return m(a.node); });
      return Keep(ops::Sum(s, a.out, 0), 1, a.bound * a.length, [a](Memo& m) {
        double sum = 0;
        for (const double p : m(a.node)) sum += p;
        return Value{sum};
      });
  }
}

// i, a = 0, start; while i < n: i, a = i + 1, (3 a + i + c) mod 1009, with two turns of an inner
// loop at times.
Model::Known Model::Loop(bool act, bool sync) {
  const Known start = Small(draw_.Of(pool_));
  Known c = Small(draw_.Of(pool_));
  if (c.length > start.length) c = pool_[0];
  const bool nested = !act && draw_.Chance(0.3);
  WhileOptions options;
  options.parallel_iterations = draw_.Of<int64_t>({1, 2, 10});
  const Output from = ops::FloorMod(Somewhere(root_), start.out, kModulus);
  const OutputList r = While(
      Somewhere(root_), {ops::Const(root_, 0.0), from},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], n_); },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        Output a = v[1];
        if (act) a = ActOn(Somewhere(s), {a, -1, start.length, kModulus}, sync).out;
        Output next = ops::FloorMod(
            Somewhere(s), ops::Add(Somewhere(s), ops::Add(Somewhere(s), ops::Mul(Somewhere(s), a, 3.0), v[0]), c.out),
            kModulus);
        if (nested) {
          next = While(
              Somewhere(s), {ops::Const(s, 0.0), next},
              [&](const Scope& t, const OutputList& w) { return ops::Less(t, w[0], 2.0); },
              [&](const Scope& t, const OutputList& w) -> OutputList {
                return {ops::Add(t, w[0], 1.0),
                        ops::FloorMod(Somewhere(t), ops::Add(Somewhere(t), w[1], v[0]), kModulus)};
              })[1];
        }
        return {ops::Add(s, v[0], 1.0), next};
      },
      options);
  if (r.size() < 2) return start;  // the scope has the error
  return Keep(r[1], start.length, kModulus, [start, c, nested](Memo& m) {
    Value a = Map1(m(start.node), Mod);
    const Value captured = m(c.node);
    for (double i = 0; i < static_cast<double>(m.in.n); ++i) {
      a = Map2(a, captured, [&](double p, double q) { return Mod(3 * p + i + q); });
      for (int k = 0; nested && k < 2; ++k) a = Map1(a, [&](double p) { return Mod(p + i); });
    }
    return a;
  });
}

// x < 0 ? 2 a + 1 : b - 3
Model::Known Model::Branch(bool act, bool sync) {
  const Known a = Small(draw_.Of(pool_));
  const Output pred = ops::Less(Somewhere(root_), pool_[0].out, 0.0);
  const Output r = Cond(
      Somewhere(root_), pred,
      [&](const Scope& s) {
        const Output in = act ? ActOn(Somewhere(s), a, sync).out : a.out;
        return ops::Add(Somewhere(s), ops::Mul(Somewhere(s), in, 2.0), 1.0);
      },
      [&](const Scope& s) { return ops::Sub(Somewhere(s), a.out, 3.0); });
  return Keep(r, a.length, 2 * a.bound + 3, [a](Memo& m) {
    const bool taken = m.in.x < 0;
    return Map1(m(a.node), [&](double p) { return taken ? 2 * p + 1 : p - 3; });
  });
}

Model::Known Model::ActOn(const Scope& scope, const Known& a, bool sync) {
  const Operation op = EmitOp(scope, sync ? "StressSync" : "StressAsync", {a.out, how_, call_});
  if (a.node < 0) return {op.output(0), -1, a.length, a.bound};
  return Keep(op.output(0), a.length, a.bound, [a](Memo& m) { return m(a.node); });
}

void Model::AddBig() {
  const Known x = pool_[0];
  const Output range = ops::Range(Somewhere(root_), 0.0, static_cast<double>(kBigLength), 1.0);
  const auto made = [](double x, double i) { return 2 * (i + x); };
  const Output here = ops::Mul(Somewhere(root_), ops::Add(Somewhere(root_), range, x.out), 2.0);
  const Known big = Keep(here, kBigLength, 1e5, [x, made](Memo& m) {
    const double at = m(x.node)[0];
    Value v(kBigLength);
    for (int i = 0; i < kBigLength; ++i) v[static_cast<size_t>(i)] = made(at, i);
    return v;
  });
  Output chain = big.out;
  const int64_t hops = draw_.Between(1, 3);
  for (int64_t i = 0; i < hops; ++i) chain = ops::Add(Somewhere(root_), ops::Neg(Somewhere(root_), chain), big.out);
  const Known sum = Keep(ops::Sum(Somewhere(root_), chain, 0), 1, 1e10, [big, hops](Memo& m) {
    double sum = 0;
    for (const double b : m(big.node)) {
      double c = b;
      for (int64_t i = 0; i < hops; ++i) c = b - c;
      sum += c;
    }
    return Value{sum};
  });
  AddFetch(Kind::kBig, big);
  AddFetch(Kind::kBig, sum);
}

void Model::AddVariables() {
  VariableOptions options;
  options.use_resource = draw_.Chance(0.6);
  const Scope at = Somewhere(root_);
  const Variable counter(at.WithOpName("counter"), 0.0, options);
  counter_ = counter.Read(root_.WithOpName("counter_now")).name();
  // A value of its own: an Identity of a reference hands on what the reference names, also what it
  // will be.
  const Output before = ops::Mul(Somewhere(root_), counter.Read(root_), 1.0);
  const Output add = counter.AssignAdd(root_.WithControlDependencies(before), 1.0);
  const Output after = counter.Read(root_.WithControlDependencies(add));
  const Output both = ops::Pack(root_, {before, ops::Identity(root_, after)});
  fetches_.push_back({Kind::kCounter, both.name()});
  const Variable whole(Somewhere(root_).WithOpName("whole"), ops::Fill(root_, {2000}, 0.0));
  const Output more = whole.AssignAdd(root_, ops::Fill(root_, {2000}, 1.0));
  const Output read = whole.Read(root_.WithControlDependencies(more));
  fetches_.push_back({Kind::kWhole, read.name()});
  init_ = GlobalVariablesInitializer(root_).name();
}

void Model::AddNoise() {
  noise_seed_ = draw_.Between(1, 4);
  const Output noise = ops::RandomUniform(Somewhere(root_), {4}, DType::kFloat, {.seed = noise_seed_, .seed2 = 17});
  fetches_.push_back({Kind::kNoise, noise.name()});
}

std::vector<Tensor> Model::FeedValues(const Inputs& in) {
  return {Tensor::Scalar(in.x),    Tensor::Scalar(static_cast<double>(in.n)),
          TensorOf(in.v),          Tensor::Scalar(in.how),
          Tensor::Scalar(in.call), Tensor::Scalar(in.late)};
}

Feeds Model::FeedsOf(const Inputs& in) {
  Feeds feeds;
  const Names names = FeedNames();
  std::vector<Tensor> values = FeedValues(in);
  for (size_t i = 0; i < names.size(); ++i) feeds.emplace_back(names[i], std::move(values[i]));
  return feeds;
}

Value Model::Expected(const Fetch& fetch, const Inputs& in) const {
  Memo memo{*this, in};
  return memo(fetch.node);
}

int64_t Model::TimesRun(const Fetch& fetch, const Inputs& in) {
  if (fetch.kind != Kind::kAct) return 0;
  switch (fetch.where) {
    case Fetch::Where::kInLoop:
      return in.n;
    case Fetch::Where::kInBranch:
      return in.x < 0 ? 1 : 0;
    default:
      return 1;
  }
}

}  // namespace troupe::stress
