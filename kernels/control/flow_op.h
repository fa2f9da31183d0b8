// What the control flow ops share.
//
// The executor moves tokens between frames and iterations by an op's ControlFlow trait; the kernels
// below only say which value goes to which output. An output that is left without a value is dead.
#ifndef TROUPE_KERNELS_CONTROL_FLOW_OP_H_
#define TROUPE_KERNELS_CONTROL_FLOW_OP_H_

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::control {

// Output 0 is input 0 itself.
inline absl::Status Pass(KernelContext& ctx) {
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

// Every output has the shape of input 0 and, when it is a handle, names what input 0 names.
inline absl::Status SameAsInput0(InferenceContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    c.set_output(i, c.input(0));
    c.set_output_handle(i, c.input_handle(0));
  }
  return absl::OkStatus();
}

// Gradients of control flow depend on what surrounds the node, so the pass builds them by trait and
// never asks the op.
inline absl::Status GradientByPass(GradientContext&) {
  return Internal("control flow is differentiated by the pass, not node by node");
}

}  // namespace troupe::control

#endif  // TROUPE_KERNELS_CONTROL_FLOW_OP_H_
