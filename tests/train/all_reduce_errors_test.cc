// All-reduce where something goes wrong: what cannot be built, unequal shapes, dead tensors,
// replicas that fail or never come.
#include <cmath>

#include "tests/train/all_reduce_util.h"
#include "troupe/indexed_slices.h"
#include "troupe/queues.h"

namespace troupe::testing {
namespace all_reduce_errors_test {

BOOST_AUTO_TEST_SUITE(all_reduce_errors)

BOOST_AUTO_TEST_CASE(what_cannot_be_reduced_is_told) {
  const auto told = [](const std::function<void(const Scope&)>& build) {
    const Scope s = Scope::NewRootScope();
    build(s);
    BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
    return s.status().ToString();
  };
  const auto tells = [](const std::string& text, const std::string& what) {
    BOOST_TEST(text.find(what) != std::string::npos, text);
  };
  tells(told([](const Scope& s) { train::AllReduce(s, {}, {}); }), "0 replicas");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, 1.0f), Const(s, 1.0f)}, {"/device:CPU:0"});
        }),
        "2 replicas and 1 devices");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, 1.0f), Const(s, 1.0)}, DevicesOf(2));
        }),
        "of replica 1 is float64");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, {1.0f}), Const(s, {1.0f, 2.0f})}, DevicesOf(2));
        }),
        "of replica 1 has shape [2]");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, true), Const(s, true)}, DevicesOf(2));
        }),
        "no sum of bool");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, std::string("a")), Const(s, std::string("b"))}, DevicesOf(2));
        }),
        "no sum of string");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, 1.0f), Output()}, DevicesOf(2));
        }),
        "not by replica 1");
  tells(told([](const Scope& s) {
          train::AllReduceLists(s, {{Const(s, 1.0f)}, {}}, DevicesOf(2));
        }),
        "replica 1 has 0 values");
  tells(told([](const Scope& s) {
          train::AllReduce(s, {Const(s, 1.0f)}, DevicesOf(1), AllReduceOptions{.bucket_bytes = -1});
        }),
        "-1 bytes");
  tells(told([](const Scope& s) {
          const Output dense = Const(s, {{1.0f}, {2.0f}});
          const IndexedSlices slices{Const(s, {{1.0f}}), Const(s, {1}), Const(s, {int64_t{2}, int64_t{1}})};
          train::AllReduce(s, {FromSlices(s, slices), dense}, DevicesOf(2));
        }),
        "one consists of slices");
}

// The sum is divided by their number, in the type of the values.
BOOST_AUTO_TEST_CASE(a_mean_of_integers_needs_their_number_and_no_slices) {
  const auto mean = [](DType type, size_t replicas) {
    const Scope s = Scope::NewRootScope();
    const std::vector<Output> in(replicas, Const(s, {1, 2}, type));
    train::AllReduce(s, in, std::vector<std::string>(replicas), {.mean = true});
    return s.status();
  };
  for (const auto& [type, most] :
       {std::pair{DType::kInt8, 127}, {DType::kUint8, 255}, {DType::kInt32, 256}, {DType::kFloat, 256}}) {
    BOOST_TEST(mean(type, static_cast<size_t>(most)).ok(), Name(type));
    if (most == 256) continue;
    const absl::Status s = mean(type, static_cast<size_t>(most) + 1);
    BOOST_TEST(absl::IsInvalidArgument(s), s);
    const std::string what = StrCat(Name(type), " cannot say how many replicas there are, ", most + 1);
    BOOST_TEST(s.message().find(what) != std::string::npos, s);
  }
  for (const bool is_mean : {false, true}) {
    for (const size_t replicas : {1, 2}) {
      const Scope s = Scope::NewRootScope();
      const IndexedSlices slices{Const(s, {{1}}), Const(s, {1}), Const(s, {int64_t{2}, int64_t{1}})};
      const std::vector<Output> in(replicas, FromSlices(s, slices));
      train::AllReduce(s, in, DevicesOf(replicas), {.mean = is_mean});
      BOOST_TEST(s.ok() == (!is_mean || replicas == 1), s.status());
      if (!s.ok()) BOOST_TEST(s.status().message().find("slices are not added") != std::string::npos, s.status());
    }
  }
}

