#include "kernels/state/state_machine.h"

#include <chrono>
#include <map>
#include <new>
#include <thread>

#include "graph/core/guarded.h"

namespace troupe {
namespace {

// Asks a machine for its state.
class SaveRequest : public StateRequest {
 public:
  explicit SaveRequest(Resource::StateVisitor visit) : visit_(std::move(visit)) {}
  // Of a request that nobody opened.
  ~SaveRequest() override {
    if (visit_) visit_(answered() && !status().ok() ? status() : Aborted("the resource was not asked for its state"));
  }
  void Tell(absl::StatusOr<ResourceState> state) { std::exchange(visit_, nullptr)(std::move(state)); }

 private:
  Resource::StateVisitor visit_;
};

struct Hosts {
  std::mutex mu;
  std::map<const ResourceContainers*, std::shared_ptr<StateHost>> by_containers;
};
Hosts& AllHosts() {
  static auto* const hosts = new Hosts;
  return *hosts;
}

// Calls f, again each millisecond while memory is lacking.
template <class F>
void UntilDone(std::string_view what, F&& f) noexcept {
  while (absl::IsResourceExhausted(Guarded(what, f))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void StateRequest::Answer(absl::Status status) {
  std::function<void()> call;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (answered_.load(std::memory_order_relaxed)) return;
    status_ = std::move(status);
    answered_.store(true, std::memory_order_release);
    call.swap(call_);
  }
  if (call) call();
}

void StateRequest::WhenAnswered(std::function<void()> f) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!answered_.load(std::memory_order_relaxed)) {
      call_ = std::move(f);
      return;
    }
  }
  f();
}

void StateRequest::Leave() {
  std::function<void()> dropped;  // destroyed outside of the lock
  std::lock_guard<std::mutex> lock(mu_);
  left_.store(true, std::memory_order_release);
  dropped.swap(call_);
}

void StateAnswers::Give() {
  // What one of them calls may throw; the others wait for their answers all the same.
  for (auto& [request, status] : list_) {
    (void)Guarded("who waits for a resource", [&request, &status] { request->Answer(std::move(status)); });
  }
  list_.clear();
  for (const std::function<void()>& f : then_) f();
  then_.clear();
}

void StateMachine::Open(const StateLetter& letter) {
  if (letter.kind == StateLetter::Kind::kDrop) return AbortAll(nullptr);
  if (letter.kind == StateLetter::Kind::kWithdraw) return Withdraw(letter.request);
  StateAnswers answers;
  absl::StatusOr<ResourceState> state = absl::UnknownError("");
  const absl::Status thrown = Guarded("a resource's state machine", [&] {
    std::lock_guard<std::mutex> lock(at_work_);
    switch (letter.kind) {
      case StateLetter::Kind::kAsk:
        // Whoever has left has perhaps withdrawn it already.
        if (letter.request->left()) break;
        dropped_.ok() ? Handle(letter.request, &answers) : answers.Add(letter.request, dropped_);
        break;
      case StateLetter::Kind::kSave:
        state = Save();
        break;
      case StateLetter::Kind::kWithdraw:
      case StateLetter::Kind::kDrop:
        break;
    }
  });
  answers.Give();
  if (letter.kind == StateLetter::Kind::kSave) {
    static_cast<SaveRequest&>(*letter.request).Tell(thrown.ok() ? std::move(state) : thrown);
  } else if (!thrown.ok() && !letter.request->answered()) {
    letter.request->Answer(thrown);
    letter.request->Leave();
  }
}

void StateMachine::Withdraw(const StateRequestPtr& request) noexcept {
  UntilDone("withdrawing a request", [&] {
    StateAnswers answers;
    const absl::Status done = Guarded("withdrawing a request", [&] {
      std::lock_guard<std::mutex> lock(at_work_);
      Withdraw(request, &answers);
    });
    (void)Guarded("ending what a resource has asked for", [&] { answers.Give(); });
    return done;
  });
}

void StateMachine::AbortAll(const absl::Status* why) noexcept {
  UntilDone("ending the requests that wait", [&] {
    StateAnswers answers;
    const absl::Status done = Guarded("ending the requests that wait", [&] {
      std::lock_guard<std::mutex> lock(at_work_);
      if (why == nullptr && dropped_.ok()) {
        dropped_ = absl::AbortedError(
            StrCat(What(), " was dropped: its container was reset or restored, or its session has ended"));
      }
      AbortWaiting(why != nullptr ? *why : dropped_, &answers);
    });
    (void)Guarded("ending what a resource has asked for", [&] { answers.Give(); });
    return done;
  });
}

void StateMachine::VisitTensors(const std::function<void(const Tensor&)>& visit) const {
  const std::unique_lock<std::mutex> lock(at_work_, std::try_to_lock);
  if (lock.owns_lock()) Visit(visit);
}

std::string StateMachine::DebugString() const {
  const std::unique_lock<std::mutex> lock(at_work_, std::try_to_lock);
  return lock.owns_lock() ? StrCat(What(), ", ", HowMuch()) : What();
}

void PlainMailbox::Send(StateLetter letter) {
  std::unique_lock<std::mutex> lock(mu_);
  letters_.push_back(std::move(letter));
  if (std::exchange(open_, true)) return;
  while (!letters_.empty()) {
    const StateLetter next = std::move(letters_.front());
    letters_.pop_front();
    lock.unlock();
    try {
      machine_->Open(next);
    } catch (...) {
      // Of a function that an answer called. The next who sends goes on.
      lock.lock();
      open_ = false;
      throw;
    }
    lock.lock();
  }
  open_ = false;
}

void SetStateHost(const ResourceContainers* containers, std::shared_ptr<StateHost> host) {
  Hosts& hosts = AllHosts();
  std::lock_guard<std::mutex> lock(hosts.mu);
  if (host == nullptr) {
    hosts.by_containers.erase(containers);
  } else {
    hosts.by_containers[containers] = std::move(host);
  }
}

std::shared_ptr<StateHost> StateHostOf(const ResourceContainers* containers) {
  Hosts& hosts = AllHosts();
  std::lock_guard<std::mutex> lock(hosts.mu);
  const auto it = hosts.by_containers.find(containers);
  return it == hosts.by_containers.end() ? nullptr : it->second;
}

StateResource::StateResource(std::shared_ptr<StateMachine> machine)
    : machine_(std::move(machine)), mailbox_(std::make_unique<PlainMailbox>(machine_)) {}

void StateResource::LiveIn(const ResourceContainers* containers) {
  if (const std::shared_ptr<StateHost> host = StateHostOf(containers)) mailbox_ = host->Open(machine_);
}

void StateResource::Drop() const noexcept {
  // Who waits is told, however long memory is lacking.
  UntilDone("dropping a resource", [this] {
    mailbox_->Send({StateLetter::Kind::kDrop, std::make_shared<StateRequest>()});
  });
}

void StateResource::Save(const StateVisitor& visit) const {
  mailbox_->Send({StateLetter::Kind::kSave, std::make_shared<SaveRequest>(visit)});
}

StateWait::~StateWait() {
  if (request_ == nullptr) return;
  try {
    resource_->Withdraw(std::move(request_));
  } catch (...) {
    // No memory for the letter. The request says itself that its asker has left.
  }
}

}  // namespace troupe
