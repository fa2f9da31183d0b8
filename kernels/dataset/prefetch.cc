// Prefetch: elements of a data set that are made ahead, on a thread.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

// A thread fills a queue. Whoever saves waits for the element that is being made.
class PrefetchStage : public InputStage {
 public:
  PrefetchStage(StagePtr input, int n) : InputStage(std::move(input)), n_(static_cast<size_t>(n)) {}
  ~PrefetchStage() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    room_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  absl::StatusOr<bool> Next(Element* element) override {
    std::unique_lock lock(mu_);
    if (!thread_.joinable() && !ended_) {
      try {
        thread_ = std::thread([this] { Fill(); });
      } catch (const std::system_error&) {
        // Without a thread nothing is made ahead.
        if (queue_.empty()) return input_->Next(element);
      }
    }
    filled_.wait(lock, [this] { return !queue_.empty() || ended_; });
    if (!queue_.empty()) {
      *element = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      room_.notify_one();
      return true;
    }
    if (!failed_.ok()) return failed_;
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    const std::lock_guard input_lock(input_mu_);
    const std::lock_guard lock(mu_);
    InputStage::Save(prefix, to);
    Put(to, prefix + "ahead", static_cast<int64_t>(queue_.size()));
    for (size_t i = 0; i < queue_.size(); ++i) PutElement(to, StrCat(prefix, "ahead", i), queue_[i]);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, prefix + "ahead"));
    for (int64_t i = 0; i < n; ++i) {
      TROUPE_ASSIGN_OR_RETURN(Element element, TakeElement(from, StrCat(prefix, "ahead", i)));
      queue_.push_back(std::move(element));
    }
    return absl::OkStatus();
  }

 private:
  void Fill() {
    for (bool more = true; more;) {
      {
        std::unique_lock lock(mu_);
        room_.wait(lock, [this] { return stop_ || queue_.size() < n_; });
        if (stop_) return;
      }
      const std::lock_guard input_lock(input_mu_);
      Element element;
      const absl::StatusOr<bool> next = Guarded("Prefetch's input", [&] { return input_->Next(&element); });
      more = next.ok() && *next;
      const std::lock_guard lock(mu_);
      if (more) {
        queue_.push_back(std::move(element));
      } else {
        failed_ = next.status();
        ended_ = true;
      }
      filled_.notify_all();
    }
  }

  const size_t n_;
  std::mutex input_mu_;  // before mu_; the input belongs to whoever has it
  std::mutex mu_;
  std::condition_variable filled_, room_;
  std::deque<Element> queue_;
  absl::Status failed_;
  bool ended_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace
}  // namespace dataset

Dataset Dataset::Prefetch(int n, Here here) const {
  if (n == 0) return *this;
  if (n < 0) return Dataset(dataset::Refused("Prefetch", here, InvalidArgument("it has no room for ", n, " elements")));
  return Dataset(dataset::NewSource(
      {source_}, [n](std::vector<dataset::StagePtr> in, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::PrefetchStage>(std::move(in[0]), n);
      }));
}

}  // namespace troupe
