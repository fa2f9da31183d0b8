// Graphs as text that are run once, with nodes fused or apart, and tensors of reproducible values
// for them.
//
// Thread rule: one thread.
#ifndef TROUPE_TESTS_COMMON_RUN_TEXT_H_
#define TROUPE_TESTS_COMMON_RUN_TEXT_H_

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/text.h"
#include "troupe/troupe.h"

namespace troupe {

inline Tensor Uniform(const TensorShape& shape, float low, float high, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> d(low, high);
  Tensor t(DType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = d(random);
  return t;
}
inline Tensor Random(const TensorShape& shape, uint64_t seed) { return Uniform(shape, -1.0f, 1.0f, seed); }

inline bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.SameShape(b) && (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

struct Result {
  absl::Status status;
  std::vector<Tensor> values;
  std::string ops = " ";  // of the parts as they ran, a space before and behind each
};
// How many of the nodes that ran have this op.
inline int Count(const Result& r, const std::string& op) {
  int n = 0;
  for (size_t at = 0; (at = r.ops.find(" " + op + " ", at)) != std::string::npos; ++at) ++n;
  return n;
}
inline bool Has(const Result& r, const std::string& op) { return Count(r, op) > 0; }

// In a session of its own.
inline Result RunText(const std::string& text, const Feeds& feeds, const Names& fetches, bool fuse, int threads = 2) {
  SessionOptions options;
  options.fuse = fuse;
  options.runtime_options.threads = threads;
  auto session = *Session::Create(options);
  auto graph = ParseGraphText(text);
  BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
  BOOST_REQUIRE(session->Extend(**graph).ok());
  Result r;
  RunOptions run;
  run.partition_graphs = true;
  proto::RunMetadata metadata;
  r.status = session->Run(run, feeds, fetches, {}, &r.values, &metadata);
  for (const auto& part : metadata.partition_graphs()) {
    for (const auto& node : part.node()) StrAppend(&r.ops, node.op(), " ");
  }
  return r;
}

}  // namespace troupe

#endif  // TROUPE_TESTS_COMMON_RUN_TEXT_H_
