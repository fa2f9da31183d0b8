// All-reduce, by ring and by tree, over devices of one process: values, types, shapes and buckets;
// the order of sums; what goes over each link; errors, dead tensors and deadlines.
#include <complex>
#include <cstring>
#include <map>
#include <set>

#include "tests/common/check_ok.h"
#include "tests/train/run.h"
#include "troupe/indexed_slices.h"
#include "troupe/queues.h"
#include "troupe/train/all_reduce.h"

namespace troupe::testing {
namespace {

using train::AllReduceOptions;
using Algorithm = AllReduceOptions::Algorithm;

constexpr Algorithm kBoth[] = {AllReduceOptions::kRing, AllReduceOptions::kTree};

std::string DeviceOf(size_t replica) { return StrCat("/device:CPU:", replica); }
std::vector<std::string> DevicesOf(size_t replicas) {
  std::vector<std::string> devices;
  for (size_t r = 0; r < replicas; ++r) devices.push_back(DeviceOf(r));
  return devices;
}
std::unique_ptr<Session> StartOn(const Scope& s, size_t devices) {
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  SessionOptions options;
  options.runtime_options.threads = 2;
  options.runtime_options.cpu_devices = static_cast<int>(devices);
  auto session = Session::Create(options);
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  REQUIRE_OK((*session)->Extend(*s.graph()));
  return *std::move(session);
}
Output FedOn(const Scope& s, size_t replica, DType type, const PartialTensorShape& shape = {}) {
  return Build(s.WithDevice(DeviceOf(replica)), "Placeholder", {}, {{"dtype", type}, {"shape", shape}});
}
std::string BytesOf(const Tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }

// Element j of replica r: small whole numbers, so that their sums are exact in all types.
template <class T>
Tensor ValueOf(size_t replica, const TensorShape& shape) {
  Tensor t(kDTypeOf<T>, shape);
  for (int64_t j = 0; j < t.num_elements(); ++j)
    t.data<T>()[j] = static_cast<T>(static_cast<float>((static_cast<int64_t>(replica) * 3 + j) % 7));
  return t;
}
// The sum, or the mean as the type has it.
template <class T>
Tensor Expected(size_t replicas, const TensorShape& shape, bool mean) {
  Tensor t(kDTypeOf<T>, shape);
  for (int64_t j = 0; j < t.num_elements(); ++j) {
    float sum = 0;
    for (size_t r = 0; r < replicas; ++r) sum += static_cast<float>((static_cast<int64_t>(r) * 3 + j) % 7);
    T value = static_cast<T>(sum);
    if (mean) value = static_cast<T>(value / static_cast<T>(static_cast<float>(replicas)));
    t.data<T>()[j] = value;
  }
  return t;
}

template <class T>
void CheckType(Algorithm algorithm, size_t n, const TensorShape& shape, bool mean, bool known) {
  const std::string what = StrCat(Name(kDTypeOf<T>), shape.DebugString(), " of ", n, ", algorithm ",
                                  static_cast<int>(algorithm), mean ? ", mean" : ", sum", known ? "" : ", dynamic");
  const Scope s = Scope::NewRootScope();
  std::vector<Output> in;
  Feeds feeds;
  for (size_t r = 0; r < n; ++r) {
    in.push_back(FedOn(s, r, kDTypeOf<T>, known ? PartialTensorShape(shape) : PartialTensorShape()));
    feeds.emplace_back(in[r].name(), ValueOf<T>(r, shape));
  }
  const std::vector<Output> out =
      train::AllReduce(s, in, DevicesOf(n), AllReduceOptions{.algorithm = algorithm, .mean = mean});
  BOOST_REQUIRE_MESSAGE(s.ok(), what << ": " << s.status());
  const auto session = StartOn(s, n);
  const std::vector<Tensor> got = Fetch(*session, out, feeds);
  const Tensor want = Expected<T>(n, shape, mean);
  for (size_t r = 0; r < n; ++r) {
    BOOST_TEST((got[r].shape() == shape), what << " has shape " << got[r].shape().DebugString());
    BOOST_TEST((BytesOf(got[r]) == BytesOf(want)), what << ", replica " << r);
    // The fed value of a single replica is nobody's to place.
    if (n > 1 && shape.num_elements() > 0) BOOST_TEST(out[r].node()->requested_device() == DeviceOf(r));
  }
}

BOOST_AUTO_TEST_SUITE(all_reduce)

BOOST_AUTO_TEST_CASE(any_shape_and_any_number_of_replicas) {
  for (const Algorithm algorithm : kBoth) {
    for (const size_t n : {1, 2, 3, 4, 5, 7, 8, 10}) {
      for (const TensorShape& shape : {TensorShape(), TensorShape({0}), TensorShape({1}), TensorShape({3}),
                                       TensorShape({5, 7}), TensorShape({3, 0}), TensorShape({64})}) {
        CheckType<float>(algorithm, n, shape, false, true);
        CheckType<float>(algorithm, n, shape, false, false);
      }
    }
  }
}

template <class T>
void CheckNumber() {
  for (const Algorithm algorithm : kBoth) {
    for (const bool mean : {false, true}) CheckType<T>(algorithm, 4, TensorShape({3, 5}), mean, true);
  }
}
BOOST_AUTO_TEST_CASE(any_type_of_number) {
  CheckNumber<float>();
  CheckNumber<double>();
  CheckNumber<Half>();
  CheckNumber<BFloat16>();
  CheckNumber<int8_t>();
  CheckNumber<int16_t>();
  CheckNumber<int32_t>();
  CheckNumber<int64_t>();
  CheckNumber<uint8_t>();
  CheckNumber<uint32_t>();
  CheckNumber<std::complex<float>>();
}

// Numbers of which the order of the sum shows.
Tensor Odd(size_t replica, int64_t elements) {
  Tensor t(DType::kFloat, TensorShape({elements}));
  for (int64_t j = 0; j < elements; ++j) {
    const auto x = static_cast<double>((static_cast<int64_t>(replica) * 7919 + j * 104729 + 17) % 1000);
    t.data<float>()[j] = static_cast<float>(std::exp(x / 50.0) * (j % 2 == 0 ? 1 : -1));
  }
  return t;
}

BOOST_AUTO_TEST_CASE(the_order_of_sums_is_that_of_the_graph) {
  constexpr size_t kReplicas = 5;
  constexpr int64_t kElements = 103;
  const auto by_tree = [](const std::vector<float>& x) {
    const float low[] = {x[0] + x[4], x[1], x[2], x[3]};  // 4 gives its value to 0
    return (low[0] + low[2]) + (low[1] + low[3]);
  };
  for (const Algorithm algorithm : kBoth) {
    const Scope s = Scope::NewRootScope();
    std::vector<Output> in;
    Feeds feeds;
    for (size_t r = 0; r < kReplicas; ++r) {
      in.push_back(FedOn(s, r, DType::kFloat, TensorShape({kElements})));
      feeds.emplace_back(in[r].name(), Odd(r, kElements));
    }
    const std::vector<Output> out =
        train::AllReduce(s, in, DevicesOf(kReplicas), AllReduceOptions{.algorithm = algorithm});
    const auto session = StartOn(s, kReplicas);
    const std::vector<Tensor> first = Fetch(*session, out, feeds);
    int64_t at = 0;
    bool shows = false;
    for (size_t c = 0; c < kReplicas; ++c) {
      const int64_t end = at + (kElements + static_cast<int64_t>(kReplicas - 1 - c)) / static_cast<int64_t>(kReplicas);
      for (; at < end; ++at) {
        std::vector<float> x;
        for (size_t r = 0; r < kReplicas; ++r) x.push_back(feeds[r].second.data<float>()[at]);
        float ring = x[c];
        for (size_t hop = 1; hop < kReplicas; ++hop) ring += x[(c + hop) % kReplicas];
        const float want = algorithm == AllReduceOptions::kRing ? ring : by_tree(x);
        shows = shows || ring != x[0] + x[1] + x[2] + x[3] + x[4];
        for (size_t r = 0; r < kReplicas; ++r) BOOST_TEST(first[r].data<float>()[at] == want);
      }
    }
    BOOST_TEST(at == kElements);
    BOOST_TEST(shows);
    for (int again = 0; again < 20; ++again) {
      const std::vector<Tensor> got = Fetch(*session, out, feeds);
      for (size_t r = 0; r < kReplicas; ++r) BOOST_TEST((BytesOf(got[r]) == BytesOf(first[0])));
    }
  }
}

int64_t CountOf(const Scope& s, const std::string& op) {
  int64_t n = 0;
  for (const Node* node : s.graph()->op_nodes()) n += node->op().name == op;
  return n;
}

BOOST_AUTO_TEST_CASE(small_values_share_buckets) {
  // Of 40, 12, 24, 8 (doubles), 4 and 0 bytes, one of unknown shape, and one that nobody has.
  const std::vector<TensorShape> shapes = {TensorShape({2, 5}), TensorShape({3}),    TensorShape({6}),   TensorShape(),
                                           TensorShape(),       TensorShape({0, 2}), TensorShape({2, 2})};
  const auto type = [](size_t i) { return i == 3 ? DType::kDouble : DType::kFloat; };
  constexpr size_t kReplicas = 3;
  // Sums of chunks: two for each of the ring's three chunks; of a scalar there is one chunk.
  const std::map<int64_t, int64_t> sums = {{0, 6 + 6 + 6 + 2 + 2 + 6},  // each by itself
                                           {40, 6 + 6 + 2 + 6},         // 40 | 12 + 24 + 4 + 0
                                           {52, 6 + 6 + 2 + 6},         // 40 + 12 | 24 + 4 + 0
                                           {1 << 20, 6 + 2 + 6}};
  for (const Algorithm algorithm : kBoth) {
    for (const auto& [bytes, adds] : sums) {
      const Scope s = Scope::NewRootScope();
      std::vector<std::vector<Output>> in(kReplicas);
      Feeds feeds;
      for (size_t r = 0; r < kReplicas; ++r) {
        for (size_t i = 0; i < shapes.size(); ++i) {
          const PartialTensorShape known = i == 6 ? PartialTensorShape({-1, 2}) : PartialTensorShape(shapes[i]);
          in[r].push_back(FedOn(s, r, type(i), known));
          feeds.emplace_back(in[r][i].name(),
                             i == 3 ? ValueOf<double>(r, shapes[i]) : ValueOf<float>(r + i, shapes[i]));
        }
        in[r].emplace_back();
      }
      const auto out =
          train::AllReduceLists(s, in, DevicesOf(kReplicas), {.algorithm = algorithm, .bucket_bytes = bytes});
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
      if (algorithm == AllReduceOptions::kRing) BOOST_TEST(CountOf(s, "AddN") == adds, "buckets of " << bytes);
      const auto session = StartOn(s, kReplicas);
      for (size_t r = 0; r < kReplicas; ++r) {
        BOOST_TEST(!out[r].back().valid());
        for (size_t i = 0; i < shapes.size(); ++i) {
          const Tensor got = Fetch(*session, {out[r][i]}, feeds)[0];
          BOOST_TEST((got.shape() == shapes[i]));
          for (int64_t j = 0; j < got.num_elements(); ++j) {
            double want = 0;
            for (size_t of = 0; of < kReplicas; ++of)
              want += i == 3 ? ValueOf<double>(of, shapes[i]).data<double>()[j]
                             : static_cast<double>(ValueOf<float>(of + i, shapes[i]).data<float>()[j]);
            BOOST_TEST((i == 3 ? got.data<double>()[j] : static_cast<double>(got.data<float>()[j])) == want);
          }
        }
      }
    }
  }
}

// What goes over each link in one step, by the shapes of the graph: what several nodes of a device
// take of one value is sent once.
std::map<std::pair<std::string, std::string>, int64_t> BytesOfLinks(const Scope& s) {
  std::map<std::pair<std::string, std::string>, int64_t> bytes;
  std::set<std::pair<std::string, std::string>> sent;
  for (const Node* node : s.graph()->op_nodes()) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Output from(node->input(i));
      const std::string &source = from.node()->requested_device(), &to = node->requested_device();
      if (source == to || source.empty() || !sent.insert({from.name(), to}).second) continue;
      const PartialTensorShape shape = s.ShapeOf(from);
      BOOST_REQUIRE_MESSAGE(shape.IsFullyDefined(), from.name());
      int64_t size = static_cast<int64_t>(SizeOf(from.dtype()));
      for (const int64_t dim : shape.dims()) size *= dim;
      bytes[{source, to}] += size;
    }
  }
  return bytes;
}

