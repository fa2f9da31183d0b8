#include "troupe/actors/partial_step.h"

#include <algorithm>

namespace troupe {

PartialStep::~PartialStep() {
  if (set_ == nullptr) return;
  if (set_->running()) {
    set_->Abort(absl::CancelledError("the partial run was given up"));
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return done_; });
  }
  signature_->Release(std::move(set_));
}

void PartialStep::Start() {
  fed_.assign(signature_->feeds.size(), false);
  ready_.assign(signature_->fetches.size(), false);
  fetched_ = ready_;
  set_ = signature_->Lease();
  set_->RunPartial(this);
}

absl::StatusOr<size_t> PartialStep::IndexOf(const Names& names, const std::string& name, const char* what) const {
  const auto parsed = ParseTensorName(name);
  if (!parsed.ok()) return parsed.status();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto have = ParseTensorName(names[i]);
    if (have.ok() && *have == *parsed) return i;
  }
  return InvalidArgument("'", name, "' is no ", what, " of this partial run");
}

absl::Status PartialStep::Run(const Feeds& feeds, const Names& fetches, std::vector<Tensor>* outputs) {
  std::vector<size_t> wanted;
  std::vector<std::pair<size_t, const Tensor*>> given;
  std::unique_lock<std::mutex> lock(mu_);
  std::vector<bool> fed = fed_, fetched = fetched_;
  for (const auto& [name, value] : feeds) {
    TROUPE_ASSIGN_OR_RETURN(const size_t i, IndexOf(signature_->feeds, name, "feed"));
    if (fed[i]) return InvalidArgument("'", name, "' has been fed already");
    TROUPE_RETURN_IF_ERROR(signature_->CheckFeed(i, value));
    fed[i] = true;
    given.emplace_back(i, &value);
  }
  for (const std::string& name : fetches) {
    TROUPE_ASSIGN_OR_RETURN(const size_t i, IndexOf(signature_->fetches, name, "fetch"));
    if (fetched[i]) return InvalidArgument("'", name, "' has been fetched already");
    fetched[i] = true;
    wanted.push_back(i);
    for (const int feed : signature_->fetch_needs[i]) {
      if (!fed[feed])
        return InvalidArgument("fetch '", name, "' depends on '", signature_->feeds[feed], "', which has not been fed");
    }
  }
  if (done_ && !status_.ok()) return status_;
  fed_ = fed;
  fetched_ = fetched;
  lock.unlock();
  for (const auto& [i, value] : given) set_->Feed(static_cast<uint32_t>(i), *value);
  lock.lock();
  changed_.wait(
      lock, [&] { return done_ || std::all_of(wanted.begin(), wanted.end(), [&](size_t i) { return ready_[i]; }); });
  if (done_ && !status_.ok()) return status_;
  outputs->clear();
  for (const size_t i : wanted) {
    Tensor t = set_->TakeResult(i);
    if (!t.valid())
      return InvalidArgument("fetch '", signature_->fetches[i], "' has no value: it is on a branch that was not taken");
    outputs->push_back(std::move(t));
  }
  return absl::OkStatus();
}

bool PartialStep::over() const {
  std::lock_guard<std::mutex> lock(mu_);
  return done_ && (!status_.ok() || std::all_of(fetched_.begin(), fetched_.end(), [](bool b) { return b; }));
}

void PartialStep::OnResult(uint32_t index) {
  std::lock_guard<std::mutex> lock(mu_);
  ready_[index] = true;
  changed_.notify_all();
}

void PartialStep::OnDone(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  done_ = true;
  status_ = status;
  changed_.notify_all();
}

}  // namespace troupe
