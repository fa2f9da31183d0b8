// What ran when in steps, on all processes that had a part in them: a file for chrome://tracing,
// Perfetto and `troupe trace`.
//
//   Timeline timeline;
//   RunOptions options;
//   options.collect_stats = true;
//   proto::RunMetadata metadata;
//   absl::Status s = session->Run(options, feeds, fetches, {}, &out, &metadata);
//   timeline.Add(metadata, "step 12");
//   if (s.ok()) s = timeline.Write("mem://trace.json");
//
// Each task is a process of the file, with rows for each of its devices; those of other devices
// than CPU:0 have the device's name in front:
//
//  steps                           a step; of other tasks, from when they heard of it to the answer
//  executor                        stretches in which the executor ran nodes without a pause
//  executor: kernels in its turn   these nodes
//  thread N                        nodes that ran as jobs, by thread
//  checkpointer                    nodes that save and restore, wherever they ran
//  queues                          nodes on queues, readers, tables and the like, and their waits
//  receives                        waits for another device's tensor
//  waits                           waits for variables and files
//
// Of the last four, and of steps, what overlaps has further rows: "queues 2". Times begin at the
// first step. They are the master's: those of other processes were measured by their own clocks,
// and moved by the offset that the messages between the processes tell. A process says by how much
// that may be wrong (`uncertainty_us`, and the label beside its name).
//
// Arrows lead from a node that sends a tensor to the one that receives it, and to other tasks and
// back. The args of a node say what it waited for:
//
//  node, op, device, step  which node it is, and of which step
//  id                      a number, by which others name it
//  after, after_node       whose end made it ready; without it, the step's begin
//  queued_us               how long it was ready and did not run
//  from, tensor, sender    of a receiving node: the sending node, what it sent, its device
//  waits_for               of a wait: the queue or variable
//
// Thread rule: one thread at a time.
#ifndef TROUPE_TIMELINE_H_
#define TROUPE_TIMELINE_H_

#include <memory>
#include <string>
#include <string_view>

#include "troupe/export.h"
#include "troupe/status.h"

namespace troupe::proto {
class RunMetadata;
}

namespace TROUPE_EXPORT troupe {

class Timeline {
 public:
  Timeline();
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Adds a step. Of all steps the master has to be the same process: times of different clocks do
  // not fit together. `name`: "step 1" and so on, if it is empty.
  void Add(const proto::RunMetadata& metadata, std::string_view name = "");
  int steps() const;
  // The file's text, with all steps that were added.
  std::string Text() const;
  // Writes it, whole or not at all (troupe/files.h).
  absl::Status Write(const std::string& path) const;

 private:
  struct TROUPE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe

#endif  // TROUPE_TIMELINE_H_
