#include <complex>
#include <cstring>
#include <string>

#include "kernels/common/broadcast.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/select.h"
#include "troupe/resource.h"

namespace troupe::math {
namespace {

struct Bytes16 {
  uint64_t a, b;
};

template <class T>
void Loop(const bool* c, int c_step, const void* t, int t_step, const void* e, int e_step, void* out, int64_t n) {
  const T* x = static_cast<const T*>(t);
  const T* y = static_cast<const T*>(e);
  T* z = static_cast<T*>(out);
  if (c_step == 0) {
    const T* from = *c ? x : y;
    const int step = *c ? t_step : e_step;
    if (from == z && step == 1) return;
    for (int64_t i = 0; i < n; ++i) z[i] = from[i * step];
  } else if (t_step == 1 && e_step == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : y[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i * t_step] : y[i * e_step];
  }
}

}  // namespace

SelectLoop SelectLoopOf(DType type) {
  if (type == DType::kString) return Loop<std::string>;
  if (!IsPlainBytes(type)) return type == DType::kInvalid ? nullptr : Loop<ResourceHandle>;
  switch (SizeOf(type)) {
    case 1:
      return Loop<uint8_t>;
    case 2:
      return Loop<uint16_t>;
    case 4:
      return Loop<uint32_t>;
    case 8:
      return Loop<uint64_t>;
    case 16:
      return Loop<Bytes16>;
    default:
      return nullptr;
  }
}

absl::Status SelectBroadcast(KernelContext& ctx, SelectLoop loop, const Tensor& condition, const TensorShape& shape) {
  const BroadcastWalk<3> walk(shape, {&condition, &ctx.input(1), &ctx.input(2)});
  const int64_t n = shape.num_elements();
  const int64_t size = static_cast<int64_t>(SizeOf(ctx.output_type(0)));
  const bool* c = condition.data<bool>();
  const char* t = static_cast<const char*>(ctx.input(1).raw());
  const char* e = static_cast<const char*>(ctx.input(2).raw());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({1, 2}, 0, shape));
  if (n == 0) return absl::OkStatus();
  char* z = static_cast<char*>(out->raw());
  const double cost = 0.5 + 4.0 / static_cast<double>(walk.run());
  ctx.threads()->ParallelFor(n, cost, [&](int64_t begin, int64_t end) {
    walk.ForRange(begin, end, [&](const std::array<int64_t, 3>& at, int64_t to, int64_t m) {
      loop(c + at[0], walk.advances(0), t + at[1] * size, walk.advances(1), e + at[2] * size, walk.advances(2),
           z + to * size, m);
    });
  });
  return absl::OkStatus();
}

std::vector<DType> SelectTypes() {
  std::vector<DType> types(kNumbers.begin(), kNumbers.end());
  for (DType t : {DType::kBool, DType::kString, DType::kResource}) types.push_back(t);
  return types;
}

}  // namespace troupe::math
