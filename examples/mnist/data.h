// Handwritten digits: images [n, 28, 28, 1] in [0, 1] and one-hot labels [n, 10], both float32.
#ifndef TROUPE_EXAMPLES_MNIST_DATA_H_
#define TROUPE_EXAMPLES_MNIST_DATA_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "troupe/checkpoint.h"
#include "troupe/troupe.h"

namespace mnist {

inline constexpr int kSide = 28;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kClasses = 10;

// Kept as bytes, a quarter of what the model reads: a batch becomes floats when it is taken.
struct DataSet {
  std::vector<uint8_t> images;  // n * kPixels; a pixel's value is its byte times `scale`
  std::vector<uint8_t> labels;  // n
  float scale = 1.0f / 255.0f;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  troupe::Tensor Images(int64_t begin, int64_t end) const;
  troupe::Tensor Labels(int64_t begin, int64_t end) const;
  // One image (kPixels floats) and one label (kClasses floats).
  void CopyImage(int64_t i, float* to) const;
  void CopyLabel(int64_t i, float* to) const;
  // Asks memory for image i, which is copied soon.
  void Prefetch(int64_t i) const;
};

struct Digits {
  DataSet train, test;
  std::string source;  // for the user
};

// The four IDX files of MNIST ("train-images-idx3-ubyte", ...), plain or with ".gz". NOT_FOUND /
// INVALID_ARGUMENT name the file.
absl::StatusOr<Digits> ReadIdx(const std::string& directory);
// The 8x8 digits that come with this example, each pixel three times as wide and high, centred; the
// last 300 are the test set.
absl::StatusOr<Digits> ReadSmallDigits(const std::string& file);

// Batches in the order of the file during the first epoch, reshuffled at the start of every later
// one; what is left of an epoch when it has fewer images than a batch is dropped.
class Batches {
 public:
  Batches(const DataSet* data, uint64_t seed);
  void Next(int64_t size, troupe::Tensor* images, troupe::Tensor* labels);
  // What a checkpoint holds of it, by name, and back: the batches that follow are the same.
  // INVALID_ARGUMENT when the checkpoint was written with another number of images.
  std::vector<std::pair<std::string, troupe::Tensor>> Position() const;
  absl::Status SetPosition(const troupe::CheckpointReader& checkpoint);

 private:
  const DataSet* data_;
  std::mt19937_64 random_;
  std::vector<int64_t> order_;
  int64_t at_ = 0;
};

}  // namespace mnist

#endif  // TROUPE_EXAMPLES_MNIST_DATA_H_
