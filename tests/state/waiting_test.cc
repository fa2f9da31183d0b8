// Who waits for a variable, in which order, and what an update that breaks off leaves. The ops are
// those of the registry, so that a new one that names a variable cannot be forgotten.
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "kernels/run_kernel.h"
#include "kernels/state/variable_access.h"
#include "tests/state/state_test_util.h"
#include "troupe/op_def.h"

namespace troupe {
namespace waiting_test {

BOOST_AUTO_TEST_SUITE(waiting)

int64_t Number(const absl::StatusOr<Tensor>& t) {
  BOOST_REQUIRE_MESSAGE(t.ok(), t.status().ToString());
  return *t->data<int64_t>();
}

// A variable of one integer, which a test has in an update from the beginning.
struct Held {
  Held() {
    BOOST_REQUIRE(slot.Assign(Tensor::Scalar<int64_t>(0)).ok());
    BOOST_REQUIRE(slot.TryBegin());
  }
  // Ends the update, after one more digit of the value.
  void End(int digit) {
    BOOST_REQUIRE(slot.MakeUnique().ok());
    slot.BeginWriting();
    int64_t& v = *slot.value().data<int64_t>();
    v = v * 10 + digit;
    slot.Commit();
    slot.End();
  }
  VariableSlot slot{"v", DType::kInt64, TensorShape()};
};

BOOST_AUTO_TEST_CASE(edges_1_and_3_who_comes_alone_waits_for_nothing) {
  VariableSlot slot("v", DType::kInt64, TensorShape());
  BOOST_REQUIRE(slot.Assign(Tensor::Scalar<int64_t>(7)).ok());
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  BOOST_TEST(slot.TryRead(&value));
  BOOST_TEST(Number(value) == 7);
  BOOST_TEST(slot.TryBegin());
  BOOST_TEST(!slot.TryBegin());
  BOOST_TEST(!slot.TryRead(&value));
  slot.End();
  BOOST_TEST(slot.TryRead(&value));
  BOOST_TEST(slot.TryBegin());
  slot.End();
  VariableSlot* one = &slot;
  const auto ticket = SlotTicket::ForUpdate(&one, 1);
  BOOST_TEST(ticket->admitted());
  bool called = false;
  ticket->WhenAdmitted([&] { called = true; });
  BOOST_TEST(called);
  ticket->GiveUp();
  BOOST_TEST(Number(SlotTicket::ForRead(&slot)->TakeSnapshot()) == 7);
}

BOOST_AUTO_TEST_CASE(edges_2_and_4_everybody_has_their_turn_in_the_order_of_asking) {
  Held v;
  VariableSlot* slot = &v.slot;
  std::string log;
  const auto update = [&](const char* name) {
    auto t = SlotTicket::ForUpdate(&slot, 1);
    t->WhenAdmitted([&log, name] { log += name; });
    return t;
  };
  const auto read = [&](const char* name) {
    auto t = SlotTicket::ForRead(slot);
    t->WhenAdmitted([&log, name] { log += name; });
    return t;
  };
  const auto a = update("A"), b = update("B");
  const auto r = read("r"), s = read("s");
  const auto c = update("C");
  const auto t = read("t");
  BOOST_TEST(log == "");
  v.End(1);
  BOOST_TEST(log == "A");
  a->Take();
  // Somebody who comes now is behind those who wait.
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  BOOST_TEST(!slot->TryRead(&value));
  v.End(2);
  BOOST_TEST(log == "AB");
  b->Take();
  v.End(3);
  BOOST_TEST(log == "ABrsC");
  BOOST_TEST(Number(r->TakeSnapshot()) == 123);
  BOOST_TEST(Number(s->TakeSnapshot()) == 123);
  c->Take();
  v.End(4);
  BOOST_TEST(log == "ABrsCt");
  BOOST_TEST(Number(t->TakeSnapshot()) == 1234);
  BOOST_TEST(slot->TryBegin());
  slot->End();
}

// Places in several queues are taken in one moment: the orders agree, so nobody waits in a circle.
BOOST_AUTO_TEST_CASE(updates_of_several_variables_stand_in_one_order) {
  Held a, b;
  VariableSlot* ab[] = {&a.slot, &b.slot};
  VariableSlot* ba[] = {&b.slot, &a.slot};
  const auto first = SlotTicket::ForUpdate(ab, 2), second = SlotTicket::ForUpdate(ba, 2);
  const auto third = SlotTicket::ForUpdate(&ab[1], 1);
  b.End(1);
  BOOST_TEST(!first->admitted());  // it has b, and waits for a
  BOOST_TEST(!third->admitted());
  a.End(1);
  BOOST_TEST(first->admitted());
  BOOST_TEST(!second->admitted());
  first->Take();
  a.End(2);
  b.End(2);
  BOOST_TEST(second->admitted());
  second->Take();
  b.End(3);
  BOOST_TEST(third->admitted());
  third->GiveUp();
  a.End(3);
  BOOST_TEST(Number(a.slot.Read()) == 123);
  BOOST_TEST(Number(b.slot.Read()) == 123);
}

// Who waits learns who has the variable now, be it an update or a ticket that waits for others.
BOOST_AUTO_TEST_CASE(who_waits_can_tell_who_has_the_variable) {
  Graph graph;
  const auto node = [&](const char* name) {
    return KernelNode(**graph.AddNode(name, "Placeholder", {{"dtype", DType::kFloat}}), nullptr);
  };
  const KernelNode first = node("first"), second = node("second"), third = node("third");
  Held v, w;
  VariableSlot *both[] = {&v.slot, &w.slot}, *one = &v.slot;
  const SlotHolder holder{&first, 5};
  v.slot.SetHolder(&holder);
  const auto two = SlotTicket::ForUpdate(both, 2, {&second, 6});
  const auto update = SlotTicket::ForUpdate(&one, 1, {&third, 7});
  const auto read = SlotTicket::ForRead(one);
  const std::string by_first = "'v', held by node 'first' (Placeholder) of step 5";
  BOOST_TEST(update->What() == "variable " + by_first);
  BOOST_TEST(read->What() == "variable " + by_first);
  const std::string of_two = two->What();
  BOOST_TEST(of_two.find(by_first) != std::string::npos, of_two);
  v.End(1);
  // It has v, and nobody has said who has w.
  BOOST_TEST(two->What() == "variables 'v', 'v'");
  BOOST_TEST(update->What() == "variable 'v', held by node 'second' (Placeholder) of step 6");
  w.End(1);
  const SlotHolder taken{&second, 6};
  two->Take(&taken);
  BOOST_TEST(read->What() == "variable 'v', held by node 'second' (Placeholder) of step 6");
  v.End(2);
  w.End(2);
  BOOST_TEST(update->What() == "variable 'v'");  // its own
  BOOST_TEST(read->What() == "variable 'v', held by node 'third' (Placeholder) of step 7");
  update->GiveUp();
  BOOST_TEST(read->What() == "variable 'v'");
  BOOST_TEST(Number(read->TakeSnapshot()) == 12);
}

BOOST_AUTO_TEST_CASE(edge_5_a_ticket_that_is_given_up_leaves_no_trace) {
  Held v, w;
  VariableSlot* both[] = {&v.slot, &w.slot};
  bool called = false;
  const auto two = SlotTicket::ForUpdate(both, 2);
  two->WhenAdmitted([&] { called = true; });
  const auto update = SlotTicket::ForUpdate(both, 1);
  const auto read = SlotTicket::ForRead(&v.slot);
  v.End(1);  // for `two`, which still waits for w
  BOOST_TEST(!update->admitted());
  two->GiveUp();
  BOOST_TEST(update->admitted());
  w.End(1);
  BOOST_TEST(!called);
  absl::StatusOr<Tensor> value = absl::UnknownError("");
  BOOST_TEST(w.slot.TryRead(&value));
  // One that has its slot but has not begun to write.
  update->GiveUp();
  BOOST_TEST(read->admitted());
  BOOST_TEST(Number(read->TakeSnapshot()) == 1);
  BOOST_TEST(Number(v.slot.Read()) == 1);
}

BOOST_AUTO_TEST_CASE(edge_6_an_update_that_breaks_off_loses_the_value) {
  Held v;
  const auto waits = SlotTicket::ForRead(&v.slot);
  v.slot.BeginWriting();
  v.slot.End();
  CheckFails(waits->TakeSnapshot(), absl::StatusCode::kDataLoss, "variable 'v'");
  CheckFails(v.slot.Read(), absl::StatusCode::kDataLoss, "variable 'v'");
  BOOST_TEST(!v.slot.initialized());
  BOOST_REQUIRE(v.slot.Assign(Tensor::Scalar<int64_t>(5)).ok());
  BOOST_TEST(Number(v.slot.Read()) == 5);
}

// ---- every op that names a variable ----

// What an op does to the variables that it names.
enum class Does { kUpdate, kSet, kRead, kNothing };

// Those that do something else than updating in place; everything not named here must be an update.
const std::map<std::string_view, Does> kDoes = {
    {"Assign", Does::kSet},
    {"AssignVariableOp", Does::kSet},
    {"DestroyResourceOp", Does::kSet},
    {"DestroyTemporaryVariable", Does::kSet},
    {"ReadVariableOp", Does::kRead},
    {"ResourceGather", Does::kRead},
    {"ResourceGatherNd", Does::kRead},
    {"VariableShape", Does::kRead},
    // Whether there is a value, is known without it.
    {"IsVariableInitialized", Does::kNothing},
    {"VarIsInitializedOp", Does::kNothing},
    // They pass the reference on.
    {"RefEnter", Does::kNothing},
    {"RefExit", Does::kNothing},
    {"RefIdentity", Does::kNothing},
    {"RefMerge", Does::kNothing},
    {"RefNextIteration", Does::kNothing},
    {"RefSelect", Does::kNothing},
    {"RefSwitch", Does::kNothing},
    // What they name is no variable.
    {"Stack", Does::kNothing},
    {"StackClose", Does::kNothing},
    {"StackCloseV2", Does::kNothing},
    {"StackPop", Does::kNothing},
    {"StackPopV2", Does::kNothing},
    {"StackPush", Does::kNothing},
    {"StackPushV2", Does::kNothing},
};

bool NamesVariable(const OpDef& op) {
  if (op.name.starts_with("TensorArray")) return false;  // a resource of its step
  // What these name is a queue, a reader, a table, an accumulator or a barrier.
  for (const std::string_view of : {"Queue", "FakeQueue", "Reader", "LookupTable", "InitializeTable", "Accumulator",
                                    "Barrier", "ResourceAccumulator", "SparseAccumulator"}) {
    if (op.name.starts_with(of)) return false;
  }
  for (const ArgDef& arg : op.inputs) {
    if (arg.is_ref || arg.type == DType::kResource) return true;
  }
  return false;
}

// One node of an op, with variables and inputs that fit, and its kernel.
class OneNode {
 public:
  explicit OneNode(const OpDef& op) {
    const bool counts = op.name.find("CountUpTo") != std::string::npos, nd = op.name.find("Nd") != std::string::npos;
    // The updates of rows: one row, and its gradient.
    const bool rows = op.name.find("SparseApply") != std::string::npos;
    const Tensor value = counts ? Tensor::Scalar<int64_t>(1) : Tensor::Vector<float>({1, 2});
    AttrMap attrs;
    for (const ArgDef& arg : op.inputs) {
      Tensor t = Tensor::Scalar<float>(0.5f);
      if (arg.is_ref || arg.type == DType::kResource) {
        variables.push_back(FreshName());
        t = NewVariable(arg.is_ref, value.dtype(), value.shape(), variables.back());
        slots.push_back(SlotOf(t));
        values.push_back(value);
      } else if (arg.name == "grad" || arg.name == "delta" || arg.name == "value") {
        t = rows ? Tensor::Vector<float>({1}) : Tensor::Vector<float>({1, 1});
      } else if (arg.type == DType::kInt64) {
        t = Tensor::Scalar<int64_t>(1);
      } else if (arg.name == "indices") {
        t = nd ? Tensor::Of<int32_t>({0}, {1, 1}) : Tensor::Vector<int32_t>({0});
      } else if (arg.name == "updates") {
        t = Tensor::Vector<float>({1});
      }
      if (!arg.type_attr.empty()) attrs.Set(arg.type_attr, BaseType(t.dtype()));
      inputs.push_back(std::move(t));
    }
    for (const AttrDef& attr : op.attrs) {
      if (attr.name == "dtype") attrs.Set("dtype", value.dtype());
      if (attr.name == "limit") attrs.Set("limit", int64_t{100});
      if (attr.name == "var_name") attrs.Set("var_name", std::string("temporary"));
      if (attr.name == "T" && !attrs.Has("T")) attrs.Set("T", value.dtype());
    }
    Node* const node = graph.AddNode(StrCat("test/", op.name), op.name, std::move(attrs)).value();
    auto prepared = PrepareKernel(*node, EvaluationDevice(2), SessionScope("evaluate"));
    BOOST_REQUIRE_MESSAGE(prepared.ok(), op.name << ": " << prepared.status());
    kernel = *std::move(prepared);
    described = DescribeNode(*node, EvaluationDevice(2));
    Fill();
  }
  void Fill() {
    for (size_t i = 0; i < slots.size(); ++i) BOOST_REQUIRE(slots[i]->Assign(values[i].Clone()).ok());
  }
  absl::Status Run() { return EvaluateKernel(kernel, described, inputs, &step).status(); }

