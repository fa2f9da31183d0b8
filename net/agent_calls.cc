#include "net/agent_calls.h"

namespace troupe {

AgentCall::~AgentCall() { Fail(absl::AbortedError("the call was dropped")); }

void AgentCall::Watch(const CancellationToken* token) {
  if (token == nullptr) return;
  std::lock_guard<std::mutex> lock(mu_);
  if (!answered_) return;
  cancellation_.emplace(token, this);
  if (cancellation_->cancelled()) cancel_();
}

void AgentCall::Answer(call_answer answer) {
  std::function<void(call_answer)> answered;
  {
    std::lock_guard<std::mutex> lock(mu_);
    answered.swap(answered_);
    cancellation_.reset();
  }
  if (answered) answered(std::move(answer));
}

void AgentCall::Fail(absl::Status status) {
  call_answer answer;
  answer.reply.status = std::move(status);
  Answer(std::move(answer));
}

absl::StatusOr<uint64_t> AgentCalls::Begin(std::shared_ptr<AgentCall> call, Time due, absl::Status late, bool* first) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!ended_.ok()) return ended_;
  if (first != nullptr) *first = due != Time::max() && (due_.empty() || due < due_.begin()->first);
  const uint64_t number = ++last_;
  calls_[number] = {std::move(call), due, std::move(late)};
  if (due != Time::max()) due_.insert({due, number});
  return number;
}

std::shared_ptr<AgentCall> AgentCalls::Take(uint64_t number) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = calls_.find(number);
  if (it == calls_.end()) return nullptr;
  std::shared_ptr<AgentCall> call = std::move(it->second.call);
  due_.erase({it->second.due, number});
  calls_.erase(it);
  return call;
}

bool AgentCalls::Waits(uint64_t number) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = calls_.find(number);
  return it != calls_.end() && !it->second.cancelled;
}

void AgentCalls::Hasten(uint64_t number, Time due, absl::Status late) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = calls_.find(number);
  if (it == calls_.end()) return;
  it->second.cancelled = true;
  if (it->second.due <= due) return;
  due_.erase({it->second.due, number});
  it->second.due = due;
  it->second.late = std::move(late);
  due_.insert({due, number});
}

std::vector<AgentCalls::Late> AgentCalls::Due(Time now) {
  std::vector<Late> late;
  std::lock_guard<std::mutex> lock(mu_);
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto it = calls_.find(due_.begin()->second);
    late.push_back({it->first, std::move(it->second.call), std::move(it->second.late)});
    calls_.erase(it);
    due_.erase(due_.begin());
  }
  return late;
}

AgentCalls::Time AgentCalls::NextDue() const {
  std::lock_guard<std::mutex> lock(mu_);
  return due_.empty() ? Time::max() : due_.begin()->first;
}

std::vector<std::shared_ptr<AgentCall>> AgentCalls::End(const absl::Status& why) {
  std::vector<std::shared_ptr<AgentCall>> all;
  std::lock_guard<std::mutex> lock(mu_);
  all.reserve(calls_.size());  // before anything has changed
  if (ended_.ok()) ended_ = why;
  for (auto& [number, entry] : calls_) all.push_back(std::move(entry.call));
  calls_.clear();
  due_.clear();
  return all;
}

absl::Status AgentCalls::ended() const {
  std::lock_guard<std::mutex> lock(mu_);
  return ended_;
}

size_t AgentCalls::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return calls_.size();
}

}  // namespace troupe
