// Gradients of image ops against finite differences, and their errors. Values are compared in
// tests/ops.
#include <limits>

#include "tests/autodiff/numeric.h"
#include "tests/ops/run_op.h"

namespace troupe::testing {
namespace image_test {

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

// The gradient of a linear function of an image, whose output is float32: <y, w> = <x, dy/dx w> is
// exact enough.
template <class F>
void CheckLinear(const TensorShape& shape, F f) {
  const Scope s = Scope::NewRootScope();
  const Tensor value = Random(DType::kFloat, shape, -1, 1);
  const Output x = Const(s, value), y = f(s, x);
  const Tensor probe = RunGraph(*s.graph(), {}, {y.name()})[0];
  const Tensor weights = Random(DType::kFloat, probe.shape(), -1, 1, 3);
  const Output grad = Gradients(s, {y}, {x}, {Const(s, weights)})[0];
  const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {y.name(), grad.name()});
  const auto product = [](const Tensor& a, const Tensor& b) {
    double sum = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i)
      sum += static_cast<double>(a.data<float>()[i]) * static_cast<double>(b.data<float>()[i]);
    return sum;
  };
  BOOST_TEST(got[1].SameShape(value));
  BOOST_CHECK_SMALL(product(got[0], weights) - product(got[1], value), 1e-4);
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
      for (const char* op : {"ResizeBilinear", "ResizeBicubic"}) {
        CheckLinear({2, 3, 4, 2}, [&](const Scope& s, const Output& x) { return Op(s, op, {x, Const(s, size)}, way); });
      }
    }
  }
}

// Inside, upside down, over an edge, a point; none of them meets a pixel's middle, where the slope
// jumps.
const float kCorners[] = {0.11f,  0.23f, 0.72f, 0.91f, 0.83f, 0.71f, 0.26f, 0.14f,
                          -0.31f, 0.12f, 0.67f, 1.41f, 0.33f, 0.44f, 0.33f, 0.44f};