  Graph graph;
  PreparedKernel kernel;
  KernelNode described;
  StepContext step;
  std::vector<Tensor> inputs, values;
  std::vector<std::string> variables;
  std::vector<VariableSlot*> slots;
};

void ForEachOp(const std::function<void(const OpDef&, Does)>& f) {
  int updates = 0;
  for (const OpDef* op : OpRegistry::Global().List()) {
    if (!NamesVariable(*op)) continue;
    const auto other = kDoes.find(op->name);
    const Does does = other == kDoes.end() ? Does::kUpdate : other->second;
    updates += does == Does::kUpdate;
    BOOST_TEST_CONTEXT(op->name) { f(*op, does); }
  }
  BOOST_TEST(updates >= 50);
}

bool throws = false;
int begun = 0;
void Probe(const KernelNode&) {
  ++begun;
  if (throws) throw std::runtime_error("broken off by the test");
}
struct Probed {
  explicit Probed(bool throwing) {
    throws = throwing;
    begun = 0;
    state::update_probe = Probe;
  }
  ~Probed() { state::update_probe = nullptr; }
};

BOOST_AUTO_TEST_CASE(an_update_that_breaks_off_has_lost_all_its_variables) {
  ForEachOp([](const OpDef& op, Does does) {
    if (does != Does::kUpdate) return;
    OneNode node(op);
    // With a snapshot out it works on a copy, which makes no difference.
    for (const bool snapshot : {false, true}) {
      const absl::StatusOr<Tensor> kept = snapshot ? node.slots[0]->Read() : absl::StatusOr<Tensor>(Tensor());
      {
        const Probed probed(true);
        CheckFails(absl::StatusOr<Tensor>(node.Run()), absl::StatusCode::kInternal, "broken off by the test");
        BOOST_TEST(begun == 1);
      }
      for (size_t i = 0; i < node.slots.size(); ++i) {
        CheckFails(node.slots[i]->Read(), absl::StatusCode::kDataLoss, StrCat("'", node.variables[i], "'"));
      }
      CheckFails(absl::StatusOr<Tensor>(node.Run()), absl::StatusCode::kDataLoss, StrCat("'", node.variables[0], "'"));
      node.Fill();
      const absl::Status s = node.Run();
      BOOST_TEST(s.ok(), s);
      node.Fill();
    }
  });
}

// Those that set a value do it in one move, and reads change nothing: no probe is called.
BOOST_AUTO_TEST_CASE(what_only_sets_or_reads_has_nothing_to_lose) {
  ForEachOp([](const OpDef& op, Does does) {
    if (does != Does::kSet && does != Does::kRead) return;
    OneNode node(op);
    const Probed probed(true);
    (void)node.Run();  // DestroyTemporaryVariable misses its temporary variable
    BOOST_TEST(begun == 0);
    for (VariableSlot* slot : node.slots) BOOST_TEST(!absl::IsDataLoss(slot->Read().status()));
  });
}

// Without a thread that blocks: the kernel returns, and is run again.
BOOST_AUTO_TEST_CASE(every_kernel_waits_for_an_update_of_any_of_its_variables) {
  ForEachOp([](const OpDef& op, Does does) {
    if (does == Does::kNothing) return;
    OneNode node(op);
    for (size_t held = 0; held < node.slots.size(); ++held) {
      const uint64_t before = node.slots[held]->version();
      BOOST_REQUIRE(node.slots[held]->TryBegin());
      std::vector<Tensor> inputs = node.inputs, outputs(op.outputs.size());
      KernelContext ctx(&node.described, inputs.data(), outputs.data(), &node.step, nullptr);
      ctx.set_state(node.kernel.state.get());
      BOOST_TEST(!node.kernel.compute(ctx).ok());
      BOOST_REQUIRE(ctx.wait() != nullptr);
      BOOST_TEST(ctx.wait()->What().find(StrCat("'", node.variables[held], "'")) != std::string::npos);
      bool go_on = false;
      ctx.wait()->Await([&] { go_on = true; });
      // Others come behind it.
      const auto behind = SlotTicket::ForRead(node.slots[held]);
      BOOST_TEST(!go_on);
      node.slots[held]->End();
      BOOST_REQUIRE(go_on);
      if (does != Does::kRead) BOOST_TEST(!behind->admitted());
      const absl::Status s = node.kernel.compute(ctx);
      BOOST_TEST(ctx.wait() == nullptr);
      BOOST_TEST((s.ok() || op.name == "DestroyTemporaryVariable"), s);
      BOOST_TEST(behind->admitted());
      if (does == Does::kUpdate) BOOST_TEST(node.slots[held]->version() == before + 1);
      node.Fill();
    }
  });
}

// A kernel that is told to end while it waits leaves the queue.
BOOST_AUTO_TEST_CASE(a_kernel_whose_step_ends_waits_no_longer) {
  ForEachOp([](const OpDef& op, Does does) {
    if (does == Does::kNothing) return;
    OneNode node(op);
    BOOST_REQUIRE(node.slots[0]->TryBegin());
    node.step.Cancel();
    CheckFails(absl::StatusOr<Tensor>(node.Run()), absl::StatusCode::kCancelled, "the step ended");
    node.slots[0]->End();
    BOOST_TEST(node.slots[0]->TryBegin());
    node.slots[0]->End();
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace waiting_test
}  // namespace troupe
