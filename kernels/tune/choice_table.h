// Which of several ways of computing a problem is taken: measured in the first calls, then fixed.
//
// A problem is an op with its sizes and attributes (Key). Its ways are numbered; way 0 is the one
// that a fixed rule takes. Each call that comes before the choice is made computes its result in
// another way, in turn, and tells how long that took, so that no work is done twice.
//
// Contract: each way is timed twice; a third time unless its least time is kHopeless times the best
// of all; and then on, up to kMostCalls times and kEnoughNs in all, while it is less than kClose
// times the best, since few short calls tell little. Then the way with the least time is chosen;
// way 0 stays unless another one is faster by kGain, so that noise changes nothing. Trials that
// have taken kMostNs together end with the best so far. A call that fails or is cut off does not
// count. The table holds at most kMost problems and forgets none; for later ones there is no
// Choice, and SavedWay is taken: which problems come first is a matter of time, and what a file
// says must not be.
//
// Thread rule: all methods are thread safe. Finding a problem that is known, and its choice if that
// is made, takes no lock.
#ifndef TROUPE_KERNELS_TUNE_CHOICE_TABLE_H_
#define TROUPE_KERNELS_TUNE_CHOICE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "troupe/tuning.h"

namespace troupe::tune {

// A kind of problem: what it is called, and what its numbers are called. Static.
struct Problem {
  const char* op;  // of letters and '_'
  absl::Span<const char* const> names;
};

class Key {
 public:
  static constexpr int kMostNumbers = 24;
  // As many numbers as the problem has names.
  Key(const Problem* problem, std::initializer_list<int64_t> numbers);
  uint64_t hash() const { return hash_; }
  // "op(name=number,...)"
  std::string Text() const;
  friend bool operator==(const Key& a, const Key& b) {
    return a.hash_ == b.hash_ && a.problem_ == b.problem_ && a.numbers_ == b.numbers_;
  }

 private:
  const Problem* problem_;
  uint64_t hash_;
  std::array<int64_t, kMostNumbers> numbers_ = {};
};

struct Way {
  std::string name;        // without blanks and '='
  bool same_bits = false;  // as way 0
};

// What a file says of a problem.
struct SavedChoice {
  std::string way;
  std::vector<std::pair<std::string, double>> times;  // way, microseconds; `way` is among them
};
using SavedChoices = std::map<std::string, SavedChoice>;  // by Key::Text()

// A problem, its ways, and which of them is taken.
class Choice {
 public:
  static constexpr int kCalls = 3, kMostCalls = 12;
  static constexpr double kHopeless = 1.5, kClose = 1.2, kGain = 1.03;
  static constexpr int64_t kEnoughNs = 3'000'000, kMostNs = 1'000'000'000;
  static constexpr size_t kMostNodes = 16;

  // REQUIRES: there is a way; `mode` below is not kOff.
  Choice(const Key& key, std::vector<Way> ways);

  const Key& key() const { return key_; }
  // The way that was chosen; -1 while it is being tried.
  int Chosen(TuningMode mode) const { return chosen_[static_cast<int>(mode)].load(std::memory_order_acquire); }
  // The way that a call takes; it tells by End or Abandon what became of it.
  int Begin(TuningMode mode);
  // True when that was the last trial.
  bool End(TuningMode mode, int way, int64_t ns);
  void Abandon(int way);
  // What a file says. False when it names a way that there is not here.
  bool Take(const SavedChoice& saved);
  void NoteNode(std::string_view name, std::string_view op);

  TuningChoice Describe(TuningMode mode) const;
  // What a file is told; false when nothing was chosen by measurement.
  bool Save(SavedChoice* saved) const;

 private:
  struct Tried {
    int calls = 0, under_way = 0;
    int64_t least_ns = 0, spent_ns = 0;
  };
  bool Competes(TuningMode mode, size_t way) const { return mode == TuningMode::kAll || ways_[way].same_bits; }
  bool WantsMore(TuningMode mode, size_t way) const;
  int Best(TuningMode mode) const;

  const Key key_;
  const std::vector<Way> ways_;
  std::array<std::atomic<int>, 4> chosen_;  // by mode
  mutable std::mutex mu_;
  std::vector<Tried> tried_;  // under mu_, as all below
  int64_t spent_ns_[4] = {};  // by mode
  bool from_file_ = false;
  std::vector<std::string> nodes_;
};

class ChoiceTable {
 public:
  static constexpr size_t kMost = 1024;

  ChoiceTable() = default;
  ~ChoiceTable();
  ChoiceTable(const ChoiceTable&) = delete;
  ChoiceTable& operator=(const ChoiceTable&) = delete;

  // Null when there is none.
  Choice* Find(const Key& key) const;
  // Null when the table is full. `ways` is called for a new problem.
  template <class F>
  Choice* FindOrAdd(const Key& key, F&& ways) {
    if (Choice* known = Find(key)) [[likely]]
      return known;
    return Full() ? nullptr : Add(key, ways());
  }
  // What a file says, for the problems that there are and for those that come.
  void Learn(SavedChoices saved);
  // The way of a problem that has no Choice: what the last file says, else way 0. Takes a lock when
  // there was a file.
  template <class F>
  int SavedWay(const Key& key, TuningMode mode, F&& ways) const {
    return has_saved_.load(std::memory_order_acquire) ? LookUp(key, mode, ways()) : 0;
  }
  // In the order in which they came.
  std::vector<Choice*> All() const;

 private:
  static constexpr size_t kSlots = 2 * kMost;

  bool Full() const { return size_.load(std::memory_order_relaxed) >= kMost; }
  Choice* Add(const Key& key, std::vector<Way> ways);
  int LookUp(const Key& key, TuningMode mode, const std::vector<Way>& ways) const;

  // By hash, the next free one where two meet; what is set stays.
  std::array<std::atomic<Choice*>, kSlots> slots_ = {};
  std::atomic<size_t> size_{0};
  std::atomic<bool> has_saved_{false};
  mutable std::mutex mu_;
  std::vector<std::unique_ptr<Choice>> all_;  // under mu_
  SavedChoices saved_;                        // under mu_
};

}  // namespace troupe::tune

#endif  // TROUPE_KERNELS_TUNE_CHOICE_TABLE_H_
