// What a process of this example prints.
//
// Each line is one JSON object, or the same as text, and has "event" and "task", the number of the
// worker:
//   {"event": "ready", "task": 0, "pid": 71, "listens_at": "127.0.0.1:2223"}
//       once, when the process listens
//   {"event": "begin", "task": 0, "step": 40, "from": "servers"}
//       training begins, or goes on after a loss, at this step. "from", of the chief: "start" with
//       new variables; "servers" with what the parameter servers, or workers that were left, have;
//       "checkpoint" with what was restored. Then there are "restored_to": 40 and "lost_updates": how many updates that the
//       servers had are to be done again (sync, backup), or are lost (async)
//   {"event": "step", "task": 0, "step": 41, "loss": 0.61, "images_per_s": 5120.0}
//       the model has had 41 updates. All modes but async: of the chief alone; loss is the mean of the
//       workers that were taken, before the update, and images are those of all of them. async: of
//       each worker, its own. After a restore a step may come again; in sync mode with equal loss
//   {"event": "joined", "task": 0, "step": 30, "worker": 2}
//       --parts, of the chief: a worker has come; "left": it has left in order; "gone": it is not
//       there any more, and others compute its part
//   {"event": "saved", "task": 0, "step": 50, "path": "RUN/model.ckpt-50"}
//       of the chief
//   {"event": "lost", "task": 0, "why": "UNAVAILABLE: ..."}
//       a step has failed, and the process waits to go on; "begin" follows
//   {"event": "end", "task": 0, "step": 100, "loss": 0.21, "accuracy": 0.93,
//    "hash": "0123456789abcdef", "recoveries": 1, "restarts": 1, "lost_updates": 0, "dropped": 0,
//    "images_per_s": 5120.0}
//       last. Of workers that are no chief, without loss, accuracy, hash, restarts, lost_updates and
//       dropped, and in sync and backup without images_per_s. accuracy: of the test images; hash: of
//       the bits of all variables; recoveries: how often this process began again ("lost");
//       restarts: how often workers came anew to the chief; lost_updates: the sum of those of
//       "begin"; dropped: gradients that were too late, or came twice. Of a worker that left before
//       the end also "left": true
//   {"event": "save_failed", "task": 0, "why": "RESOURCE_EXHAUSTED: ..."}
//       a checkpoint could not be written; training goes on
//   {"event": "traced", "task": 0, "path": "trace.json"}
//       what --trace asked for is written; or "trace_failed", with "why"
//
// Thread rule: one thread at a time.
#ifndef TROUPE_EXAMPLES_CLUSTER_MNIST_REPORT_H_
#define TROUPE_EXAMPLES_CLUSTER_MNIST_REPORT_H_

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/train/train_together.h"

namespace cluster_mnist {

struct ReportOptions {
  bool json = false;
  int task = 0;              // of this worker; 0: the chief
  int64_t steps = 0;         // the last one is always told of
  int64_t report_steps = 1;  // between two lines
  int64_t batch = 0;         // images of a gradient
};

class Report {
 public:
  explicit Report(const ReportOptions& options) : options_(options) {}
  void Ready(const std::string& listens_at) const;
  void Tell(const troupe::train::TrainingEvent& event);
  // Of the chief, before End: of the test images; of the bits of all variables.
  void SetResult(double accuracy, uint64_t hash) { accuracy_ = accuracy, hash_ = hash; }
  void End(const troupe::train::TrainingReport& report) const;

 private:
  using Fields = std::vector<std::pair<std::string, std::string>>;  // values as in JSON
  void Print(const std::string& event, const Fields& fields) const;
  void TellStep(const troupe::train::TrainingEvent& event);

  const ReportOptions options_;
  double loss_ = NAN, accuracy_ = NAN, seconds_ = 0;
  int64_t gradients_ = 0, reported_ = 0;
  uint64_t hash_ = 0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace cluster_mnist

#endif  // TROUPE_EXAMPLES_CLUSTER_MNIST_REPORT_H_
