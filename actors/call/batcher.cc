#include "actors/call/batcher.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "actors/session/session_impl.h"
#include "actors/threads/no_memory.h"
#include "actors/watch/call_wait.h"

namespace troupe {
namespace {

using look = caf::atom_constant<caf::atom("look")>;

constexpr std::chrono::seconds kFarthestAlarm{1};

// "x" and "x:0" are one.
std::string_view Plain(std::string_view name) { return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name; }

size_t IndexOf(const Names& names, std::string_view name) {
  const auto it = std::find_if(names.begin(), names.end(), [&](const auto& n) { return Plain(n) == Plain(name); });
  return static_cast<size_t>(it - names.begin());
}

// Of equal type, and of equal shape but for the rows.
bool FitTogether(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  for (int d = 1; d < a.rank(); ++d) {
    if (a.dim(d) != b.dim(d)) return false;
  }
  return true;
}

// Copies the elements of `from` to `to`, from element `at` on.
void Put(const Tensor& from, Tensor* to, int64_t at) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.data<std::string>(), from.num_elements(), to->data<std::string>() + at);
  } else if (from.bytes() > 0) {
    std::memcpy(static_cast<char*>(to->raw()) + static_cast<size_t>(at) * SizeOf(from.dtype()), from.raw(),
                from.bytes());
  }
}

// Fills the tensor from row `from` on with its first row.
void Repeat(Tensor* all, int64_t from) {
  const int64_t row = all->num_elements() / all->dim(0);
  const Tensor first = all->Slice(0, 1);
  for (int64_t i = from; i < all->dim(0); ++i) Put(first, all, i * row);
}

// One name, once, in each list; numbers that mean something.
absl::Status Check(const BatcherOptions& o) {
  for (const Names* names : {&o.feeds, &o.fetches}) {
    if (names->empty()) return InvalidArgument("a batcher needs the names of feeds and of fetches");
    for (size_t i = 0; i < names->size(); ++i) {
      if (IndexOf(*names, (*names)[i]) != i) return InvalidArgument("a batcher has '", (*names)[i], "' twice");
    }
  }
  if (o.max_batch < 1 || o.max_waiting < 1 || o.max_steps < 1 || o.max_delay_us < 0 || o.timeout_ms < 0)
    return InvalidArgument(
        "a batcher needs max_batch, max_waiting and max_steps of at least 1, and no negative time; it has ",
        o.max_batch, ", ", o.max_waiting, ", ", o.max_steps, ", max_delay_us ", o.max_delay_us, " and timeout_ms ",
        o.timeout_ms);
  const std::vector<int64_t>& sizes = o.allowed_batch_sizes;
  if (sizes.empty()) return absl::OkStatus();
  const bool growing = std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) == sizes.end();
  if (!growing || sizes.front() < 1 || sizes.back() != o.max_batch)
    return InvalidArgument("allowed_batch_sizes grow from at least 1 to max_batch, ", o.max_batch, "; they are ",
                           StrJoin(sizes, ", "));
  return absl::OkStatus();
}

}  // namespace

caf::behavior Batcher::make_behavior() {
  set_down_handler([this](const caf::down_msg& down) { Forget(down.source); });
  return {
      [this](const run_request& asked) { Take(asked); },
      [this](look) {
        alarm_ = Clock::time_point::max();
        Look();
      },
  };
}

void Batcher::on_exit() {
  const absl::Status ended = Unavailable("the batcher has ended");
  for (Request& r : waiting_) Fail(&r, ended);
  for (auto& [number, requests] : running_) {
    for (Request& r : requests) Fail(&r, ended);
  }
  waiting_.clear();
  running_.clear();
  askers_.clear();
  session_ = nullptr;
}

void Batcher::Watch(const Request& request) {
  if (request.asker && ++askers_[request.asker] == 1) monitor(caf::actor_cast<caf::actor>(request.asker));
}

void Batcher::Unwatch(const Request& request) {
  const auto it = askers_.find(request.asker);
  if (it == askers_.end() || --it->second > 0) return;
  demonitor(request.asker);
  askers_.erase(it);
}

void Batcher::Forget(const caf::actor_addr& asker) {
  askers_.erase(asker);
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->asker != asker) {
      ++it;
      continue;
    }
    rows_ -= it->rows;
    it = waiting_.erase(it);
  }
}

void Batcher::Take(const run_request& asked) {
  Request request;
  const caf::response_promise by = make_response_promise();
  UntilMemoryAllows([&] { request.reply = ReplyTo<run_reply>(by.source(), by.id()); });
  absl::Status status = Read(asked, &request);
  if (status.ok() && request.rows > options_.max_waiting - rows_ && !waiting_.empty())
    status = ResourceExhausted(rows_, " rows wait for a step, and no more than ", options_.max_waiting, " may");
  if (!status.ok()) return Fail(&request, status);
  request.asker = caf::actor_cast<caf::actor_addr>(by.source());  // which has it from the message
  Watch(request);
  waiting_.push_back(std::move(request));
  rows_ += waiting_.back().rows;
  Look();
}

