#include "records.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "troupe/evaluate.h"
#include "troupe/proto/example.pb.h"
#include "troupe/records.h"

namespace cifar {
namespace {

// Whether the figure of a class covers the point; it lies within [-1, 1] x [-1, 1].
bool Covers(int64_t figure, double u, double v) {
  const double far = std::max(std::abs(u), std::abs(v)), radius = std::hypot(u, v);
  const auto even = [](double x) { return static_cast<int>(std::floor((x + 1) * 2.5)) % 2 == 0; };
  switch (figure) {
    case 0:
      return radius < 1;
    case 1:
      return radius < 1 && radius > 0.6;
    case 2:
      return far < 0.9;
    case 3:
      return far < 0.9 && far > 0.55;
    case 4:
      return std::abs(u) + std::abs(v) < 1;
    case 5:
      return far < 1 && std::min(std::abs(u), std::abs(v)) < 0.3;
    case 6:
      return far < 1 && even(u);
    case 7:
      return far < 1 && even(v);
    case 8:
      return far < 1 && even(u) == even(v);
    default:
      return std::abs(v) < 0.9 && std::abs(u) < (v + 0.9) / 1.8;
  }
}

}  // namespace

absl::Status DrawRecords(const std::string& path, int64_t number, uint64_t seed) {
  using troupe::Tensor;
  TROUPE_ASSIGN_OR_RETURN(const auto writer, troupe::files::RecordWriter::Create(path));
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
  };
  for (int64_t i = 0; i < number; ++i) {
    const int64_t figure = static_cast<int64_t>(random() % kClasses);
    const double size = between(8, 13), x0 = between(12, 20), y0 = between(12, 20);
    double ink[3], ground[3];
    for (int c = 0; c < 3; ++c) {
      ink[c] = between(130, 255);
      ground[c] = between(0, 110);
    }
    Tensor image(troupe::DType::kUint8, {kSide, kSide, 3});
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const bool covered = Covers(figure, (static_cast<double>(x) - x0) / size, (static_cast<double>(y) - y0) / size);
        for (int c = 0; c < 3; ++c) {
          const double value = (covered ? ink[c] : ground[c]) + between(-25, 25);
          image.data<uint8_t>()[(y * kSide + x) * 3 + c] = static_cast<uint8_t>(std::clamp(value, 0.0, 255.0));
        }
      }
    }
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Tensor> png, troupe::EvaluateOp("EncodePng", {image}));
    troupe::proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features[kImage].mutable_bytes_list()->add_value(png[0].scalar<std::string>());
    features[kLabel].mutable_int64_list()->add_value(figure);
    TROUPE_RETURN_IF_ERROR(writer->Write(example.SerializeAsString()));
  }
  return writer->Close();
}

}  // namespace cifar