// Chunks of 3 elements and of 4 have lengths that could be added, wrongly.
BOOST_AUTO_TEST_CASE(unequal_shapes_end_the_step) {
  for (const Algorithm algorithm : kBoth) {
    const Scope s = Scope::NewRootScope();
    std::vector<Output> in;
    for (size_t r = 0; r < 3; ++r) in.push_back(FedOn(s, r, DType::kFloat));
    const std::vector<Output> out = train::AllReduce(s, in, DevicesOf(3), AllReduceOptions{.algorithm = algorithm});
    const auto session = StartOn(s, 3);
    for (const TensorShape& other : {TensorShape({1}), TensorShape({3}), TensorShape({2, 2}), TensorShape()}) {
      const Feeds feeds = {{in[0].name(), ValueOf<float>(0, TensorShape({4}))},
                           {in[1].name(), ValueOf<float>(1, TensorShape({4}))},
                           {in[2].name(), ValueOf<float>(2, other)}};
      std::vector<Tensor> got;
      const absl::Status status = session->Run(feeds, {out[0].name()}, {}, &got);
      BOOST_TEST(absl::IsInvalidArgument(status), status);
      BOOST_TEST(status.ToString().find("reduces a value of shape") != std::string::npos, status);
    }
    Feeds equal;
    for (size_t r = 0; r < 3; ++r) equal.emplace_back(in[r].name(), ValueOf<float>(r, TensorShape({4})));
    const Tensor want = Expected<float>(3, TensorShape({4}), false);
    BOOST_TEST((BytesOf(Fetch(*session, out, equal)[1]) == BytesOf(want)));
  }
}

BOOST_AUTO_TEST_CASE(a_dead_value_kills_all_results) {
  for (const Algorithm algorithm : kBoth) {
    const Scope s = Scope::NewRootScope();
    const Output taken = FedOn(s, 2, DType::kBool, TensorShape());
    std::vector<Output> in;
    for (size_t r = 0; r < 3; ++r) {
      const Scope here = s.WithDevice(DeviceOf(r));
      const Output value = Const(here, {1.0f, 2.0f, 3.0f, 4.0f});
      in.push_back(r < 2 ? value : EmitOp(here, "Switch", {value, taken}).output(1));
    }
    const std::vector<Output> out = train::AllReduce(s, in, DevicesOf(3), AllReduceOptions{.algorithm = algorithm});
    // At each replica: the sum, or else -1.
    std::vector<Output> merged;
    for (size_t r = 0; r < 3; ++r) {
      const Scope here = s.WithDevice(DeviceOf(r));
      const Output otherwise = EmitOp(here, "Switch", {Const(here, {-1.0f}), taken}).output(0);
      merged.push_back(EmitLists(here, "Merge", {InputList({out[r], otherwise})}).output(0));
    }
    const auto session = StartOn(s, 3);
    for (const bool alive : {true, false, true}) {
      const std::vector<Tensor> got = Fetch(*session, merged, {{taken.name(), Tensor::Scalar(alive)}});
      const std::vector<float> want = alive ? std::vector<float>{3, 6, 9, 12} : std::vector<float>{-1};
      for (const Tensor& t : got) BOOST_TEST(t.flat<float>() == want, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_replica_that_fails_or_never_comes_ends_the_step) {
  for (const Algorithm algorithm : kBoth) {
    const Scope s = Scope::NewRootScope();
    std::vector<Output> in;
    for (size_t r = 0; r < 3; ++r) in.push_back(FedOn(s, r, DType::kFloat, TensorShape({4})));
    const Scope last = s.WithDevice(DeviceOf(2));
    QueueOptions one;
    one.shapes = {{4}};
    const Queue queue = Queue::Fifo(last, {DType::kFloat}, one);
    const Operation put = queue.Enqueue(last, {in[2]});
    const Output checked =
        Build(last.WithOpName("checked"), "CheckNumerics", {queue.Dequeue(last).at(0)}, {{"message", "of replica 2"}});
    const std::vector<Output> out =
        train::AllReduce(s, {in[0], in[1], checked}, DevicesOf(3), AllReduceOptions{.algorithm = algorithm});
    const auto session = StartOn(s, 3);
    const Feeds two = {{in[0].name(), ValueOf<float>(0, TensorShape({4}))},
                       {in[1].name(), ValueOf<float>(1, TensorShape({4}))}};
    const Names all = {out[0].name(), out[1].name(), out[2].name()};
    std::vector<Tensor> got;
    // Nothing comes.
    RunOptions soon;
    soon.timeout_ms = 100;
    absl::Status status = session->Run(soon, two, all, {}, &got, nullptr);
    BOOST_TEST(absl::IsDeadlineExceeded(status), status);
    // What comes is no number.
    const float nan = std::nanf("");
    REQUIRE_OK(session->Run({{in[2].name(), Tensor::Vector<float>({1, nan, 3, 4})}}, {}, {put.name()}, &got));
    status = session->Run(two, all, {}, &got);
    BOOST_TEST(absl::IsInvalidArgument(status), status);
    BOOST_TEST(status.ToString().find("'checked'") != std::string::npos, status);
    // The next step knows nothing of those.
    REQUIRE_OK(session->Run({{in[2].name(), ValueOf<float>(2, TensorShape({4}))}}, {}, {put.name()}, &got));
    REQUIRE_OK(session->Run(two, all, {}, &got));
    const Tensor want = Expected<float>(3, TensorShape({4}), false);
    for (const Tensor& t : got) BOOST_TEST((BytesOf(t) == BytesOf(want)));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace all_reduce_errors_test
}  // namespace troupe::testing
