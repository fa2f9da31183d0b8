// Reference and resource variables on several devices: whatever the placer chose, a step gives what
// it gives on one device.
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "graph/ir/text.h"
#include "graph/passes/partition.h"
#include "tests/passes/graphs.h"
#include "tests/passes/session_graphs.h"
#include "troupe/import_export.h"

namespace troupe::test {

std::string Bits(const Tensor& t) {
  if (t.dtype() != DType::kFloat || t.rank() != 0) return t.DebugString();
  char text[64];
  std::snprintf(text, sizeof(text), "%a", static_cast<double>(t.scalar<float>()));
  return text;
}

std::vector<Mode> AllModes() {
  return {{"one device", 1},
          {"one device, as it stands", 1, false, false},
          {"three devices", 3},
          {"three devices, cost model", 3, true},
          {"three devices, cost model, as it stands", 3, true, false}};
}

absl::StatusOr<std::unique_ptr<Session>> SessionFor(const std::string& text, const Mode& mode) {
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Graph> graph, ParseGraphText(text));
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = mode.devices;
  options.use_cost_model = mode.use_cost_model;
  // A graph that asks for other devices runs on one all the same.
  options.allow_soft_placement = mode.devices == 1;
  options.fold_constants = options.merge_common_subexpressions = options.fuse = mode.optimize;
  options.operation_timeout_ms = 30000;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*graph));
  return session;
}

std::string RunSteps(const std::string& text, const Names& fetches, const Names& targets, int steps, const Mode& mode) {
  auto session = SessionFor(text, mode);
  if (!session.ok()) return session.status().ToString();
  if (absl::Status s = (*session)->Run({}, {}, {"init"}, nullptr); !s.ok()) return s.ToString();
  std::string all;
  for (int step = 0; step < steps; ++step) {
    Feeds feeds;
    if (text.find("x = Placeholder") != std::string::npos) {
      feeds.emplace_back("x:0", Tensor::Scalar<float>(0.3f * static_cast<float>(step + 1)));
    }
    std::vector<Tensor> values;
    if (absl::Status s = (*session)->Run(feeds, fetches, targets, &values); !s.ok()) return s.ToString();
    for (const Tensor& t : values) StrAppend(&all, &t == &values[0] ? "" : " ", Bits(t));
    all += "\n";
  }
  return all;
}

namespace {

constexpr char kVariable[] = R"(
  one = Const[value=float32{1}]
  v = VariableV2[dtype=float32, shape=[]]
  v/Assign = Assign(v, one)
  init = NoOp(^v/Assign)
)";

constexpr char kAverage[] = R"(
  one = Const[value=float32{1}]
  v = VariableV2[dtype=float32, shape=[]]
  v/Assign = Assign(v, one)
  init = NoOp(^v/Assign, ^e/Assign)
)";

// for (i = 0; i < 3; ++i) with a value `a`; the body computes "a_next" and may use i1, a1 and the
// reference "w/ref". All but that asks for `device`.
std::string Loop(const std::string& body, const std::string& device = "") {
  std::string text = R"(
  w/i = Enter[frame_name="w"](zero)
  w/a = Enter[frame_name="w"](first)
  w/mi = Merge(w/i, w/ni)
  w/ma = Merge(w/a, w/na)
  w/limit = Const[value=int32{3}](^w/mi)
  w/less = Less(w/mi, w/limit)
  w/cond = LoopCond(w/less)
  w/si = Switch(w/mi, w/cond)
  w/sa = Switch(w/ma, w/cond)
  w/i1 = Identity(w/si:1)
  w/a1 = Identity(w/sa:1)
  w/one = Const[value=int32{1}](^w/i1)
)";
  StrAppend(&text, body, R"(
  w/ni = NextIteration(w/i_next)
  w/na = NextIteration(w/a_next)
  out = Exit(w/sa)
)");
  if (!device.empty()) {
    for (size_t at = 0; (at = text.find(")\n", at)) != std::string::npos; at += device.size() + 3) {
      text.replace(at, 1, StrCat(") ", device));
    }
  }
  return StrCat(R"(
  zero = Const[value=int32{0}]
  first = Const[value=float32{2}]
  w/ref = RefEnter[frame_name="w", is_constant=true](v)
)",
                text);
}

