// Data sets that read no file: rows of tensors, numbers, functions of the program; and sets side by
// side (Zip).
#include <algorithm>
#include <iterator>

#include "kernels/common/elements.h"
#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

class RowsStage : public Stage {
 public:
  explicit RowsStage(std::shared_ptr<const Element> tensors) : tensors_(std::move(tensors)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    if (tensors_->empty() || at_ >= tensors_->front().dim(0)) return false;
    element->clear();
    for (const Tensor& t : *tensors_) {
      TensorShape shape = t.shape();
      shape.RemoveDim(0);
      Tensor row(t.dtype(), shape);
      if (!row.valid()) return ResourceExhausted("no memory for a row ", row.TypeAndShape());
      const int64_t n = row.num_elements();
      Copy(t.dtype(), row.raw(), array::ElementAt(t.dtype(), t.raw(), at_ * n), n);
      element->push_back(std::move(row));
    }
    ++at_;
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "rows", at_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "rows"));
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const Element> tensors_;
  int64_t at_ = 0;
};

class RangeStage : public Stage {
 public:
  // In numbers without a sign, in which no distance of two ends overflows.
  RangeStage(int64_t begin, int64_t end, int64_t step)
      : begin_(static_cast<uint64_t>(begin)), step_(static_cast<uint64_t>(step)) {
    const auto far = static_cast<uint64_t>(end);
    if (step > 0 && end > begin) count_ = (far - begin_ - 1) / step_ + 1;
    if (step < 0 && end < begin) count_ = (begin_ - far - 1) / (0 - step_) + 1;
  }
  absl::StatusOr<bool> Next(Element* element) override {
    if (static_cast<uint64_t>(at_) >= count_) return false;
    *element = {Tensor::Scalar(static_cast<int64_t>(begin_ + static_cast<uint64_t>(at_++) * step_))};
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "range", at_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "range"));
    return absl::OkStatus();
  }

 private:
  const uint64_t begin_, step_;
  uint64_t count_ = 0;
  int64_t at_ = 0;
};

class GeneratorStage : public Stage {
 public:
  explicit GeneratorStage(Dataset::Generator f) : f_(std::move(f)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    element->clear();
    TROUPE_ASSIGN_OR_RETURN(const bool more, Guarded("FromGenerator", [&] { return f_(element); }));
    if (more) ++given_;
    return more;
  }
  void Save(const std::string& prefix, ResourceState* to) override { Put(to, prefix + "generated", given_); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t given, Take(from, prefix + "generated"));
    Element element;
    while (given_ < given) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, Next(&element));
      if (!more) return InvalidArgument("the generator ends after ", given_, " elements, before the position ", given);
    }
    return absl::OkStatus();
  }

 private:
  const Dataset::Generator f_;
  int64_t given_ = 0;
};

class ZipStage : public Stage {
 public:
  explicit ZipStage(std::vector<StagePtr> inputs) : inputs_(std::move(inputs)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    while (parts_.size() < inputs_.size()) {
      Element part;
      TROUPE_ASSIGN_OR_RETURN(const bool more, inputs_[parts_.size()]->Next(&part));
      if (!more) return false;
      parts_.push_back(std::move(part));
    }
    element->clear();
    for (Element& part : parts_) std::move(part.begin(), part.end(), std::back_inserter(*element));
    parts_.clear();
    return !inputs_.empty();
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    PutElements(to, prefix + "parts", parts_);
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i]->Save(StrCat(prefix, "z", i, "."), to);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(parts_, TakeElements(from, prefix + "parts"));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      TROUPE_RETURN_IF_ERROR(inputs_[i]->Restore(StrCat(prefix, "z", i, "."), from));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<StagePtr> inputs_;
  std::vector<Element> parts_;  // between two calls: those of an element whose next part failed
};

}  // namespace
}  // namespace dataset

Dataset Dataset::FromTensors(Element tensors, Here here) {
  if (tensors.empty()) return Dataset(dataset::Refused("FromTensors", here, InvalidArgument("it is given no tensors")));
  for (const Tensor& t : tensors) {
    if (!t.valid() || (!IsPlainBytes(t.dtype()) && t.dtype() != DType::kString) || t.rank() == 0 ||
        t.dim(0) != tensors[0].dim(0)) {
      return Dataset(dataset::Refused("FromTensors", here,
                                      InvalidArgument("it takes tensors of equally many rows, and got ",
                                                      tensors[0].TypeAndShape(), " and ", t.TypeAndShape())));
    }
  }
  auto shared = std::make_shared<const Element>(std::move(tensors));
  return Dataset(
      dataset::NewSource({}, [shared](std::vector<dataset::StagePtr>, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::RowsStage>(shared);
      }));
}
Dataset Dataset::Range(int64_t begin, int64_t end, int64_t step, Here here) {
  if (step == 0) return Dataset(dataset::Refused("Range", here, InvalidArgument("it cannot go by steps of 0")));
  return Dataset(
      dataset::NewSource({}, [=](std::vector<dataset::StagePtr>, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::RangeStage>(begin, end, step);
      }));
}
Dataset Dataset::FromGenerator(std::function<Generator()> make, Here here) {
  if (dataset::SourcePtr refused = dataset::RefusedWithout(make, "FromGenerator", here))
    return Dataset(std::move(refused));
  return Dataset(
      dataset::NewSource({}, [make](std::vector<dataset::StagePtr>, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        TROUPE_ASSIGN_OR_RETURN(
            Generator generator,
            dataset::Guarded("FromGenerator", [&]() -> absl::StatusOr<Generator> { return make(); }));
        if (generator == nullptr)
          return InvalidArgument("what FromGenerator calls has made a function without a target");
        return std::make_unique<dataset::GeneratorStage>(std::move(generator));
      }));
}
Dataset Dataset::Zip(std::vector<Dataset> sets, Here here) {
  if (sets.empty()) return Dataset(dataset::Refused("Zip", here, InvalidArgument("it is given no data sets")));
  std::vector<dataset::SourcePtr> inputs;
  for (const Dataset& set : sets) inputs.push_back(set.source_);
  return Dataset(dataset::NewSource(
      std::move(inputs), [](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::ZipStage>(std::move(in));
      }));
}

}  // namespace troupe
