// Transformations of data sets that hold several elements: Shuffle, Batch, PaddedBatch.
#include <algorithm>
#include <cstring>

#include "kernels/common/elements.h"
#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

class ShuffleStage : public InputStage {
 public:
  ShuffleStage(StagePtr input, int64_t buffer, uint64_t seed)
      : InputStage(std::move(input)), size_(buffer), seed_(seed) {}
  absl::StatusOr<bool> Next(Element* element) override {
    while (!ended_ && static_cast<int64_t>(held_.size()) < size_) {
      Element next;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&next));
      if (more) held_.push_back(std::move(next));
      ended_ = !more;
    }
    if (held_.empty()) return false;
    const uint64_t word = Mixed(seed_ + static_cast<uint64_t>(drawn_++) * 0x2545f4914f6cdd1d);
    const auto i = static_cast<size_t>((static_cast<unsigned __int128>(word) * held_.size()) >> 64);
    std::swap(held_[i], held_.back());
    *element = std::move(held_.back());
    held_.pop_back();
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "drawn", drawn_);
    Put(to, prefix + "ended", ended_);
    Put(to, prefix + "held", static_cast<int64_t>(held_.size()));
    for (size_t i = 0; i < held_.size(); ++i) PutElement(to, StrCat(prefix, "held", i), held_[i]);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(drawn_, Take(from, prefix + "drawn"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "held"));
    if (n > size_) return InvalidArgument("the position holds ", n, " elements in a buffer of ", size_);
    ended_ = ended != 0;
    for (int64_t i = 0; i < n; ++i) {
      TROUPE_ASSIGN_OR_RETURN(Element element, TakeElement(from, StrCat(prefix, "held", i)));
      held_.push_back(std::move(element));
    }
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const uint64_t seed_;
  std::vector<Element> held_;
  int64_t drawn_ = 0;
  bool ended_ = false;
};

// One tensor of the elements `rows`, stacked; filled up where they are smaller than `shape`.
absl::StatusOr<Tensor> Stacked(const std::vector<Element>& rows, size_t part, const TensorShape& shape, bool pad) {
  const DType type = rows[0][part].dtype();
  if (!IsPlainBytes(type) && type != DType::kString) return InvalidArgument("a ", Name(type), " cannot be in a batch");
  TensorShape whole = shape;
  whole.InsertDim(0, static_cast<int64_t>(rows.size()));
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(whole.dims()).status());
  Tensor out(type, whole);
  if (!out.valid()) return ResourceExhausted("no memory for a batch ", Name(type), " ", whole.DebugString());
  const int64_t each = shape.num_elements();
  if (pad && IsPlainBytes(type) && out.bytes() > 0) std::memset(out.raw(), 0, out.bytes());
  for (size_t r = 0; r < rows.size(); ++r) {
    const Tensor& row = rows[r][part];
    const int64_t base = static_cast<int64_t>(r) * each;
    if (!pad || row.shape() == shape) {
      Copy(type, array::ElementAt(type, out.raw(), base), row.raw(), each);
      continue;
    }
    // Runs along the last dimension.
    const int rank = shape.rank();
    const int64_t run = row.dim(rank - 1);
    for (int64_t i = 0; run > 0 && i < row.num_elements(); i += run) {
      int64_t rest = i / run, at = 0, stride = shape.dim(rank - 1);
      for (int d = rank - 2; d >= 0; --d) {
        at += rest % row.dim(d) * stride;
        rest /= row.dim(d);
        stride *= shape.dim(d);
      }
      Copy(type, array::ElementAt(type, out.raw(), base + at), array::ElementAt(type, row.raw(), i), run);
    }
  }
  return out;
}

