// Saves while queue runners fill queues: what a pipeline holds belongs to the checkpoint, and goes
// on exactly.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <functional>
#include <thread>

#include "actors/snapshot/queue_use.h"
#include "tests/common/check_ok.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/global_step.h"
#include "troupe/train/input.h"
#include "troupe/train/monitored_session.h"
#include "troupe/train/queue_runner.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe::train {
namespace saved_pipelines_test {

constexpr int32_t kRows = 40, kBatch = 5;
constexpr int64_t kEpochs = 3;

// Numbers in random order, doubled on their way through a second queue, in batches from a third.
// Each step counts the numbers that it sees.
struct Pipeline {
  Scope root = Scope::NewRootScope();
  Variable seen;
  Output batch;
  Operation update, init, local;
  std::unique_ptr<Saver> saver;

  explicit Pipeline(int threads, bool shuffled = false) {
    const Queue numbers = RangeInputProducer(root, kRows, {.num_epochs = kEpochs, .seed = 11, .capacity = 7});
    const Output one = numbers.Dequeue(root)[0];
    // A random number that is drawn whether there is an element or not.
    const Output noise = ops::RandomUniform(root, Const(root, {1}), DType::kFloat, {.seed = 5});
    const Output cut = ops::Reshape(root, ops::Slice(root, noise, {0}, {1}), Const(root, std::vector<int32_t>{}));
    BatchOptions how{.batch_size = kBatch, .num_threads = threads, .capacity = 12};
    const OutputList out = shuffled ? ShuffleBatch(root, {one, cut}, how, 4, 9) : Batch(root, {one, cut}, how);
    batch = out[0];
    const Output drawn = out[1];
    seen = Variable(root.WithOpName("seen"), std::vector<float>(kRows, 0.0f), {.use_resource = false});
    const Variable order(root.WithOpName("order"), 0.0f);
    const Output ones = ops::ZerosLike(root, drawn) + 1.0f;
    const Output counted = ops::ScatterAdd(root, seen.handle(), batch, ones);
    const Output sum = ops::Sum(root, ops::Cast(root, batch, DType::kFloat) * drawn, {0});
    const Output next = order.Assign(root, ops::Mul(root, order.Read(root), 0.75f) + sum);
    update = Group(root.WithOpName("update"), {Operation(counted), Operation(next)});
    init = GlobalVariablesInitializer(root.WithOpName("init"));
    local = LocalVariablesInitializer(root.WithOpName("local"));
    saver = std::make_unique<Saver>(root);
    REQUIRE_OK(root.status());
  }
};

struct Running {
  std::unique_ptr<Session> session;
  std::unique_ptr<Coordinator> coordinator;
  // From the beginning, or from a checkpoint.
  explicit Running(Pipeline& p, const std::string& from = {}) {
    session = *Session::Create();
    REQUIRE_OK(session->Extend(*p.root.graph()));
    REQUIRE_OK(session->Run({}, {}, {p.init, p.local}, nullptr));
    if (!from.empty()) REQUIRE_OK(p.saver->Restore(*session, from));
    coordinator = std::make_unique<Coordinator>(*session);
    REQUIRE_OK(StartQueueRunners(*session, *coordinator, *p.root.graph()));
  }
  ~Running() {
    coordinator->RequestStop();
    const absl::Status joined = coordinator->Join();
    BOOST_TEST(joined.ok(), joined);
  }
  // One line a step, until the input ends or `steps` have been made.
  std::vector<std::string> Steps(Pipeline& p, int steps = -1) {
    std::vector<std::string> lines;
    for (; steps != 0; --steps) {
      std::vector<Tensor> out;
      const absl::Status s = session->Run({}, {p.batch}, {p.update}, &out);
      if (absl::IsOutOfRange(s)) break;
      REQUIRE_OK(s);
      lines.push_back(StrCat(out[0].DebugString(), " ", session->Get("order/Read")->DebugString()));
    }
    return lines;
  }
};

BOOST_AUTO_TEST_CASE(a_pipeline_that_was_saved_while_it_ran_goes_on_exactly) {
  Pipeline p(1);
  const std::vector<std::string> all = Running(p).Steps(p);
  BOOST_REQUIRE_EQUAL(all.size(), static_cast<size_t>(kRows * kEpochs / kBatch));
  std::string last;
  for (const int steps : {0, 1, 2, 7, 9, 5}) {
    // Each goes on from the one before.
    const size_t done = last.empty() ? 0 : std::stoul(last.substr(last.rfind('-') + 1));
    Running r(p, last);
    const std::vector<std::string> lines = r.Steps(p, steps);
    BOOST_TEST(lines == std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(done),
                                                 all.begin() + static_cast<std::ptrdiff_t>(done) + steps),
               boost::test_tools::per_element());
    const auto path = p.saver->Save(*r.session, "mem://pipeline/m", static_cast<int64_t>(done) + steps);
    REQUIRE_OK(path.status());
    last = *path;
    // Who saved goes on, too.
    r.Steps(p, 1);
  }
  Running r(p, last);
  BOOST_TEST(r.Steps(p) == std::vector<std::string>(all.begin() + 24, all.end()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(each_element_is_trained_once_though_saves_cut_in) {
  constexpr int kThreads = 8;
  for (const bool shuffled : {false, true}) {
    Pipeline p(3, shuffled);
    std::vector<std::string> saved;
    {
      Running r(p);
      std::atomic<int> left{kThreads};
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
          absl::Status s;
          while (s.ok()) s = r.session->Run({}, {}, {p.update}, nullptr);
          BOOST_TEST(absl::IsOutOfRange(s), s);
          --left;
        });
      }
      // The last one when all is read.
      for (bool more = true; more && saved.size() < 20;) {
        more = left > 0;
        const auto path =
            p.saver->Save(*r.session, StrCat("mem://once", shuffled, "/m"),
                          SaveOptions{.global_step = static_cast<int64_t>(saved.size()), .write_state = false});
        REQUIRE_OK(path.status());
        saved.push_back(*path);
      }
      for (std::thread& t : threads) t.join();
    }
    BOOST_TEST(saved.size() >= 1u);
    for (const std::string& path : saved) {
      Running r(p, path);
      absl::Status s;
      while (s.ok()) s = r.session->Run({}, {}, {p.update}, nullptr);
      BOOST_TEST(absl::IsOutOfRange(s), s);
      const Tensor seen = *r.session->Get("seen");
      for (const float times : seen.flat<float>())
        BOOST_TEST(times == static_cast<float>(kEpochs), path << ": " << times);
    }
  }
}

