// Queues in sessions: ops and handles of both forms, what ends a wait, many threads, deaths, and
// snapshots.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <numeric>
#include <thread>

#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "tests/actors/graphs.h"
#include "tests/queue/queue_test_util.h"
#include "troupe/evaluate.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::queue {
namespace sessions_test {

BOOST_AUTO_TEST_SUITE(sessions)

using Codes = absl::StatusCode;

// A queue of int32 scalars, with what is done to it.
struct OneQueue {
  explicit OneQueue(int64_t capacity = -1, SessionOptions options = {}) {
    q = ops::FIFOQueueV2(root.WithOpName("q"), {DType::kInt32}, {.shapes = {TensorShape()}, .capacity = capacity});
    x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
    enqueue = ops::QueueEnqueueV2(root.WithOpName("enqueue"), q, {x}).name();
    enqueue_many = ops::QueueEnqueueManyV2(root.WithOpName("enqueue_many"), q, {x}).name();
    dequeue = ops::QueueDequeueV2(root.WithOpName("dequeue"), q, {DType::kInt32})[0].name();
    n = ops::Placeholder(root.WithOpName("n"), DType::kInt32);
    dequeue_many = ops::QueueDequeueManyV2(root.WithOpName("dequeue_many"), q, n, {DType::kInt32})[0].name();
    up_to = ops::QueueDequeueUpToV2(root.WithOpName("up_to"), q, n, {DType::kInt32})[0].name();
    close = ops::QueueCloseV2(root.WithOpName("close"), q).name();
    size = ops::QueueSizeV2(root.WithOpName("size"), q).name();
    if (options.runtime == nullptr) options.runtime = Runtime::Start({.threads = 2}).value();
    runtime = options.runtime;
    session = NewSession(root, options);
  }
  absl::Status Put(int32_t v) { return session->Run({{"x", Tensor::Scalar(v)}}, {}, {enqueue}, nullptr); }
  absl::Status PutMany(std::vector<int32_t> v) {
    return session->Run({{"x", Tensor::Vector<int32_t>(v)}}, {}, {enqueue_many}, nullptr);
  }
  // The value as text, or the error's code.
  std::string Get(const std::string& fetch, const Feeds& feeds = {}, const RunOptions& options = {}) {
    std::vector<Tensor> out;
    const absl::Status s = session->Run(options, feeds, {fetch}, {}, &out, nullptr);
    return s.ok() ? out[0].DebugString(100) : absl::StatusCodeToString(s.code());
  }
  Feeds N(int32_t value) const { return {{"n", Tensor::Scalar(value)}}; }
  // The queue itself.
  std::shared_ptr<Queue> Object() const {
    for (const auto& e : runtime->impl()->devices[0]->containers()->Entries()) {
      if (auto found = std::dynamic_pointer_cast<Queue>(e.object)) return found;
    }
    return nullptr;
  }

