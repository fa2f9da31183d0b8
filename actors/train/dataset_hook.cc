#include "troupe/train/dataset_hook.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "actors/threads/inside_actor.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_impl.h"
#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
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
// This thread tells a position, and has a share of its iteration: it must not wait for the end.
thread_local bool telling = false;
constexpr char kKind[] = "data set position";
constexpr char kIteratorKind[] = "iterator kind";  // the key of the kind of the iterator's state

// An iterator, or before the hook asks for one, its position.
class Iteration {
 public:
  Iteration() = default;
  explicit Iteration(ResourceState position) : position_(std::move(position)) {}
  ~Iteration() {
    iterator_ = nullptr;
    if (ending_) endings_->End();
  }

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
      if (iteration->asked_.size() > 1) return;
    }
    RunAside(true, [iteration] { iteration->SaveForAll(); });
  }
  // The iterator is over, and ends when the last share of this does. Whoever has the result waits
  // for that; null: it never began.
  Endings Over() noexcept {
    const std::lock_guard lock(mu_);
    if (iterator_ == nullptr) return nullptr;
    ending_ = true;
    endings_->Begin();
    return endings_;
  }

 private:
  absl::Status StartLocked(const Dataset& data, const Endings& endings) {
    if (iterator_ != nullptr) return absl::OkStatus();
    // A function of the data set is not called by the iterator before this one any more.
    endings->WaitUntilNone();
    endings_ = endings;
    auto made = position_.kind.empty() ? data.Iterate() : data.Iterate(position_);
    if (!made.ok()) return made.status();
    iterator_ = *std::move(made);
    position_ = {};
    return absl::OkStatus();
  }
  absl::StatusOr<ResourceState> State() {
    const std::lock_guard lock(mu_);
    const ResourceState at = iterator_ != nullptr ? iterator_->Save() : position_;
    ResourceState state{kKind, at.tensors};
    state.tensors.emplace_back(kIteratorKind, Tensor::Scalar(at.kind));
    return state;
  }
  // Each gets a state that was asked for after its own question.
  void SaveForAll() {
    for (;;) {
      size_t many = 0;
      {
        const std::lock_guard lock(asked_mu_);
        many = asked_.size();
      }
      const absl::StatusOr<ResourceState> state = Guarded("saving the position in a data set", [&] { return State(); });
      for (; many > 0; --many) {
        Resource::StateVisitor visit;
        bool last = false;
        {
          const std::lock_guard lock(asked_mu_);
          visit = asked_.front();
        }
        telling = true;
        visit(state);
        telling = false;
        {
          const std::lock_guard lock(asked_mu_);
          asked_.pop_front();
          last = asked_.empty();
        }
        if (last) return;
      }
    }
  }

  std::mutex mu_;  // guards:
  std::unique_ptr<DatasetIterator> iterator_;
  ResourceState position_;  // without a kind: the beginning
  Endings endings_;         // of the hook that began the iterator
  bool ending_ = false;
  std::mutex asked_mu_;  // guards:
  std::deque<Resource::StateVisitor> asked_;
};

// An iteration in a session's container. Thread safe, since any thread may save.
//
// Saving and ending an iterator may wait for the data set's functions, which are the program's. So
// actors leave both to a thread of its own. Others wait until the iterator has ended: after a
// session is closed, or before the next one begins, no function of the data set runs.
class Place : public Resource {
 public:
  Place() = default;
  explicit Place(ResourceState position) : iteration_(std::make_shared<Iteration>(std::move(position))) {}
  ~Place() override {
    const Endings endings = iteration_->Over();
    if (endings == nullptr) return;
    if (!InsideActor() && !telling) {
      iteration_ = nullptr;
      // A thread that saves may have it still.
      endings->WaitUntilNone();
      return;
    }
    try {
      RunAside(true, [last = std::move(iteration_)]() mutable { last = nullptr; });
    } catch (const std::bad_alloc&) {
      // It ends here.
    }
  }

  Iteration& iteration() { return *iteration_; }
  std::string DebugString() const override { return "position in a data set"; }
  void Save(const StateVisitor& visit) const override { Iteration::Save(iteration_, visit); }

 private:
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
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Place> place, PlaceIn(context.session(), name_));
  Element element;
  TROUPE_ASSIGN_OR_RETURN(const bool more, place->iteration().Next(data_, endings_, &element));
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