// A runner that finds no elements does not keep a save waiting, and neither does one that finds no
// room.
BOOST_AUTO_TEST_CASE(runners_that_wait_are_not_waited_for) {
  Scope root = Scope::NewRootScope();
  const Queue in = Queue::Fifo(root.WithOpName("in"), {DType::kInt32}, {.capacity = 4, .shapes = {TensorShape()}});
  const Queue out = Queue::Fifo(root.WithOpName("out"), {DType::kInt32}, {.capacity = 1, .shapes = {TensorShape()}});
  AddQueueRunner(root, MakeQueueRunner(root, out, {out.Enqueue(root, in.Dequeue(root))}));
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt32, {.shape = TensorShape()});
  const Operation put = in.Enqueue(root, {x}), close = in.Close(root);
  const Output size = out.Size(root), got = out.Dequeue(root)[0];
  const Variable w(root.WithOpName("w"), 1.0f);
  const Operation init = GlobalVariablesInitializer(root);
  Saver saver(root, SaverOptions{.max_to_keep = 0});
  REQUIRE_OK(root.status());
  std::vector<std::string> saved;
  auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  {
    Coordinator coordinator(*session);
    REQUIRE_OK(StartQueueRunners(*session, coordinator, *root.graph()));
    const auto save = [&] {
      const auto path = saver.Save(*session, "mem://wait/m", static_cast<int64_t>(saved.size()));
      REQUIRE_OK(path.status());
      saved.push_back(*path);
    };
    save();
    for (int32_t i = 0; i < 6; ++i) {
      REQUIRE_OK(session->Run({{x, Tensor::Scalar(i)}}, {}, {put}, nullptr));
      save();
    }
    // What waits for elements hears that none will come.
    coordinator.RequestStop();
    REQUIRE_OK(session->Run({}, {}, {close}, nullptr));
    REQUIRE_OK(coordinator.Join());
  }
  for (size_t i = 0; i < saved.size(); ++i) {
    auto again = *Session::Create();
    REQUIRE_OK(again->Extend(*root.graph()));
    REQUIRE_OK(saver.Restore(*again, saved[i]));
    Coordinator coordinator(*again);
    REQUIRE_OK(StartQueueRunners(*again, coordinator, *root.graph()));
    for (size_t k = 0; k < i; ++k) {
      std::vector<Tensor> value;
      REQUIRE_OK(again->Run({}, {got}, {}, &value));
      BOOST_TEST(value[0].scalar<int32_t>() == static_cast<int32_t>(k));
    }
    std::vector<Tensor> none;
    REQUIRE_OK(again->Run({}, {size}, {}, &none));
    BOOST_TEST(none[0].scalar<int32_t>() == 0);
    // What waits for elements hears that none will come.
    coordinator.RequestStop();
    REQUIRE_OK(again->Run({}, {}, {close}, nullptr));
    REQUIRE_OK(coordinator.Join());
  }
}