  Scope root = Scope::NewRootScope();
  Output q, x, n;
  std::string enqueue, enqueue_many, dequeue, dequeue_many, up_to, close, size;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<Session> session;
};

// A reset leaves nobody waiting for what nobody else finds any more.
BOOST_AUTO_TEST_CASE(who_waits_in_a_queue_that_is_reset_is_aborted) {
  OneQueue one;
  auto told = std::make_shared<std::promise<absl::Status>>();
  auto end = told->get_future();
  one.session->RunAsync({}, {one.dequeue}, {}, [told](absl::Status s, std::vector<Tensor>) { told->set_value(s); });
  // A reset that comes before the dequeue leaves it a new queue, where it waits for the next one.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    TROUPE_REQUIRE_OK(one.session->Reset({""}));
    BOOST_REQUIRE(std::chrono::steady_clock::now() < late);
  } while (end.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready);
  const absl::Status s = end.get();
  BOOST_TEST(absl::IsAborted(s), s);
  BOOST_TEST(s.message().find("was dropped") != std::string::npos, s);
  // The next one is as new.
  TROUPE_REQUIRE_OK(one.Put(3));
  BOOST_TEST(one.Get(one.dequeue).find('3') != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_queue_is_used_by_many_steps) {
  OneQueue one(10);
  TROUPE_REQUIRE_OK(one.Put(1));
  TROUPE_REQUIRE_OK(one.PutMany({2, 3, 4, 5}));
  TROUPE_REQUIRE_OK(one.PutMany({}));
  BOOST_TEST(one.Get(one.size) == "int32 [] [5]");
  BOOST_TEST(one.Get(one.dequeue) == "int32 [] [1]");
  BOOST_TEST(one.Get(one.dequeue_many, one.N(2)) == "int32 [2] [2 3]");
  BOOST_TEST(one.Get(one.dequeue_many, one.N(0)) == "int32 [0] []");
  BOOST_TEST(one.Get(one.dequeue_many, one.N(-1)) == "INVALID_ARGUMENT");
  TROUPE_REQUIRE_OK(one.session->Run({}, {}, {one.close}, nullptr));
  BOOST_TEST(one.Get(one.dequeue_many, one.N(3)) == "OUT_OF_RANGE");
  BOOST_TEST(one.Get(one.up_to, one.N(3)) == "int32 [2] [4 5]");
  BOOST_TEST(one.Get(one.dequeue) == "OUT_OF_RANGE");
  BOOST_TEST((one.Put(1).code() == Codes::kCancelled));
  BOOST_TEST(one.q.shape().DebugString() == "[]");
}

// The asker's own thread runs the actor, so the answer is there when Ask returns.
BOOST_AUTO_TEST_CASE(who_asks_alone_has_the_answer_at_once) {
  OneQueue one(10);
  TROUPE_REQUIRE_OK(one.Put(1));
  const std::shared_ptr<Queue> queue = one.Object();
  BOOST_REQUIRE(queue != nullptr);
  BOOST_REQUIRE(!!StateActorOf(*queue));
  for (int32_t i = 0; i < 1000; ++i) {
    BOOST_REQUIRE(Outcome(Enqueue(*queue, {i})) == "OK");
    BOOST_REQUIRE(Outcome(Dequeue(*queue)).substr(0, 2) == "OK");
  }
}

constexpr char kOldGraph[] = R"pb(
  node {
    name: "q"
    op: "FIFOQueue"
    attr {
      key: "component_types"
      value { list { type: DT_INT32 type: DT_FLOAT } }
    }
    attr {
      key: "shapes"
      value {
        list {
          shape {}
          shape { dim { size: 2 } }
        }
      }
    }
    attr {
      key: "capacity"
      value { i: 4 }
    }
  }
  node {
    name: "a"
    op: "Placeholder"
    attr {
      key: "dtype"
      value { type: DT_INT32 }
    }
  }
  node {
    name: "b"
    op: "Placeholder"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
  }
  node {
    name: "enqueue"
    op: "QueueEnqueueMany"
    input: "q"
    input: "a"
    input: "b"
    attr {
      key: "Tcomponents"
      value { list { type: DT_INT32 type: DT_FLOAT } }
    }
  }
  node {
    name: "n"
    op: "Const"
    attr {
      key: "dtype"
      value { type: DT_INT32 }
    }
    attr {
      key: "value"
      value {
        tensor {
          dtype: DT_INT32
          tensor_shape {}
          int_val: 2
        }
      }
    }
  }
  node {
    name: "dequeue"
    op: "QueueDequeueMany"
    input: "q"
    input: "n"
    attr {
      key: "component_types"
      value { list { type: DT_INT32 type: DT_FLOAT } }
    }
  }
  node {
    name: "one"
    op: "QueueDequeueUpTo"
    input: "q"
    input: "n"
    attr {
      key: "component_types"
      value { list { type: DT_INT32 type: DT_FLOAT } }
    }
  }
  node { name: "size" op: "QueueSize" input: "q" }
  node { name: "closed" op: "QueueIsClosed" input: "q" }
  node { name: "close" op: "QueueClose" input: "q" }
)pb";

