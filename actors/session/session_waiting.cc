// The calls of a session that wait for a signature: which compile each of them waits for, and what
// they are told.
#include "actors/messages/messages.h"
#include "actors/session/session_master.h"

namespace troupe {

void SessionMaster::CompileCall::Tell(const Answer& answer) {
  compile_reply m;
  m.status = answer.status();
  if (answer.ok()) {
    m.found = *answer;
    m.signature = m.found->number;
    m.graphs = std::move(graphs);
  }
  CallUser("a callback", [&] { reply(std::move(m)); });
}

void SessionMaster::Compile(compile_request request, const caf::actor_addr& asker, Reply<compile_reply> reply) {
  auto call = std::make_shared<CompileCall>();
  call->key = SignatureKey(request.feeds, request.fetches, request.targets);
  call->asked = std::move(request);
  call->asker = asker;
  call->reply = std::move(reply);
  Compile(std::move(call));
}

void SessionMaster::Compile(std::shared_ptr<CompileCall> call) {
  Work work;
  absl::Status refused;
  if (!call->asked.graphs && !closed()) {
    if (auto known = cache_->Find(call->key)) return call->Tell(std::move(known));
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    bool begins = true;
    refused = end_;
    if (refused.ok()) refused = Guarded("a call for a signature", [&] { begins = WaitLocked(call, &work); });
    if (refused.ok() && !begins) return;
  }
  if (!refused.ok()) return call->Tell(refused);
  const int64_t waiting = work.waiting;
  const absl::Status queued = Guarded("a call for a signature", [&]() -> absl::Status {
    TROUPE_RETURN_IF_ERROR(SomeWorker());
    work.compile = std::move(call);
    return Queue(std::move(work));
  });
  if (!queued.ok()) AnswerThose(waiting, queued);
}

bool SessionMaster::WaitLocked(const std::shared_ptr<CompileCall>& call, Work* work) {
  // One who asks for the parts' graphs as well has them made first, and alone.
  const bool joins = !call->asked.graphs;
  const int64_t next = last_waiting_ + 1, place = last_call_ + 1;
  work->waiting = next;
  try {
    if (joins) work->waiting = joinable_.try_emplace(call->key, next).first->second;
    Waiting& waiting = waiting_[work->waiting];
    if (joins && work->waiting == next) waiting.key = call->key;
    waiting.calls.emplace(place, call);
    requests_[{call->asker, call->asked.number}] = {work->waiting, place};
  } catch (...) {
    const auto it = waiting_.find(work->waiting);
    if (it != waiting_.end()) it->second.calls.erase(place);
    if (work->waiting == next) {
      if (it != waiting_.end()) waiting_.erase(it);
      const auto joinable = joinable_.find(call->key);
      if (joinable != joinable_.end() && joinable->second == next) joinable_.erase(joinable);
    }
    throw;
  }
  last_call_ = place;
  if (work->waiting == next) last_waiting_ = next;
  return work->waiting == next;
}

void SessionMaster::Withdraw(const caf::actor_addr& asker, int64_t number) {
  Calls gone;
  std::vector<uint32_t> unanswered;
  int64_t compile = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto request = requests_.find({asker, number});
    if (request == requests_.end()) return;
    const auto [waiting, place] = request->second;
    auto& calls = waiting_.at(waiting).calls;
    gone.reserve(1);
    if (calls.size() == 1) {
      // Who asks from now on has the compile begin anew.
      gone = TakeLocked(waiting);
      compile = waiting;
      if (const auto asked = registering_.find(compile); asked != registering_.end())
        unanswered = asked->second->Unanswered();
      // A compile that does not end holds up all others; meanwhile only those stay that are waited
      // for.
      constexpr size_t kFew = 16;
      if (++withdrawn_ > queue_.size() / 2 + kFew) {
        std::erase_if(queue_, [&](const Work& w) { return w.compile != nullptr && !waiting_.contains(w.waiting); });
        withdrawn_ = 0;
      }
    } else {
      gone.push_back(std::move(calls.extract(place).mapped()));
      requests_.erase(request);
    }
  }
  WithdrawGraph(unanswered, compile);
  for (const auto& call : gone) call->Tell(Cancelled("the request was withdrawn"));
}

absl::Status SessionMaster::Wanted(int64_t waiting) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!end_.ok()) return end_;
  return waiting_.contains(waiting) ? absl::OkStatus() : Cancelled("nobody waits for the signature any more");
}

SessionMaster::Calls SessionMaster::TakeLocked(int64_t waiting) {
  const auto it = waiting_.find(waiting);
  Calls calls;
  if (it == waiting_.end()) return calls;
  calls.reserve(it->second.calls.size());
  TakeLocked(it, &calls);
  return calls;
}

void SessionMaster::TakeLocked(HashMap<int64_t, Waiting>::iterator it, Calls* calls) {
  for (auto& [place, call] : it->second.calls) {
    // An asker that gives a number twice withdraws the later one.
    const auto request = requests_.find({call->asker, call->asked.number});
    if (request != requests_.end() && request->second == std::pair(it->first, place)) requests_.erase(request);
    calls->push_back(std::move(call));
  }
  const auto joinable = joinable_.find(it->second.key);
  if (joinable != joinable_.end() && joinable->second == it->first) joinable_.erase(joinable);
  waiting_.erase(it);
}

void SessionMaster::AnswerThose(int64_t waiting, const Answer& answer) {
  Calls calls;
  UntilMemoryAllows([&] {
    std::lock_guard<std::mutex> lock(mu_);
    calls = TakeLocked(waiting);
  });
  for (const auto& call : calls) call->Tell(answer);
}

}  // namespace troupe
