// The builders of troupe/image.h against plain loops.
#include "troupe/image.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "troupe/troupe.h"

namespace troupe {
namespace image_test {

Tensor Picture(const TensorShape& shape) {
  Tensor t(DType::kFloat, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.data<float>()[i] = static_cast<float>(i % 17) / 16;
  return t;
}

// f of `image` as a placeholder, whose height and width are not known.
template <class F>
std::vector<Tensor> Run(const Tensor& image, const F& f, int steps = 1) {
  const Scope root = Scope::NewRootScope();
  PartialTensorShape shape(image.shape());
  for (int d = image.rank() - 3; d < image.rank() - 1; ++d) shape.set_dim(d, -1);
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = shape});
  const Output y = f(root, x);
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> all;
  for (int i = 0; i < steps; ++i) {
    std::vector<Tensor> out;
    const absl::Status s = session->Run({{x, image}}, {y}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    all.push_back(out[0]);
  }
  return all;
}

float At(const Tensor& t, int64_t b, int64_t y, int64_t x, int64_t c) {
  const int r = t.rank();
  return t.data<float>()[((b * t.dim(r - 3) + y) * t.dim(r - 2) + x) * t.dim(r - 1) + c];
}

// want(b, y, x, c) for every element of `got`, of this shape.
template <class F>
void Check(const Tensor& got, const TensorShape& shape, const F& want) {
  BOOST_REQUIRE(got.shape() == shape);
  const int r = shape.rank();
  for (int64_t b = 0; b < (r == 4 ? shape.dim(0) : 1); ++b) {
    for (int64_t y = 0; y < shape.dim(r - 3); ++y) {
      for (int64_t x = 0; x < shape.dim(r - 2); ++x) {
        for (int64_t c = 0; c < shape.dim(r - 1); ++c)
          BOOST_TEST(std::abs(At(got, b, y, x, c) - want(b, y, x, c)) < 1e-5f);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(parts_and_margins) {
  for (const TensorShape& shape : {TensorShape({5, 8, 3}), TensorShape({2, 5, 8, 3})}) {
    const Tensor t = Picture(shape);
    TensorShape part = shape, middle = shape, wide = shape;
    const int h = shape.rank() - 3;
    part.set_dim(h, 2), part.set_dim(h + 1, 4);
    middle.set_dim(h, 3), middle.set_dim(h + 1, 4);
    wide.set_dim(h, 9), wide.set_dim(h + 1, 10);
    Check(Run(t, [](const Scope& s, const Output& x) { return image::CropToBoundingBox(s, x, 1, 3, 2, 4); })[0], part,
          [&](int64_t b, int64_t y, int64_t x, int64_t c) { return At(t, b, y + 1, x + 3, c); });
    Check(Run(t, [](const Scope& s, const Output& x) { return image::CentralCrop(s, x, 0.5); })[0], middle,
          [&](int64_t b, int64_t y, int64_t x, int64_t c) { return At(t, b, y + 1, x + 2, c); });
    Check(Run(t, [](const Scope& s, const Output& x) { return image::PadToBoundingBox(s, x, 3, 1, 9, 10); })[0], wide,
          [&](int64_t b, int64_t y, int64_t x, int64_t c) {
            return y >= 3 && y < 8 && x >= 1 && x < 9 ? At(t, b, y - 3, x - 1, c) : 0.0f;
          });
  }
}

BOOST_AUTO_TEST_CASE(mirrors_and_colours) {
  const TensorShape shape({2, 3, 4, 3});
  const Tensor t = Picture(shape);
  Check(Run(t, [](const Scope& s, const Output& x) { return image::FlipLeftRight(s, x); })[0], shape,
        [&](int64_t b, int64_t y, int64_t x, int64_t c) { return At(t, b, y, 3 - x, c); });
  Check(Run(t, [](const Scope& s, const Output& x) { return image::FlipUpDown(s, x); })[0], shape,
        [&](int64_t b, int64_t y, int64_t x, int64_t c) { return At(t, b, 2 - y, x, c); });
  const auto grey = [&](int64_t b, int64_t y, int64_t x, int64_t) {
    return 0.2989f * At(t, b, y, x, 0) + 0.5870f * At(t, b, y, x, 1) + 0.1140f * At(t, b, y, x, 2);
  };
  const Tensor one = Run(t, [](const Scope& s, const Output& x) { return image::RgbToGrayscale(s, x); })[0];
  Check(one, TensorShape({2, 3, 4, 1}), grey);
  Check(Run(one, [](const Scope& s, const Output& x) { return image::GrayscaleToRgb(s, x); })[0], shape, grey);
  double mean[2] = {}, squares[2] = {};
  for (int64_t i = 0; i < 72; ++i) mean[i / 36] += static_cast<double>(t.data<float>()[i]) / 36;
  for (int64_t i = 0; i < 72; ++i) {
    const double d = static_cast<double>(t.data<float>()[i]) - mean[i / 36];
    squares[i / 36] += d * d / 36;
  }
  Check(Run(t, [](const Scope& s, const Output& x) { return image::PerImageStandardization(s, x); })[0], shape,
        [&](int64_t b, int64_t y, int64_t x, int64_t c) {
          return static_cast<float>((static_cast<double>(At(t, b, y, x, c)) - mean[b]) / std::sqrt(squares[b]));
        });
}

BOOST_AUTO_TEST_CASE(random_forms_follow_their_seed) {
  const Tensor t = Picture(TensorShape({3, 4, 3}));
  using Form = Output (*)(const Scope&, const Output&, int64_t);
  const Form forms[] = {
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomFlipLeftRight(s, x, seed); },
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomFlipUpDown(s, x, seed); },
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomBrightness(s, x, 0.3, seed); },
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomContrast(s, x, 0.5, 2, seed); },
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomSaturation(s, x, 0.5, 2, seed); },
      [](const Scope& s, const Output& x, int64_t seed) { return image::RandomHue(s, x, 0.4, seed); },
  };
  for (const Form form : forms) {
    const auto texts = [&](int64_t seed) {
      std::vector<std::string> all;
      for (const Tensor& y : Run(
               t, [&](const Scope&s, const Output&x) { return form(s, x, seed); }, 20)) {
        BOOST_TEST(y.SameShape(t));
        all.push_back(y.DebugString(100));
      }
      return all;
    };
    const std::vector<std::string> first = texts(5);
    BOOST_TEST(texts(5) == first, boost::test_tools::per_element());
    BOOST_TEST((texts(6) != first));
    BOOST_TEST((std::set<std::string>(first.begin(), first.end()).size() > 1));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_image_is_refused) {
  const Scope root = Scope::NewRootScope();
  image::CentralCrop(root, Const(root, 1.0f), 0.5);
  BOOST_TEST(absl::IsInvalidArgument(root.status()), root.status());
  const Scope other = Scope::NewRootScope();
  image::CentralCrop(other, Const(other, Picture(TensorShape({2, 2, 1}))), 1.5);
  BOOST_TEST(absl::IsInvalidArgument(other.status()), other.status());
}

}  // namespace image_test
}  // namespace troupe