BOOST_AUTO_TEST_CASE(old_graphs_have_queues_as_references) {
  proto::GraphDef def;
  BOOST_REQUIRE(google::protobuf::TextFormat::ParseFromString(kOldGraph, &def));
  Graph graph;
  const auto imported = ImportGraphDef(def, {}, &graph);
  BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status());
  auto session = Session::Create({}).value();
  TROUPE_REQUIRE_OK(session->Extend(graph));
  TROUPE_REQUIRE_OK(session->Run(
      {{"a", Tensor::Vector<int32_t>({1, 2, 3})}, {"b", Tensor::Of<float>({1, 2, 3, 4, 5, 6}, TensorShape({3, 2}))}},
      {}, {"enqueue"}, nullptr));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {"dequeue:0", "dequeue:1"}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int32 [2] [1 2]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,2] [1 2 3 4]");
  TROUPE_REQUIRE_OK(session->Run({}, {"size", "closed"}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int32 [] [1]");
  BOOST_TEST(out[1].DebugString() == Tensor::Scalar(false).DebugString());
  TROUPE_REQUIRE_OK(session->Run({}, {}, {"close"}, nullptr));
  TROUPE_REQUIRE_OK(session->Run({}, {"one:1", "closed"}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "float32 [1,2] [5 6]");
  BOOST_TEST(out[1].DebugString() == Tensor::Scalar(true).DebugString());
}

BOOST_AUTO_TEST_CASE(deadline_token_and_close_end_a_wait) {
  OneQueue one(1);
  TROUPE_REQUIRE_OK(one.Put(7));
  BOOST_TEST(one.Get(one.dequeue) == "int32 [] [7]");
  RunOptions soon;
  soon.timeout_ms = 30;
  std::vector<Tensor> out;
  const absl::Status late = one.session->Run(soon, {}, {one.dequeue}, {}, &out, nullptr);
  BOOST_TEST((late.code() == Codes::kDeadlineExceeded), late);
  BOOST_TEST(late.ToString().find("FIFOQueue 'q'") != std::string::npos, late);
  // A dequeue of three that has taken two gives them back.
  TROUPE_REQUIRE_OK(one.Put(1));
  CancellationToken token;
  RunOptions with_token;
  with_token.cancellation = &token;
  std::promise<absl::Status> ended;
  one.session->RunAsync(with_token, one.N(3), {one.dequeue_many}, {},
                        [&](absl::Status s, std::vector<Tensor>) { ended.set_value(std::move(s)); });
  const std::shared_ptr<Queue> queue = one.Object();
  while (Outcome(Ask(*queue, QueueRequest::Kind::kSize)) != "OK 0") std::this_thread::yield();
  TROUPE_REQUIRE_OK(one.Put(2));
  while (Outcome(Ask(*queue, QueueRequest::Kind::kSize)) != "OK 0") std::this_thread::yield();
  token.Cancel();
  BOOST_TEST((ended.get_future().get().code() == Codes::kCancelled));
  BOOST_TEST(one.Get(one.dequeue_many, one.N(2)) == "int32 [2] [1 2]");
  // An enqueue that waits for room is not done later, either.
  TROUPE_REQUIRE_OK(one.Put(3));
  BOOST_TEST((one.session->Run(soon, {{"x", Tensor::Scalar(4)}}, {}, {one.enqueue}, nullptr, nullptr).code() ==
              Codes::kDeadlineExceeded));
  BOOST_TEST(one.Get(one.dequeue) == "int32 [] [3]");
  BOOST_TEST(one.Get(one.size) == "int32 [] [0]");
  std::promise<absl::Status> closed;
  one.session->RunAsync({}, {one.dequeue}, {},
                        [&](absl::Status s, std::vector<Tensor>) { closed.set_value(std::move(s)); });
  TROUPE_REQUIRE_OK(one.session->Close());
  BOOST_TEST((closed.get_future().get().code() == Codes::kCancelled));
}

// Each element's two components belong together, and each element is seen once.
BOOST_AUTO_TEST_CASE(eight_writers_and_no_reader_sees_half_an_element) {
  constexpr int kWriters = 8, kReaders = 3, kEach = 120, kSize = 257;
  const Scope root = Scope::NewRootScope();
  const Output q = ops::FIFOQueueV2(root.WithOpName("q"), {DType::kInt32, DType::kInt32},
                                    {.shapes = {TensorShape(), TensorShape({kSize})}, .capacity = 16});
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
  const Output wide = ops::Fill(root, Const(root, {kSize}), x);
  const Operation one = ops::QueueEnqueueV2(root.WithOpName("one"), q, {x, wide});
  const Output rows = ops::Placeholder(root.WithOpName("rows"), DType::kInt32);
  const Output many_wide = ops::Placeholder(root.WithOpName("many_wide"), DType::kInt32);
  const Operation many = ops::QueueEnqueueManyV2(root.WithOpName("many"), q, {rows, many_wide});
  const OutputList out1 = ops::QueueDequeueV2(root.WithOpName("out1"), q, {DType::kInt32, DType::kInt32});
  const OutputList out4 =
      ops::QueueDequeueUpToV2(root.WithOpName("out4"), q, Const(root, 4), {DType::kInt32, DType::kInt32});
  const Operation close = ops::QueueCloseV2(root.WithOpName("close"), q);
  auto session = NewSession(root);
  std::mutex mu;
  std::vector<int32_t> seen;
  std::atomic<int> halves{0};
  const auto take = [&](const Tensor& number, const Tensor& wide_one) {
    const int64_t n = number.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const int32_t v = number.data<int32_t>()[i];
      for (int64_t k = 0; k < kSize; ++k) halves += wide_one.data<int32_t>()[i * kSize + k] != v;
      std::lock_guard<std::mutex> lock(mu);
      seen.push_back(v);
    }
  };
  std::vector<std::thread> writers, readers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < kEach; i += 2) {
        const int32_t v = w * kEach + i;
        absl::Status s;
        if (w % 2 == 0) {
          for (const int32_t u : {v, v + 1})
            s.Update(session->Run({{"x", Tensor::Scalar(u)}}, {}, {one.name()}, nullptr));
        } else {
          Tensor two(DType::kInt32, {2, kSize});
          std::fill_n(two.data<int32_t>(), kSize, v);
          std::fill_n(two.data<int32_t>() + kSize, kSize, v + 1);
          s = session->Run({{"rows", Tensor::Vector<int32_t>({v, v + 1})}, {"many_wide", two}}, {}, {many.name()},
                           nullptr);
        }
        if (!s.ok()) halves += 1000000;
      }
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      const OutputList& from = r == 0 ? out4 : out1;
      for (;;) {
        std::vector<Tensor> out;
        const absl::Status s = session->Run({}, {from[0].name(), from[1].name()}, {}, &out);
        if (!s.ok()) {
          if (!absl::IsOutOfRange(s)) halves += 1000000;
          return;
        }
        take(out[0], out[1]);
      }
    });
  }
  for (std::thread& t : writers) t.join();
  TROUPE_REQUIRE_OK(session->Run({}, {}, {close.name()}, nullptr));
  for (std::thread& t : readers) t.join();
  BOOST_TEST(halves == 0);
  std::sort(seen.begin(), seen.end());
  std::vector<int32_t> all(kWriters * kEach);
  std::iota(all.begin(), all.end(), 0);
  BOOST_TEST(seen == all);
}