absl::Status Batcher::Read(const run_request& asked, Request* request) const {
  const RunOptions& o = asked.options;
  if (!asked.targets.empty() || o.cancellation != nullptr || o.collect_stats || o.partition_graphs)
    return InvalidArgument("a request to a batcher has neither targets nor a token nor metadata");
  // A step has the rows of others, too.
  if (o.check_numerics)
    return InvalidArgument("a request to a batcher cannot have its numbers checked (check_numerics)");
  request->feeds.resize(options_.feeds.size());
  for (const auto& [name, value] : asked.feeds) {
    const size_t i = IndexOf(options_.feeds, name);
    if (i == options_.feeds.size()) return InvalidArgument("'", name, "' is no feed of the batcher");
    if (request->feeds[i].valid()) return InvalidArgument("'", name, "' is fed twice");
    if (!value.valid() || value.rank() < 1 || value.memory() != MemoryKind::kHost ||
        value.dtype() == DType::kResource || value.dtype() == DType::kVariant)
      return InvalidArgument("feed '", name, "' of a batcher needs rows: a dimension 0, of plain elements");
    request->feeds[i] = value;
  }
  for (size_t i = 0; i < options_.feeds.size(); ++i) {
    const Tensor& feed = request->feeds[i];
    if (!feed.valid()) return InvalidArgument("'", options_.feeds[i], "' is not fed");
    if (i == 0) request->rows = feed.dim(0);
    if (feed.dim(0) != request->rows)
      return InvalidArgument("'", options_.feeds[i], "' has ", feed.dim(0), " rows, and '", options_.feeds[0], "' has ",
                             request->rows);
  }
  if (request->rows == 0) return InvalidArgument("a request to a batcher needs a row");
  for (const std::string& name : asked.fetches) {
    request->fetches.push_back(IndexOf(options_.fetches, name));
    if (request->fetches.back() == options_.fetches.size())
      return InvalidArgument("'", name, "' is no fetch of the batcher");
  }
  request->came = Clock::now();
  if (asked.options.timeout_ms > 0) request->deadline = TimeAfter(request->came, asked.options.timeout_ms);
  return absl::OkStatus();
}

Batcher::Clock::duration Batcher::Delay() const {
  // A time too long to be counted would be none.
  constexpr std::chrono::microseconds kLongest = std::chrono::hours(24 * 365);
  return std::min(std::chrono::microseconds(options_.max_delay_us), kLongest);
}

bool Batcher::IsDue(Clock::time_point now) const {
  if (waiting_.empty() || steps_ >= options_.max_steps) return false;
  return waiting_.front().alone || rows_ >= options_.max_batch || now - waiting_.front().came >= Delay();
}

void Batcher::Look() {
  const Clock::time_point now = Clock::now();
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->deadline > now) {
      ++it;
      continue;
    }
    Unwatch(*it);
    Fail(&*it, absl::DeadlineExceededError("the request waited for a step until its deadline"));
    rows_ -= it->rows;
    it = waiting_.erase(it);
  }
  while (IsDue(now)) Run(NextStep());
  if (waiting_.empty()) return;
  // The end of a step looks, too.
  Clock::time_point next = Clock::time_point::max();
  if (steps_ < options_.max_steps) next = waiting_.front().came + Delay();
  for (const Request& r : waiting_) next = std::min(next, r.deadline);
  if (next >= alarm_) return;
  // CAF keeps an alarm until its time, also when an earlier one has done its work: so none is far.
  alarm_ = std::min<Clock::time_point>(next, now + kFarthestAlarm);
  delayed_send(this, std::max<Clock::duration>(alarm_ - now, Clock::duration::zero()), look::value);
}

Batcher::Requests Batcher::NextStep() {
  Requests step;
  int64_t rows = 0;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    bool fits = step.empty() || (!step[0].alone && !it->alone && it->rows <= options_.max_batch - rows);
    for (size_t i = 0; fits && !step.empty() && i < it->feeds.size(); ++i)
      fits = FitTogether(step[0].feeds[i], it->feeds[i]);
    // One that is too long for this step, or of another kind, is first in the next one.
    if (!fits) break;
    rows += it->rows;
    Unwatch(*it);
    step.push_back(std::move(*it));
    it = waiting_.erase(it);
  }
  rows_ -= rows;
  return step;
}

