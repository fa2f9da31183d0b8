// The check of a step for NaN and infinities (RunOptions.check_numerics): of each kernel's outputs,
// of the inputs of kernels that update state, and, in the updates themselves, of the new values of
// variables (kernels/numerics_check.h). Nothing of this file runs in a step that does not check.
//
// What only hands values on is not checked: constants, feeds, control flow, receives.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "actors/executor/node_dump.h"
#include "kernels/numerics_check.h"
#include "kernels/run_kernel.h"

namespace troupe {

// " in iteration 3 of loop 'inner' in iteration 0 of loop 'outer'"; "" outside of loops.
std::string StepState::PlaceText(const Iteration* it) const {
  std::string text;
  for (; it->frame != &root_frame_; it = it->frame->parent_iteration)
    StrAppend(&text, " in iteration ", it->number, " of loop '", part_->frames[it->frame->id].name, "'");
  return text;
}

// A node that updates state is known by what it names: a variable, queue or the like.
absl::Status StepState::CheckUpdateInputs(uint32_t node, absl::Span<const Tensor> inputs) const {
  const absl::Span<const DType> types = part_->info[node].input_types;
  const bool updates =
      std::any_of(types.begin(), types.end(), [](DType t) { return t == DType::kResource || IsRef(t); });
  if (!updates) return absl::OkStatus();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsRef(types[i])) continue;
    const NonFinite found = CountNonFinite(inputs[i]);
    if (found.any()) {
      return NotFiniteError(StrCat("input ", i, " (", inputs[i].TypeAndShape(), ") of this update has ",
                                   NonFiniteText(found, inputs[i])));
    }
  }
  return absl::OkStatus();
}

absl::Status StepState::CheckFinite(uint32_t node, const Tensor* outputs) const {
  for (size_t i = 0; i < part_->info[node].output_types.size(); ++i) {
    if (IsRef(part_->info[node].output_types[i])) continue;
    const NonFinite found = CountNonFinite(outputs[i]);
    if (found.any()) {
      return NotFiniteError(
          StrCat("output ", i, " (", outputs[i].TypeAndShape(), ") has ", NonFiniteText(found, outputs[i])));
    }
  }
  return absl::OkStatus();
}

bool StepState::IsRecv(uint32_t node) const {
  return std::any_of(part_->recvs.begin(), part_->recvs.end(), [node](const auto& r) { return r.second == node; });
}

// The kernel in the turn, whose context is bound. Its inputs are held, so it leaves them as they
// are.
absl::Status StepState::ComputeChecked(uint32_t node, Iteration* it) {
  const CompiledNode& n = nodes_[node];
  const Tensor* const in = it->slots + n.first_slot;
  const std::vector<Tensor> inputs(in, in + n.num_inputs);
  absl::Status s = CheckUpdateInputs(node, inputs);
  if (s.ok()) {
    const NumericsScope scope(input_.numerics.get());
    try {
      s = n.compute(kernel_context_);
    } catch (...) {
      s = KernelException();
    }
    if (s.ok() && kernel_context_.wait() == nullptr) s = CheckFinite(node, out_.data());
  }
  return NotFinite(node, it, std::move(s), inputs);
}

// The status of a node that was a job or asynchronous, and is OK without the check.
absl::Status StepState::CheckArrived(const node_end& end, absl::Span<const Tensor> inputs) {
  absl::Status s = end.status;
  if (s.ok() && !end.dead && !IsRecv(end.node)) s = CheckFinite(end.node, end.outputs.data());
  return NotFinite(end.node, end.iteration, std::move(s), inputs);
}

// Another error, and OK, is returned as it is. One of the check is told with the place of the node.
// If the node's inputs are to be written, the node waits for that before it fails (waiting.cc): the
// status is that of WaitFor.
absl::Status StepState::NotFinite(uint32_t node, Iteration* it, absl::Status status, absl::Span<const Tensor> inputs) {
  if (!TakeNotFiniteMark(&status)) return status;
  const bool first = input_.numerics->log->Fail();
  const std::string message = StrCat(status.message(), PlaceText(it)), &folder = input_.numerics->folder;
  if (folder.empty()) return absl::InvalidArgumentError(message);
  for (Tensor& t : out_) t = Tensor();  // of the kernel that ran in the turn
  // Of those that see the same NaN the first one is told.
  if (!first) return kernel_context_.WaitFor(std::make_unique<WaitForOthersDump>());
  return kernel_context_.WaitFor(std::make_unique<DumpWait>(host_->KeepAlive(), part_->properties[node],
                                                            NodeInputs(inputs), folder,
                                                            StrCat("step_", last_step_, PlaceText(it)), message));
}

}  // namespace troupe