// The queue's actor dies again and again; a call that hears ABORTED has done nothing.
BOOST_AUTO_TEST_CASE(no_element_is_lost_or_doubled_by_deaths) {
  constexpr int kWriters = 3, kReaders = 3, kEach = 150;
  CastPolicies policies;
  policies.container.max_failures = 1000000;
  policies.container.max_delay = std::chrono::milliseconds(1);
  SessionOptions options;
  options.runtime = StartRuntime({.threads = 2}, policies).value();
  OneQueue one(4, options);
  TROUPE_REQUIRE_OK(one.PutMany({}));
  TROUPE_REQUIRE_OK(one.Put(-1));
  BOOST_TEST(one.Get(one.dequeue) == "int32 [] [-1]");
  const std::shared_ptr<Queue> queue = one.Object();
  std::atomic<int> left{kWriters}, others{0}, killed{0};
  std::mutex mu;
  std::vector<int32_t> seen;
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      for (int i = 0; i < kEach; ++i) {
        absl::Status s;
        do s = one.Put(w * kEach + i);
        while (absl::IsAborted(s));
        if (!s.ok()) ++others;
      }
      if (--left > 0) return;
      absl::Status s;
      do s = one.session->Run({}, {}, {one.close}, nullptr);
      while (absl::IsAborted(s));
      if (!s.ok()) ++others;
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    threads.emplace_back([&] {
      for (;;) {
        std::vector<Tensor> out;
        const absl::Status s = one.session->Run({{"n", Tensor::Scalar(3)}}, {one.up_to}, {}, &out);
        if (absl::IsAborted(s)) continue;
        if (!s.ok()) {
          if (!absl::IsOutOfRange(s)) ++others;
          return;
        }
        std::lock_guard<std::mutex> lock(mu);
        for (const int32_t v : out[0].flat<int32_t>()) seen.push_back(v);
      }
    });
  }
  std::atomic<bool> over{false};
  std::thread killer([&] {
    while (!over || killed < 3) {
      if (const caf::actor actor = StateActorOf(*queue)) {
        caf::anon_send_exit(actor, caf::exit_reason::kill);
        ++killed;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (std::thread& t : threads) t.join();
  over = true;
  killer.join();
  BOOST_TEST(others == 0);
  BOOST_TEST(killed >= 3);
  std::sort(seen.begin(), seen.end());
  std::vector<int32_t> all(kWriters * kEach);
  std::iota(all.begin(), all.end(), 0);
  BOOST_TEST(seen == all);
}

BOOST_AUTO_TEST_CASE(queues_belong_to_a_snapshot_of_the_session) {
  OneQueue one(8);
  TROUPE_REQUIRE_OK(one.PutMany({1, 2, 3}));
  const auto snapshot = one.session->SnapshotState();
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  const auto bytes = snapshot->ToBytes();
  BOOST_REQUIRE_MESSAGE(bytes.ok(), bytes.status());
  BOOST_TEST(one.Get(one.dequeue) == "int32 [] [1]");
  // Another process's session, and this one.
  OneQueue other(8);
  for (OneQueue* each : {&other, &one}) {
    TROUPE_REQUIRE_OK(each->session->RestoreState(*StateSnapshot::FromBytes(*bytes)));
    BOOST_TEST(each->Get(each->size) == "int32 [] [3]");
    TROUPE_REQUIRE_OK(each->Put(4));
    BOOST_TEST(each->Get(each->dequeue_many, each->N(4)) == "int32 [4] [1 2 3 4]");
    BOOST_TEST(!!StateActorOf(*each->Object()));
  }
  // A queue of another capacity keeps what it has.
  OneQueue wider(9);
  TROUPE_REQUIRE_OK(wider.Put(5));
  BOOST_TEST((wider.session->RestoreState(*snapshot).code() == Codes::kInvalidArgument));
  BOOST_TEST(wider.Get(wider.dequeue) == "int32 [] [5]");
}

BOOST_AUTO_TEST_CASE(queues_are_shared_by_name) {
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 1}).value();
  const auto session_of = [&](int64_t capacity, int32_t value) {
    const Scope root = Scope::NewRootScope();
    const Output q =
        ops::FIFOQueueV2(root, {DType::kInt32}, {.shapes = {TensorShape()}, .capacity = capacity, .shared_name = "s"});
    ops::QueueEnqueueV2(root.WithOpName("in"), q, {Const(root, value)});
    ops::QueueDequeueV2(root.WithOpName("out"), q, {DType::kInt32});
    return NewSession(root, options);
  };
  const auto first = session_of(2, 1), second = session_of(2, 2), third = session_of(3, 3);
  TROUPE_REQUIRE_OK(first->Run({}, {}, {"in"}, nullptr));
  TROUPE_REQUIRE_OK(second->Run({}, {}, {"in"}, nullptr));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(second->Run({}, {"out"}, {}, &out));
  BOOST_TEST(out[0].scalar<int32_t>() == 1);
  const absl::Status differs = third->Run({}, {}, {"in"}, nullptr);
  BOOST_TEST((differs.code() == Codes::kInvalidArgument), differs);
  BOOST_TEST(differs.ToString().find("shared queue 's' has capacity 2, but the node asks for 3") != std::string::npos,
             differs);
  // Reset forgets it.
  TROUPE_REQUIRE_OK(first->Reset({""}));
  TROUPE_REQUIRE_OK(third->Run({}, {}, {"in"}, nullptr));
  TROUPE_REQUIRE_OK(third->Run({}, {"out"}, {}, &out));
  BOOST_TEST(out[0].scalar<int32_t>() == 3);
}

BOOST_AUTO_TEST_CASE(padded_elements_and_what_is_refused) {
  const Scope root = Scope::NewRootScope();
  const Output q = ops::PaddingFIFOQueueV2(root, {DType::kInt32, DType::kString},
                                           {.shapes = {PartialTensorShape({-1}), TensorShape()}, .capacity = 10});
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
  const Output name = ops::Placeholder(root.WithOpName("name"), DType::kString);
  ops::QueueEnqueueV2(root.WithOpName("in"), q, {x, name});
  const OutputList out3 = ops::QueueDequeueManyV2(root, q, Const(root, 3), {DType::kInt32, DType::kString});
  BOOST_TEST(out3[0].shape().DebugString() == "[3,?]");
  BOOST_TEST(out3[1].shape().DebugString() == "[3]");
  const Output wrong = ops::QueueDequeueV2(root.WithOpName("wrong"), q, {DType::kInt32})[0];
  auto session = NewSession(root);
  for (const std::vector<int32_t>& v : {std::vector<int32_t>{0}, {0, 1}, {0, 1, 2}}) {
    TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Vector<int32_t>(v)}, {"name", Tensor::Scalar(StrCat(v.size()))}}, {},
                                   {"in"}, nullptr));
  }
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {out3[0].name(), out3[1].name()}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int32 [3,3] [0 0 0 0 1 0 0 1 2]");
  BOOST_TEST(out[1].DebugString() == Tensor::Vector<std::string>({"1", "2", "3"}).DebugString());
  const auto refused = [&](const absl::Status& s, const std::string& text) {
    BOOST_TEST((s.code() == Codes::kInvalidArgument), s);
    BOOST_TEST(s.ToString().find(text) != std::string::npos, s);
  };
  refused(session->Run({{"x", Tensor::Scalar(1)}, {"name", Tensor::Scalar("a")}}, {}, {"in"}, nullptr),
          "shape mismatch in component 0 of PaddingFIFOQueue");
  refused(session->Run({}, {wrong.name()}, {}, &out), "has components of types (int32, string), not (int32)");
  // Nodes that could be no queue.
  const auto evaluate = [](std::string op, AttrMap attrs) { return EvaluateOp(op, {}, std::move(attrs)).status(); };
  const std::vector<DType> ints = {DType::kInt32};
  const auto shapes = [](PartialTensorShape s) { return std::vector<PartialTensorShape>{std::move(s)}; };
  refused(evaluate("FIFOQueueV2", {{"component_types", ints}, {"shapes", shapes({-1})}}), "is not fully defined");
  refused(evaluate("PaddingFIFOQueueV2", {{"component_types", ints}}), "must have as many shapes");
  refused(evaluate("PaddingFIFOQueueV2", {{"component_types", ints}, {"shapes", shapes({})}}), "known rank");
  refused(evaluate("PriorityQueueV2", {{"component_types", ints}, {"shapes", std::vector<PartialTensorShape>()}}),
          "has shapes for 1");
  refused(evaluate("RandomShuffleQueueV2", {{"component_types", ints}, {"capacity", 3}, {"min_after_dequeue", 3}}),
          "min_after_dequeue 3 must be less than capacity 3");
  refused(evaluate("RandomShuffleQueueV2", {{"component_types", ints}, {"min_after_dequeue", -1}}), "at least 0");
  refused(evaluate("FIFOQueueV2", {{"component_types", std::vector<DType>{DType::kResource}}}), "cannot hold");
}

