// The ops that move a value between frames and iterations of loops: Enter, Exit, NextIteration and
// their forms for references; LoopCond, the condition of a loop.
#include <string_view>

#include "kernels/control/flow_op.h"

namespace troupe::control {
namespace {

// A value of type T, or a reference to a variable, on its way. Without doc.
OpBuilder MoveOp(std::string_view name, ControlFlow flow, std::string_view type) {
  return OpBuilder(name)
      .Input(StrCat("data: ", type))
      .Output(StrCat("output: ", type))
      .Attr("T: type")
      .Flow(flow)
      .Shape(shape_fn::Unchanged)
      .Gradient(GradientByPass);
}

const OpRegistrar enter = MoveOp("Enter", ControlFlow::kEnter, "T")
                              .Attr("frame_name: string")
                              .Attr("is_constant: bool = false")
                              .Attr("parallel_iterations: int = 10")
                              .Doc(
                                  "Passes its input into iteration 0 of the child frame `frame_name`, which is made "
                                  "when its first value comes; with `is_constant`, into every iteration. At most "
                                  "`parallel_iterations` iterations of the frame are in flight.");

const OpRegistrar ref_enter = MoveOp("RefEnter", ControlFlow::kEnter, "Ref(T)")
                                  .Attr("frame_name: string")
                                  .Attr("is_constant: bool = false")
                                  .Attr("parallel_iterations: int = 10")
                                  .Doc("Enter of a variable's reference.");

TROUPE_KERNEL("Enter").Device("CPU").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("Enter").Device("*").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("RefEnter").Device("CPU").Function<array::PassOn, Cost::kTrivial>();

const OpRegistrar exit_op =
    MoveOp("Exit", ControlFlow::kExit, "T").Doc("Passes its input to the frame that the current one was entered from.");

const OpRegistrar ref_exit = MoveOp("RefExit", ControlFlow::kExit, "Ref(T)").Doc("Exit of a variable's reference.");

TROUPE_KERNEL("Exit").Device("CPU").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("Exit").Device("*").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("RefExit").Device("CPU").Function<array::PassOn, Cost::kTrivial>();

const OpRegistrar next_iteration = MoveOp("NextIteration", ControlFlow::kNextIteration, "T")
                                       .Doc("Passes its input to the next iteration of the current frame.");

const OpRegistrar ref_next_iteration =
    MoveOp("RefNextIteration", ControlFlow::kNextIteration, "Ref(T)").Doc("NextIteration of a variable's reference.");

TROUPE_KERNEL("NextIteration").Device("CPU").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("NextIteration").Device("*").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("RefNextIteration").Device("CPU").Function<array::PassOn, Cost::kTrivial>();

TROUPE_OP("LoopCond")
    .Input("input: bool")
    .Output("output: bool")
    .Flow(ControlFlow::kLoopCond)
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, c.WithRank(0, 0));
      c.set_output(0, std::move(s));
      return absl::OkStatus();
    })
    .NotDifferentiable("its value is bool")
    .Doc("Passes its input, the scalar that says whether the loop goes on, to the Switch nodes of the loop.");

TROUPE_KERNEL("LoopCond").Device("CPU").Function<array::PassOn, Cost::kTrivial>();
TROUPE_KERNEL("LoopCond")
    .Device("*")
    .HostMemory("input")
    .HostMemory("output")
    .Function<array::PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::control
