// The iterator of a data set, and its position.
#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

constexpr char kKind[] = "dataset iterator";

class WholeIterator : public DatasetIterator {
 public:
  explicit WholeIterator(StagePtr stage) : stage_(std::move(stage)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    if (element == nullptr) return InvalidArgument("Next is given no place for the element");
    TROUPE_RETURN_IF_ERROR(failed_);
    absl::StatusOr<bool> more = stage_->Next(element);
    if (!more.ok()) failed_ = more.status();
    return more;
  }
  ResourceState Save() override {
    ResourceState state;
    state.kind = kKind;
    stage_->Save("", &state);
    return state;
  }

 private:
  const StagePtr stage_;
  absl::Status failed_;
};

}  // namespace
}  // namespace dataset

DatasetIterator::~DatasetIterator() = default;
Dataset::Dataset(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

absl::StatusOr<std::unique_ptr<DatasetIterator>> Dataset::Iterate() const {
  TROUPE_ASSIGN_OR_RETURN(dataset::StagePtr stage, source_->Make(0));
  return std::make_unique<dataset::WholeIterator>(std::move(stage));
}
absl::StatusOr<std::unique_ptr<DatasetIterator>> Dataset::Iterate(const ResourceState& position) const {
  if (position.kind != dataset::kKind)
    return InvalidArgument("a state of kind '", position.kind, "' is no position in a data set");
  TROUPE_ASSIGN_OR_RETURN(dataset::StagePtr stage, source_->Make(0));
  absl::Status restored = stage->Restore("", position);
  if (!restored.ok()) return Annotate(restored, "the data set cannot go on at the position");
  return std::make_unique<dataset::WholeIterator>(std::move(stage));
}

}  // namespace troupe
