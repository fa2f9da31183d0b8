// What array ops say about inputs that do not fit: a sentence that names the number that is wrong.
#include <boost/test/unit_test.hpp>

#include "kernels/evaluate.h"
#include "tests/array/case_file.h"

namespace troupe::test {
namespace {

struct ErrorCase {
  const char* text;  // a case without outputs
  const char* sentence;
};

const ErrorCase kErrors[] = {
    {"Reshape | float32[2,3]{1 2 3 4 5 6} ; int32[2]{4 2}",
     "a tensor with 6 values, but the requested shape [4,2] has 8"},
    {"Reshape | float32[2,3]{1 2 3 4 5 6} ; int32[2]{4 -1}", "requires a multiple of 4"},
    {"Reshape | float32[2]{1 2} ; int32[2]{-1 -1}", "only one size of a reshape may be -1, not both 0 and 1"},
    {"Reshape | float32[2]{1 2} ; int32[1]{-3}", "size 0 must be non-negative, not -3"},
    {"Reshape | float32[2]{1 2} ; int64[3]{4611686018427387904 4 2}", "too many elements"},
    {"Reshape | float32[2]{1 2} ; int32[1,1]{2}", "must be a vector, got shape [1,1]"},
    {"ExpandDims | float32[2]{1 2} ; int32[]{2}", "tried to expand dim index 2 for a tensor with 1 dimensions"},
    {"ExpandDims | float32[2]{1 2} ; int32[2]{0 1}", "dim must be a scalar, got shape [2]"},
    {"Squeeze squeeze_dims=ints:0 | float32[2,1]{1 2}", "cannot squeeze dim[0], expected a dimension of 1, got 2"},
    {"Squeeze squeeze_dims=ints:3 | float32[2,1]{1 2}", "tried to squeeze dim index 3 for a tensor with 2 dimensions"},
    {"Fill | int32[1]{-1} ; float32[]{1}", "-1"},
    {"Fill | int32[1]{1} ; float32[2]{1 2}", "value must be a scalar, got shape [2]"},
    {"ConcatV2 <2> | float32[1]{1} ; float32[1]{1} ; int32[]{1}", "must be in the range [-1, 1), got 1"},
    {"ConcatV2 <2> | float32[1,2]{1 2} ; float32[1,3]{1 2 3} ; int32[]{0}", "dimension 1 of all values must be equal"},
    {"ConcatV2 <2> | float32[1,2]{1 2} ; float32[2]{1 2} ; int32[]{0}", "ranks of all values must match"},
    {"ConcatOffset <2> | int32[]{1} ; int32[2]{2 3} ; int32[2]{3 3}", "all dimensions except 1 must match"},
    {"Split num_split=int:2 | int32[]{0} ; float32[3]{1 2 3}", "should evenly divide"},
    {"SplitV num_split=int:2 | float32[3]{1 2 3} ; int32[2]{1 1} ; int32[]{0}",
     "add up to 2, but dimension 0 of the input is 3"},
    {"SplitV num_split=int:2 | float32[3]{1 2 3} ; int32[2]{-1 -1} ; int32[]{0}",
     "only one size of size_splits may be -1"},
    {"Slice | float32[2]{1 2} ; int32[1]{3} ; int32[1]{1}", "expected begin[0] in [0, 2], but got 3"},
    {"Slice | float32[2]{1 2} ; int32[1]{1} ; int32[1]{2}", "expected size[0] in [0, 1], but got 2"},
    {"Slice | float32[2]{1 2} ; int32[2]{1 0} ; int32[1]{2}", "vectors of 1 elements"},
    {"StridedSlice | float32[2]{1 2} ; int32[1]{0} ; int32[1]{1} ; int32[1]{0}", "strides[0] must be non-zero"},
    {"StridedSlice | float32[2]{1 2} ; int32[2]{0 0} ; int32[2]{1 1} ; int32[2]{1 1}", "input has only 1 dims"},
    {"StridedSlice shrink_axis_mask=int:1 | float32[2]{1 2} ; int32[1]{2} ; int32[1]{3} ; int32[1]{1}",
     "slice index 2 of dimension 0 out of bounds"},
    {"StridedSlice ellipsis_mask=int:3 | float32[2]{1 2} ; int32[2]{0 0} ; int32[2]{1 1} ; int32[2]{1 1}",
     "multiple ellipses"},
    {"StridedSliceGrad | int32[1]{4} ; int32[1]{0} ; int32[1]{2} ; int32[1]{1} ; float32[3]{1 2 3}",
     "shape of dy was [3] instead of [2]"},
    {"Pack <2> | float32[1]{1} ; float32[2]{1 2}", "value 0 has shape [1], value 1 has [2]"},
    {"Pack <1> axis=int:2 | float32[1]{1}", "must be in the range [-2, 2), got 2"},
    {"Unpack num=int:3 | float32[2]{1 2}", "must be 3, the number of outputs"},
    {"Tile | float32[2]{1 2} ; int32[1]{-1}", "expected multiples[0] >= 0, but got -1"},
    {"Tile | float32[2]{1 2} ; int32[2]{1 1}", "multiples must be a vector of 1 elements"},
    {"Pad | float32[2]{1 2} ; int32[1,2]{-1 0}", "paddings must be non-negative: dimension 0 has -1 and 0"},
    {"Pad | float32[2]{1 2} ; int32[2,2]{0 0 0 0}", "paddings must be a matrix [1,2]"},
    {"MirrorPad mode=string:REFLECT | float32[2]{1 2} ; int32[1,2]{2 0}",
     "paddings must be less than the dimension size"},
    {"Transpose | float32[2]{1 2} ; int32[2]{0 1}", "perm must be a vector of 1 elements"},
    {"Transpose | float32[1,2]{1 2} ; int32[2]{0 0}", "is no permutation: 0 comes twice"},
    {"InvertPermutation | int32[2]{0 2}", "2 is not between 0 and 2"},
    {"GatherV2 | float32[2]{1 2} ; int32[1,2]{0 2} ; int32[]{0}", "indices[0,1] = 2 is not in [0, 2)"},
    {"GatherV2 | float32[2]{1 2} ; int32[]{-1} ; int32[]{0}", "indices = -1 is not in [0, 2)"},
    {"GatherV2 batch_dims=int:1 | float32[2,1]{1 2} ; int32[1,1]{0} ; int32[]{1}",
     "params.shape[0]: 2 should be equal to indices.shape[0]: 1"},
    {"GatherNd | float32[2,2]{1 2 3 4} ; int32[2,2]{0 1 1 2}", "indices[1] = [1, 2] does not index into shape [2,2]"},
    {"ScatterNd | int32[1,1]{4} ; float32[1]{1} ; int32[1]{4}", "does not index into shape [4]"},
    {"ScatterNd | int32[2,1]{1 2} ; float32[1]{1} ; int32[1]{4}", "updates must have shape [2]"},
    {"Range | int32[]{0} ; int32[]{3} ; int32[]{0}", "range requires delta != 0"},
    {"Range | int32[]{3} ; int32[]{0} ; int32[]{1}", "range requires start <= limit when delta > 0: 3/0"},
    {"LinSpace | float32[]{0} ; float32[]{1} ; int32[]{0}", "requires num > 0: 0"},
    {"OneHot | int32[1]{0} ; int32[]{-1} ; float32[]{1} ; float32[]{0}", "depth must be non-negative, got: -1"},
    {"CheckNumerics message=string:here | float32[2]{1 nan}", "here : Tensor had NaN values"},
    {"CheckNumericsV2 message=string:here | float32[2]{-inf 1}", "here : Tensor had -Inf values"},
    {"BroadcastTo | float32[2]{1 2} ; int32[1]{3}", "[2] cannot be broadcast to [3]"},
    {"BroadcastGradientArgs | int32[1]{2} ; int32[1]{3}", "incompatible shapes: [2] vs. [3]"},
    {"ReverseV2 | float32[1,2]{1 2} ; int32[2]{0 -2}", "axis 0 specified more than once"},
    {"Bitcast type=type:float64 | float32[3]{1 2 3}", "the last dimension is 3, not 2"},
    {"DynamicPartition num_partitions=int:2 | float32[1]{1} ; int32[1]{2}", "partitions[0] = 2 is not in [0, 2)"},
    {"DynamicStitch <1,1> | int32[1]{-1} ; float32[1]{1}", "which is negative"},
    {"Placeholder dtype=type:float32 |", "you must feed a value for placeholder tensor"},
    {"SpaceToBatchND | float32[1,3]{1 2 3} ; int32[1]{2} ; int32[1,2]{0 0}",
     "padded_shape[0]=3 is not divisible by block_shape[0]=2"},
    {"DepthToSpace block_size=int:2 | float32[1,1,1,3]{1 2 3}", "should be divisible by: 4"},
};

BOOST_AUTO_TEST_CASE(errors_say_what_is_wrong) {
  int number = 0;
  for (const ErrorCase& e : kErrors) {
    const Case c = ParseCase(e.text, ++number);
    const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes);
    BOOST_CHECK_MESSAGE(!got.ok(), e.text << ": no error");
    if (got.ok()) continue;
    const std::string message(got.status().message());
    BOOST_CHECK_MESSAGE(got.status().code() == absl::StatusCode::kInvalidArgument, e.text << ": " << message);
    BOOST_CHECK_MESSAGE(message.find(e.sentence) != std::string::npos, e.text << ": " << message);
  }
}

// A bad tuple may also be skipped.
BOOST_AUTO_TEST_CASE(bad_tuples_can_be_ignored) {
  const AttrMap ignore = {{"bad_indices_policy", "IGNORE"}};
  auto got = EvaluateOp("GatherNd", {Tensor::Vector<float>({1, 2}), Tensor::Of<int32_t>({1, 7}, {2, 1})}, ignore);
  BOOST_REQUIRE(got.ok());
  BOOST_CHECK_EQUAL(Difference((*got)[0], Tensor::Vector<float>({2, 0})), "");
  got = EvaluateOp("ScatterNd",
                   {Tensor::Of<int32_t>({1, 7}, {2, 1}), Tensor::Vector<float>({1, 2}), Tensor::Vector<int32_t>({2})},
                   ignore);
  BOOST_REQUIRE(got.ok());
  BOOST_CHECK_EQUAL(Difference((*got)[0], Tensor::Vector<float>({0, 1})), "");
}

}  // namespace
}  // namespace troupe::test