int64_t Batcher::RowsOfStep(int64_t rows) const {
  const std::vector<int64_t>& sizes = options_.allowed_batch_sizes;
  const auto it = std::lower_bound(sizes.begin(), sizes.end(), rows);
  return it == sizes.end() ? rows : *it;
}

absl::StatusOr<run_request> Batcher::Together(const Requests& requests) const {
  run_request step;
  int64_t rows = 0;
  for (const Request& r : requests) rows += r.rows;
  const int64_t filled = RowsOfStep(rows);
  step.fetches = options_.fetches;
  step.options.timeout_ms = options_.timeout_ms;
  for (size_t i = 0; i < options_.feeds.size(); ++i) {
    const Tensor& first = requests[0].feeds[i];
    if (requests.size() == 1 && filled == rows) {
      step.feeds.emplace_back(options_.feeds[i], first);
      continue;
    }
    std::vector<int64_t> dims = {filled};
    for (int d = 1; d < first.rank(); ++d) dims.push_back(first.dim(d));
    Tensor all(first.dtype(), TensorShape(dims));
    if (!all.valid()) return ResourceExhausted("no memory for ", dims[0], " rows of '", options_.feeds[i], "'");
    int64_t at = 0;
    for (const Request& r : requests) {
      Put(r.feeds[i], &all, at);
      at += r.feeds[i].num_elements();
    }
    if (filled > rows) Repeat(&all, rows);
    step.feeds.emplace_back(options_.feeds[i], std::move(all));
  }
  return step;
}

void Batcher::Run(Requests&& requests) {
  absl::StatusOr<run_request> step = Together(requests);
  const caf::actor session = ActorOf(*session_);
  if (step.ok() && !session) step = Unavailable("the session has ended, or its actor is being restarted");
  if (!step.ok()) {
    for (Request& r : requests) Fail(&r, step.status());
    return;
  }
  ++steps_;
  const int64_t number = ++last_step_;
  running_.emplace(number, std::move(requests));
  const auto done = [this, number](run_reply&& reply) {
    const auto it = running_.find(number);
    if (it == running_.end()) return;
    Requests of = std::move(it->second);
    running_.erase(it);
    --steps_;
    Done(std::move(of), std::move(reply));
    Look();
  };
  request(session, caf::infinite, *std::move(step))
      .then([done](run_reply& reply) { done(std::move(reply)); },
            [done, this](const caf::error& e) {
              done({Unavailable("the session's actor did not answer: ", system().render(e)), {}, nullptr});
            });
}

void Batcher::Done(Requests&& requests, run_reply&& reply) {
  if (reply.status.ok()) return HandOut(&requests, reply.outputs);
  if (requests.size() == 1) return Fail(&requests[0], reply.status);
  // In their order, before those that came later.
  for (auto it = requests.rbegin(); it != requests.rend(); ++it) {
    it->alone = true;
    rows_ += it->rows;
    Watch(*it);
    waiting_.push_front(std::move(*it));
  }
}

void Batcher::HandOut(Requests* requests, const std::vector<Tensor>& outputs) {
  int64_t rows = 0, at = 0;
  for (const Request& r : *requests) rows += r.rows;
  const int64_t filled = RowsOfStep(rows);
  absl::Status status;
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    if (outputs[i].rank() < 1 || outputs[i].dim(0) != filled)
      status = FailedPrecondition("fetch '", options_.fetches[i], "' is ", outputs[i].TypeAndShape(), ", and not ",
                                  filled, " rows as was fed");
  }
  for (Request& r : *requests) {
    run_reply reply;
    reply.status = status;
    for (const size_t i : r.fetches) {
      if (!reply.status.ok()) break;
      // Rows of its own: who keeps them does not keep those of others.
      reply.outputs.push_back(r.rows == filled ? outputs[i] : outputs[i].Slice(at, at + r.rows).Clone());
      if (!reply.outputs.back().valid()) reply.status = ResourceExhausted("no memory for the rows of an answer");
    }
    if (!reply.status.ok()) reply.outputs.clear();
    at += r.rows;
    r.reply(std::move(reply));
  }
}

void Batcher::Fail(Request* request, const absl::Status& status) { request->reply(run_reply{status, {}, nullptr}); }

absl::StatusOr<caf::actor> SpawnBatcher(caf::actor_system& system, std::shared_ptr<Session> session,
                                        const BatcherOptions& options) {
  if (session == nullptr) return InvalidArgument("a batcher needs a session");
  if (session->impl()->elsewhere != nullptr)
    return InvalidArgument("a batcher needs a session of this process, and this one is in a server ('",
                           session->impl()->options.target, "'); spawn the batcher there");
  TROUPE_RETURN_IF_ERROR(Check(options));
  return caf::actor(system.spawn<Batcher>(std::move(session), options));
}

}  // namespace troupe
