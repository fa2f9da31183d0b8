// Any bytes as a file of a picture, as an Example, or as what other ops decode: each must be read,
// or refused with a status. The first byte says which op reads them. Memory is what the bytes can
// hold, so that a header that claims more is refused before it is allocated.
#include <cstdio>
#include <cstdlib>

#include "troupe/evaluate.h"

namespace troupe::fuzz {
namespace {

void Run(const char* op, std::vector<Tensor> inputs, AttrMap attrs = {}, std::vector<int> lists = {}) {
  const auto got = EvaluateOp(op, std::move(inputs), std::move(attrs), std::move(lists));
  if (got.ok() || got.status().message().find("threw") == std::string::npos) return;
  std::fprintf(stderr, "%s\n", got.status().ToString().c_str());
  std::abort();
}

const std::vector<PartialTensorShape>& DenseShapes() {
  static const auto* shapes = new std::vector<PartialTensorShape>{PartialTensorShape{2}, PartialTensorShape{-1, 2}};
  return *shapes;
}
Tensor Texts(std::initializer_list<std::string> texts) { return Tensor::Vector<std::string>(texts); }

// Keys of one letter, so that they are soon found: a and b are dense, c and d sparse, e ragged.
void RunExample(const Tensor& bytes) {
  const Tensor floats(DType::kFloat, {0}), number = Tensor::Vector<int64_t>({7});
  Run("ParseExampleV2", {bytes, Texts({}), Texts({"c", "d"}), Texts({"a", "b"}), Texts({"e"}), floats, number},
      {{"num_sparse", int64_t{2}},
       {"sparse_types", std::vector<DType>{DType::kInt64, DType::kString}},
       {"ragged_value_types", std::vector<DType>{DType::kFloat}},
       {"ragged_split_types", std::vector<DType>{DType::kInt32}},
       {"dense_shapes", DenseShapes()}},
      {2});
}
void RunSequence(const Tensor& bytes) {
  Run("ParseSequenceExampleV2",
      {bytes, Texts({}), Texts({"c"}), Texts({"a"}), Texts({"e"}), Texts({"d"}), Texts({"b"}), Texts({"f"}),
       Tensor::Vector<bool>({true}), Tensor::Vector<float>({1, 2})},
      {{"Ncontext_sparse", int64_t{1}},
       {"context_sparse_types", std::vector<DType>{DType::kInt64}},
       {"context_ragged_value_types", std::vector<DType>{DType::kFloat}},
       {"context_ragged_split_types", std::vector<DType>{DType::kInt64}},
       {"context_dense_shapes", std::vector<PartialTensorShape>{PartialTensorShape{2}}},
       {"Nfeature_list_sparse", int64_t{1}},
       {"Nfeature_list_dense", int64_t{1}},
       {"feature_list_sparse_types", std::vector<DType>{DType::kString}},
       {"feature_list_dense_types", std::vector<DType>{DType::kInt64}},
       {"feature_list_ragged_value_types", std::vector<DType>{DType::kInt64}},
       {"feature_list_ragged_split_types", std::vector<DType>{DType::kInt32}},
       {"feature_list_dense_shapes", std::vector<PartialTensorShape>{PartialTensorShape{1}}}},
      {1});
}

}  // namespace
}  // namespace troupe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace troupe;
  using namespace troupe::fuzz;
  if (size == 0) return 0;
  const Tensor bytes = Tensor::Scalar(std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  switch (data[0] % 12) {
    case 0:
      Run("DecodePng", {bytes}, {{"channels", int64_t{data[0] / 12 % 5}}});
      break;
    case 1:
      Run("DecodePng", {bytes}, {{"channels", int64_t{data[0] / 12 % 5}}, {"dtype", DType::kUint16}});
      break;
    case 2:
      Run("DecodeJpeg", {bytes}, {{"channels", int64_t{data[0] / 12 % 2 * 3}}});
      Run("DecodeAndCropJpeg", {bytes, Tensor::Vector<int32_t>({data[0] / 24 % 4, static_cast<int>(size % 5), 2, 3})});
      break;
    case 3:
      Run("DecodeJpeg", {bytes},
          {{"try_recover_truncated", true}, {"acceptable_fraction", 0.5f}, {"ratio", int64_t{2}}});
      break;
    case 4:
      Run("DecodeGif", {bytes});
      break;
    case 5:
      Run("DecodeBmp", {bytes}, {{"channels", int64_t{data[0] / 12 % 5}}});
      break;
    case 6:
      Run("DecodeImage", {bytes}, {{"dtype", DType::kFloat}});
      break;
    case 7:
      RunExample(bytes);
      break;
    case 8:
      RunExample(Tensor::Vector<std::string>({bytes.scalar<std::string>(), ""}));
      break;
    case 9:
      RunSequence(bytes);
      break;
    case 10:
      RunSequence(Tensor::Vector<std::string>({"", bytes.scalar<std::string>()}));
      break;
    default:
      Run("ParseTensor", {bytes}, {{"out_type", DType::kFloat}});
      Run("DecodeCSV", {bytes, Tensor::Scalar<int32_t>(0), Tensor::Scalar("")}, {}, {2});
      Run("DecodeCompressed", {bytes}, {{"compression_type", std::string("ZLIB")}});
  }
  return 0;
}
