#include "data.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <sstream>

namespace mnist {
namespace {

using troupe::InvalidArgument;
using troupe::NotFound;
using troupe::Tensor;
using troupe::TensorShape;

// Names in a checkpoint.
constexpr char kOrder[] = "mnist/batches/order", kAt[] = "mnist/batches/at", kRandom[] = "mnist/batches/random";

// The bytes of a file, unpacked when it is gzipped (zlib reads both).
absl::StatusOr<std::vector<unsigned char>> ReadFile(const std::string& path) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (file == nullptr) return NotFound("cannot open ", path);
  std::vector<unsigned char> bytes;
  constexpr size_t kPiece = 1 << 20, kLimit = size_t{1} << 30;
  for (;;) {
    const size_t at = bytes.size();
    if (at > kLimit) return InvalidArgument(path, " is larger than any file of digits");
    bytes.resize(at + kPiece);
    const int n = gzread(file.get(), bytes.data() + at, kPiece);
    if (n < 0) return InvalidArgument(path, " is damaged");
    bytes.resize(at + static_cast<size_t>(n));
    if (n == 0) return bytes;
  }
}

absl::StatusOr<std::vector<unsigned char>> ReadIdxFile(const std::string& directory, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const std::string path = directory + "/" + name + suffix;
    if (std::filesystem::exists(path)) return ReadFile(path);
  }
  return NotFound("there is no ", name, " (or ", name, ".gz) in ", directory);
}

uint32_t BigEndian(const unsigned char* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

absl::Status ReadSet(const std::string& directory, const std::string& stem, DataSet* set) {
  TROUPE_ASSIGN_OR_RETURN(auto images, ReadIdxFile(directory, stem + "-images-idx3-ubyte"));
  TROUPE_ASSIGN_OR_RETURN(auto labels, ReadIdxFile(directory, stem + "-labels-idx1-ubyte"));
  if (images.size() < 16 || BigEndian(&images[0]) != 2051 || BigEndian(&images[8]) != kSide ||
      BigEndian(&images[12]) != kSide) {
    return InvalidArgument(stem, ": the images are no IDX file of 28x28 bytes");
  }
  const size_t n = BigEndian(&images[4]);
  if (labels.size() < 8 || BigEndian(&labels[0]) != 2049 || BigEndian(&labels[4]) != n) {
    return InvalidArgument(stem, ": the labels are no IDX file of ", n, " bytes");
  }
  if (n == 0 || images.size() != 16 + n * kPixels || labels.size() != 8 + n) {
    return InvalidArgument(stem, ": the files are shorter or longer than their heads say");
  }
  // Without their heads, in place: a second copy would be most of the program's memory.
  images.erase(images.begin(), images.begin() + 16);
  labels.erase(labels.begin(), labels.begin() + 8);
  set->images = std::move(images);
  set->labels = std::move(labels);
  for (const uint8_t label : set->labels) {
    if (label >= kClasses) return InvalidArgument(stem, ": label ", int{label}, " is no digit");
  }
  return absl::OkStatus();
}

}  // namespace

void DataSet::CopyImage(int64_t i, float* to) const {
  // Restricted pointers and a local factor: the compiler may then do 16 pixels at once.
  const uint8_t* __restrict__ from = &images[static_cast<size_t>(i * kPixels)];
  float* __restrict__ out = to;
  const float factor = scale;
  for (int p = 0; p < kPixels; ++p) out[p] = static_cast<float>(from[p]) * factor;
}
void DataSet::CopyLabel(int64_t i, float* to) const {
  std::fill_n(to, kClasses, 0.0f);
  to[labels[static_cast<size_t>(i)]] = 1.0f;
}
void DataSet::Prefetch(int64_t i) const {
  constexpr int kLine = 64;
  const uint8_t* from = &images[static_cast<size_t>(i * kPixels)];
  for (int p = 0; p < kPixels; p += kLine) __builtin_prefetch(from + p);
}
Tensor DataSet::Images(int64_t begin, int64_t end) const {
  Tensor t(troupe::DType::kFloat, TensorShape({end - begin, kSide, kSide, 1}));
  for (int64_t i = begin; i < end; ++i) CopyImage(i, t.data<float>() + (i - begin) * kPixels);
  return t;
}
Tensor DataSet::Labels(int64_t begin, int64_t end) const {
  Tensor t(troupe::DType::kFloat, TensorShape({end - begin, kClasses}));
  for (int64_t i = begin; i < end; ++i) CopyLabel(i, t.data<float>() + (i - begin) * kClasses);
  return t;
}

absl::StatusOr<Digits> ReadIdx(const std::string& directory) {
  Digits d;
  TROUPE_RETURN_IF_ERROR(ReadSet(directory, "train", &d.train));
  TROUPE_RETURN_IF_ERROR(ReadSet(directory, "t10k", &d.test));
  d.source = directory;
  return d;
}

