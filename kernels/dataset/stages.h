// What the files of this folder share: stages of data sets, sources, and what is saved of them.
//
// Each transformation is a Source, which makes Stages: a Stage pulls from the stages before it. A
// stage saves itself under keys of one beginning, and those before it under longer ones, so keys
// tell the place in the pipeline. All that is drawn or counted is saved; nothing is saved of what
// can be made again.
//
// Thread rule: a Source is immutable and may be used by any number of threads. A Stage belongs to
// one thread at a time. The functions are pure, but for the state that they are given.
#ifndef TROUPE_KERNELS_DATASET_STAGES_H_
#define TROUPE_KERNELS_DATASET_STAGES_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/dataset.h"

namespace troupe {
namespace dataset {

// A part of an iterator. REQUIRES: Restore, if at all, before the first Next.
//
// A stage that fails keeps what it took from its input and could not give: it belongs to the
// position, so that an iterator that goes on from there meets the same element again.
class Stage {
 public:
  virtual ~Stage() = default;
  // False at the end.
  virtual absl::StatusOr<bool> Next(Element* element) = 0;
  // Keys of `to` that begin with `prefix`.
  virtual void Save(const std::string& prefix, ResourceState* to) = 0;
  virtual absl::Status Restore(const std::string& prefix, const ResourceState& from) = 0;
};
using StagePtr = std::unique_ptr<Stage>;

}  // namespace dataset

struct Dataset::Source {
  virtual ~Source() = default;
  // `epoch`: a number of the repetition, from which orders are drawn.
  virtual absl::StatusOr<dataset::StagePtr> Make(uint64_t epoch) const = 0;
};

namespace dataset {

using SourcePtr = std::shared_ptr<const Dataset::Source>;

// Well mixed bits, for seeds.
uint64_t Mixed(uint64_t x);

// What is saved: numbers and elements under keys. INVALID_ARGUMENT when a key is missing, or has
// another type; for numbers also when they are less than `least`.
void Put(ResourceState* to, const std::string& key, int64_t value);
absl::StatusOr<int64_t> Take(const ResourceState& from, const std::string& key, int64_t least = 0);
void PutElement(ResourceState* to, const std::string& key, const Element& element);
absl::StatusOr<Element> TakeElement(const ResourceState& from, const std::string& key);
// Several under keys that begin with `key`; none when the position has no such key.
void PutElements(ResourceState* to, const std::string& key, const std::vector<Element>& elements);
absl::StatusOr<std::vector<Element>> TakeElements(const ResourceState& from, const std::string& key);

// to[0, n) = from[0, n). `to` is new: its strings are empty.
void Copy(DType type, void* to, const void* from, int64_t n);

// What a function of the program returns; INTERNAL when it throws.
template <class F>
auto Guarded(const char* what, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return Internal("the function of ", what, " threw: ", e.what());
  } catch (...) {
    return Internal("the function of ", what, " threw");
  }
}

// A source whose stage is made from the stages of its inputs; `make_stage` gets them and the epoch.
template <class F>
struct SimpleSource : Dataset::Source {
  SimpleSource(std::vector<SourcePtr> from, F f) : inputs(std::move(from)), make_stage(std::move(f)) {}
  absl::StatusOr<StagePtr> Make(uint64_t epoch) const override {
    std::vector<StagePtr> stages;
    for (const SourcePtr& input : inputs) {
      TROUPE_ASSIGN_OR_RETURN(StagePtr stage, input->Make(epoch));
      stages.push_back(std::move(stage));
    }
    return make_stage(std::move(stages), epoch);
  }
  const std::vector<SourcePtr> inputs;
  const F make_stage;
};
template <class F>
SourcePtr NewSource(std::vector<SourcePtr> inputs, F make_stage) {
  return std::make_shared<SimpleSource<F>>(std::move(inputs), std::move(make_stage));
}
// A source that only gives the error; `what` was asked for in the line `here`.
SourcePtr Refused(std::string_view what, const std::source_location& here, const absl::Status& why);
// The same when `f` has no target; else null.
template <class F>
SourcePtr RefusedWithout(const F& f, std::string_view what, const std::source_location& here) {
  if (f != nullptr) return nullptr;
  return Refused(what, here, InvalidArgument("it is given a function without a target"));
}

// A stage with one input.
class InputStage : public Stage {
 public:
  explicit InputStage(StagePtr input) : input_(std::move(input)) {}
  void Save(const std::string& prefix, ResourceState* to) override { input_->Save(prefix + "i", to); }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    return input_->Restore(prefix + "i", from);
  }

 protected:
  const StagePtr input_;
};

}  // namespace dataset
}  // namespace troupe

#endif  // TROUPE_KERNELS_DATASET_STAGES_H_
