// Transformations of data sets that look at one element at a time: Map, Filter, Take, Skip, Shard.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

// A stage that takes an element and may fail with it: `kept_` has it then.
class KeepingStage : public InputStage {
 public:
  using InputStage::InputStage;
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    PutElements(to, prefix + "kept", kept_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(kept_, TakeElements(from, prefix + "kept"));
    return InputStage::Restore(prefix, from);
  }

 protected:
  // The element that was kept, or the next one of the input.
  absl::StatusOr<bool> TakeNext(Element* element) {
    if (kept_.empty()) return input_->Next(element);
    *element = std::move(kept_.front());
    kept_.clear();
    return true;
  }
  void Keep(Element element) { kept_.push_back(std::move(element)); }

 private:
  std::vector<Element> kept_;  // at most one
};

class MapStage : public KeepingStage {
 public:
  MapStage(StagePtr input, Dataset::MapFn f) : KeepingStage(std::move(input)), f_(std::move(f)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    Element in;
    TROUPE_ASSIGN_OR_RETURN(const bool more, TakeNext(&in));
    if (!more) return false;
    absl::StatusOr<Element> out = Guarded("Map", [&] { return f_(in); });
    if (!out.ok()) {
      Keep(std::move(in));
      return out.status();
    }
    *element = *std::move(out);
    return true;
  }

 private:
  const Dataset::MapFn f_;
};

// Up to n calls at once, whose results are given in the order of the elements. Elements whose
// results have not been given are part of the position.
class ParallelMapStage : public InputStage {
 public:
  ParallelMapStage(StagePtr input, Dataset::MapFn f, int n) : InputStage(std::move(input)), f_(std::move(f)), n_(n) {}
  ~ParallelMapStage() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  absl::StatusOr<bool> Next(Element* element) override {
    while (!ended_ && calls_.size() < static_cast<size_t>(n_)) {
      auto call = std::make_shared<Call>();
      const absl::StatusOr<bool> more = input_->Next(&call->in);
      if (!more.ok()) {
        call->out = more.status();
        call->done = call->is_end = true;
        ended_ = true;
      } else if (!*more) {
        ended_ = true;
        break;
      }
      Add(std::move(call));
    }
    if (calls_.empty()) return false;
    const std::shared_ptr<Call> first = calls_.front();
    {
      std::unique_lock lock(mu_);
      done_.wait(lock, [&] { return first->done; });
    }
    // What has failed stays, and is tried again by whoever goes on from here.
    if (!first->out.ok()) return first->out.status();
    calls_.pop_front();
    *element = *std::move(first->out);
    return true;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    // An error of the input comes again when it is asked again: it has kept what it failed with.
    const bool failed = !calls_.empty() && calls_.back()->is_end;
    const size_t n = calls_.size() - (failed ? 1 : 0);
    Put(to, prefix + "calls", static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) PutElement(to, StrCat(prefix, "call", i), calls_[i]->in);
    Put(to, prefix + "ended", ended_ && !failed);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "calls"));
    for (int64_t i = 0; i < n; ++i) {
      auto call = std::make_shared<Call>();
      TROUPE_ASSIGN_OR_RETURN(call->in, TakeElement(from, StrCat(prefix, "call", i)));
      Add(std::move(call));
    }
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    ended_ = ended != 0;
    return absl::OkStatus();
  }

 private:
  struct Call {
    Element in;
    absl::StatusOr<Element> out;
    bool done = false;
    bool is_end = false;  // no call, but the error of the input
  };
  void Add(std::shared_ptr<Call> call) {
    calls_.push_back(call);
    if (call->done) return;
    // Without a thread the caller does it.
    if (threads_.size() < static_cast<size_t>(n_)) {
      try {
        threads_.emplace_back([this] { Work(); });
      } catch (const std::system_error&) {
        if (threads_.empty()) return Run(call.get());
      }
    }
    {
      const std::lock_guard lock(mu_);
      queue_.push_back(std::move(call));
    }
    work_.notify_one();
  }
  void Run(Call* call) {
    absl::StatusOr<Element> out = Guarded("Map", [&] { return f_(call->in); });
    const std::lock_guard lock(mu_);
    call->out = std::move(out);
    call->done = true;
  }
  void Work() {
    std::unique_lock lock(mu_);
    for (;;) {
      work_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const std::shared_ptr<Call> call = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Run(call.get());
      done_.notify_all();
      lock.lock();
    }
  }

  const Dataset::MapFn f_;
  const int n_;
  std::deque<std::shared_ptr<Call>> calls_;  // of the thread that asks
  bool ended_ = false;
  std::mutex mu_;
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Call>> queue_;  // under mu_, as what Calls hold
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

