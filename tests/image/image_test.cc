// Gradients of image ops against finite differences, and their errors. Values are compared in tests/ops.
#include "autodiff/numeric.h"
#include "math/math_case.h"

namespace troupe::testing {
namespace {

using test::ErrorOf;
using test::Random;

// The gradient of y = f(x), of an x that is fed float64s.
template <class F>
void Check(const TensorShape& shape, F f, double tolerance = 1e-5) {
  const Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", shape);
  const Output y = f(s, x);
  CheckGradients(s, y, {x}, {{"x", Random(DType::kDouble, shape, -1, 1)}}, Gradients(s, {y}, {x}), tolerance);
}

const AttrMap kWays[] = {{}, {{"align_corners", true}}, {{"half_pixel_centers", true}}};

BOOST_AUTO_TEST_CASE(gradients_of_resizing) {
  for (const AttrMap& way : kWays) {
    for (const auto& size :
         {Tensor::Vector<int32_t>({5, 3}), Tensor::Vector<int32_t>({2, 7}), Tensor::Vector<int32_t>({1, 1})}) {
      Check({2, 3, 4, 2}, [&](const Scope& s, const Output& x) {
        const Output y = Op(s, "ResizeNearestNeighbor", {x, Const(s, size)}, way);
        return SumAll(s, y * y * y);
      });
      // Its output is float32: the differences of a linear function, taken of its gradient's sum with weights, are exact enough.
      const Scope s = Scope::NewRootScope();
      const Tensor value = Random(DType::kFloat, {2, 3, 4, 2}, -1, 1);
      const Output x = Const(s, value), y = Op(s, "ResizeBilinear", {x, Const(s, size)}, way);
      const int64_t pixels = 2 * size.data<int32_t>()[0] * size.data<int32_t>()[1] * 2;
      const Tensor weights = Random(DType::kFloat, {2, size.data<int32_t>()[0], size.data<int32_t>()[1], 2}, -1, 1, 3);
      const Output grad = Gradients(s, {y}, {x}, {Const(s, weights)})[0];
      const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {y.name(), grad.name()});
      double out = 0, in = 0;
      for (int64_t i = 0; i < pixels; ++i)
        out += static_cast<double>(got[0].data<float>()[i]) * weights.data<float>()[i];
      for (int64_t i = 0; i < value.num_elements(); ++i)
        in += static_cast<double>(got[1].data<float>()[i]) * value.data<float>()[i];
      BOOST_CHECK_CLOSE_FRACTION(out, in, 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradient_of_patches) {
  for (const char* padding : {"SAME", "VALID"}) {
    for (const int64_t rate : {1, 2}) {
      const AttrMap attrs = {{"ksizes", std::vector<int64_t>{1, 2, 3, 1}},
                             {"strides", std::vector<int64_t>{1, 2, 1, 1}},
                             {"rates", std::vector<int64_t>{1, rate, 1, 1}},
                             {"padding", padding}};
      Check({2, 5, 4, 2}, [&](const Scope& s, const Output& x) {
        const Output y = Op(s, "ExtractImagePatches", {x}, attrs);
        return SumAll(s, y * y * y);
      });
    }
  }
}

// LRN has no kernel for float64: its gradient against differences of a reference.
BOOST_AUTO_TEST_CASE(gradient_of_lrn) {
  const int64_t depth = 6, radius = 2;
  const double bias = 0.7, alpha = 0.3, beta = 0.75;
  const Tensor x = Random(DType::kFloat, {2, 1, 2, depth}, -2, 2),
               weights = Random(DType::kFloat, {2, 1, 2, depth}, -1, 1, 5);
  const auto loss = [&](const std::vector<double>& v) {
    double sum = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      double squares = 0;
      for (int64_t k = std::max<int64_t>(0, i % depth - radius); k < std::min(depth, i % depth + radius + 1); ++k) {
        squares += v[i / depth * depth + k] * v[i / depth * depth + k];
      }
      sum += weights.data<float>()[i] * v[i] * std::pow(bias + alpha * squares, -beta);
    }
    return sum;
  };
  const Scope s = Scope::NewRootScope();
  const Output in = Const(s, x);
  const Output y = Op(s, "LRN", {in}, {{"depth_radius", radius}, {"bias", bias}, {"alpha", alpha}, {"beta", beta}});
  const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {Gradients(s, {y}, {in}, {Const(s, weights)})[0].name()});
  std::vector<double> v(x.data<float>(), x.data<float>() + x.num_elements());
  for (size_t i = 0; i < v.size(); ++i) {
    std::vector<double> up = v, down = v;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    BOOST_CHECK_SMALL(got[0].data<float>()[i] - (loss(up) - loss(down)) / 2e-5, 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(errors) {
  const Tensor image(DType::kFloat, TensorShape({1, 2, 2, 1})), flat(DType::kFloat, TensorShape({2, 2, 1}));
  const auto size = [](std::initializer_list<int32_t> v) { return Tensor::Vector<int32_t>(v); };
  const auto check = [](std::string_view op, std::vector<Tensor> in, const std::string& sentence, AttrMap attrs = {}) {
    const std::string error = ErrorOf(op, std::move(in), std::move(attrs));
    BOOST_CHECK_MESSAGE(test::Contains(error, sentence), op << ": " << error);
  };
  for (const char* op : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad"}) {
    check(op, {flat, size({2, 2})}, "must be 4-dimensional, got shape [2,2,1]");
    check(op, {image, size({2})}, "size must be a vector of two elements, got shape [1]");
    check(op, {image, size({0, 2})}, "output dimensions must be positive");
    check(op, {image, size({2, -1})}, "must be positive");
    check(op, {Tensor(DType::kFloat, TensorShape({1, 0, 2, 1})), size({2, 2})}, "input image must be of non-zero size");
    check(op, {image, size({2, 2})}, "align_corners must be False",
          {{"align_corners", true}, {"half_pixel_centers", true}});
    check(op, {Tensor(DType::kFloat, TensorShape({1, 1, 1, 1 << 20})), size({2147483647, 2147483647})},
          "the number of elements does not fit into 64 bits");
  }
  check("ResizeBilinearGrad", {image, Tensor(DType::kFloat, TensorShape({2, 2, 2, 1}))}, "equal batches and channels");
  check("LRN", {flat}, "must be 4-dimensional, got shape [2,2,1]");
  check("LRN", {image}, "depth_radius = -1", {{"depth_radius", -1}});
  check("LRNGrad", {image, image, Tensor(DType::kFloat, TensorShape({1, 2, 1, 1}))}, "[1,2,1,1]");
  const Tensor four(DType::kFloat, TensorShape({2, 4})), two = Tensor::Vector<float>({1, 2}),
                                                         half = Tensor::Scalar(0.5f);
  const auto most = [](int32_t n) { return Tensor::Scalar<int32_t>(n); };
  check("NonMaxSuppression", {Tensor(DType::kFloat, TensorShape({2, 3})), two, most(1)}, "4");
  check("NonMaxSuppression", {four, Tensor::Vector<float>({1}), most(1)},
        "scores has incompatible shape: [1] for boxes [2,4]");
  check("NonMaxSuppression", {four, two, most(-1)}, "output size must be non-negative, not -1");
  check("NonMaxSuppression", {four, two, most(1)}, "iou_threshold must be in [0, 1], not 1.5",
        {{"iou_threshold", 1.5}});
  check("NonMaxSuppressionV2", {four, two, most(1), Tensor::Scalar(-1.f)}, "iou_threshold must be in [0, 1], not -1");
  check("NonMaxSuppressionV3", {four, two, most(1), half, two}, "input 4 must be 0-D, got shape [2]");
  check("NonMaxSuppressionV4", {four, two, Tensor::Vector<int32_t>({1}), half, half},
        "max_output_size must be 0-D, got shape [1]");
  const auto patches = [](std::vector<int64_t> ksizes, std::vector<int64_t> rates = {1, 1, 1, 1}) {
    return AttrMap{{"ksizes", std::move(ksizes)},
                   {"strides", std::vector<int64_t>{1, 1, 1, 1}},
                   {"rates", std::move(rates)},
                   {"padding", "VALID"}};
  };
  check("ExtractImagePatches", {flat}, "must be 4-dimensional, got shape [2,2,1]", patches({1, 1, 1, 1}));
  check("ExtractImagePatches", {image}, "ksizes must be positive", patches({1, 0, 1, 1}));
  check("ExtractImagePatches", {image}, "Only support rates across space", patches({1, 1, 1, 1}, {2, 1, 1, 1}));
  check("ExtractImagePatches", {image}, "ksizes must have 4 entries, not 5", patches({1, 1, 1, 1, 1}));
  check("ExtractImagePatches", {image}, "would be negative", patches({1, 5, 1, 1}));
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_results) {
  const Tensor image = Random(DType::kFloat, {3, 40, 50, 4}, -1, 1);
  for (const char* op : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad"}) {
    const Tensor once = test::Run(op, {image, Tensor::Vector<int32_t>({70, 30})}),
                 split = test::Run(op, {image, Tensor::Vector<int32_t>({70, 30})}, {}, {}, 4);
    BOOST_CHECK(std::memcmp(once.raw(), split.raw(), once.bytes()) == 0);
  }
}

}  // namespace
}  // namespace troupe::testing
