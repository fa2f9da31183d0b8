// Transformations of data sets that iterate over a set more than once, or over several: Repeat,
// Cache, Interleave.
#include <functional>
#include <mutex>

#include "kernels/dataset/stages.h"

namespace troupe {
namespace dataset {
namespace {

class RepeatStage : public Stage {
 public:
  RepeatStage(SourcePtr input, int64_t count, uint64_t epoch)
      : source_(std::move(input)), count_(count), epoch_(epoch) {}
  absl::StatusOr<bool> Next(Element* element) override {
    for (bool empty = false; count_ < 0 || round_ < count_; ++round_, given_ = false) {
      if (input_ == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(input_, Make());
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
      if (more) {
        given_ = true;
        return true;
      }
      input_.reset();
      // Repeating nothing for ever would never end.
      if (!given_ && empty) return false;
      empty = !given_;
    }
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "round", round_);
    Put(to, prefix + "given", given_);
    Put(to, prefix + "open", input_ != nullptr);
    if (input_ != nullptr) input_->Save(prefix + "i", to);
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(round_, Take(from, prefix + "round"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t given, Take(from, prefix + "given"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t open, Take(from, prefix + "open"));
    given_ = given != 0;
    if (open == 0) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(input_, Make());
    return input_->Restore(prefix + "i", from);
  }

 private:
  absl::StatusOr<StagePtr> Make() const { return source_->Make(Mixed(epoch_ + static_cast<uint64_t>(round_))); }

  const SourcePtr source_;
  const int64_t count_;
  const uint64_t epoch_;
  int64_t round_ = 0;
  bool given_ = false;
  StagePtr input_;
};

struct CacheRows {
  std::mutex mu;
  std::shared_ptr<const std::vector<Element>> rows;  // of a whole iteration; null before
};

class CacheStage : public Stage {
 public:
  CacheStage(SourcePtr source, std::shared_ptr<CacheRows> cache)
      : source_(std::move(source)), cache_(std::move(cache)) {
    const std::lock_guard lock(cache_->mu);
    rows_ = cache_->rows;
  }
  absl::StatusOr<bool> Next(Element* element) override {
    if (rows_ != nullptr) {
      if (at_ >= rows_->size()) return false;
      *element = (*rows_)[at_++];
      return true;
    }
    if (input_ == nullptr) {
      // Every repetition reads what the first one has read.
      TROUPE_ASSIGN_OR_RETURN(input_, source_->Make(0));
    }
    TROUPE_ASSIGN_OR_RETURN(const bool more, input_->Next(element));
    if (more) {
      read_.push_back(*element);
      ++at_;
      return true;
    }
    rows_ = std::make_shared<const std::vector<Element>>(std::move(read_));
    const std::lock_guard lock(cache_->mu);
    if (cache_->rows == nullptr) cache_->rows = rows_;
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    Put(to, prefix + "cached", static_cast<int64_t>(at_));
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_ASSIGN_OR_RETURN(const int64_t at, Take(from, prefix + "cached"));
    Element passed;
    while (at_ < static_cast<size_t>(at)) {
      TROUPE_ASSIGN_OR_RETURN(const bool more, Next(&passed));
      if (!more) return InvalidArgument("the input of Cache ends after ", at_, " elements, before the position ", at);
    }
    return absl::OkStatus();
  }

 private:
  const SourcePtr source_;
  const std::shared_ptr<CacheRows> cache_;
  std::shared_ptr<const std::vector<Element>> rows_;
  StagePtr input_;
  std::vector<Element> read_;
  size_t at_ = 0;
};

class InterleaveStage : public InputStage {
 public:
  InterleaveStage(StagePtr input, Dataset::FlatFn f, std::function<absl::StatusOr<StagePtr>(const Dataset&)> make,
                  int cycle, int64_t block)
      : InputStage(std::move(input)),
        f_(std::move(f)),
        make_(std::move(make)),
        block_(block),
        places_(static_cast<size_t>(cycle)) {}
  absl::StatusOr<bool> Next(Element* element) override {
    size_t empty = 0;
    while (empty < places_.size()) {
      Opened& at = places_[now_];
      if (at.stage == nullptr && !at.taken && !ended_) {
        TROUPE_ASSIGN_OR_RETURN(at.taken, input_->Next(&at.element));
        ended_ = !at.taken;
      }
      if (at.stage == nullptr && at.taken) TROUPE_RETURN_IF_ERROR(Open(&at));
      if (at.stage == nullptr) {
        ++empty;
        Turn();
        continue;
      }
      TROUPE_ASSIGN_OR_RETURN(const bool more, at.stage->Next(element));
      if (!more) {
        // The next set takes this place when its turn comes again.
        at.stage.reset();
        at.taken = false;
        empty = 0;
        Turn();
        continue;
      }
      if (++given_ >= block_) Turn();
      return true;
    }
    return false;
  }
  void Save(const std::string& prefix, ResourceState* to) override {
    InputStage::Save(prefix, to);
    Put(to, prefix + "now", static_cast<int64_t>(now_));
    Put(to, prefix + "given", given_);
    Put(to, prefix + "ended", ended_);
    for (size_t i = 0; i < places_.size(); ++i) {
      const std::string place = StrCat(prefix, "s", i, ".");
      Put(to, place + "taken", places_[i].taken);
      if (!places_[i].taken) continue;
      PutElement(to, place + "of", places_[i].element);
      Put(to, place + "open", places_[i].stage != nullptr);
      if (places_[i].stage != nullptr) places_[i].stage->Save(place + "i", to);
    }
  }
  absl::Status Restore(const std::string& prefix, const ResourceState& from) override {
    TROUPE_RETURN_IF_ERROR(InputStage::Restore(prefix, from));
    TROUPE_ASSIGN_OR_RETURN(const int64_t now, Take(from, prefix + "now"));
    TROUPE_ASSIGN_OR_RETURN(given_, Take(from, prefix + "given"));
    TROUPE_ASSIGN_OR_RETURN(const int64_t ended, Take(from, prefix + "ended"));
    if (now >= static_cast<int64_t>(places_.size())) return InvalidArgument("the position is of a larger cycle");
    now_ = static_cast<size_t>(now);
    ended_ = ended != 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      const std::string place = StrCat(prefix, "s", i, ".");
      TROUPE_ASSIGN_OR_RETURN(const int64_t taken, Take(from, place + "taken"));
      places_[i].taken = taken != 0;
      if (taken == 0) continue;
      TROUPE_ASSIGN_OR_RETURN(places_[i].element, TakeElement(from, place + "of"));
      TROUPE_ASSIGN_OR_RETURN(const int64_t open, Take(from, place + "open"));
      if (open == 0) continue;
      TROUPE_RETURN_IF_ERROR(Open(&places_[i]));
      TROUPE_RETURN_IF_ERROR(places_[i].stage->Restore(place + "i", from));
    }
    return absl::OkStatus();
  }

 private:
  struct Opened {
    Element element;     // of which the set is made
    bool taken = false;  // there is such an element
    StagePtr stage;      // of the set; null when it could not be made
  };
  absl::Status Open(Opened* at) {
    TROUPE_ASSIGN_OR_RETURN(const Dataset set, Guarded("Interleave", [&] { return f_(at->element); }));
    TROUPE_ASSIGN_OR_RETURN(at->stage, make_(set));
    return absl::OkStatus();
  }
  void Turn() {
    now_ = (now_ + 1) % places_.size();
    given_ = 0;
  }

  const Dataset::FlatFn f_;
  const std::function<absl::StatusOr<StagePtr>(const Dataset&)> make_;
  const int64_t block_;
  std::vector<Opened> places_;
  size_t now_ = 0;
  int64_t given_ = 0;
  bool ended_ = false;
};

}  // namespace
}  // namespace dataset

Dataset Dataset::Repeat(int64_t count) const {
  return Dataset(dataset::NewSource(
      {},
      [source = source_, count](std::vector<dataset::StagePtr>, uint64_t epoch) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::RepeatStage>(source, count, epoch);
      }));
}
Dataset Dataset::Interleave(FlatFn f, int cycle, int64_t block, Here here) const {
  if (dataset::SourcePtr refused = dataset::RefusedWithout(f, "Interleave", here)) return Dataset(std::move(refused));
  if (cycle < 1 || block < 1) {
    return Dataset(dataset::Refused(
        "Interleave", here,
        InvalidArgument("it needs a cycle and blocks of at least 1, and got ", cycle, " and ", block)));
  }
  return Dataset(dataset::NewSource(
      {source_}, [=](std::vector<dataset::StagePtr> in, uint64_t epoch) -> absl::StatusOr<dataset::StagePtr> {
        const auto make = [epoch](const Dataset& set) { return set.source_->Make(epoch); };
        return std::make_unique<dataset::InterleaveStage>(std::move(in[0]), f, make, cycle, block);
      }));
}
Dataset Dataset::Cache() const {
  auto rows = std::make_shared<dataset::CacheRows>();
  return Dataset(dataset::NewSource(
      {}, [source = source_, rows](std::vector<dataset::StagePtr>, uint64_t) -> absl::StatusOr<dataset::StagePtr> {
        return std::make_unique<dataset::CacheStage>(source, rows);
      }));
}

}  // namespace troupe
