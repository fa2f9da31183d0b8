// The choices of this process, and how a kernel asks for one.
//
//   if (!tune::Active()) [[likely]] return Run(WayByRule(s));
//   tune::Trial trial(tune::Key(&kMatMul, {s.m, s.n, s.k}), [&] { return NamesOf(Ways(s)); });
//   Run(Ways(s)[trial.way()]);
//   trial.Done();
//
// Thread rule: all of it from any thread; a Trial and an AtNode belong to the thread that made
// them.
#ifndef TROUPE_KERNELS_TUNE_TUNING_H_
#define TROUPE_KERNELS_TUNE_TUNING_H_

#include <atomic>
#include <string_view>

#include "kernels/tune/choice_table.h"
#include "troupe/tuning.h"

namespace troupe::tune {

namespace internal {
// A TuningMode, or -1: the environment has not been asked yet.
extern std::atomic<int> mode;
extern std::atomic<bool> notes_nodes;
}  // namespace internal

// False when the fixed rule decides. One load.
inline bool Active() { return internal::mode.load(std::memory_order_relaxed) != static_cast<int>(TuningMode::kOff); }

// The process's table.
ChoiceTable& Table();

// For the time of its life, what this thread computes belongs to a node.
class AtNode {
 public:
  AtNode(std::string_view name, std::string_view op) {
    if (internal::notes_nodes.load(std::memory_order_relaxed)) [[unlikely]]
      Enter(name, op);
  }
  ~AtNode() {
    if (entered_) [[unlikely]]
      Leave();
  }
  AtNode(const AtNode&) = delete;
  AtNode& operator=(const AtNode&) = delete;

 private:
  void Enter(std::string_view name, std::string_view op);
  void Leave();
  bool entered_ = false;
};

// One call with a problem: which way it is to take and, as long as that is being tried, how long it
// took.
class Trial {
 public:
  // `ways` gives the std::vector<Way> of a problem that is new.
  template <class F>
  Trial(const Key& key, F&& ways) : mode_(CurrentTuning()) {
    if (mode_ == TuningMode::kOff) return;
    if (Choice* const choice = Table().FindOrAdd(key, ways)) {
      Begin(choice);
    } else {
      way_ = Table().SavedWay(key, mode_, ways);
    }
  }
  // Without Done the call does not count: it threw.
  ~Trial() {
    if (choice_ != nullptr) choice_->Abandon(way_);
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  int way() const { return way_; }
  bool trying() const { return choice_ != nullptr; }
  // The result is there.
  void Done() {
    if (choice_ != nullptr) End();
  }

 private:
  void Begin(Choice* choice);
  void End();

  const TuningMode mode_;
  Choice* choice_ = nullptr;  // while it is being tried
  int way_ = 0;
  int64_t began_ns_ = 0;
};

}  // namespace troupe::tune

#endif  // TROUPE_KERNELS_TUNE_TUNING_H_