class BatchStage : public InputStage {
 public:
  BatchStage(StagePtr input, int64_t n, bool drop_remainder, bool pad, std::vector<PartialTensorShape> shapes)
      : InputStage(std::move(input)), n_(n), drop_(drop_remainder), pad_(pad), shapes_(std::move(shapes)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    while (static_cast<int64_t>(rows_.size()) < n_) {
      Element row;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(&row));
      if (!more) break;
      rows_.push_back(std::move(row));
    }
    if (rows_.empty() || (drop_ && static_cast<int64_t>(rows_.size()) < n_)) {
      rows_.clear();
      return false;
    }
    for (const Element& row : rows_) {
      if (row.size() == rows_[0].size()) continue;
      return InvalidArgument("elements of a batch have ", rows_[0].size(), " and ", row.size(), " tensors");
    }
    element->clear();
    for (size_t part = 0; part < rows_[0].size(); ++part) {
      TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, ShapeOf(rows_, part));
      TROUPE_ASSIGN_OR_RETURN(Tensor batch, Stacked(rows_, part, shape, pad_));
      element->push_back(std::move(batch));
    }
    rows_.clear();
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    PutElements(to, prefix + "rows", rows_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(rows_, TakeElements(from, prefix + "rows"));
    if (static_cast<int64_t>(rows_.size()) > n_)
      return InvalidArgument("the position holds ", rows_.size(), " elements of a batch of ", n_);
    return InputStage::Restore(prefix, from);
  }

 private:
  absl::StatusOr<TensorShape> ShapeOf(const std::vector<Element>& rows, size_t part) const {
    TensorShape shape = rows[0][part].shape();
    for (size_t r = 1; r < rows.size(); ++r) {
      const Tensor& t = rows[r][part];
      if (t.dtype() != rows[0][part].dtype() || t.rank() != shape.rank() || (!pad_ && t.shape() != shape)) {
        return InvalidArgument("tensor ", part, " of the elements of a batch is ", rows[0][part].TypeAndShape(),
                               " and ", t.TypeAndShape(), pad_ ? "" : ": PaddedBatch fills up smaller ones");
      }
      for (int d = 0; d < shape.rank(); ++d) shape.set_dim(d, std::max(shape.dim(d), t.dim(d)));
    }
    if (!pad_ || part >= shapes_.size() || !shapes_[part].known_rank()) return shape;
    const PartialTensorShape& want = shapes_[part];
    if (want.rank() != shape.rank()) {
      return InvalidArgument("tensor ", part, " of an element has shape ", shape.DebugString(), ", not ",
                             want.DebugString());
    }
    for (int d = 0; d < shape.rank(); ++d) {
      if (want.dim(d) < 0) continue;
      if (want.dim(d) < shape.dim(d)) {
        return InvalidArgument("tensor ", part, " of an element has shape ", shape.DebugString(), ", larger than ",
                               want.DebugString());
      }
      shape.set_dim(d, want.dim(d));
    }
    return shape;
  }

  const int64_t n_;
  const bool drop_, pad_;
  const std::vector<PartialTensorShape> shapes_;
  std::vector<Element> rows_;  // between two calls: of a batch that failed
};

}  // namespace
}  // namespace dataset

namespace {

absl::Status NotPositive(std::string_view what, int64_t n) {
  return InvalidArgument("it needs ", what, " of at least one element, and got ", n);
}

}  // namespace

Dataset Dataset::Shuffle(int64_t buffer, uint64_t seed, bool reshuffle, Here here) const {
  if (buffer < 1) return Dataset(dataset::Refused("Shuffle", here, NotPositive("a buffer", buffer)));
  return Dataset(dataset::NewSource(
      {source_}, [=](std::vector<dataset::StagePtr> in, uint64_t epoch) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::ShuffleStage>(std::move(in[0]), buffer,
                                                       dataset::Mixed(seed) ^ (reshuffle ? epoch : 0));
      }));
}
Dataset Dataset::Batch(int64_t n, bool drop_remainder, Here here) const {
  if (n < 1) return Dataset(dataset::Refused("Batch", here, NotPositive("batches", n)));
  return Dataset(dataset::NewSource(
      {source_}, [=](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::BatchStage>(std::move(in[0]), n, drop_remainder, false,
                                                     std::vector<PartialTensorShape>());
      }));
}
Dataset Dataset::PaddedBatch(int64_t n, std::vector<PartialTensorShape> shapes, bool drop_remainder, Here here) const {
  if (n < 1) return Dataset(dataset::Refused("PaddedBatch", here, NotPositive("batches", n)));
  return Dataset(dataset::NewSource(
      {source_}, [=](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::BatchStage>(std::move(in[0]), n, drop_remainder, true, shapes);
      }));
}

}  // namespace troupe
