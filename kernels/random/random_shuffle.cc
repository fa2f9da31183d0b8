// RandomShuffle: the rows of a tensor in random order.
#include <numeric>
#include <vector>

#include "kernels/random/random_state.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("RandomShuffle")
    .Input("value: T")
    .Output("output: T")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: type")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("which row went where is not kept")
    .Doc("`value` with its rows (along dimension 0) in random order.");

// Elements of objects (strings, handles) are assigned, others copied as bytes.
void CopyRow(DType dtype, void* to, const void* from, int64_t elements) {
  if (dtype == DType::kString) {
    const auto* s = static_cast<const std::string*>(from);
    std::copy(s, s + elements, static_cast<std::string*>(to));
  } else if (!IsPlainBytes(dtype)) {
    const auto* h = static_cast<const ResourceHandle*>(from);
    std::copy(h, h + elements, static_cast<ResourceHandle*>(to));
  } else {
    std::memcpy(to, from, static_cast<size_t>(elements) * SizeOf(dtype));
  }
}

class RandomShuffleKernel {
 public:
  explicit RandomShuffleKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& value = ctx.input(0);
    if (value.rank() == 0 || value.num_elements() <= 1 || value.dim(0) <= 1) {
      ctx.set_output(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t rows = value.dim(0), row_elements = value.num_elements() / rows;
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, value.shape()));
    // One word per row but the last.
    TROUPE_ASSIGN_OR_RETURN(const random::Philox start, source_.Reserve(ctx, static_cast<uint64_t>(rows - 1 + 3) / 4));
    random::PhiloxWords words(start);
    std::vector<int64_t> order(rows);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = 0; i + 1 < rows; ++i) std::swap(order[i], order[i + words() % static_cast<uint32_t>(rows - i)]);
    const size_t row_bytes = static_cast<size_t>(row_elements) * SizeOf(value.dtype());
    const char* const from = static_cast<const char*>(value.raw());
    char* const to = static_cast<char*>(out->raw());
    ctx.threads()->ParallelFor(rows, 5.0 + 0.1 * static_cast<double>(row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        CopyRow(value.dtype(), to + i * row_bytes, from + order[i] * row_bytes, row_elements);
    });
    return absl::OkStatus();
  }

 private:
  random::RandomSource source_;
};
TROUPE_KERNEL("RandomShuffle").Device("CPU").Class<RandomShuffleKernel>();

}  // namespace
}  // namespace troupe
