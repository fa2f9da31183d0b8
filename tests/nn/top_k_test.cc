// TopK and TopKV2 against a full sort.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "tests/nn/nn_test_util.h"

namespace troupe {
namespace top_k_test {

BOOST_AUTO_TEST_CASE(top_k_of_every_type) {
  for (DType t : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt8, DType::kInt16,
                  DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    for (auto& [shape, k] :
         {std::pair<TensorShape, int64_t>{{3, 50}, 7}, {{50}, 50}, {{2, 3, 9}, 1}, {{4, 5}, 0}, {{0, 5}, 2}}) {
      const Tensor x = RandomTensor(t, shape, 91);
      const std::vector<double> v = ToDoubles(x);
      const int64_t columns = shape.dim(shape.rank() - 1);
      std::vector<double> values, indices;
      for (size_t r = 0; r < v.size(); r += columns) {
        std::vector<int64_t> order(columns);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return v[r + a] > v[r + b]; });
        for (int64_t i = 0; i < k; ++i) {
          values.push_back(v[r + order[i]]);
          indices.push_back(static_cast<double>(order[i]));
        }
      }
      const std::vector<Tensor> a = Run("TopK", {x}, {{"k", k}});
      CheckClose(a[0], values, StrCat("TopK ", x.TypeAndShape()));
      CheckClose(a[1], indices, StrCat("TopK indices ", x.TypeAndShape()));
      for (DType index : {DType::kInt16, DType::kInt32, DType::kInt64}) {
        const std::vector<Tensor> b =
            Run("TopKV2", {x, MakeTensor(index, TensorShape(), {static_cast<double>(k)})}, {{"index_type", index}}, 2);
        BOOST_CHECK(SameBytes(b[0], a[0]));
        BOOST_CHECK(b[1].dtype() == index);
        CheckClose(b[1], indices, "TopKV2 indices");
      }
    }
  }
  CheckRefused("TopK", {Tensor::Vector<float>({1, 2})}, {{"k", 3}}, "at least k columns. Had 2, needed 3");
  CheckRefused("TopK", {Tensor::Scalar<float>(1)}, {{"k", 0}}, "must be >= 1-D");
  CheckRefused("TopKV2", {Tensor::Vector<float>({1, 2}), Tensor::Scalar<int32_t>(-1)}, {}, "Need k >= 0");
}

}  // namespace top_k_test
}  // namespace troupe
