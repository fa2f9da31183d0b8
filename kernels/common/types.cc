#include "kernels/common/types.h"

#include "troupe/op_def.h"

namespace troupe {

absl::Span<const DType> AllowedTypes(std::string_view op, std::string_view attr) {
  const OpDef* def = OpRegistry::Global().Find(op);
  const AttrDef* types = def == nullptr ? nullptr : def->FindAttr(attr);
  return types == nullptr ? absl::Span<const DType>() : types->allowed_types;
}

}  // namespace troupe
