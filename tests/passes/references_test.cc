// Reference and resource variables on several devices: whatever the placer chose, a step gives what
// it gives on one device.
#include <boost/test/unit_test.hpp>

#include "tests/passes/session_graphs.h"

namespace troupe::test {
namespace references_test {

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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace references_test
}  // namespace troupe::test
