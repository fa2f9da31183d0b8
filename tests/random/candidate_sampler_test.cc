// What candidate samplers draw is compared with TensorFlow's in draws_test.cc; here what they
// expect, what they refuse, and the hits among the draws.
#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <cmath>
#include <set>

#include "troupe/evaluate.h"
#include "troupe/files.h"
#include "troupe/state_snapshot.h"
#include "troupe/troupe.h"

namespace troupe {
namespace candidate_sampler_test {

absl::StatusOr<std::vector<Tensor>> Draw(const char* op, int64_t n, int64_t range, bool unique) {
  return EvaluateOp(
      op, {Tensor::Of<int64_t>({1, 3, 0, 2}, {2, 2})},
      {{"num_true", 2}, {"num_sampled", n}, {"range_max", range}, {"unique", unique}, {"seed", 3}, {"seed2", 5}});
}

BOOST_AUTO_TEST_CASE(counts_that_samplers_expect) {
  for (const bool log : {false, true}) {
    const char* const op = log ? "LogUniformCandidateSampler" : "UniformCandidateSampler";
    const auto probability = [&](int64_t c) {
      return log ? (std::log(c + 2.0) - std::log(c + 1.0)) / std::log(51.0) : 1 / 50.0;
    };
    const auto often = Draw(op, 40, 50, false), once = Draw(op, 40, 50, true);
    BOOST_REQUIRE_MESSAGE(often.ok(), often.status());
    BOOST_REQUIRE_MESSAGE(once.ok(), once.status());
    for (int i = 0; i < 40; ++i) {
      const int64_t c = (*often)[0].data<int64_t>()[i];
      BOOST_TEST((c >= 0 && c < 50));
      BOOST_TEST(std::abs((*often)[2].data<float>()[i] - 40 * probability(c)) < 1e-5);
    }
    const std::set<int64_t> different((*once)[0].data<int64_t>(), (*once)[0].data<int64_t>() + 40);
    BOOST_TEST(different.size() == 40u);
    // 1 - (1 - p)^tries for one number of tries, which the rarest class tells most exactly.
    const float* const expected = (*once)[2].data<float>();
    const auto rarest = std::min_element(expected, expected + 40) - expected;
    const double tries = std::log1p(-expected[rarest]) / std::log1p(-probability((*once)[0].data<int64_t>()[rarest]));
    BOOST_TEST(tries > 40.5);
    for (int i = 0; i < 40; ++i) {
      const double p = probability((*once)[0].data<int64_t>()[i]);
      BOOST_TEST(std::abs((*once)[2].data<float>()[i] - (1 - std::pow(1 - p, tries))) < 1e-3);
    }
  }
}

BOOST_AUTO_TEST_CASE(samplers_refuse) {
  const auto few = Draw("UniformCandidateSampler", 6, 5, true);
  BOOST_TEST(absl::IsInvalidArgument(few.status()), few.status());
  BOOST_TEST(Draw("UniformCandidateSampler", 6, 5, false).ok());
  BOOST_TEST(Draw("UniformCandidateSampler", 5, 5, true).ok());
  const auto vector = EvaluateOp("LogUniformCandidateSampler", {Tensor::Vector<int64_t>({1, 3})},
                                 {{"num_true", 1}, {"num_sampled", 2}, {"range_max", 9}, {"unique", false}});
  BOOST_TEST(absl::IsInvalidArgument(vector.status()), vector.status());
}

// Weights to the power of one half, behind a class that is never drawn.
BOOST_AUTO_TEST_CASE(classes_by_weight) {
  const auto draw = [](const AttrMap& more, bool unique, int64_t n = 3) {
    AttrMap attrs = {{"num_true", 2}, {"num_sampled", n}, {"unique", unique}, {"seed", 3}, {"seed2", 5}};
    for (const auto& [name, value] : more) attrs.Set(name, value);
    return EvaluateOp("FixedUnigramCandidateSampler", {Tensor::Of<int64_t>({1, 3, 0, 2}, {2, 2})}, attrs);
  };
  const double root[] = {0, 1, 2, 3, 4};  // their sum is 10
  const AttrMap given = {
      {"range_max", 5}, {"num_reserved_ids", 1}, {"distortion", 0.5f}, {"unigrams", std::vector<float>{1, 4, 9, 16}}};
  const auto few = draw(given, false, 1000);
  BOOST_REQUIRE_MESSAGE(few.ok(), few.status());
  int counts[5] = {};
  for (int i = 0; i < 1000; ++i) {
    const int64_t c = (*few)[0].data<int64_t>()[i];
    BOOST_REQUIRE((c > 0 && c < 5));
    ++counts[c];
    BOOST_TEST(std::abs((*few)[2].data<float>()[i] - 100 * root[c]) < 1e-3);
  }
  for (int c = 1; c < 5; ++c) BOOST_TEST(std::abs(counts[c] - 100 * root[c]) < 60);
  const int64_t known[] = {1, 3, 0, 2};
  for (int i = 0; i < 4; ++i) BOOST_TEST(std::abs((*few)[1].data<float>()[i] - 100 * root[known[i]]) < 1e-3);
  // The same from a file.
  BOOST_REQUIRE(files::Write("mem://weights.csv", "a,1\nb,x,4\n\n9\r\nd, 16").ok());
  AttrMap of_file = given;
  of_file.Set("unigrams", std::vector<float>());
  of_file.Set("vocab_file", "mem://weights.csv");
  const auto again = draw(of_file, false, 1000);
  BOOST_REQUIRE_MESSAGE(again.ok(), again.status());
  BOOST_TEST((*again)[2].data<float>()[7] == (*few)[2].data<float>()[7]);
  BOOST_TEST((*again)[0].data<int64_t>()[7] == (*few)[0].data<int64_t>()[7]);

  const auto refused = [&](const char* attr, AttrValue value, bool unique, int64_t n, const char* why) {
    AttrMap attrs = given;
    attrs.Set(attr, value);
    const auto r = draw(attrs, unique, n);
    BOOST_TEST(absl::IsInvalidArgument(r.status()), r.status());
    BOOST_TEST(r.status().ToString().find(why) != std::string::npos, r.status());
  };
  refused("range_max", AttrValue(6), false, 1, "range_max is 6, but there are 5 weights");
  refused("range_max", AttrValue(4), false, 1, "more weights than the 4 classes");
  refused("num_reserved_ids", AttrValue(int64_t{1} << 40), false, 1, "more than the 5 classes");
  refused("shard", AttrValue(1), false, 1, "shard is 1");
  refused("unigrams", AttrValue(std::vector<float>{1, -4, 9, 16}), false, 1, "must be a number from 0");
  refused("unigrams", AttrValue(std::vector<float>{0, 0, 0, 0}), false, 1, "the sum of the weights is 0");
  refused("unigrams", AttrValue(std::vector<float>()), false, 1, "either vocab_file or unigrams");
  refused("vocab_file", AttrValue("mem://weights.csv"), false, 1, "either vocab_file or unigrams");
  refused("distortion", AttrValue(0.5f), true, 5, "only 4 different classes");
  BOOST_REQUIRE(files::Write("mem://weights.csv", "a,1\nb,\n").ok());
  const auto damaged = draw(of_file, false, 1);
  BOOST_TEST(damaged.status().ToString().find("mem://weights.csv: there is no weight in the line: b,") !=
             std::string::npos);
  of_file.Set("vocab_file", "mem://no_weights.csv");
  BOOST_TEST(absl::IsNotFound(draw(of_file, false, 1).status()));
}

BOOST_AUTO_TEST_CASE(counts_of_classes_are_state) {
  Scope root = Scope::NewRootScope();
  const Output known = ops::Placeholder(root, DType::kInt64, {.shape = {-1, 1}});
  const Operation op =
      EmitOp(root.WithOpName("s"), "LearnedUnigramCandidateSampler", {known},
             {{"num_true", 1}, {"num_sampled", 1000}, {"range_max", 5}, {"unique", false}, {"seed", 3}, {"seed2", 5}});
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto start = [&] {
    auto session = *Session::Create();
    BOOST_REQUIRE(session->Extend(*root.graph()).ok());
    return session;
  };
  auto first = start();
  const auto run = [&](Session& session, std::vector<int64_t> classes) {
    Tensor fed(DType::kInt64, {static_cast<int64_t>(classes.size()), 1});
    std::copy(classes.begin(), classes.end(), fed.data<int64_t>());
    std::vector<Tensor> out;
    const absl::Status s = session.Run({{known, fed}}, {op.output(0), op.output(1)}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    return out;
  };
  double counts[5] = {1, 1, 1, 1, 1}, sum = 5;
  for (const std::vector<int64_t>& classes : {std::vector<int64_t>{4, 4, 0, 4}, {4, 1, 2, 0}, {}, {3, 4, 2, 1}}) {
    const std::vector<Tensor> out = run(*first, classes);
    for (size_t i = 0; i < classes.size(); ++i)
      BOOST_TEST(std::abs(out[1].data<float>()[i] - 1000 * counts[classes[i]] / sum) < 1e-3);
    for (const int64_t c : classes) {
      ++counts[c];
      ++sum;
    }
  }
  // What was counted goes along with a snapshot.
  auto second = start();
  const auto snapshot = first->SnapshotState();
  BOOST_REQUIRE_MESSAGE(snapshot.ok(), snapshot.status());
  const auto bytes = snapshot->ToBytes();
  BOOST_REQUIRE(bytes.ok() && second->RestoreState(*StateSnapshot::FromBytes(*bytes)).ok());
  const std::vector<Tensor> here = run(*first, {0, 1, 2, 3, 4}), there = run(*second, {0, 1, 2, 3, 4});
  for (int i = 0; i < 1000; ++i) BOOST_TEST(here[0].data<int64_t>()[i] == there[0].data<int64_t>()[i]);
  for (int c = 0; c < 5; ++c) {
    BOOST_TEST(std::abs(here[1].data<float>()[c] - 1000 * counts[c] / sum) < 1e-3);
    BOOST_TEST(here[1].data<float>()[c] == there[1].data<float>()[c]);
  }
}

BOOST_AUTO_TEST_CASE(all_classes_and_classes_that_are_none) {
  const auto all = EvaluateOp("AllCandidateSampler", {Tensor::Of<int64_t>({1, 3}, {1, 2})},
                              {{"num_true", 2}, {"num_sampled", 4}, {"unique", true}});
  BOOST_REQUIRE_MESSAGE(all.ok(), all.status());
  BOOST_TEST((*all)[0].DebugString() == "int64 [4] [0 1 2 3]");
  BOOST_TEST((*all)[1].DebugString() == "float32 [1,2] [1 1]");
  BOOST_TEST((*all)[2].DebugString() == "float32 [4] [1 1 1 1]");
  for (const int64_t wrong : {int64_t{-1}, int64_t{4}, int64_t{1} << 40}) {
    for (const char* op : {"AllCandidateSampler", "UniformCandidateSampler", "LearnedUnigramCandidateSampler"}) {
      AttrMap attrs = {{"num_true", 1}, {"num_sampled", 4}, {"unique", true}};
      if (op[0] != 'A') attrs.Set("range_max", 4);
      const auto r = EvaluateOp(op, {Tensor::Of<int64_t>({wrong}, {1, 1})}, attrs);
      BOOST_TEST(absl::IsInvalidArgument(r.status()), r.status());
    }
  }
}

BOOST_AUTO_TEST_CASE(hits_among_the_draws) {
  const auto hits = EvaluateOp("ComputeAccidentalHits",
                               {Tensor::Of<int64_t>({7, 2, 9, 7, 4, 5}, {3, 2}), Tensor::Vector<int64_t>({7, 1, 2, 7})},
                               {{"num_true", 2}});
  BOOST_REQUIRE_MESSAGE(hits.ok(), hits.status());
  BOOST_TEST((*hits)[0].DebugString() == "int32 [3] [0 0 1]");
  BOOST_TEST((*hits)[1].DebugString() == "int64 [3] [3 2 3]");
  BOOST_TEST((*hits)[2].data<float>()[1] == -std::numeric_limits<float>::max());
  const auto wrong = EvaluateOp("ComputeAccidentalHits",
                                {Tensor::Of<int64_t>({7, 2}, {1, 2}), Tensor::Scalar<int64_t>(7)}, {{"num_true", 2}});
  BOOST_TEST(absl::IsInvalidArgument(wrong.status()), wrong.status());
}

}  // namespace candidate_sampler_test
}  // namespace troupe