// Without a runtime nothing is different.
BOOST_AUTO_TEST_CASE(queues_work_without_a_session) {
  const auto q = EvaluateOp("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}});
  BOOST_REQUIRE_MESSAGE(q.ok(), q.status());
  TROUPE_REQUIRE_OK(EvaluateOp("QueueEnqueueV2", {(*q)[0], Tensor::Scalar(2.5f)}, {}, {1}).status());
  const auto out = EvaluateOp("QueueDequeueV2", {(*q)[0]}, {{"component_types", std::vector<DType>{DType::kFloat}}});
  BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
  BOOST_TEST((*out)[0].DebugString() == "float32 [] [2.5]");
}

// A thousand queues come and go, and their actors with them.
BOOST_AUTO_TEST_CASE(actors_of_queues_that_went_are_gone) {
  OneQueue one(2);
  Directory& directory = *one.runtime->impl()->directory;
  TROUPE_REQUIRE_OK(one.Put(1));
  for (int i = 0; i < 300; ++i) {
    TROUPE_REQUIRE_OK(one.session->Reset({"", "other"}));
    BOOST_REQUIRE(one.runtime->impl()->devices[0]->containers()->Entries().size() <= 1u);
    for (const auto& e : one.runtime->impl()->devices[0]->containers()->Entries())
      TROUPE_REQUIRE_OK(one.runtime->impl()->devices[0]->containers()->Delete(e.container, e.name));
    TROUPE_REQUIRE_OK(one.Put(i));
    BOOST_TEST(one.Get(one.dequeue) == StrCat("int32 [] [", i, "]"));
  }
  const auto few = [&] { return directory.size() <= 8; };  // session, worker, device, container, some queues
  for (int tries = 0; tries < 6000 && !few(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  BOOST_TEST(few());
}

BOOST_AUTO_TEST_CASE(a_queue_on_another_device_and_in_a_loop) {
  SessionOptions options;
  options.runtime_options = {.threads = 2, .cpu_devices = 2};
  const Scope root = Scope::NewRootScope();
  const Scope second = root.WithDevice("/device:CPU:1");
  const Output q = ops::FIFOQueueV2(second, {DType::kInt32}, {.shapes = {TensorShape()}});
  const Output x = ops::Placeholder(root.WithOpName("x").WithDevice("/device:CPU:0"), DType::kInt32);
  ops::QueueEnqueueManyV2(root.WithOpName("in"), q, {x});
  const OutputList sums = While(
      root, {Const(root, 0), Const(root, 0)},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], Const(s, 5)); },
      [&](const Scope& s, const OutputList& v) {
        const Output one = ops::QueueDequeueV2(s, q, {DType::kInt32})[0];
        return OutputList{ops::Add(s, v[0], Const(s, 1)), ops::Add(s, ops::Mul(s, v[1], Const(s, 10)), one)};
      });
  auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Vector<int32_t>({1, 2, 3, 4, 5})}}, {}, {"in"}, nullptr));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {sums[1].name()}, {}, &out));
  BOOST_TEST(out[0].scalar<int32_t>() == 12345);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sessions_test
}  // namespace troupe::queue
