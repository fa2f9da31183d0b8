// All-reduce, by ring and by tree, over devices of one process: values, types, shapes and buckets;
// the order of sums; what goes over each link. What goes wrong: all_reduce_errors_test.cc.
#include <complex>
#include <cstring>
#include <map>
#include <set>

#include "tests/train/all_reduce_util.h"
#include "troupe/indexed_slices.h"

namespace troupe::testing {
namespace all_reduce_test {

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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace all_reduce_test
}  // namespace troupe::testing
