#include "kernels/random/per_parameter.h"

namespace troupe::random {

absl::Status PerParameterShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(0));
  const PartialTensorShape& parameter = c.input(1);
  if (!out.known_rank() || !parameter.known_rank()) return shape_fn::Unknown(c);
  for (const int64_t d : parameter.dims()) out.AddDim(d);
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::StatusOr<PerParameter> AllocatePerParameter(KernelContext& ctx, RandomSource* source) {
  PerParameter p;
  TROUPE_ASSIGN_OR_RETURN(TensorShape shape, ShapeInput(ctx, 0));
  p.samples = shape.num_elements();
  p.parameters = ctx.input(1).num_elements();
  shape.Append(ctx.input(1).shape());
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(p.out, ctx.AllocateOutput(0, shape));
  if (p.out->num_elements() == 0) return p;
  TROUPE_ASSIGN_OR_RETURN(p.start, source->ReserveNumbers(ctx, p.out->num_elements()));
  return p;
}

}  // namespace troupe::random
