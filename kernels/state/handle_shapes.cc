#include "kernels/state/handle_shapes.h"

namespace troupe::state {

absl::Status CheckHandleType(InferenceContext& c, std::string_view attr) {
  TROUPE_ASSIGN_OR_RETURN(const DType dtype, c.Attr<DType>(attr));
  const DType named = c.input_handle(0).dtype;
  if (named != DType::kInvalid && named != dtype) {
    return InvalidArgument("the handle names a variable of ", Name(named), ", not of ", Name(dtype));
  }
  return absl::OkStatus();
}

PartialTensorShape NamedShape(const InferenceContext& c, int i) {
  return BaseType(c.input_type(i)) == DType::kResource ? c.input_handle(i).shape : c.input(i);
}

absl::Status ValueFitsHandle(InferenceContext& c, int value) {
  TROUPE_RETURN_IF_ERROR(CheckHandleType(c));
  return NamedShape(c).MergeWith(c.input(value)).status();
}

}  // namespace troupe::state
