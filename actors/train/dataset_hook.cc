#include "troupe/train/dataset_hook.h"

#include <mutex>
#include <utility>

#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_impl.h"
#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
#include "kernels/device/session_containers.h"
#include "troupe/resource_container.h"
#include "troupe/resource_state.h"

namespace troupe::train {
namespace {

constexpr char kKind[] = "data set position";
constexpr char kIteratorKind[] = "iterator kind";  // the key of the kind of the iterator's state

// An iterator in a session's container; one that was restored has only a position until the hook
// asks. Thread safe, since any thread may save.
//
// Saving and destroying an iterator may wait for the data set's functions, which are the program's:
// a thread of its own does that, not the container's actor.
class Place : public Resource {
 public:
  Place() = default;
  explicit Place(ResourceState position) { iteration_->position = std::move(position); }
  ~Place() override {
    RunAside(true, [last = std::move(iteration_)]() mutable { last = nullptr; });
  }

  absl::StatusOr<bool> Next(const Dataset& data, Element* element) {
    std::lock_guard<std::mutex> lock(iteration_->mu);
    TROUPE_RETURN_IF_ERROR(iteration_->StartLocked(data));
    return iteration_->iterator->Next(element);
  }
  absl::Status Start(const Dataset& data) {
    std::lock_guard<std::mutex> lock(iteration_->mu);
    return iteration_->StartLocked(data);
  }
  std::string DebugString() const override { return "position in a data set"; }
  void Save(const StateVisitor& visit) const override {
    RunAside(true, [iteration = iteration_, visit] {
      visit(Guarded("saving the position in a data set", [&] { return iteration->Save(); }));
    });
  }

 private:
  struct Iteration {
    std::mutex mu;  // guards:
    std::unique_ptr<DatasetIterator> iterator;
    ResourceState position;  // without a kind: the beginning

    absl::Status StartLocked(const Dataset& data) {
      if (iterator != nullptr) return absl::OkStatus();
      auto made = position.kind.empty() ? data.Iterate() : data.Iterate(position);
      if (!made.ok()) return made.status();
      iterator = *std::move(made);
      position = {};
      return absl::OkStatus();
    }
    absl::StatusOr<ResourceState> Save() {
      std::lock_guard<std::mutex> lock(mu);
      const ResourceState at = iterator != nullptr ? iterator->Save() : position;
      ResourceState state{kKind, at.tensors};
      state.tensors.emplace_back(kIteratorKind, Tensor::Scalar(at.kind));
      return state;
    }
  };
  std::shared_ptr<Iteration> iteration_ = std::make_shared<Iteration>();
};

absl::StatusOr<std::shared_ptr<Resource>> MakePlace(const std::string&, const ResourceState& state) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor kind, state.Get(kIteratorKind, DType::kString, TensorShape()));
  ResourceState position{kind.scalar<std::string>(), {}};
  for (const auto& [key, tensor] : state.tensors) {
    if (key != kIteratorKind) position.tensors.emplace_back(key, tensor);
  }
  return std::make_shared<Place>(std::move(position));
}
const ResourceKind kind(kKind, MakePlace);

// The place of this name; a new one at the beginning when there is none. It is looked up for each
// step, since RestoreState and Reset put another one there.
absl::StatusOr<std::shared_ptr<Place>> PlaceIn(Session& session, const std::string& name) {
  const auto& devices = session.runtime()->impl()->devices;
  return devices.front()->containers()->LookUpOrCreate<Place>(OwnState(session.impl()->id), name,
                                                              [] { return std::make_shared<Place>(); });
}

}  // namespace

DatasetHook::DatasetHook(Dataset data, const NameList& feeds, std::string name)
    : data_(std::move(data)), feeds_(feeds.get()), name_(std::move(name)) {}

// Here already, so that a position that does not fit is told before the first step.
absl::Status DatasetHook::AfterCreateSession(Session& session) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Place> place, PlaceIn(session, name_));
  return Annotate(place->Start(data_), StrCat("the data set of '", name_, "'"));
}

absl::StatusOr<RunArgs> DatasetHook::BeforeRun(RunContext& context) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Place> place, PlaceIn(context.session(), name_));
  Element element;
  TROUPE_ASSIGN_OR_RETURN(const bool more, place->Next(data_, &element));
  if (!more) return OutOfRange("the data set of '", name_, "' has no further element");
  if (element.size() != feeds_.size()) {
    return InvalidArgument("an element of the data set of '", name_, "' has ", element.size(),
                           " tensors, which are to be fed to ", feeds_.size(), " names");
  }
  RunArgs args;
  for (size_t i = 0; i < feeds_.size(); ++i) args.feeds.emplace_back(feeds_[i], std::move(element[i]));
  return args;
}

}  // namespace troupe::train
