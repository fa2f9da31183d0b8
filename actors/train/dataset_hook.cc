#include "troupe/train/dataset_hook.h"

#include <condition_variable>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "actors/threads/inside_actor.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_impl.h"
#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
#include "kernels/device/droppable.h"
#include "kernels/device/session_containers.h"
#include "troupe/resource_container.h"
#include "troupe/resource_state.h"

namespace troupe::train {

// The iterators of one hook that are over and have not ended yet, since functions of their data set
// still run. Needs no memory after it is made.
//
// Thread rule: any thread.
class DatasetHook::Endings {
 public:
  void Begin() noexcept {
    const std::lock_guard lock(mu_);
    ++count_;
  }
  void End() noexcept {
    const std::lock_guard lock(mu_);
    if (--count_ == 0) none_.notify_all();
  }
  // Waits for as long as the functions take.
  void WaitUntilNone() {
    std::unique_lock lock(mu_);
    none_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mu_;
  std::condition_variable none_;
  int count_ = 0;
};

namespace {

using Endings = std::shared_ptr<DatasetHook::Endings>;
constexpr char kKind[] = "data set position";
constexpr char kIteratorKind[] = "iterator kind";  // the key of the kind of the iterator's state

// An iterator, or before the hook asks for one, its position. Thread rule: any thread.
class Iteration {
 public:
  Iteration() = default;
  explicit Iteration(ResourceState position) : position_(std::move(position)) {}

  absl::StatusOr<bool> Next(const Dataset& data, const Endings& endings, Element* element) {
    const std::lock_guard lock(mu_);
    TROUPE_RETURN_IF_ERROR(StartLocked(data, endings));
    return iterator_->Next(element);
  }
  absl::Status Start(const Dataset& data, const Endings& endings) {
    const std::lock_guard lock(mu_);
    return StartLocked(data, endings);
  }
  // On a thread of its own, one for all who ask.
  static void Save(const std::shared_ptr<Iteration>& iteration, const Resource::StateVisitor& visit) {
    {
      const std::lock_guard lock(iteration->asked_mu_);
      iteration->asked_.push_back(visit);
      if (std::exchange(iteration->saving_, true)) return;
    }
    try {
      RunAside(true, [iteration] { iteration->SaveForAll(); });
    } catch (const std::bad_alloc&) {
      const absl::StatusOr<ResourceState> none = ThrownStatus("saving the position in a data set");
      for (Visitors all; iteration->TakeAsked(&all);) Tell(&all, none);
    }
  }
  // From now on no element is taken. True, for one caller, when there is an iterator: who gets that
  // has it ended by End.
  bool GoOver() noexcept {
    const std::lock_guard lock(over_mu_);
    if (std::exchange(over_, true) || endings_ == nullptr) return false;
    endings_->Begin();
    return true;
  }
  bool over() const {
    const std::lock_guard lock(over_mu_);
    return over_;
  }
  // Waits for functions of the data set.
  void End() noexcept {
    {
      const std::lock_guard lock(mu_);
      ended_ = iterator_ != nullptr;
      // For those who asked before.
      if (ended_ && SomebodyWaits())
        ended_ = !Guarded("saving the last position", [&] { position_ = iterator_->Save(); }).ok();
      iterator_ = nullptr;
    }
    endings_->End();
  }

 private:
  using Visitors = std::vector<Resource::StateVisitor>;