struct Case {
  const char* what;
  std::string graph, fetch;
  std::vector<float> want;  // by step
};

std::vector<Case> Cases() {
  const std::string add_up = "\nup = AssignAdd(v, one)\n";
  const std::string next = "w/i_next = AddV2(w/i1, w/one)\n";
  // Three updates, after `read`; `out` is 2.
  const std::string updates = StrCat("k = Const[value=float32{1}](^read)\n", Loop(R"(
         w/k = Enter[frame_name="w", is_constant=true](k)
         w/up = AssignAdd(w/ref, w/k, ^w/i1)
         w/i_next = AddV2(w/i1, w/one, ^w/up)
         w/a_next = Identity(w/a1))"));
  return {
      {"a read on another device waits for the update that it names",
       StrCat(kVariable, add_up, "r = Identity(v, ^up) @/cpu:1"),
       "r",
       {2, 3, 4}},
      {"so does one that gets the update's value beside the variable",
       StrCat(kVariable, add_up, "n = Neg(up) @/cpu:1\nr = Sub(v, n) @/cpu:2"),
       "r",
       {4, 6, 8}},
      {"and one whose other input is computed on its own device after the update",
       StrCat(kVariable, add_up, "k = Const[value=float32{10}](^up) @/cpu:1\nr = Mul(k, v) @/cpu:1"),
       "r",
       {20, 30, 40}},
      {"a read of the update's own reference", StrCat(kVariable, add_up, "r = Identity(up) @/cpu:1"), "r", {2, 3, 4}},
      {"a read that the update waits for",
       StrCat(kVariable,
              "m = Neg(v) @/cpu:1\nk = Const[value=float32{1}](^m)\nup = AssignAdd(v, k)\nr = Identity(m, ^up)"),
       "r",
       {-1, -2, -3}},
      {"two reads on one device, before and after",
       StrCat(kVariable, "a = Neg(v) @/cpu:1\nk = Const[value=float32{1}](^a)\nup = AssignAdd(v, k)\n",
              "b = Identity(v, ^up) @/cpu:1\nr = Sub(b, a) @/cpu:1"),
       "r",
       {3, 5, 7}},
      {"a branch that is taken reads after an update",
       StrCat(kVariable, add_up, R"(
         p = Const[value=bool{true}]
         q = Identity(p, ^up)
         s = RefSwitch(v, q)
         t = Identity(s:1) @/cpu:1
         f = Neg(s) @/cpu:2
         r = Merge(f, t) @/cpu:2)"),
       "r",
       {2, 3, 4}},
      {"a loop reads on another device",
       StrCat(kVariable, add_up, "all = NoOp(^up)\n", Loop(StrCat(next, R"(
         w/read = Identity(w/ref, ^w/i1) @/cpu:1
         w/a_next = AddV2(w/a1, w/read))"))),
       "out",
       {5, 5, 5}},
      {"a loop that is on another device than the variable",
       StrCat(kVariable, Loop(R"(
         w/i_next = AddV2(w/i1, w/one) @/cpu:2
         w/read = Identity(w/ref, ^w/i1) @/cpu:1
         w/a_next = AddV2(w/a1, w/read) @/cpu:1)")),
       "out",
       {5, 5, 5}},
      {"a loop in which nothing but the reference says when to read",
       StrCat(kVariable, Loop(StrCat(next, R"(
         w/read = Neg(w/ref) @/cpu:1
         w/a_next = Sub(w/a1, w/read) @/cpu:2)"))),
       "out",
       {5, 5, 5}},
      {"a moving average behind an update, as TensorFlow's optimizers write it",
       StrCat(kAverage, R"(
         e = VariableV2[dtype=float32, shape=[]]
         e/Assign = Assign(e, one)
         v/read = Identity[_class={"loc:@v"}](v)
         e/read = Identity[_class={"loc:@e"}](e)
         grad = Identity(one)
         train = ApplyGradientDescent(v, one, grad)
         trained = NoOp(^train)
         half = Const[value=float32{0.5}](^trained)
         sub = Sub(e/read, v/read, ^trained)
         mul = Mul(sub, half)
         up = AssignSub(e, mul)
         r = Identity(up)
       )"),
       "r",
       {0.5f, -0.25f, -1.125f}},
      {"a read before an update, handed on after it",
       StrCat(kVariable, R"(
         read = Identity(v)
         k = Const[value=float32{1}](^read)
         up = AssignAdd(v, k)
         again = Identity(read, ^up)
         third = Identity(again)
         ten = Const[value=float32{10}](^up)
         r = Mul(third, ten))"),
       "r",
       {20, 30, 40}},
      {"a read that may come before or after an update that its reader waits for",
       StrCat(kVariable, add_up, "read = Identity(v)\nten = Const[value=float32{10}](^up)\nr = Mul(read, ten) @/cpu:1"),
       "r",
       {20, 30, 40}},
      {"a read before an update, whose reader does not wait for that: a snapshot",
       StrCat(kVariable, R"(
         read = Identity(v)
         slow = Neg(read) @/cpu:1
         k = Const[value=float32{1}](^read)
         up = AssignAdd(v, k)
         r = Neg(slow)
         done = NoOp(^up))"),
       "r",
       {1, 2, 3}},
      {"a loop updates after the read, and the reader waits for its end by a control edge",
       StrCat(kVariable, "read = Identity(v)\n", updates, "ten = Const[value=float32{10}](^out)\nr = Mul(read, ten)"),
       "r",
       {40, 70, 100}},
      {"by data alone", StrCat(kVariable, "read = Identity(v)\n", updates, "r = Sub(read, out)"), "r", {2, 5, 8}},
      {"behind a second loop, which waits for a reader behind the first",
       StrCat(kVariable, "read = Identity(v)\n", updates, R"(
         between = Mul(read, out)
         x/i = Enter[frame_name="x"](between)
         x/ref = RefEnter[frame_name="x", is_constant=true](v)
         x/m = Merge(x/i, x/n)
         x/limit = Const[value=float32{40}](^x/m)
         x/less = Less(x/m, x/limit)
         x/cond = LoopCond(x/less)
         x/s = Switch(x/m, x/cond)
         x/i1 = Identity(x/s:1)
         x/by = Const[value=float32{20}](^x/i1)
         x/up = AssignAdd(x/ref, x/by)
         x/next = AddV2(x/i1, x/by, ^x/up)
         x/n = NextIteration(x/next)
         x/out = Exit(x/s)
         r = Sub(read, x/out))"),
       "r",
       // 2 * 4 = 8, 28, 48: two rounds; from then on the first value is beyond the limit.
       {44 - 48, 47 - 94, 50 - 100}},
      {"a loop in a loop updates",
       StrCat(kVariable, "read = Identity(v)\nk = Const[value=float32{1}](^read)\n", Loop(R"(
         y/a = Enter[frame_name="y"](w/a1)
         y/i = Enter[frame_name="y"](w/i1)
         y/k = Enter[frame_name="y", is_constant=true](w/k)
         y/ref = RefEnter[frame_name="y", is_constant=true](w/ref)
         y/m = Merge(y/i, y/n)
         y/ma = Merge(y/a, y/na)
         y/limit = Const[value=int32{3}](^y/m)
         y/less = Less(y/m, y/limit)
         y/cond = LoopCond(y/less)
         y/s = Switch(y/m, y/cond)
         y/sa = Switch(y/ma, y/cond)
         y/i1 = Identity(y/s:1)
         y/one = Const[value=int32{1}](^y/i1)
         y/up = AssignAdd(y/ref, y/k, ^y/i1)
         y/i_next = AddV2(y/i1, y/one, ^y/up)
         y/same = Identity(y/sa:1)
         y/n = NextIteration(y/i_next)
         y/na = NextIteration(y/same)
         y/out = Exit(y/sa)
         w/k = Enter[frame_name="w", is_constant=true](k)
         w/i_next = AddV2(w/i1, w/one)
         w/a_next = Identity(y/out))"),
              "r = Sub(read, out)"),
       "r",
       // 3 + 2 + 1 updates a step.
       {7 - 2, 13 - 2, 19 - 2}},
      {"a loop that updates beside what its end waits for: the reader keeps its snapshot",
       StrCat(kVariable, "read = Identity(v)\nk = Const[value=float32{1}](^read)\n", Loop(StrCat(next, R"(
         w/k = Enter[frame_name="w", is_constant=true](k)
         w/up = AssignAdd(w/ref, w/k, ^w/i1)
         w/a_next = Identity(w/a1))")),
              "r = Sub(read, out)\ndone = NoOp(^r)"),
       "r",
       {1 - 2, 1 - 2, 1 - 2}},
      {"all of a loop but the reference is on another device",
       StrCat(kVariable, Loop(StrCat(next, R"(
         w/read = Identity(w/ref, ^w/i1)
         w/a_next = AddV2(w/a1, w/read))"),
                              "@/cpu:1")),
       "out",
       {5, 5, 5}},
      {"and nothing but the reference says when to read",
       StrCat(kVariable, Loop(StrCat(next, R"(
         w/read = Identity(w/ref)
         w/a_next = AddV2(w/a1, w/read))"),
                              "@/cpu:1")),
       "out",
       {5, 5, 5}},
      {"a loop updates, and reads on another device",
       StrCat(kVariable, Loop(R"(
         w/k = Const[value=float32{1}](^w/i1)
         w/up = AssignAdd(w/ref, w/k)
         w/read = Identity(w/ref, ^w/up) @/cpu:1
         w/i_next = AddV2(w/i1, w/one, ^w/read)
         w/a_next = AddV2(w/a1, w/read) @/cpu:2)")),
       "out",
       {2 + 9, 2 + 18, 2 + 27}},
  };
}

BOOST_AUTO_TEST_SUITE(references)

BOOST_AUTO_TEST_CASE(reads_on_other_devices_see_what_reads_at_home_see) {
  for (const Case& c : Cases()) {
    std::string want;
    for (float f : c.want) StrAppend(&want, Bits(Tensor::Scalar<float>(f)), "\n");
    for (const Mode& mode : AllModes()) {
      BOOST_TEST_CONTEXT(c.what << ", " << mode.what << "\n" << c.graph) {
        const Names targets = c.graph.find("done = ") != std::string::npos ? Names{"done"} : Names{};
        BOOST_TEST(RunSteps(c.graph, {c.fetch}, targets, static_cast<int>(c.want.size()), mode) == want);
      }
    }
  }
}

// One step for each choice of the first iteration's value, of a device that has an Enter alone, and
// of where the rest is.
BOOST_AUTO_TEST_CASE(a_value_of_the_first_iteration_alone_crosses_once) {
  const std::string graph = R"(
    init = NoOp
    zero = Const[value=int32{0}]
    e = Enter[frame_name="f"](zero)
    first = Neg(e) @/cpu:1
    m = Merge(first, next)
    limit = Const[value=int32{5}](^m) @/cpu:2
    less = Less(m, limit)
    cond = LoopCond(less)
    s = Switch(m, cond)
    one = Const[value=int32{1}](^s)
    more = AddV2(s:1, one)
    next = NextIteration(more)
    out = Exit(s))";
  for (const Mode& mode : AllModes()) {
    BOOST_TEST_CONTEXT(mode.what) {
      BOOST_TEST(RunSteps(graph, {"out"}, {}, 2, mode) == "int32 [] [5]\nint32 [] [5]\n");
    }
  }
}

// What the first signature needs of a graph does not say where its variables can be.
BOOST_AUTO_TEST_CASE(variables_are_placed_for_the_whole_graph) {
  const std::string variables = R"(
    v = VarHandleOp[dtype=float32, shape=[], shared_name="v"]
    a = VarHandleOp[dtype=float32, shape=[], shared_name="a"]
    one = Const[value=float32{1}]
    half = Const[value=float32{0.5}]
    v/Assign = AssignVariableOp(v, one)
    a/Assign = AssignVariableOp(a, half)
    init = NoOp(^v/Assign, ^a/Assign)
  )";
  const struct {
    const char* what;
    std::string graph;
    Names targets;
    std::string want;
  } kCases[] = {
      {"an optimizer's slot has no attr that ties it to its variable",
       StrCat(variables, "up = ResourceApplyAdagrad(v, a, half, one)\nr = ReadVariableOp[dtype=float32](v, ^up)"),
       {},
       "0x1.2efa14p-1"},
      {"a later reader asks for a device",
       StrCat(variables, "up = AssignAddVariableOp(v, one)\nr = ReadVariableOp[dtype=float32](v, ^up) @/cpu:1"),
       {},
       "0x1p+1"},
      {"so does a node of its class, of a signature that does not have the variable",
       StrCat(variables, "k = Neg[_class={\"loc:@v\"}](one) @/cpu:2\nr = ReadVariableOp[dtype=float32](v, ^k)"),
       {},
       "0x1p+0"},
  };
  for (const auto& c : kCases) {
    for (const Mode& mode : AllModes()) {
      BOOST_TEST_CONTEXT(c.what << ", " << mode.what) {
        BOOST_TEST(RunSteps(c.graph, {"r"}, c.targets, 1, mode) == c.want + "\n");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_an_extension_ties_must_be_where_it_can) {
  const std::string first = R"(
    v = VarHandleOp[dtype=float32, shape=[], shared_name="v"]
    a = VarHandleOp[dtype=float32, shape=[], shared_name="a"] @/cpu:1
    one = Const[value=float32{1}]
    v/Assign = AssignVariableOp(v, one)
    a/Assign = AssignVariableOp(a, one)
    init = NoOp(^v/Assign, ^a/Assign)
    other = VarHandleOp[dtype=float32, shape=[], shared_name="other"]
    other/Assign = AssignVariableOp(other, one)
  )";
  auto graph = MustParse(first);
  auto session = SessionFor(first, {"", 3});
  BOOST_TEST_REQUIRE(session.ok());
  BOOST_TEST((*session)->Run({}, {}, {"init"}, nullptr).ok());
  // `other` has not run, and goes where `a` is; `v` cannot.
  const auto extend = [&](const std::string& text) {
    BOOST_TEST(AddGraphText(text, graph.get()).ok());
    return (*session)->Extend(*graph);
  };
  BOOST_TEST(extend(R"(
    both = ResourceApplyAdagrad(other, a, one, one)
    bad = ResourceApplyAdagrad(v, a, one, one)
    read = ReadVariableOp[dtype=float32](other))")
                 .ok());
  BOOST_TEST((*session)->Run({}, {}, {"other/Assign"}, nullptr).ok());
  BOOST_TEST((*session)->Run({}, {}, {"both"}, nullptr).ok());
  std::vector<Tensor> values;
  BOOST_TEST((*session)->Run({}, {"read"}, {}, &values).ok());
  const absl::Status s = (*session)->Run({}, {}, {"bad"}, nullptr);
  BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument));
  for (const char* part : {"'v' is on", "CPU:0", "'a' on", "CPU:1", "node 'bad'"}) {
    BOOST_TEST(std::string(s.message()).find(part) != std::string::npos, part << " in " << s.message());
  }
}

// Writes a graph with variables of both kinds, whose every access is ordered against the updates of
// its variable, by control edges or by data; with branches and loops that read and update.
class Author {
 public:
  explicit Author(unsigned seed) : rng_(seed) {
    Line("x", "Placeholder[dtype=float32, shape=[]]", {}, true);
    Scope root;
    root.pool = {"x"};
    std::vector<std::string> inits;
    const int variables = 1 + Random(3);
    for (int i = 0; i < variables; ++i) {
      const std::string v = StrCat("v", i);
      const bool ref = Random(3) != 0;
      Line(v + "/value", StrCat("Const[value=float32{0.", 1 + Random(8), "}]"), {}, true);
      Line(v,
           ref ? "VariableV2[dtype=float32, shape=[]]"
               : StrCat("VarHandleOp[dtype=float32, shape=[], shared_name=\"", v, "\"]"),
           {}, i == 0 && Random(2) == 0);
      Line(v + "/init", ref ? "Assign" : "AssignVariableOp", {v, v + "/value"}, false);
      inits.push_back("^" + v + "/init");
      root.variables.push_back({ref, v, "", {}, ""});
    }
    Line("init", "NoOp", inits, true);
    const int statements = 4 + Random(8);
    for (int i = 0; i < statements; ++i) Statement(&root, 0);
    for (Variable& v : root.variables) fetches_.push_back(Read(&root, &v));
    for (int i = 0; i < 3; ++i) fetches_.push_back(Pick(root.pool));
  }
  const Names& fetches() const { return fetches_; }
  // With nodes that are free asking for one of so many devices; 0: nobody asks for anything.
  std::string Text(int devices, unsigned seed) const {
    std::mt19937 rng(seed);
    std::string text;
    for (const auto& [line, free] : lines_) {
      StrAppend(&text, line);
      if (free && devices > 0 && rng() % 4 != 0) StrAppend(&text, " @/cpu:", rng() % static_cast<unsigned>(devices));
      text += "\n";
    }
    return text;
  }

 private:
  struct Variable {
    bool ref;
    std::string at;                 // its reference or handle in this scope
    std::string written;            // the last update; "" when there was none here
    std::vector<std::string> read;  // since then
    std::string alias;              // an Identity of it, of whatever time
  };
  struct Scope {
    std::string pivot;  // what runs when the scope does; "" at the root
    std::vector<std::string> pool;
    std::vector<Variable> variables;
  };

  int Random(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }
  const std::string& Pick(const std::vector<std::string>& from) {
    return from[static_cast<size_t>(Random(static_cast<int>(from.size())))];
  }
  std::string New() { return StrCat("n", ++count_); }
  static std::string NodeOf(const std::string& value) { return value.substr(0, value.find(':')); }

  // Data inputs first, then control inputs ("^n"). `free`: the node may be anywhere.
  std::string Line(const std::string& name, const std::string& op, const std::vector<std::string>& inputs, bool free) {
    std::vector<std::string> once;
    for (const std::string& i : inputs) {
      if (i[0] != '^' || std::find(once.begin(), once.end(), i) == once.end()) once.push_back(i);
    }
    lines_.emplace_back(StrCat(name, " = ", op, "(", StrJoin(once, ", "), ")"), free);
    return name;
  }
  std::string Line(const std::string& op, const std::vector<std::string>& inputs, bool free = true) {
    return Line(New(), op, inputs, free);
  }
  static void After(const std::string& node, std::vector<std::string>* inputs) {
    if (!node.empty()) inputs->push_back("^" + NodeOf(node));
  }

  std::string Read(Scope* s, Variable* v) {
    const std::string after = v->written.empty() ? s->pivot : v->written;
    std::vector<std::string> in = {v->at};
    std::string r;
    if (!v->ref) {
      After(after, &in);
      r = Line("ReadVariableOp[dtype=float32]", in, false);
    } else if (Random(3) == 0 && !v->alias.empty() && !after.empty()) {
      // Through an Identity of before: the update that this waits for is seen all the same.
      in = {v->alias, Pick(s->pool)};
      After(after, &in);
      r = Line("AddV2", in);
    } else if (Random(3) == 0 && !v->written.empty() && updates_.contains(v->written)) {
      // Ordered by data: the update's value comes beside the variable.
      r = Line("AddV2", {v->at, Line("Neg", {v->written})});
    } else {
      const int kind = Random(3);
      if (kind == 1) in.push_back(Pick(s->pool));
      if (kind == 2) in.insert(in.begin(), Pick(s->pool));
      After(after, &in);
      r = Line(kind == 0 ? "Identity" : kind == 1 ? "Sub" : "Maximum", in);
      if (kind == 0) v->alias = Random(2) == 0 ? r : Line("Identity", {r});
    }
    v->read.push_back(r);
    s->pool.push_back(Line("Tanh", {r}));
    return r;
  }

  void Update(Scope* s, Variable* v) {
    std::vector<std::string> in = {v->at, Line("Tanh", {Pick(s->pool)})};
    After(v->written.empty() ? s->pivot : v->written, &in);
    for (const std::string& r : v->read) After(r, &in);
    static constexpr const char* kRef[] = {"AssignAdd", "AssignSub", "Assign"};
    static constexpr const char* kResource[] = {"AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"};
    v->written = Line(v->ref ? kRef[Random(3)] : kResource[Random(3)], in, false);
    v->read.clear();
    if (v->ref) updates_.insert(v->written);
  }

  // What all accesses so far have run before.
  static std::vector<std::string> Accesses(const Scope& s) {
    std::vector<std::string> all;
    After(s.pivot, &all);
    for (const Variable& v : s.variables) {
      After(v.written, &all);
      for (const std::string& r : v.read) After(r, &all);
    }
    return all;
  }
  std::string Late(const Scope& s, const std::string& value, const std::string& op = "Identity") {
    std::vector<std::string> in = {value};
    for (const std::string& a : Accesses(s)) in.push_back(a);
    return Line(op, in);
  }
  static void Passed(Scope* s, const std::string& node) {
    for (Variable& v : s->variables) {
      v.written = node;
      v.read.clear();
    }
  }

  void Statement(Scope* s, int depth) {
    const int kind = Random(10);
    if (kind < 3) {
      Read(s, &s->variables[static_cast<size_t>(Random(static_cast<int>(s->variables.size())))]);
    } else if (kind < 6) {
      Update(s, &s->variables[static_cast<size_t>(Random(static_cast<int>(s->variables.size())))]);
    } else if (kind < 8 || depth == 2) {
      static constexpr const char* kOps[] = {"AddV2", "Sub", "Maximum", "Minimum"};
      s->pool.push_back(Line("Tanh", {Line(kOps[Random(4)], {Pick(s->pool), Pick(s->pool)})}));
    } else if (kind == 8) {
      Branch(s, depth);
    } else {
      Loop(s, depth);
    }
  }

  void Branch(Scope* s, int depth) {
    const std::string p = Late(*s, Line("Less", {Pick(s->pool), Pick(s->pool)}));
    const std::string fork = Line("Switch", {p, p});
    std::vector<std::string> ends;
    for (const int taken : {0, 1}) {
      const std::string port = taken ? ":1" : "";
      Scope inner;
      inner.pivot = Line("Identity", {fork + port});
      for (const Variable& v : s->variables) {
        inner.variables.push_back({v.ref, Line(v.ref ? "RefSwitch" : "Switch", {v.at, p}, false) + port, "", {}, ""});
      }
      for (int i = 0; i < 2; ++i) inner.pool.push_back(Line("Switch", {Pick(s->pool), p}) + port);
      for (int i = Random(4); i >= 0; --i) Statement(&inner, depth + 1);
      ends.push_back(Late(inner, inner.pool.back()));
    }
    const std::string join = Line("Merge", ends);
    Passed(s, join);
    s->pool.push_back(join);
  }

  void Loop(Scope* s, int depth) {
    const std::string f = New();
    const std::string enter = StrCat("[frame_name=\"", f, "\"]"),
                      constant = StrCat("[frame_name=\"", f, "\", is_constant=true]");
    const auto name = [&](const char* what) { return f + what; };
    std::vector<std::string> start = Accesses(*s);
    Line(name("/zero"), "Const[value=int32{0}]", start, true);
    Line(name("/ei"), "Enter" + enter, {name("/zero")}, true);
    Line(name("/ea"), "Enter" + enter, {Pick(s->pool)}, true);
    Line(name("/ec"), "Enter" + constant, {Pick(s->pool)}, true);
    Line(name("/mi"), "Merge", {name("/ei"), name("/ni")}, true);
    Line(name("/ma"), "Merge", {name("/ea"), name("/na")}, true);
    Line(name("/limit"), StrCat("Const[value=int32{", Random(4), "}]"), {"^" + name("/mi")}, true);
    Line(name("/less"), "Less", {name("/mi"), name("/limit")}, true);
    Line(name("/cond"), "LoopCond", {name("/less")}, true);
    Line(name("/si"), "Switch", {name("/mi"), name("/cond")}, true);
    Line(name("/sa"), "Switch", {name("/ma"), name("/cond")}, true);
    Scope inner;
    inner.pivot = Line(name("/pivot"), "Identity", {name("/si") + ":1"}, true);
    Line(name("/a"), "Identity", {name("/sa") + ":1"}, true);
    Line(name("/one"), "Const[value=int32{1}]", {"^" + inner.pivot}, true);
    inner.pool = {name("/a"), Line("Neg", {name("/ec"), "^" + inner.pivot})};
    for (const Variable& v : s->variables) {
      inner.variables.push_back({v.ref, Line((v.ref ? "RefEnter" : "Enter") + constant, {v.at}, false), "", {}, ""});
    }
    for (int i = 1 + Random(4); i >= 0; --i) Statement(&inner, depth + 1);
    std::vector<std::string> last = {name("/pivot"), name("/one")};
    for (const std::string& a : Accesses(inner)) last.push_back(a);
    Line(name("/i_next"), "AddV2", last, true);
    Line(name("/a_next"), "Minimum", {inner.pool.back(), name("/a")}, true);
    Line(name("/ni"), "NextIteration", {name("/i_next")}, true);
    Line(name("/na"), "NextIteration", {name("/a_next")}, true);
    Line(name("/xi"), "Exit", {name("/si")}, true);
    Line(name("/xa"), "Exit", {name("/sa")}, true);
    Passed(s, name("/xi"));
    s->pool.push_back(name("/xa"));
  }

  std::mt19937 rng_;
  std::vector<std::pair<std::string, bool>> lines_;
  std::set<std::string> updates_;  // that give references
  Names fetches_;
  int count_ = 0;
};

// More of them in a search of its own.
unsigned Seeds() {
  const char* n = std::getenv("TROUPE_PROPERTY_SEEDS");
  return n == nullptr ? 80 : static_cast<unsigned>(std::atoi(n));
}

BOOST_AUTO_TEST_CASE(ordered_accesses_give_the_same_bits_wherever_they_run) {
  int loops = 0, branches = 0, moved = 0;
  for (unsigned seed = 1; seed <= Seeds(); ++seed) {
    const Author author(seed);
    const std::string plain = author.Text(0, 0);
    const std::string want = RunSteps(plain, author.fetches(), {}, 2, {"", 1, false, false});
    loops += plain.find("LoopCond") != std::string::npos;
    branches += plain.find("RefSwitch") != std::string::npos;
    BOOST_TEST_CONTEXT("seed " << seed << "\n" << plain) {
      BOOST_TEST_REQUIRE(want.find("0x") <= 1, want);
      BOOST_TEST(RunSteps(plain, author.fetches(), {}, 2, {"", 1}) == want, "one device, all passes");
      BOOST_TEST(RunSteps(plain, author.fetches(), {}, 2, {"", 3, true, seed % 2 == 0}) == want, "cost model");
      for (unsigned p = 0; p < 2; ++p) {
        const std::string placed = author.Text(2 + static_cast<int>(p), seed * 100 + p);
        moved += placed.find("@/cpu:1") != std::string::npos;
        BOOST_TEST(RunSteps(placed, author.fetches(), {}, 2, {"", 4, false, p == 0}) == want, placed);
      }
    }
  }
  // The author writes what the case is about.
  BOOST_TEST(loops > 20);
  BOOST_TEST(branches > 20);
  BOOST_TEST(moved > 140);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe::test
