// Saves while steps wait for each other in accumulators and barriers: what these hold belongs to
// the checkpoint, and no save waits for what nobody sends.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <thread>

#include "actors/snapshot/queue_use.h"
#include "tests/actors/graphs.h"
#include "troupe/emit.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/queues.h"
#include "troupe/shape_inference.h"
#include "troupe/train/saver.h"

namespace troupe::train {
namespace saves_beside_waits_test {

BOOST_AUTO_TEST_SUITE(saves_beside_waits)

constexpr auto kShort = std::chrono::milliseconds(20);

// A chief that adds sums of gradients from two accumulators to `w`, and workers that put one into
// each. All gradients are ones.
struct Replicas {
  Scope root = Scope::NewRootScope();
  Output w, applied, sums[2], held[2];
  Operation chief, worker, init;
  std::unique_ptr<Saver> saver;

  // Old graphs have references. `early`: the chief has an effect before it takes.
  Replicas(bool old, int required, bool early) {
    const std::string of = old ? "" : "Resource";
    const Variable weight(root.WithOpName("w"), 0.0f), count(root.WithOpName("applied"), 0.0f);
    const Output step = Const(root, int64_t{1} << 40), one = Const(root, 1.0f);
    std::vector<Operation> puts;
    for (int i = 0; i < 2; ++i) {
      const Output a =
          EmitOp(root.WithOpName(StrCat("acc", i)), of + "ConditionalAccumulator", {},
                 {{"dtype", DType::kFloat}, {"shape", PartialTensorShape(TensorShape())}, {"reduction_type", "SUM"}})
              .output(0);
      puts.push_back(EmitOp(root, of + "AccumulatorApplyGradient", {a, step, one}, {{"dtype", DType::kFloat}}));
      sums[i] = EmitOp(root, of + "AccumulatorTakeGradient", {a, Const(root, required)}, {{"dtype", DType::kFloat}})
                    .output(0);
      held[i] = EmitOp(root, of + "AccumulatorNumAccumulated", {a}).output(0);
    }
    std::vector<Operation> chiefs = {Operation(weight.AssignAdd(root, sums[0] + sums[1]))};
    if (early) {
      const Variable steps(root.WithOpName("steps"), 0.0f);
      chiefs.emplace_back(steps.AssignAdd(root, 1.0f));
    }
    puts.emplace_back(count.AssignAdd(root, 1.0f));
    chief = Group(root.WithOpName("chief"), chiefs);
    worker = Group(root.WithOpName("worker"), puts);
    init = GlobalVariablesInitializer(root.WithOpName("init"));
    w = weight.Read(root);
    applied = count.Read(root);
    saver = std::make_unique<Saver>(root, SaverOptions{.max_to_keep = 0});
    TROUPE_REQUIRE_OK(root.status());
  }
  float Number(Session& session, const Output& of) const { return RunOne(session, {}, of).scalar<float>(); }
};

BOOST_AUTO_TEST_CASE(a_step_that_waits_for_gradients_does_not_hold_up_a_save) {
  for (const bool old : {false, true}) {
    Replicas r(old, /*required=*/2, /*early=*/false);
    auto session = NewSession(r.root);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {r.init}, nullptr));
    TROUPE_REQUIRE_OK(session->Run({}, {}, {r.worker}, nullptr));
    absl::Status chief;
    std::thread waits([&] { chief = session->Run({}, {}, {r.chief}, nullptr); });
    std::this_thread::sleep_for(kShort);
    const auto path = r.saver->Save(*session, StrCat("mem://replicas", old, "/m"), SaveOptions{.timeout_ms = 10'000});
    BOOST_TEST(path.ok(), path.status());
    TROUPE_REQUIRE_OK(session->Run({}, {}, {r.worker}, nullptr));
    waits.join();
    TROUPE_REQUIRE_OK(chief);
    BOOST_TEST(r.Number(*session, r.w) == 4.0f);
    BOOST_REQUIRE(path.ok());
    auto again = NewSession(r.root);
    TROUPE_REQUIRE_OK(r.saver->Restore(*again, *path));
    BOOST_TEST(r.Number(*again, r.w) == 0.0f);
    for (const Output& held : r.held) BOOST_TEST(RunOne(*again, {}, held).scalar<int32_t>() == 1);
    TROUPE_REQUIRE_OK(again->Run({}, {}, {r.worker}, nullptr));
    TROUPE_REQUIRE_OK(again->Run({}, {}, {r.chief}, nullptr));
    BOOST_TEST(r.Number(*again, r.w) == 4.0f);
  }
}

// Whoever brings the gradients may run for the first time when the save has begun already.
BOOST_AUTO_TEST_CASE(a_signature_that_comes_while_a_save_waits_has_its_place) {
  Replicas r(/*old=*/false, /*required=*/1, /*early=*/true);
  auto session = NewSession(r.root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {r.init}, nullptr));
  absl::Status chief, saved, worker;
  // It has begun, so it must come to its end.
  std::thread waits([&] { chief = session->Run({}, {}, {r.chief}, nullptr); });
  std::this_thread::sleep_for(kShort);
  std::thread saves(
      [&] { saved = r.saver->Save(*session, "mem://comes_later/m", SaveOptions{.timeout_ms = 10'000}).status(); });
  std::this_thread::sleep_for(kShort);
  worker = session->Run({}, {}, {r.worker}, nullptr);
  saves.join();
  TROUPE_REQUIRE_OK(worker);
  waits.join();
  TROUPE_REQUIRE_OK(chief);
  TROUPE_REQUIRE_OK(saved);
}

// Each gradient is in `w` or in the accumulators, also where the chief, having begun, must go on to
// the end of its step: then the workers are the last that are held back.
BOOST_AUTO_TEST_CASE(each_gradient_is_in_the_variable_or_held) {
  constexpr int kWorkers = 4, kSaves = 12;
  for (const bool early : {false, true}) {
    Replicas r(/*old=*/false, /*required=*/3, early);
    std::vector<std::string> saved;
    {
      auto session = NewSession(r.root);
      TROUPE_REQUIRE_OK(session->Run({}, {}, {r.init}, nullptr));
      std::atomic<bool> chief_over{false}, over{false};
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < kWorkers; ++i) {
        threads.emplace_back([&] {
          while (!over) wrong += !session->Run({}, {}, {r.worker}, nullptr).ok();
        });
      }
      std::thread chief([&] {
        while (!chief_over) wrong += !session->Run({}, {}, {r.chief}, nullptr).ok();
      });
      for (int i = 0; i < kSaves; ++i) {
        const auto path = r.saver->Save(*session, StrCat("mem://gradients", early, "/m"),
                                        SaveOptions{.global_step = i, .timeout_ms = 20'000});
        BOOST_TEST(path.ok(), path.status());
        if (path.ok()) saved.push_back(*path);
      }
      chief_over = true;
      chief.join();  // the workers go on, so it gets what it waits for
      over = true;
      for (std::thread& t : threads) t.join();
      BOOST_TEST(wrong == 0);
    }
    for (const std::string& path : saved) {
      auto again = NewSession(r.root);
      TROUPE_REQUIRE_OK(r.saver->Restore(*again, path));
      float held = 0;
      for (const Output& h : r.held) held += static_cast<float>(RunOne(*again, {}, h).scalar<int32_t>());
      BOOST_TEST(r.Number(*again, r.w) + held == 2 * r.Number(*again, r.applied), path);
    }
  }
}

// Training in step with each other: a worker puts its gradient in and waits for a token, which the
// chief gives for gradients of all. No order of the steps stops that circle from its end, so it is
// let go on until a round is over.
BOOST_AUTO_TEST_CASE(workers_and_a_chief_that_wait_for_each_other_in_a_circle_are_saved) {
  constexpr int kWorkers = 2, kSaves = 4;
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 0.0f), done(root.WithOpName("done"), 0.0f);
  const Output acc =
      EmitOp(root, "ResourceConditionalAccumulator", {},
             {{"dtype", DType::kFloat}, {"shape", PartialTensorShape(TensorShape())}, {"reduction_type", "SUM"}})
          .output(0);
  const Queue tokens = Queue::Fifo(root, {DType::kInt32}, {.shapes = {TensorShape()}});
  const Operation put = EmitOp(root, "ResourceAccumulatorApplyGradient",
                               {acc, Const(root, int64_t{1} << 40), Const(root, 1.0f)}, {{"dtype", DType::kFloat}});
  const Output token = tokens.Dequeue(root.WithControlDependencies({put}))[0];
  const Operation worker(done.AssignAdd(root.WithControlDependencies(token), 1.0f));
  const Output sum =
      EmitOp(root, "ResourceAccumulatorTakeGradient", {acc, Const(root, kWorkers)}, {{"dtype", DType::kFloat}})
          .output(0);
  const Output updated = w.AssignAdd(root, sum);
  const Operation chief = tokens.EnqueueMany(root.WithControlDependencies(updated), {Const(root, {0, 0})});
  const Output held = EmitOp(root, "ResourceAccumulatorNumAccumulated", {acc}).output(0);
  const Operation init = GlobalVariablesInitializer(root);
  const Output read_w = w.Read(root), read_done = done.Read(root);
  Saver saver(root, {.max_to_keep = 0});
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  std::vector<std::thread> threads;
  for (const Operation& step : {worker, worker, chief}) {
    threads.emplace_back([&session, step] {
      while (session->Run({}, {}, {step}, nullptr).ok()) {
      }
    });
  }
  std::vector<std::string> saved;
  for (int i = 0; i < kSaves; ++i) {
    const auto path = saver.Save(*session, "mem://circle/m", SaveOptions{.global_step = i, .timeout_ms = 20'000});
    BOOST_TEST(path.ok(), path.status());
    if (path.ok()) saved.push_back(*path);
  }
  session->Close().IgnoreError();
  for (std::thread& t : threads) t.join();
  for (const std::string& path : saved) {
    auto again = NewSession(root);
    TROUPE_REQUIRE_OK(saver.Restore(*again, path));
    const float gradients =
        RunOne(*again, {}, read_w).scalar<float>() + static_cast<float>(RunOne(*again, {}, held).scalar<int32_t>());
    BOOST_TEST(gradients == RunOne(*again, {}, read_done).scalar<float>(), path);
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_waits_for_whole_elements_does_not_hold_up_a_save) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 0.0f);
  const Output b = EmitOp(root.WithOpName("b"), "Barrier", {},
                          {{"component_types", std::vector<DType>{DType::kFloat}},
                           {"shapes", std::vector<PartialTensorShape>{PartialTensorShape(TensorShape())}}})
                       .output(0);
  const Output key = ops::Placeholder(root.WithOpName("key"), DType::kString);
  const Operation put =
      EmitOp(root.WithOpName("put"), "BarrierInsertMany", {b, key, Const(root, {3.0f})}, {{"component_index", 0}});
  const Operation take = EmitOp(root.WithOpName("take"), "BarrierTakeMany", {b, Const(root, 2)},
                                {{"component_types", std::vector<DType>{DType::kFloat}}});
  const Operation add(w.AssignAdd(root, ops::Sum(root, take.output(2), {0})));
  const Operation init = GlobalVariablesInitializer(root);
  Saver saver(root);
  auto session = NewSession(root);
  const auto insert = [&](Session& into, const std::string& name) {
    TROUPE_REQUIRE_OK(into.Run({{key, Tensor::Vector<std::string>({name})}}, {}, {put}, nullptr));
  };
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  insert(*session, "first");
  absl::Status added;
  std::thread waits([&] { added = session->Run({}, {}, {add}, nullptr); });
  std::this_thread::sleep_for(kShort);
  const auto path = saver.Save(*session, "mem://barrier/m", SaveOptions{.timeout_ms = 10'000});
  BOOST_TEST(path.ok(), path.status());
  insert(*session, "second");
  waits.join();
  TROUPE_REQUIRE_OK(added);
  BOOST_REQUIRE(path.ok());
  auto again = NewSession(root);
  TROUPE_REQUIRE_OK(saver.Restore(*again, *path));
  insert(*again, "third");
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(again->Run({}, {take.output(1).name()}, {add}, &out));
  BOOST_TEST(out[0].DebugString() == "string [2] [\"first\" \"third\"]");
  BOOST_TEST(again->Get("w/Read")->scalar<float>() == 6.0f);
}

TROUPE_OP("TestBox")
    .Output("box: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Trait(OpTrait::kElementsHandle)
    .Trait(OpTrait::kNoEffect)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("a test")
    .Doc("A user's resource.");
TROUPE_OP("TestPut")
    .Input("box: resource")
    .Stateful()
    .Trait(OpTrait::kPutsElements)
    .Trait(OpTrait::kNeverWaits)
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("a test")
    .Doc("Fills it.");
TROUPE_OP("TestTake").Input("box: resource").Output("x: float").Stateful().NotDifferentiable("a test").Doc("Takes.");
TROUPE_OP("TestLook")
    .Input("box: resource")
    .Output("x: float")
    .Stateful()
    .Trait(OpTrait::kNeverWaits)
    .NotDifferentiable("a test")
    .Doc("Looks.");

BOOST_AUTO_TEST_CASE(users_ops_count_by_their_traits) {
  const Scope root = Scope::NewRootScope();
  const Output box = EmitOp(root.WithOpName("box"), "TestBox", {}).output(0);
  EmitOp(root.WithOpName("take"), "TestTake", {box});
  QueueUse use = QueueUse::Of(*root.graph());
  BOOST_TEST((use.takes == std::set<std::string>{"\nbox"}));
  BOOST_TEST((use.begins == std::set<std::string>{"take"}));
  BOOST_TEST(!use.Ordered());
  EmitOp(root.WithOpName("look"), "TestLook", {box});
  use = QueueUse::Of(*root.graph());
  BOOST_TEST(use.begins.empty());  // what looks is an effect that does not wait
  EmitOp(root.WithOpName("put"), "TestPut", {box});
  TROUPE_REQUIRE_OK(root.status());
  use = QueueUse::Of(*root.graph());
  BOOST_TEST((use.fills == std::set<std::string>{"\nbox"}));
  BOOST_TEST(use.fills_at_once);
  BOOST_TEST(use.ends.empty());
}

TROUPE_OP("TestStore")
    .Output("store: resource")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("a test")
    .Doc("State.");
TROUPE_OP("TestBump").Input("store: resource").Stateful().NotDifferentiable("a test").Doc("Changes it.");
TROUPE_OP("TestRead")
    .Input("store: resource")
    .Output("x: float")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .NotDifferentiable("a test")
    .Doc("Reads it.");

BOOST_AUTO_TEST_CASE(what_updates_state_counts_by_its_traits_whatever_its_name) {
  const auto updates = [](const std::function<void(const Scope&)>& build) {
    const Scope root = Scope::NewRootScope();
    build(root);
    TROUPE_REQUIRE_OK(root.status());
    return QueueUse::Of(*root.graph()).updates;
  };
  const auto store = [](const Scope& s) { return EmitOp(s, "TestStore", {}).output(0); };
  BOOST_TEST(updates([&](const Scope& s) { EmitOp(s, "TestBump", {ops::Identity(s, store(s))}); }));
  BOOST_TEST(!updates([&](const Scope& s) { EmitOp(s, "TestRead", {store(s)}); }));
  BOOST_TEST(!updates([&](const Scope& s) { EmitOp(s, "TestTake", {EmitOp(s, "TestBox", {}).output(0)}); }));
  for (const bool resource : {false, true}) {
    const auto variable = [&](const Scope& s) { return Variable(s, 0.0f, {.use_resource = resource}); };
    BOOST_TEST(updates([&](const Scope& s) { variable(s).AssignAdd(s, 1.0f); }));
  }
  BOOST_TEST(!updates([](const Scope& s) {
    const Output table = ops::VarHandleOp(s, DType::kFloat, PartialTensorShape({2}));
    ops::ResourceGather(s, table, 0, DType::kFloat);
  }));
  // An array of tensors and a queue in both its forms.
  BOOST_TEST(!updates([&](const Scope& s) {
    const auto array = ops::TensorArrayV3(s, 1, DType::kFloat);
    ops::TensorArrayWriteV3(s, array.handle, 0, 1.0f, array.flow);
  }));
  for (const std::string form : {"", "V2"}) {
    BOOST_TEST(!updates([&](const Scope& s) {
      const Output queue =
          EmitOp(s, "FIFOQueue" + form, {}, {{"component_types", std::vector<DType>{DType::kFloat}}}).output(0);
      EmitOp(s, "QueueDequeue" + form, {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}});
    }));
  }
}

std::atomic<bool> update_may_end;
absl::Status SlowUpdate(KernelContext&) {
  while (!update_may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return absl::OkStatus();
}
TROUPE_OP("TestSlowUpdate").Input("variable: resource").Stateful().NotDifferentiable("a test").Doc("Takes its time.");
TROUPE_KERNEL("TestSlowUpdate").Device("CPU").Function<SlowUpdate>();

BOOST_AUTO_TEST_CASE(a_save_waits_for_an_update_by_an_op_of_the_program) {
  update_may_end = false;
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 1.0f);
  const Operation update = EmitOp(root, "TestSlowUpdate", {w.handle()});
  Saver saver(root);
  auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {w.initializer()}, nullptr));
  absl::Status updated;
  std::thread updates([&] { updated = session->Run({}, {}, {update}, nullptr); });
  std::this_thread::sleep_for(kShort);
  const absl::Status early = saver.Save(*session, "mem://slow/m", {.timeout_ms = 100}).status();
  BOOST_TEST(absl::IsDeadlineExceeded(early), early);
  update_may_end = true;
  updates.join();
  TROUPE_REQUIRE_OK(updated);
  TROUPE_REQUIRE_OK(saver.Save(*session, "mem://slow/m", {.timeout_ms = 10'000}).status());
}

BOOST_AUTO_TEST_CASE(a_step_rests_where_nothing_of_it_is_done_by_half) {
  const Scope root = Scope::NewRootScope();
  const auto box = [&](const std::string& name) { return EmitOp(root.WithOpName(name), "TestBox", {}).output(0); };
  const Output a = box("a"), b = box("b");
  const Operation first = EmitOp(root.WithOpName("first"), "TestTake", {a});
  EmitOp(root.WithOpName("second"), "TestTake", {b});
  EmitOp(root.WithControlDependencies(first).WithOpName("third"), "TestTake", {b});
  TROUPE_REQUIRE_OK(root.status());
  const QueueUse use = QueueUse::Of(*root.graph());
  BOOST_TEST((use.begins == std::set<std::string>{"first", "second"}));
  BOOST_TEST(use.RestsAt({"first", "second"}));
  BOOST_TEST(!use.RestsAt({"first"}));
  BOOST_TEST(!use.RestsAt({"second", "third"}));
  BOOST_TEST(!use.RestsAt({}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace saves_beside_waits_test
}  // namespace troupe::train