  absl::Status StartLocked(const Dataset& data, const Endings& endings) {
    if (iterator_ != nullptr) return absl::OkStatus();
    // A function of the data set is not called by the iterator before this one any more.
    endings->WaitUntilNone();
    {
      const std::lock_guard lock(over_mu_);
      if (over_) return Gone();
      endings_ = endings;
    }
    auto made = position_.kind.empty() ? data.Iterate() : data.Iterate(position_);
    if (!made.ok()) return made.status();
    iterator_ = *std::move(made);
    position_ = {};
    return absl::OkStatus();
  }
  static absl::Status Gone() {
    return absl::AbortedError("the session was closed, or got another position in the data set");
  }
  absl::StatusOr<ResourceState> State() {
    const std::lock_guard lock(mu_);
    if (ended_) return Gone();
    const ResourceState at = iterator_ != nullptr ? iterator_->Save() : position_;
    ResourceState state{kKind, at.tensors};
    state.tensors.emplace_back(kIteratorKind, Tensor::Scalar(at.kind));
    const std::lock_guard told(asked_mu_);
    taken_ = false;
    return state;
  }
  // Has asked for a state that is not there yet. Under mu_.
  bool SomebodyWaits() {
    const std::lock_guard lock(asked_mu_);
    return taken_ || !asked_.empty();
  }
  // Those who have asked; without any, false, and nobody is at it any more.
  bool TakeAsked(Visitors* all) {
    const std::lock_guard lock(asked_mu_);
    all->swap(asked_);
    return saving_ = taken_ = !all->empty();
  }
  // What a visitor throws is its own matter, and the others are told.
  static void Tell(Visitors* all, const absl::StatusOr<ResourceState>& state) {
    for (Resource::StateVisitor& visit : *all) {
      (void)Guarded("telling the position in a data set", [&] { visit(state); });
      visit = nullptr;
    }
    all->clear();
  }
  // Each gets a state that was asked for after its own question.
  void SaveForAll() {
    for (Visitors all; TakeAsked(&all);)
      Tell(&all, Guarded("saving the position in a data set", [&] { return State(); }));
  }

  std::mutex mu_;  // guards:
  std::unique_ptr<DatasetIterator> iterator_;
  ResourceState position_;      // without a kind: the beginning
  bool ended_ = false;          // and the position with it
  mutable std::mutex over_mu_;  // held for a moment; guards:
  Endings endings_;             // of the hook that began the iterator
  bool over_ = false;
  std::mutex asked_mu_;  // guards:
  Visitors asked_;
  bool saving_ = false;  // a thread is at it
  bool taken_ = false;   // it has taken some out of asked_, for whom it has no state yet
};

// An iteration in a session's container. Thread safe, since any thread may save.
//
// Whoever clears the container ends the iterator, although somebody may still have a share of this.
// Saving and ending may wait for the data set's functions, which are the program's. So actors leave
// both to a thread of its own. Others wait until the iterator has ended: after a session is closed,
// or before the next one begins, no function of the data set runs.
class Place : public Resource, public Droppable {
 public:
  Place() = default;
  explicit Place(ResourceState position) : iteration_(std::make_shared<Iteration>(std::move(position))) {}
  // When the container goes as a whole.
  ~Place() override { Drop(); }

  Iteration& iteration() { return *iteration_; }
  std::string DebugString() const override { return "position in a data set"; }
  void Save(const StateVisitor& visit) const override { Iteration::Save(iteration_, visit); }
  void Drop() const noexcept override {
    if (!iteration_->GoOver()) return;
    if (!InsideActor()) return iteration_->End();
    try {
      RunAside(true, [of = iteration_] { of->End(); });
    } catch (const std::bad_alloc&) {
      iteration_->End();
    }
  }

 private:
  const std::shared_ptr<Iteration> iteration_ = std::make_shared<Iteration>();
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
    : data_(std::move(data)), feeds_(feeds.get()), name_(std::move(name)), endings_(std::make_shared<Endings>()) {}

DatasetHook::~DatasetHook() {
  if (!InsideActor()) endings_->WaitUntilNone();
}

// Here already, so that a position that does not fit is told before the first step.
absl::Status DatasetHook::AfterCreateSession(Session& session) {
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Place> place, PlaceIn(session, name_));
  return Annotate(place->iteration().Start(data_, endings_), StrCat("the data set of '", name_, "'"));
}

absl::StatusOr<RunArgs> DatasetHook::BeforeRun(RunContext& context) {
  Element element;
  absl::StatusOr<bool> more = false;
  // Another thread may put a place there meanwhile: then that one counts.
  for (bool again = true; again;) {
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Place> place, PlaceIn(context.session(), name_));
    more = place->iteration().Next(data_, endings_, &element);
    again = !more.ok() && place->iteration().over();
  }
  TROUPE_RETURN_IF_ERROR(more.status());
  if (!*more) return OutOfRange("the data set of '", name_, "' has no further element");
  if (element.size() != feeds_.size()) {
    return InvalidArgument("an element of the data set of '", name_, "' has ", element.size(),
                           " tensors, which are to be fed to ", feeds_.size(), " names");
  }
  RunArgs args;
  for (size_t i = 0; i < feeds_.size(); ++i) args.feeds.emplace_back(feeds_[i], std::move(element[i]));
  return args;
}

}  // namespace troupe::train