BOOST_AUTO_TEST_CASE(gradients_of_crops) {
  Tensor corners(DType::kFloat, TensorShape({4, 4}));
  std::copy(std::begin(kCorners), std::end(kCorners), corners.data<float>());
  const Tensor images = Tensor::Vector<int32_t>({0, 1, 1, 0});
  for (const auto& size : {Tensor::Vector<int32_t>({3, 4}), Tensor::Vector<int32_t>({1, 2})}) {
    for (const char* method : {"bilinear", "nearest"}) {
      CheckLinear({2, 5, 4, 2}, [&](const Scope& s, const Output& x) {
        return Op(s, "CropAndResize", {x, Const(s, corners), Const(s, images), Const(s, size)}, {{"method", method}});
      });
    }
    // Of the boxes: against the differences of the sum of the crops' squares.
    const Tensor image = Random(DType::kFloat, {2, 5, 4, 2}, -1, 1);
    const auto loss = [&](const Tensor& boxes) {
      const Tensor crops = test::Run("CropAndResize", {image, boxes, images, size});
      double sum = 0;
      for (const float v : crops.flat<float>()) sum += 0.5 * v * v;
      return sum;
    };
    const Scope s = Scope::NewRootScope();
    const Output boxes = Const(s, corners),
                 crops = Op(s, "CropAndResize", {Const(s, image), boxes, Const(s, images), Const(s, size)});
    const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {Gradients(s, {crops}, {boxes}, {crops})[0].name()});
    for (int i = 0; i < 16; ++i) {
      Tensor up = corners.Clone(), down = corners.Clone();
      up.data<float>()[i] += 1e-3f;
      down.data<float>()[i] -= 1e-3f;
      const double step = static_cast<double>(up.data<float>()[i]) - static_cast<double>(down.data<float>()[i]);
      BOOST_TEST_CONTEXT("corner " << i)
      BOOST_CHECK_SMALL(got[0].data<float>()[i] - (loss(up) - loss(down)) / step, 5e-3);
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

BOOST_AUTO_TEST_CASE(inputs_and_attrs_that_do_not_fit_are_refused) {
  const Tensor image(DType::kFloat, TensorShape({1, 2, 2, 1})), flat(DType::kFloat, TensorShape({2, 2, 1}));
  const auto size = [](std::initializer_list<int32_t> v) { return Tensor::Vector<int32_t>(v); };
  const auto check = [](std::string_view op, std::vector<Tensor> in, const std::string& sentence, AttrMap attrs = {}) {
    const std::string error = ErrorOf(op, std::move(in), std::move(attrs));
    BOOST_CHECK_MESSAGE(test::Contains(error, sentence), op << ": " << error);
  };
  for (const char* op : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad", "ResizeBicubic"}) {
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
  check("ResizeBicubicGrad", {image, Tensor(DType::kFloat, TensorShape({1, 2, 2, 3}))}, "equal batches and channels");
  check("ResizeArea", {image, size({0, 2})}, "output dimensions must be positive");
  const Tensor box(DType::kFloat, TensorShape({1, 4}));
  check("CropAndResize", {flat, box, size({0}), size({2, 2})}, "must be 4-dimensional");
  check("CropAndResize", {image, Tensor(DType::kFloat, TensorShape({1, 3})), size({0}), size({2, 2})},
        "boxes must be 2-D with 4 columns, got shape [1,3]");
  check("CropAndResize", {image, box, size({0, 0}), size({2, 2})}, "box_index has incompatible shape: [2]");
  check("CropAndResize", {image, box, size({1}), size({2, 2})}, "box_index has values outside [0, batch_size)");
  check("CropAndResize", {image, box, size({-1}), size({2, 2})}, "box_index has values outside [0, batch_size)");
  check("CropAndResize", {image, box, size({0}), size({2})}, "crop_size must be a vector of two elements");
  check("CropAndResize", {image, box, size({0}), size({0, 2})}, "crop dimensions must be positive, got 0 x 2");
  check("CropAndResize", {image, box, size({0}), size({2147483647, 2147483647})}, "no memory");
  check("CropAndResizeGradImage", {image, box, size({0}), size({1, 2, 2})},
        "image_size must be a vector of four elements", {{"T", DType::kFloat}});
  check("CropAndResizeGradImage", {image, box, size({0}), size({1, 0, 2, 1})}, "image dimensions must be positive",
        {{"T", DType::kFloat}});
  check("CropAndResizeGradImage", {image, box, size({0}), size({1, 2, 2, 3})},
        "are not those of 1 boxes of images [1,2,2,3]", {{"T", DType::kFloat}});
  check("CropAndResizeGradImage", {image, box, size({7}), size({1, 2, 2, 1})}, "box_index has values outside",
        {{"T", DType::kFloat}});
  check("CropAndResizeGradBoxes", {image, Tensor(DType::kFloat, TensorShape({1, 2, 2, 3})), box, size({0})},
        "are not those of 1 boxes of images [1,2,2,3]");
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
  check("NonMaxSuppressionV5", {four, two, most(1), half, half, Tensor::Scalar(-1.f)},
        "soft_nms_sigma must be non-negative, not -1");
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

// No images have no pixels, however many rows they are said to have: nothing is computed for the
// rows.
BOOST_AUTO_TEST_CASE(no_images_take_no_time_and_no_memory) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const Tensor none(DType::kFloat, {0, 2, 3, 1}), sizes = Tensor::Vector<int32_t>({kMost, kMost});
  for (const char* op : {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"})
    BOOST_TEST(test::Run(op, {none, sizes}).HasShape({0, kMost, kMost, 1}), op);
  const Tensor tall(DType::kFloat, {0, kMost, kMost, 1});
  BOOST_TEST(test::Run("ResizeNearestNeighborGrad", {tall, Tensor::Vector<int32_t>({2, 3})}).HasShape({0, 2, 3, 1}));
  BOOST_TEST(test::Run("ResizeBilinearGrad", {tall, none}).HasShape({0, 2, 3, 1}));
  BOOST_TEST(test::Run("ResizeBicubicGrad", {tall, none}).HasShape({0, 2, 3, 1}));
  const Tensor image = Random(DType::kFloat, {1, 2, 3, 1}, -1, 1), boxes(DType::kFloat, {0, 4}),
               index(DType::kInt32, {0});
  BOOST_TEST(test::Run("CropAndResize", {image, boxes, index, sizes}).HasShape({0, kMost, kMost, 1}));
  const Tensor cut = test::Run("CropAndResizeGradImage", {tall, boxes, index, Tensor::Vector<int32_t>({1, 2, 3, 1})},
                               {{"T", DType::kFloat}});
  BOOST_TEST(cut.HasShape({1, 2, 3, 1}));
  BOOST_TEST(cut.data<float>()[5] == 0);
  BOOST_TEST(test::Run("CropAndResizeGradBoxes", {tall, image, boxes, index}).HasShape({0, 4}));
}

BOOST_AUTO_TEST_CASE(threads_do_not_change_results) {
  const Tensor image = Random(DType::kFloat, {3, 40, 50, 4}, -1, 1);
  for (const char* op :
       {"ResizeBilinear", "ResizeNearestNeighbor", "ResizeNearestNeighborGrad", "ResizeBicubic", "ResizeArea"}) {
    const Tensor once = test::Run(op, {image, Tensor::Vector<int32_t>({70, 30})}),
                 split = test::Run(op, {image, Tensor::Vector<int32_t>({70, 30})}, {}, {}, 4);
    BOOST_CHECK(std::memcmp(once.raw(), split.raw(), once.bytes()) == 0);
  }
}

}  // namespace image_test
}  // namespace troupe::testing