BOOST_AUTO_TEST_CASE(bytes_of_each_link) {
  constexpr int64_t kElements = 8 * 5 * 3 * 10, kBytes = 4 * kElements;
  for (const size_t n : {2, 3, 4, 8, 10}) {
    for (const Algorithm algorithm : kBoth) {
      const Scope s = Scope::NewRootScope();
      std::vector<Output> in;
      for (size_t r = 0; r < n; ++r) in.push_back(FedOn(s, r, DType::kFloat, TensorShape({kElements})));
      train::AllReduce(s, in, DevicesOf(n), AllReduceOptions{.algorithm = algorithm});
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
      const auto links = BytesOfLinks(s);
      std::map<std::string, int64_t> out_of;
      int64_t most = 0;
      for (const auto& [link, bytes] : links) {
        out_of[link.first] += bytes;
        most = std::max(most, bytes);
      }
      const auto of_n = static_cast<int64_t>(n);
      const int64_t share = 2 * kBytes * (of_n - 1) / of_n;
      if (algorithm == AllReduceOptions::kRing) {
        BOOST_TEST(links.size() == n);
        for (size_t r = 0; r < n; ++r) BOOST_TEST((links.at({DeviceOf(r), DeviceOf((r + 1) % n)}) == share));
      } else if ((n & (n - 1)) == 0) {
        for (const auto& [device, bytes] : out_of) BOOST_TEST(bytes == share, device);
        // In the first round half of everything, and as much back.
        BOOST_TEST(most == kBytes);
      } else {
        BOOST_TEST(most == kBytes);
        BOOST_TEST(out_of.at(DeviceOf(n - 1)) == kBytes);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(slices_are_put_behind_each_other) {
  constexpr size_t kReplicas = 3;
  for (const bool mean : {false, true}) {
    const Scope s = Scope::NewRootScope();
    std::vector<Output> in, indices, rows;
    for (size_t r = 0; r < kReplicas; ++r) {
      const Scope here = s.WithDevice(DeviceOf(r));
      const auto first = static_cast<float>(r + 1);
      const Output values = Const(here, {{3 * first, 6 * first}, {9.0f, 12.0f}}),
                   its = Const(here, {static_cast<int>(r), 4});
      in.push_back(FromSlices(here, {values, its, Const(here, {int64_t{5}, int64_t{2}})}));
    }
    const std::vector<Output> out =
        train::AllReduce(s, in, DevicesOf(kReplicas), {.algorithm = AllReduceOptions::kTree, .mean = mean});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
    for (size_t r = 0; r < kReplicas; ++r) {
      const auto slices = SlicesOf(s.WithDevice(DeviceOf(r)), out[r]);
      BOOST_REQUIRE(slices.has_value());
      indices.push_back(slices->indices);
      rows.push_back(slices->values);
    }
    const auto session = StartOn(s, kReplicas);
    const float by = mean ? 3 : 1;
    for (size_t r = 0; r < kReplicas; ++r) {
      const std::vector<Tensor> got = Fetch(*session, {indices[r], rows[r], out[r]});
      const std::vector<int32_t> want = {0, 4, 1, 4, 2, 4};
      BOOST_TEST(got[0].flat<int32_t>() == want, boost::test_tools::per_element());
      const std::vector<float> table = {3 / by, 6 / by, 6 / by, 12 / by, 9 / by, 18 / by, 0, 0, 27 / by, 36 / by};
      BOOST_TEST(got[2].flat<float>() == table, boost::test_tools::per_element());
    }
  }
}

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

}  // namespace
}  // namespace troupe::testing
