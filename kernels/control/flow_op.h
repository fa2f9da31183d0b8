// What the control flow ops share.
//
// The executor moves tokens between frames and iterations by an op's ControlFlow trait; the kernels
// only say which value goes to which output: array::PassOn where there is one of each. An output
// that is left without a value is dead.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_CONTROL_FLOW_OP_H_
#define TROUPE_KERNELS_CONTROL_FLOW_OP_H_

#include "kernels/common/op_file.h"

namespace troupe::control {

// Gradients of control flow depend on what surrounds the node, so the pass builds them by trait and
// never asks the op.
inline absl::Status GradientByPass(GradientContext&) {
  return Internal("control flow is differentiated by the pass, not node by node");
}

}  // namespace troupe::control

#endif  // TROUPE_KERNELS_CONTROL_FLOW_OP_H_
