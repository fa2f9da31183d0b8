// An operation that must return in time, whatever computes meanwhile.
#ifndef TROUPE_TESTS_STRESS_DOING_H_
#define TROUPE_TESTS_STRESS_DOING_H_

#include <algorithm>
#include <string>

#include "tests/stress/faults.h"
#include "tests/stress/scenario.h"

namespace troupe::stress {

class Scenario::Doing {
 public:
  Doing(Scenario* scenario, std::string what) : scenario_(scenario), what_(std::move(what)) {
    std::lock_guard<std::mutex> lock(scenario_->mu_);
    scenario_->doing_.emplace_back(what_, begin_);
  }
  ~Doing() {
    const double took = MillisSince(begin_), margin = Load::Get().Margin(begin_);
    if (took > margin)
      Fault(scenario_->number_, "an operation took too long", StrCat(what_, ": ", took, " ms, margin ", margin));
    std::lock_guard<std::mutex> lock(scenario_->mu_);
    auto& all = scenario_->doing_;
    all.erase(std::find(all.begin(), all.end(), std::pair(what_, begin_)));
  }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  Scenario* const scenario_;
  const std::string what_;
  const TimePoint begin_ = Clock::now();
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_DOING_H_