class FilterStage : public KeepingStage {
 public:
  FilterStage(StagePtr input, Dataset::Predicate keep) : KeepingStage(std::move(input)), keep_(std::move(keep)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (;;) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, TakeNext(element));
      if (!more) return false;
      const absl::StatusOr<bool> kept = Guarded("Filter", [&] { return keep_(*element); });
      if (!kept.ok()) {
        Keep(*element);
        return kept.status();
      }
      if (*kept) return true;
    }
  }

 private:
  const Dataset::Predicate keep_;
};

// Take, Skip and Shard: by the elements' numbers.
class CountingStage : public InputStage {
 public:
  // Gives elements number `first`, first + step, ... before `end` (negative: no end).
  CountingStage(StagePtr input, int64_t first, int64_t step, int64_t end)
      : InputStage(std::move(input)), first_(first), step_(step), end_(end) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (;;) {
      if (end_ >= 0 && at_ >= end_) return false;
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
      if (!more) return false;
      const int64_t number = at_++;
      if (number >= first_ && (number - first_) % step_ == 0) return true;
    }
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "count", at_);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(at_, Take(from, prefix + "count"));
    return InputStage::Restore(prefix, from);
  }

 private:
  const int64_t first_, step_, end_;
  int64_t at_ = 0;
};

SourcePtr Counting(SourcePtr input, int64_t first, int64_t step, int64_t end) {
  return NewSource({std::move(input)}, [=](std::vector<StagePtr> in, uint64_t) -> absl::StatusOr<StagePtr> {
    return std::make_unique<CountingStage>(std::move(in[0]), first, step, end);
  });
}

}  // namespace
}  // namespace dataset

Dataset Dataset::Map(MapFn f, int in_flight, Here here) const {
  if (dataset::SourcePtr refused = dataset::RefusedWithout(f, "Map", here)) return Dataset(std::move(refused));
  if (in_flight < 1)
    return Dataset(dataset::Refused("Map", here, InvalidArgument("it cannot have ", in_flight, " calls in flight")));
  return Dataset(dataset::NewSource(
      {source_}, [f, in_flight](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        if (in_flight <= 1) return std::make_unique<dataset::MapStage>(std::move(in[0]), f);
        return std::make_unique<dataset::ParallelMapStage>(std::move(in[0]), f, std::min(in_flight, 1024));
      }));
}
Dataset Dataset::Filter(Predicate keep, Here here) const {
  if (dataset::SourcePtr refused = dataset::RefusedWithout(keep, "Filter", here)) return Dataset(std::move(refused));
  return Dataset(dataset::NewSource(
      {source_}, [keep](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::FilterStage>(std::move(in[0]), keep);
      }));
}
Dataset Dataset::Take(int64_t n) const { return Dataset(dataset::Counting(source_, 0, 1, std::max<int64_t>(n, -1))); }
Dataset Dataset::Skip(int64_t n) const {
  return Dataset(n < 0 ? dataset::Counting(source_, 0, 1, 0) : dataset::Counting(source_, n, 1, -1));
}
Dataset Dataset::Shard(int64_t n, int64_t index, Here here) const {
  if (n < 1 || index < 0 || index >= n) {
    return Dataset(dataset::Refused("Shard", here, InvalidArgument("there is no part ", index, " of ", n)));
  }
  return Dataset(dataset::Counting(source_, index, n, -1));
}

}  // namespace troupe
