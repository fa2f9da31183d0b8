// Graphs drawn from a seed, whose accesses of variables are ordered: they give the same bits on
// every choice of devices and passes.
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "tests/passes/session_graphs.h"

namespace troupe::test {
namespace ordered_accesses_test {

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

BOOST_AUTO_TEST_SUITE(ordered_accesses)

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

}  // namespace ordered_accesses_test
}  // namespace troupe::test
