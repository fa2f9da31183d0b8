// The types of ops and of their kernels, each list said once.
//
// An op's definition names the types that it allows. A CPU kernel for all of them takes them from
// there:
//
//   TROUPE_OP("Elu").Input("features: T").Attr("T: {half, bfloat16, float, double}") ...
//   TROUPE_CPU_KERNEL("Elu").Class<ActivationOf<Activation::kElu>>();
//
// A kernel for fewer of them names its own: one of the lists below, or .Type<float, double>("T").
//
// Thread rule: lists are constants. AllowedTypes may be called by any thread.
#ifndef TROUPE_KERNELS_COMMON_TYPES_H_
#define TROUPE_KERNELS_COMMON_TYPES_H_

#include <array>
#include <string_view>

#include "troupe/kernel.h"

namespace troupe {

// The types that the definition of `op` allows for its attr `attr`. REQUIRES: the definition stands
// above in the same file, so that it is registered before.
absl::Span<const DType> AllowedTypes(std::string_view op, std::string_view attr = "T");

// A kernel for the CPU and every type that the op allows for T.
#define TROUPE_CPU_KERNEL(op) TROUPE_KERNEL(op).Device("CPU").Types("T", ::troupe::AllowedTypes(op))

// The types that TensorFlow's kernels of several families have.
inline constexpr std::array kFloatsAndComplex = {DType::kHalf,   DType::kBfloat16,  DType::kFloat,
                                                 DType::kDouble, DType::kComplex64, DType::kComplex128};
inline constexpr std::array kReals = {DType::kHalf,  DType::kBfloat16, DType::kFloat,  DType::kDouble,
                                      DType::kInt8,  DType::kInt16,    DType::kInt32,  DType::kInt64,
                                      DType::kUint8, DType::kUint16,   DType::kUint32, DType::kUint64};
inline constexpr std::array kNumbers = {DType::kHalf,      DType::kBfloat16,   DType::kFloat, DType::kDouble,
                                        DType::kComplex64, DType::kComplex128, DType::kInt8,  DType::kInt16,
                                        DType::kInt32,     DType::kInt64,      DType::kUint8, DType::kUint16,
                                        DType::kUint32,    DType::kUint64};

// Attrs of several definitions. The order of the types is TensorFlow's, op by op.
#define TROUPE_T_FLOATS "T: {bfloat16, half, float, double}"
#define TROUPE_T_FLOATS_AND_COMPLEX "T: {bfloat16, half, float, double, complex64, complex128}"
#define TROUPE_T_INTEGERS "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}"
#define TROUPE_T_SIGNED "T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
#define TROUPE_T_NUMBERS                                                                                     \
  "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, " \
  "complex128}"

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_TYPES_H_
