// What the programs of a cluster report, one JSON object a line, and what they and their processes
// look like as a table, as lines and as JSON.
//
// Of an object these members are known: step, loss, images_per_s, accuracy, hash, and event ("step"
// if it is not there), which says what the step is: a step counts as reported with "step" alone.
// Steps are counted for steps/s over the last seconds; one that comes again counts again.
//
// Thread rule: one thread.
#ifndef TROUPE_TOOLS_TROUPE_CLUSTER_REPORTS_H_
#define TROUPE_TOOLS_TROUPE_CLUSTER_REPORTS_H_

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tools/troupe/cluster_plan.h"

namespace troupe::tool {

class ClusterReports {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // The step that a line reports; nullopt when it reports none.
  std::optional<int64_t> Hear(const std::string& process, std::string_view line, Time now);
  // "step 41, loss 0.61, 5120 images/s"; "" when nothing was reported.
  std::string Text(const std::string& process, Time now) const;
  // Members of an object, `"step": 41, "loss": 0.61`; "" when nothing was reported.
  std::string Json(const std::string& process, Time now) const;
  struct Cells {
    std::string step, steps_per_s, images_per_s, loss;
  };
  Cells CellsOf(const std::string& process, Time now) const;

 private:
  struct Report {
    std::map<std::string, std::string> values;   // as they were written
    std::deque<std::pair<Time, int64_t>> steps;  // of the last seconds
  };
  static std::string StepsPerSecond(const Report& r, Time now);
  std::map<std::string, Report> reports_;
};

// The state of a cluster, as its folder keeps it and --json prints it at the end.
std::string ClusterJson(const ClusterPlan& plan, const ProcessesStatus& status, const ClusterReports& reports,
                        ClusterReports::Time now);
// One line a process, with a heading.
std::string ClusterTable(const ClusterPlan& plan, const ProcessesStatus& status, const ClusterReports& reports,
                         ClusterReports::Time now);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_CLUSTER_REPORTS_H_
