// One node with the values that it had, as files: for a node that failed a check, to be looked at
// and run again by the program `troupe`.
//
//   graph.pbtxt   the node under its own name and with its attrs; input I is the placeholder
//                 "input_I", a variable "input_I" that the node "init" sets to a placeholder, or,
//                 of a type without numbers, a constant
//   I.npy         the value of input I, or of the variable that it names
//   replay.sh     runs the node on these values: "sh FOLDER/replay.sh", with further flags of
//                 `troupe run` behind it
//
// A node with an input that names neither value nor variable (a queue, say) has no replay.sh.
//
// Thread rule: thread safe.
#ifndef TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_
#define TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "troupe/kernel.h"
#include "troupe/node_properties.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

// The inputs of a node as they are now.
struct NodeInputs {
  explicit NodeInputs(absl::Span<const Tensor> inputs);
  std::vector<Tensor> inputs;
  // By input: the value of the variable that it names. Not there when an update has it, or it has
  // none.
  std::vector<Tensor> variables;
};

// Writes them into a new folder below `folder`, whose name is made of `when` and the node's name,
// and returns its path. Blocks as long as the disk does.
absl::StatusOr<std::string> DumpNode(const NodeProperties& node, const NodeInputs& inputs, const std::string& folder,
                                     const std::string& when);

// The wait of a node for that, which a thread of its own does, as a disk may take long; where the
// system has no thread left, nothing is written. If the step is told to end before, the files are
// written all the same, and nobody is told: the end of the process waits for them, at most 10 s.
class DumpWait : public KernelWait {
 public:
  // `keep` holds what the memory of the inputs belongs to. `message`: why the node fails.
  DumpWait(std::shared_ptr<void> keep, SharedProperties node, NodeInputs inputs, std::string folder, std::string when,
           std::string message);
  ~DumpWait() override;
  void Await(std::function<void()> go_on) override;
  std::string What() const override;
  // INVALID_ARGUMENT: `message`, and where the inputs are, or why they are nowhere. REQUIRES: go_on
  // has been called.
  const absl::Status& result() const;

 private:
  struct Work;
  const std::shared_ptr<Work> work_;
};

// The wait of a node that failed while another one's inputs are being written. That one ends the
// step, and this wait with it.
class WaitForOthersDump : public KernelWait {
 public:
  void Await(std::function<void()> go_on) override { go_on_ = std::move(go_on); }
  std::string What() const override { return "the inputs of another node that failed to be written"; }

 private:
  std::function<void()> go_on_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_
