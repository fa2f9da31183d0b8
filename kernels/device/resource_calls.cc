#include "kernels/device/resource_calls.h"

#include <atomic>
#include <memory>
#include <utility>

#include "graph/core/guarded.h"
#include "troupe/resource_state.h"

namespace troupe {
namespace {

// Made when the library is loaded, since memory may be lacking when it is needed.
const absl::Status& kDropped = *new absl::Status(Internal("its class dropped the visitor without calling it"));

class OneAnswer {
 public:
  explicit OneAnswer(Resource::StateVisitor answer) : answer_(std::move(answer)) {}
  ~OneAnswer() { Give(kDropped); }
  void Give(absl::StatusOr<ResourceState> state) noexcept {
    if (given_.exchange(true)) return;
    // What the function holds goes with the answer, though the resource may keep the visitor.
    const Resource::StateVisitor answer = std::move(answer_);
    try {
      answer(std::move(state));
    } catch (...) {
    }
  }

 private:
  Resource::StateVisitor answer_;
  std::atomic<bool> given_{false};
};

}  // namespace

std::string DescriptionOf(const Resource& resource) {
  const absl::StatusOr<std::string> text =
      Guarded("DebugString", [&] { return absl::StatusOr<std::string>(resource.DebugString()); });
  return text.ok() ? *text
                   : StrCat("a resource that cannot say what it is: ",
                            std::string_view(text.status().message().data(), text.status().message().size()));
}

void VisitTensorsOf(const Resource& resource, const std::function<void(const Tensor&)>& visit) noexcept {
  try {
    resource.VisitTensors(visit);
  } catch (...) {
  }
}

void SaveResource(const Resource& resource, const Resource::StateVisitor& answer) noexcept {
  std::shared_ptr<OneAnswer> one;
  try {
    one = std::make_shared<OneAnswer>(answer);
    resource.Save([one](absl::StatusOr<ResourceState> state) { one->Give(std::move(state)); });
  } catch (...) {
    const absl::Status thrown = ThrownStatus("Save");
    if (one != nullptr) return one->Give(thrown);
    try {
      answer(thrown);
    } catch (...) {
    }
  }
}

}  // namespace troupe
