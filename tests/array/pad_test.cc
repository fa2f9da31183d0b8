// Pad and PadV2 beside a loop over all elements: rows of every length, few and many, at any place.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>

#include "troupe/evaluate.h"
#include "troupe/strings.h"

namespace troupe {
namespace pad_test {

Tensor Counted(DType dtype, const TensorShape& shape) {
  Tensor t(dtype, shape);
  auto* bytes = static_cast<unsigned char*>(t.raw());
  for (size_t i = 0; i < t.bytes(); ++i) bytes[i] = static_cast<unsigned char>(i * 7 + i / 251 + 1);
  return t;
}

// `value` has the bytes of one element.
Tensor Expected(const Tensor& in, const std::vector<int64_t>& paddings, const std::string& value) {
  std::vector<int64_t> dims;
  for (int i = 0; i < in.rank(); ++i) {
    dims.push_back(paddings[2 * static_cast<size_t>(i)] + in.dim(i) + paddings[2 * static_cast<size_t>(i) + 1]);
  }
  Tensor out(in.dtype(), TensorShape(dims));
  const size_t size = value.size();
  for (int64_t at = 0; at < out.num_elements(); ++at) {
    int64_t rest = at, from = 0, stride = 1;
    bool inside = true;
    for (int i = in.rank() - 1; i >= 0; --i) {
      const int64_t k = rest % out.dim(i) - paddings[2 * static_cast<size_t>(i)];
      rest /= out.dim(i);
      inside = inside && k >= 0 && k < in.dim(i);
      from += k * stride;
      stride *= in.dim(i);
    }
    std::memcpy(static_cast<char*>(out.raw()) + static_cast<size_t>(at) * size,
                inside ? static_cast<const char*>(in.raw()) + static_cast<size_t>(from) * size : value.data(), size);
  }
  return out;
}

BOOST_AUTO_TEST_CASE(rows_of_every_length) {
  const std::vector<std::vector<int64_t>> shapes = {{300},          {20, 64},    {20, 63},       {3, 9, 70, 3},
                                                    {2, 17, 5, 64}, {40, 3},     {1, 30, 30, 3}, {5, 0, 90},
                                                    {0, 100},       {64, 1, 65}, {17, 128}};
  std::mt19937 random(1);
  int long_rows = 0;
  for (const std::vector<int64_t>& dims : shapes) {
    for (int trial = 0; trial < 12; ++trial) {
      const DType dtype = std::array{DType::kFloat, DType::kUint8, DType::kComplex128, DType::kHalf}[random() % 4];
      const Tensor in = Counted(dtype, TensorShape(dims));
      std::vector<int64_t> paddings;
      for (size_t i = 0; i < 2 * dims.size(); ++i) paddings.push_back(random() % 2 == 0 ? 0 : random() % 4);
      Tensor matrix(DType::kInt64, TensorShape({static_cast<int64_t>(dims.size()), 2}));
      std::copy(paddings.begin(), paddings.end(), matrix.data<int64_t>());
      const Tensor value = Counted(dtype, TensorShape());
      const bool with_value = random() % 2 == 0;
      const std::string of_border = with_value ? std::string(static_cast<const char*>(value.raw()), value.bytes())
                                               : std::string(value.bytes(), '\0');
      const Tensor want = Expected(in, paddings, of_border);
      for (const int threads : {1, 3}) {
        EvaluateOptions options;
        options.threads = threads;
        const auto got = with_value ? EvaluateOp("PadV2", {in, matrix, value}, {}, {}, options)
                                    : EvaluateOp("Pad", {in, matrix}, {}, {}, options);
        BOOST_REQUIRE_MESSAGE(got.ok(), got.status().ToString());
        BOOST_REQUIRE((*got)[0].SameShape(want));
        BOOST_TEST((std::memcmp((*got)[0].raw(), want.raw(), want.bytes()) == 0),
                   in.TypeAndShape() << " by " << StrJoin(paddings, " ") << ", " << threads << " threads");
      }
      long_rows += dims.back() * static_cast<int64_t>(SizeOf(dtype)) >= 256 ? 1 : 0;
    }
  }
  BOOST_TEST(long_rows > 30);
}

}  // namespace pad_test
}  // namespace troupe
