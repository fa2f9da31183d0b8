// The strided copy against a loop over every element: all element sizes, shapes big enough for
// tiles and several threads.
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "kernels/common/strided_copy.h"
#include "tests/cases/same_value.h"
#include "troupe/compute_threads.h"

namespace troupe::test {
namespace strided_copy_test {
using array::CopyAxes;
using array::DenseStrides;
using array::StridedCopy;

Tensor Numbered(DType t, const TensorShape& shape) {
  Tensor x(t, shape);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (t == DType::kString) {
      x.data<std::string>()[i] = StrCat("element ", i);
      continue;
    }
    VisitNumeric(t, false, [&]<class T>() {
      x.data<T>()[i] = static_cast<T>(static_cast<float>(i % 127));
      return true;
    });
  }
  return x;
}

// Transposes x by perm with the copy and with a loop.
void CheckTranspose(ComputeThreads* threads, DType t, const TensorShape& shape, const std::vector<int>& perm) {
  const Tensor x = Numbered(t, shape);
  TensorShape out_shape = shape;
  StridedCopy copy;
  const auto from = DenseStrides(shape.dims());
  for (size_t k = 0; k < perm.size(); ++k) out_shape.set_dim(static_cast<int>(k), shape.dim(perm[k]));
  const auto to = DenseStrides(out_shape.dims());
  for (size_t k = 0; k < perm.size(); ++k)
    copy.Add(out_shape.dim(static_cast<int>(k)), to[k], from[static_cast<size_t>(perm[k])]);
  Tensor got(t, out_shape), want(t, out_shape);
  copy.Run(threads, t, got.raw(), x.raw());
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    int64_t rest = i, at = 0;
    for (size_t k = 0; k < perm.size(); ++k) {
      at += rest / to[k] * from[static_cast<size_t>(perm[k])];
      rest %= to[k];
    }
    if (t == DType::kString) {
      want.data<std::string>()[i] = x.data<std::string>()[at];
    } else {
      std::memcpy(static_cast<char*>(want.raw()) + i * static_cast<int64_t>(SizeOf(t)),
                  static_cast<const char*>(x.raw()) + at * static_cast<int64_t>(SizeOf(t)), SizeOf(t));
    }
  }
  BOOST_CHECK_MESSAGE(Difference(got, want).empty(), Name(t) << " " << shape.DebugString());
}

BOOST_AUTO_TEST_CASE(transposes_of_every_size) {
  ComputeThreads one(1), three(3);
  const std::vector<std::pair<TensorShape, std::vector<int>>> cases = {
      {{67, 131}, {1, 0}}, {{3, 40, 37}, {0, 2, 1}}, {{33, 5, 34}, {2, 1, 0}},           {{9, 8, 7, 6}, {3, 1, 2, 0}},
      {{300, 3}, {1, 0}},  {{2, 700}, {1, 0}},       {{4, 3, 2, 5, 2}, {4, 2, 0, 3, 1}},
  };
  for (DType t : {DType::kInt8, DType::kBfloat16, DType::kFloat, DType::kDouble, DType::kComplex128, DType::kString}) {
    for (const auto& [shape, perm] : cases) {
      CheckTranspose(&one, t, shape, perm);
      CheckTranspose(&three, t, shape, perm);
    }
  }
}

// A walk that needs no element order: what several threads copy is what one copies.
BOOST_AUTO_TEST_CASE(long_runs_are_shared) {
  ComputeThreads three(3);
  constexpr int64_t kRows = 3, kColumns = 400000;
  std::vector<int32_t> from(kRows * kColumns), to(kRows * kColumns * 2, -1);
  std::iota(from.begin(), from.end(), 0);
  StridedCopy copy;  // every row into the first half of a row twice as long
  copy.Add(kRows, 2 * kColumns, kColumns);
  copy.Add(kColumns, 1, 1);
  copy.Run(&three, DType::kInt32, to.data(), from.data());
  int64_t wrong = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      wrong += to[static_cast<size_t>(r * 2 * kColumns + c)] != static_cast<int32_t>(r * kColumns + c);
      wrong += to[static_cast<size_t>(r * 2 * kColumns + kColumns + c)] != -1;
    }
  }
  BOOST_CHECK_EQUAL(wrong, 0);
}

BOOST_AUTO_TEST_CASE(neighbours_merge) {
  CopyAxes dense;
  dense.push_back({2, 12, 12});
  dense.push_back({3, 4, 4});
  dense.push_back({1, 99, 7});
  dense.push_back({4, 1, 1});
  const CopyAxes merged = array::SimplifyAxes(dense);
  BOOST_REQUIRE_EQUAL(merged.size(), 1u);
  BOOST_CHECK_EQUAL(merged[0].size, 24);
  CopyAxes reversed;
  reversed.push_back({3, 4, -4});
  reversed.push_back({4, 1, -1});
  BOOST_CHECK_EQUAL(array::SimplifyAxes(reversed).size(), 1u);
  CopyAxes transposed;
  transposed.push_back({3, 4, 1});
  transposed.push_back({4, 1, 3});
  BOOST_CHECK_EQUAL(array::SimplifyAxes(transposed).size(), 2u);
  BOOST_CHECK_EQUAL(array::SimplifyAxes({}).size(), 1u);
}

}  // namespace strided_copy_test
}  // namespace troupe::test