// State beside variables that does not fit is seen before anything is changed, or left out alone.
BOOST_AUTO_TEST_CASE(a_restore_that_does_not_fit_changes_nothing_or_leaves_out_what_does_not) {
  const Scope root = Scope::NewRootScope();
  const Variable w(root.WithOpName("w"), 1.0f);
  const Queue queue = Queue::Fifo(root, {DType::kInt32}, {.capacity = 8, .shapes = {PartialTensorShape({})}});
  const Operation put = queue.Enqueue(root, {Const(root, 7)});
  const Output size = queue.Size(root);
  const Operation init = GlobalVariablesInitializer(root);
  Saver saver(root);
  REQUIRE_OK(root.status());
  // Saved where there are two devices: what stood on the second has no place later.
  RuntimeOptions two;
  two.cpu_devices = 2;
  SessionOptions there;
  there.runtime = *Runtime::Start(two);
  const std::string path = "mem://restores/model";
  {
    const auto session = *Session::Create(there);
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
    REQUIRE_OK(session->Run({}, {}, {put}, nullptr));
    // A state of the program's own, on the second device.
    StateSnapshot more;
    more.entries.push_back(
        {there.runtime->devices()[1].name, "", "elsewhere", "counter", {{"count", Tensor::Scalar<int64_t>(3)}}});
    REQUIRE_OK(session->RestoreState(more));
    REQUIRE_OK(saver.Save(*session, path, SaveOptions{.write_state = false}).status());
  }
  const auto session = *Session::Create();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  REQUIRE_OK(session->Set(w, Tensor::Scalar(5.0f)));
  const absl::Status strict = saver.Restore(*session, path);
  BOOST_TEST(absl::IsNotFound(strict), strict);
  BOOST_TEST(session->Get(w)->scalar<float>() == 5.0f);
  std::vector<std::string> skipped;
  REQUIRE_OK(saver.Restore(*session, path, {.missing = Missing::kSkip, .skipped = &skipped}));
  BOOST_TEST(skipped == (std::vector<std::string>{"elsewhere"}), boost::test_tools::per_element());
  BOOST_TEST(session->Get(w)->scalar<float>() == 1.0f);
  BOOST_TEST(session->Get(size)->scalar<int32_t>() == 1);
}

BOOST_AUTO_TEST_CASE(what_a_step_does_with_queues_decides_where_it_rests) {
  Scope root = Scope::NewRootScope();
  const Queue a = Queue::Fifo(root.WithOpName("a"), {DType::kFloat}, {.shapes = {TensorShape()}});
  const Queue b = Queue::Fifo(root.WithOpName("b"), {DType::kFloat}, {.shapes = {TensorShape()}});
  const Output x = a.Dequeue(root.WithOpName("take"))[0];
  const Operation put = b.Enqueue(root.WithOpName("put"), {x});
  REQUIRE_OK(root.status());
  QueueUse use = QueueUse::Of(*root.graph());
  BOOST_TEST(use.parks);
  BOOST_TEST((use.begins == std::set<std::string>{"take"}));
  BOOST_TEST((use.ends == std::set<std::string>{"put"}));
  BOOST_TEST((use.takes == std::set<std::string>{"\na"}));
  BOOST_TEST((use.fills == std::set<std::string>{"\nb"}));
  // Something happens after the element is in.
  const Variable w(root.WithOpName("w"), 1.0f);
  w.AssignAdd(root.WithControlDependencies(put), 1.0f);
  use = QueueUse::Of(*root.graph());
  BOOST_TEST(!use.parks);
  // Something may happen before there is an element.
  ops::RandomUniform(root, Const(root, {1}), DType::kFloat);
  BOOST_TEST(!QueueUse::Of(*root.graph()).CanRest());
  // The end of a pipeline first.
  QueueUse train, middle, source, circle;
  train.takes = {"c"};
  middle.takes = {"b"}, middle.fills = {"c"}, middle.parks = true;
  source.takes = {"a"}, source.fills = {"b"}, source.parks = true;
  circle.takes = {"x"}, circle.fills = {"x"}, circle.parks = true;
  BOOST_TEST((QueueUse::Order({&source, &train, &middle, &circle}) == std::vector<int>{2, 0, 1, 1}));
  QueueUse back = circle;
  back.takes = {"b"}, back.fills = {"a"};  // with the source, a circle of two
  const std::vector<int> order = QueueUse::Order({&source, &back});
  BOOST_TEST((order[0] >= 1 && order[0] <= 2 && order[1] >= 1 && order[1] <= 2));
}

}  // namespace saved_pipelines_test
}  // namespace troupe::train