absl::StatusOr<Digits> ReadSmallDigits(const std::string& path) {
  TROUPE_ASSIGN_OR_RETURN(const auto text, ReadFile(path));
  constexpr int kSmall = 8, kScale = 3, kMargin = (kSide - kSmall * kScale) / 2, kTest = 300;
  std::vector<int> numbers;
  int value = -1;
  for (const unsigned char c : text) {
    if (c >= '0' && c <= '9') {
      value = std::max(value, 0) * 10 + (c - '0');
      if (value > 16) return InvalidArgument(path, ": a value is above 16");
    } else if (value >= 0) {
      numbers.push_back(value);
      value = -1;
    }
  }
  if (value >= 0) numbers.push_back(value);
  constexpr size_t kRow = kSmall * kSmall + 1;
  if (numbers.empty() || numbers.size() % kRow != 0) return InvalidArgument(path, ": rows do not have 65 numbers");
  const auto n = static_cast<int64_t>(numbers.size() / kRow);
  if (n <= kTest) return InvalidArgument(path, ": there are only ", n, " digits");
  Digits d;
  d.train.scale = d.test.scale = 1.0f / 16.0f;
  for (int64_t i = 0; i < n; ++i) {
    DataSet& set = i < n - kTest ? d.train : d.test;
    const int* row = &numbers[static_cast<size_t>(i) * kRow];
    const size_t at = set.images.size();
    set.images.resize(at + kPixels, 0);
    for (int y = 0; y < kSmall * kScale; ++y) {
      for (int x = 0; x < kSmall * kScale; ++x) {
        set.images[at + static_cast<size_t>((y + kMargin) * kSide + x + kMargin)] =
            static_cast<uint8_t>(row[y / kScale * kSmall + x / kScale]);
      }
    }
    const int label = row[kRow - 1];
    if (label >= kClasses) return InvalidArgument(path, ": label ", label, " is no digit");
    set.labels.push_back(static_cast<uint8_t>(label));
  }
  d.source = "the 8x8 digits that come with this example, scaled up (give --data_dir for MNIST)";
  return d;
}

Batches::Batches(const DataSet* data, uint64_t seed) : data_(data), random_(seed), order_(data->size()) {
  std::iota(order_.begin(), order_.end(), 0);
}

void Batches::Next(int64_t size, Tensor* images, Tensor* labels) {
  size = std::min(size, data_->size());
  if (at_ + size > data_->size()) {
    std::shuffle(order_.begin(), order_.end(), random_);
    at_ = 0;
  }
  *images = Tensor(troupe::DType::kFloat, TensorShape({size, kSide, kSide, 1}));
  *labels = Tensor(troupe::DType::kFloat, TensorShape({size, kClasses}));
  // Shuffled images lie all over the set: most of the time goes into waiting for them, unless
  // several are asked for at once.
  constexpr int64_t kAhead = 8;
  for (int64_t i = 0; i < std::min(kAhead, size); ++i) data_->Prefetch(order_[static_cast<size_t>(at_ + i)]);
  for (int64_t i = 0; i < size; ++i) {
    if (i + kAhead < size) data_->Prefetch(order_[static_cast<size_t>(at_ + i + kAhead)]);
    const int64_t from = order_[static_cast<size_t>(at_ + i)];
    data_->CopyImage(from, images->data<float>() + i * kPixels);
    data_->CopyLabel(from, labels->data<float>() + i * kClasses);
  }
  at_ += size;
}

std::vector<std::pair<std::string, Tensor>> Batches::Position() const {
  std::ostringstream random;
  random << random_;
  return {{kOrder, Tensor::Vector<int64_t>(order_)},
          {kAt, Tensor::Scalar(at_)},
          {kRandom, Tensor::Scalar(std::move(random).str())}};
}

absl::Status Batches::SetPosition(const troupe::CheckpointReader& checkpoint) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor order, checkpoint.Read(kOrder));
  TROUPE_ASSIGN_OR_RETURN(const Tensor at, checkpoint.Read(kAt));
  TROUPE_ASSIGN_OR_RETURN(const Tensor random, checkpoint.Read(kRandom));
  const int64_t n = data_->size();
  if (order.dtype() != troupe::DType::kInt64 || order.shape() != TensorShape({n})) {
    return InvalidArgument("the checkpoint was written with ", order.num_elements(),
                           " images to learn from; there are ", n);
  }
  if (at.dtype() != troupe::DType::kInt64 || at.rank() != 0 || random.dtype() != troupe::DType::kString ||
      random.rank() != 0) {
    return InvalidArgument("the checkpoint's place in the data is not of this program");
  }
  std::istringstream text(random.scalar<std::string>());
  std::mt19937_64 engine;
  text >> engine;
  std::vector<int64_t> next(order.data<int64_t>(), order.data<int64_t>() + n);
  const int64_t place = at.scalar<int64_t>();
  const bool in_range = std::all_of(next.begin(), next.end(), [n](int64_t i) { return i >= 0 && i < n; });
  if (!text || !in_range || place < 0 || place > n) {
    return InvalidArgument("the checkpoint's place in the data is damaged");
  }
  random_ = engine;
  order_ = std::move(next);
  at_ = place;
  return absl::OkStatus();
}

}  // namespace mnist
